"""What adopting changes in an entry."""

from __future__ import annotations

import pytest

from supervisord_mcp.hosts.base import Dialect, Shape
from supervisord_mcp.hosts.edits import Replacement, replace_entries, verify
from supervisord_mcp.hosts.jsonc import Json
from supervisord_mcp.hosts.syntax import CannotEditError
from supervisord_mcp.hosts.toml import Toml
from supervisord_mcp.hosts.yaml import Yaml

A = ("mcpServers", "a")
NEW = Replacement(("py", "-I"))


def _entry(inside: str, new: Replacement = NEW, dialect: Dialect | None = None) -> str:
    text = f'{{"mcpServers": {{"a": {{{inside}}}}}}}'
    changed = replace_entries(dialect or Dialect(shapes=(Shape(env_file=("envFile",)),)), text, {A: new})
    return changed.removeprefix('{"mcpServers": {"a": {').removesuffix("}}}")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"command": "x"', '"command": "py", "args": ["-I"]'),
        ('"args": [], "command": "x"', '"args": ["-I"], "command": "py"'),
        ('"command": "x", "env": {"A": "b"}, "cwd": "/", "envFile": ".env", "timeout": 5', None),
        ('"command": "x", "args": ["y"], "disabled": true, "autoApprove": ["z"]', None),
        ('"command": "py", "args": ["-I"]', '"command": "py", "args": ["-I"]'),
        ('"command": "x", "env": {}', '"command": "py", "args": ["-I"], "env": {}'),
        ('"command": "x", "env": null, "cwd": null', '"command": "py", "args": ["-I"], "env": null, "cwd": null'),
    ],
)
def test_an_entry_is_replaced(before: str, after: str | None) -> None:
    expected = {
        '"command": "x", "env": {"A": "b"}, "cwd": "/", "envFile": ".env", "timeout": 5': (
            '"command": "py", "args": ["-I"], "timeout": 5'
        ),
        '"command": "x", "args": ["y"], "disabled": true, "autoApprove": ["z"]': (
            '"command": "py", "args": ["-I"], "disabled": true, "autoApprove": ["z"]'
        ),
    }
    assert _entry(before) == (after or expected[before])


def test_variables_of_the_new_command() -> None:
    new = Replacement(("py",), {"A": "1", "B": "2"}, keep={"K", "Z"})
    assert _entry('"command": "x"', new) == '"command": "py", "env": {"A": "1", "B": "2"}, "args": []'
    kept = '"command": "x", "env": {"X": "0", "K": "${env:K}", "B": "old"}'
    assert _entry(kept, new) == '"command": "py", "args": [], "env": {"K": "${env:K}", "A": "1", "B": "2"}'
    assert (
        _entry('"command": "x", "env": {"X": "0"}', new) == '"command": "py", "args": [], "env": {"A": "1", "B": "2"}'
    )


def test_a_command_that_is_a_list_of_words() -> None:
    dialect = Dialect(shapes=(Shape(args=None, env=("environment",)),))
    assert _entry('"command": ["x", "y"], "environment": {"A": "b"}', NEW, dialect) == '"command": ["py", "-I"]'


def test_a_command_with_its_own_object() -> None:
    dialect = Dialect(shapes=(Shape(("command", "path"), ("command", "args"), ("command", "env")), Shape()))
    nested = '"command": {"path": "x", "env": {"A": "b"}}, "settings": {}'
    assert _entry(nested, NEW, dialect) == '"command": {"path": "py", "args": ["-I"]}, "settings": {}'
    assert _entry('"command": "x"', NEW, dialect) == '"command": "py", "args": ["-I"]'


def test_several_entries_at_once() -> None:
    text = '{"mcpServers": {"a": {"command": "x"}, "b": {"url": "u"}, "c": {"command": "z", "env": {"A": "1"}}}}'
    changed = replace_entries(Dialect(), text, {A: NEW, ("mcpServers", "c"): Replacement(("c",))})
    assert changed == (
        '{"mcpServers": {"a": {"command": "py", "args": ["-I"]}, "b": {"url": "u"}, "c": {"command": "c", "args": []}}}'
    )


def test_entries_of_toml_in_one_file() -> None:
    text = '[m.a]\ncommand = "x"\n[m.a.env]\nA = "1"\n[m.b]\ncommand = "y"\ncwd = "/"\n'
    dialect = Dialect(syntax=Toml(), tables=(("m",),))
    changed = replace_entries(dialect, text, {("m", "a"): NEW, ("m", "b"): NEW})
    assert changed == '[m.a]\ncommand = "py"\nargs = ["-I"]\n[m.b]\ncommand = "py"\nargs = ["-I"]\n'


@pytest.mark.parametrize("path", [("mcpServers", "b"), ("mcpServers",), ("x",), ("mcpServers", "a", "command")])
def test_what_is_no_entry(path: tuple[str, ...]) -> None:
    with pytest.raises(CannotEditError, match="no entry with a command"):
        replace_entries(Dialect(), '{"mcpServers": {"a": {"command": "x"}, "b": {"url": "u"}}}', {path: NEW})


def test_a_change_that_would_touch_others_is_refused() -> None:
    dialect = Dialect(syntax=Yaml(), tables=(("m",),))
    with pytest.raises(CannotEditError, match="the result would be wrong in line 4: found undefined alias"):
        replace_entries(dialect, "m:\n  a: {command: &x x}\n  b: {command: y}\n  c: *x\n", {("m", "a"): NEW})
    merged = "d: &d {env: {A: '1'}}\nm:\n  a:\n    <<: *d\n    command: x\n"
    with pytest.raises(CannotEditError, match="there is no env"):
        replace_entries(dialect, merged, {("m", "a"): NEW})


def test_the_result_is_compared_with_what_was_wanted() -> None:
    verify(Json(), '{"a": 1}', {"a": 1})
    with pytest.raises(CannotEditError, match="would touch other parts"):
        verify(Json(), '{"a": 1}', {"a": True})
    with pytest.raises(CannotEditError, match="would be wrong in line 2"):
        verify(Json(), '{"a": 1\n', {"a": 1})
