"""Entries in the normal form, and what is wrong with those that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.hosts.base import EACH, Dialect, Host, HostFile, Shape
from supervisord_mcp.hosts.entries import find_entries, read_entries, shape_of
from supervisord_mcp.hosts.entry import HostEntry, Scope
from supervisord_mcp.hosts.variables import braces
from supervisord_mcp.hosts.yaml import Yaml


def _read(text: str, dialect: Dialect, scope: Scope = Scope.USER) -> tuple[tuple[HostEntry, ...], list[str]]:
    host = Host("host", "Host", dialect, (), ())
    project = Path("/p") if scope is Scope.PROJECT else None
    file = HostFile(host, Path("/f"), scope, project, foreign=False, label="", dialect=dialect)
    entries, problems = read_entries(file, text, dialect.syntax.load(text))
    return entries, [f"{problem.line} {problem.key} {problem.message}" for problem in problems]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("[]", "1 mcpServers.a not a table"),
        ("null", "1 mcpServers.a not a table"),
        ("{}", "1 mcpServers.a neither a command nor an URL (url, serverUrl, httpUrl)"),
        ('{"url": 1}', "1 mcpServers.a neither a command nor an URL (url, serverUrl, httpUrl)"),
        ('{"command": ["x"]}', "1 mcpServers.a.command not the name of a program"),
        ('{"command": " "}', "1 mcpServers.a.command not the name of a program"),
        ('{"command": "x", "args": "y"}', "1 mcpServers.a.args not a list of words"),
        ('{"command": "x",\n"args": ["y",\n{}]}', "3 mcpServers.a.args[1] not a text"),
        ('{"command": "x", "env": ["A=1"]}', "1 mcpServers.a.env not a table of variables"),
        ('{"command": "x", "env": {"A": []}}', "1 mcpServers.a.env.A not a text"),
        ('{"command": "x", "cwd": {}}', "1 mcpServers.a.cwd not a text"),
        ('{"command": "\\ud800"}', "1 mcpServers.a.command half of a surrogate pair, which is no text"),
        (
            '{"command": "x", "args": ["\\u0000"]}',
            "1 mcpServers.a.args[0] a text with a null character, which no program can be given",
        ),
    ],
)
def test_one_odd_entry_is_reported_and_the_others_are_there(entry: str, problem: str) -> None:
    entries, problems = _read(f'{{"mcpServers": {{"a": {entry}, "b": {{"command": "b"}}}}}}', Dialect())
    assert problems == [problem]
    assert [found.name for found in entries] == ["b"]


@pytest.mark.parametrize("command", ['"x"', "[]", "{}"])
def test_a_command_that_should_be_a_list(command: str) -> None:
    dialect = Dialect(shapes=(Shape(args=None),))
    _, problems = _read(f'{{"mcpServers": {{"a": {{"command": {command}}}}}}}', dialect)
    assert problems == ["1 mcpServers.a.command not a list of words that begins with a program"]


def test_what_is_written_elsewhere_gets_the_line_of_its_entry() -> None:
    text = "d: &d {env: [x]}\nm:\n  a:\n    <<: *d\n    command: x\n"
    assert _read(text, Dialect(syntax=Yaml(), tables=(("m",),)))[1] == ["3 m.a.env not a table of variables"]


def test_a_name_that_is_no_text() -> None:
    _, problems = _read('{"mcpServers": {"\\ud800": {"command": "x"}}}', Dialect())
    assert "half of a surrogate pair" in problems[0]


def test_numbers_become_texts_and_null_is_nothing() -> None:
    text = '{"mcpServers": {"a": {"command": "x", "args": [1, true, 1.5], "env": {"N": 8080, "O": null, "P": false}}}}'
    (entry,), problems = _read(text, Dialect())
    assert (entry.argv, entry.env) == (("x", "1", "true", "1.5"), {"N": "8080", "P": "false"})
    assert problems == []


def test_entries_of_projects_in_a_file_of_the_person() -> None:
    dialect = Dialect(tables=(("mcpServers",), ("projects", EACH, "mcpServers")))
    text = '{"projects": {"/a": {"mcpServers": {"x": {"command": "x"}}}, "/b": {}, "/c": 1}, "mcpServers": {}}'
    (entry,), _ = _read(text, dialect)
    assert (entry.scope, entry.project, entry.path) == (Scope.LOCAL, Path("/a"), ("projects", "/a", "mcpServers", "x"))
    assert _read('{"projects": []}', dialect) == ((), [])


def test_entries_of_a_project_file_know_it() -> None:
    (entry,), _ = _read('{"mcpServers": {"x": {"command": "x"}}}', Dialect(), Scope.PROJECT)
    assert (entry.scope, entry.project) == (Scope.PROJECT, Path("/p"))


def test_lists_of_servers() -> None:
    dialect = Dialect(syntax=Yaml(), name="name", elsewhere=frozenset({"uses"}))
    text = "mcpServers:\n- name: a\n  command: a\n- uses: b\n- command: c\n- d\n- name: [e]\n  command: e\n"
    (entry,), problems = _read(text, dialect)
    assert (entry.name, entry.path, entry.line) == ("a", ("mcpServers", 0), 2)
    assert problems == [
        "5 mcpServers[2] an entry without a name",
        "6 mcpServers[3] not a table",
        "7 mcpServers[4] an entry without a name",
    ]
    assert _read("mcpServers: {}\n", dialect) == ((), ["1 mcpServers not a list of servers"])


def test_a_file_that_is_the_table() -> None:
    dialect = Dialect(bare=True)
    assert [entry.path for entry in _read('{"a": {"command": "a"}}', dialect)[0]] == [("a",)]
    assert [entry.path for entry in _read('{"mcpServers": {"a": {"command": "a"}}}', dialect)[0]] == [
        ("mcpServers", "a")
    ]
    assert _read("[]", dialect) == ((), ["None  not a table of servers"])


def test_what_is_no_server_of_ours() -> None:
    dialect = Dialect(ignored=frozenset({"builtin"}), elsewhere=frozenset({"settings"}))
    text = '{"mcpServers": {"a": {"type": "builtin"}, "b": {"settings": {}}, "c": {"settings": {}, "command": "c"}}}'
    entries, problems = _read(text, dialect)
    assert ([entry.name for entry in entries], problems) == (["c"], [])
    assert _read('{"mcpServers": {"a": {"type": [], "command": "a"}}}', dialect)[1] == []


def test_disabled_entries() -> None:
    dialect = Dialect(
        disabled=(("disabled", True), ("enabled", False)), switched_off=lambda data, path: path[-1] in data["off"]
    )
    text = (
        '{"off": ["d"], "mcpServers": {"a": {"command": "a", "disabled": true},'
        ' "b": {"command": "b", "enabled": false}, "c": {"command": "c", "disabled": "true", "enabled": 0}, '
        '"d": {"url": "d"}}}'
    )
    entries, _ = _read(text, dialect)
    assert [entry.disabled for entry in entries] == [True, True, False, True]


def test_an_url_may_win_over_a_command() -> None:
    entry = {"command": "x", "url": "u"}
    assert shape_of(Dialect(), entry) is not None
    assert shape_of(Dialect(url_wins=True), entry) is None
    assert shape_of(Dialect(url_wins=True), {"command": "x", "url": ""}) is not None


def test_variables_only_where_the_host_knows_them() -> None:
    dialect = Dialect(variables=braces, expanded=frozenset({"env"}))
    (entry,), _ = _read('{"mcpServers": {"a": {"command": "${A}", "env": {"B": "${B}"}, "cwd": "${C}"}}}', dialect)
    assert (entry.argv, entry.env, entry.cwd) == (("$${A}",), {"B": "${B}"}, "$${C}")


def test_what_the_host_hands_on_or_keeps() -> None:
    dialect = Dialect(shapes=(Shape(inherited=("vars",), kept=("keys",)),))
    lists = '"vars": ["A", "B", {"name": "C"}, 1], "keys": ["K"]'
    text = f'{{"mcpServers": {{"a": {{"command": "a", "env": {{"A": "1"}}, {lists}}}}}}}'
    (entry,), _ = _read(text, dialect)
    assert entry.env == {"A": "1", "B": "${B}", "C": "${C}"}
    (unresolved,) = entry.unresolved
    assert (unresolved.field, unresolved.variable, unresolved.secret) == ("env.K", "K", True)
    assert unresolved.path == ("mcpServers", "a", "keys")


@pytest.mark.parametrize("data", [None, 1, "x", [], {}, {"mcpServers": None}])
def test_data_without_servers(data: Any) -> None:
    assert list(find_entries(Dialect(), data)) == []
