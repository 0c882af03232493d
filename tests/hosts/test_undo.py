"""A change taken back: exactly where nothing happened since, else only ours, else not at all."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from supervisord_mcp.errors import HostFileError
from supervisord_mcp.hosts.base import Dialect
from supervisord_mcp.hosts.edits import Replacement, replace_entries
from supervisord_mcp.hosts.files import change, read_content
from supervisord_mcp.hosts.jsonc import Json
from supervisord_mcp.hosts.toml import Toml
from supervisord_mcp.hosts.undo import Undo, undo
from supervisord_mcp.hosts.yaml import Yaml
from tests.hosts.corpus import SHIM, Sample, adopted, samples

SAMPLES = [sample for sample in samples() if any(entry.stdio for entry in sample.reading().entries)]
EACH = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.file.host.key}-{sample.name}")

BEFORE = """\
{
  "mcpServers": {
    "a": {
      "command": "npx", // why
      "args": ["-y", "a"],
      "env": { "KEY":   "value" }
    },
    "b": { "command": "b", "cwd": "/b" }
  },
  "other": 1
}
"""
PATHS = (("mcpServers", "a"), ("mcpServers", "b"))


@cache
def record(sample: Sample) -> Undo:
    """Return how a sample was adopted."""
    reading = sample.reading()
    new = change(reading, adopted(reading))
    return Undo(sample.file.dialect, new.before, new.after, new.paths)


def simple() -> Undo:
    """Return how the file above was adopted."""
    after = replace_entries(Dialect(), BEFORE, dict.fromkeys(PATHS, Replacement(SHIM)))
    return Undo(Dialect(), BEFORE.encode(), after.encode(), PATHS)


@EACH
def test_undo_is_exact_if_nothing_happened(sample: Sample) -> None:
    done = record(sample)
    assert done.after != done.before
    assert undo(done, done.after) == done.before
    assert undo(done, done.before) == done.before


@EACH
def test_what_was_added_elsewhere_stays(sample: Sample) -> None:
    done = record(sample)
    assert undo(done, _added(sample, done.after)) == _added(sample, done.before)


@EACH
def test_a_file_that_was_written_anew_gets_the_entries_back(sample: Sample) -> None:
    done = record(sample)
    syntax = sample.file.dialect.syntax
    if not isinstance(syntax, Json):
        # Their writers keep to lines, so what changes is a line: each gets a space at its end.
        now = done.after.replace(b"\n", b" \n").replace(b"\r \n", b" \r\n")
        if b"|" in done.before or b'"""' in done.before:
            return
    else:
        now = json.dumps(syntax.load(done.after.decode("utf-8-sig")), indent=3).replace("Infinity", "1e400").encode()
    back = read_content(sample.file, undo(done, now))
    for new, old in zip(back.entries, sample.reading().entries, strict=True):
        assert (new.name, new.argv, new.env, new.cwd, new.url) == (old.name, old.argv, old.env, old.cwd, old.url)
        assert (new.disabled, new.env_file, new.unresolved) == (old.disabled, old.env_file, old.unresolved)


@EACH
def test_an_entry_that_somebody_changed_is_refused(sample: Sample) -> None:
    done = record(sample)
    now = done.after.replace(b"/opt/smcp/shim.py", b"/opt/other.py")
    assert now != done.after
    with pytest.raises(HostFileError, match=r"was changed since; nothing was changed"):
        undo(done, now)


def _added(sample: Sample, content: bytes) -> bytes:
    """Return the content with one more key before all others."""
    syntax = sample.file.dialect.syntax
    if isinstance(syntax, Json):
        key = b'"zz": {"url": "x"},' if sample.name.startswith("export/") else b'"zz": 1,'
        lines = content.splitlines(keepends=True)
        at = next(n for n, line in enumerate(lines) if line.lstrip(b"\xef\xbb\xbf \t").startswith(b"{"))
        lines[at] = lines[at].replace(b"{", b"{" + key, 1)
        return b"".join(lines)
    newline = b"\r\n" if b"\r\n" in content else b"\n"
    if isinstance(syntax, Toml):
        return b"zz = 1" + newline + content
    assert isinstance(syntax, Yaml)
    head, mark, rest = content.partition(b"---" + newline)
    return head + mark + b"zz: 1" + newline + rest if mark else b"zz: 1" + newline + content


def test_the_entry_is_known_by_its_keys() -> None:
    done = simple()
    now = done.after.replace(b'"other": 1', b'"other": [1, 2]').replace(b'"a": {', b'"a": {\n      "timeout": 5,')
    assert (
        undo(done, now)
        == BEFORE.replace('"other": 1', '"other": [1, 2]').replace('"a": {', '"a": {\n      "timeout": 5,').encode()
    )


def test_what_a_host_adds_when_it_writes_is_not_held_against_it() -> None:
    done = simple()
    data = json.loads(done.after.decode().replace(" // why", ""))
    for entry in data["mcpServers"].values():
        entry |= {"env": {}, "disabled": False, "autoApprove": []}
    back = json.loads(undo(done, json.dumps(data).encode()))
    assert back["mcpServers"]["a"] == {
        "command": "npx",
        "args": ["-y", "a"],
        "env": {"KEY": "value"},
        "disabled": False,
        "autoApprove": [],
    }
    assert back["mcpServers"]["b"] == {"command": "b", "cwd": "/b", "env": {}, "disabled": False, "autoApprove": []}


def test_values_come_back_as_they_were_written() -> None:
    done = simple()
    now = json.dumps(json.loads(done.after.decode().replace(" // why", "")), indent=2)
    assert '{ "KEY":   "value" }' in undo(done, now.encode()).decode()


def test_an_entry_that_is_gone_stays_away() -> None:
    done = simple()
    data = json.loads(done.after.decode().replace(" // why", ""))
    del data["mcpServers"]["a"]
    back = json.loads(undo(done, json.dumps(data).encode()))
    assert back["mcpServers"] == {"b": {"command": "b", "cwd": "/b"}}
    assert json.loads(undo(done, b'{"other": 2}')) == {"other": 2}
    assert undo(done, b"{}\n") == b"{}\n"


def test_an_entry_with_a_new_name_is_still_ours() -> None:
    done = simple()
    now = done.after.decode().replace('"a": {', '"renamed": {', 1)
    assert undo(done, now.encode()).decode() == BEFORE.replace('"a": {', '"renamed": {', 1)
    # Of two that say what we wrote, nobody knows which it is.
    one = json.loads(done.after.decode().replace(" // why", ""))
    del one["mcpServers"]["b"]
    ours = one["mcpServers"].pop("a")
    one["mcpServers"] |= {"x": ours, "y": ours}
    two = json.dumps(one).encode()
    assert undo(done, two) == two
    del one["mcpServers"]["y"]
    assert json.loads(undo(done, json.dumps(one).encode()))["mcpServers"]["x"]["args"] == ["-y", "a"]


def test_a_new_name_in_a_list() -> None:
    before = "mcpServers:\n- name: a\n  command: a\n"
    dialect = Dialect(syntax=Yaml(), name="name")
    paths = (("mcpServers", 0),)
    after = replace_entries(dialect, before, dict.fromkeys(paths, Replacement(SHIM)))
    now = after.replace("name: a", "name: new")
    done = Undo(dialect, before.encode(), after.encode(), paths)
    assert undo(done, now.encode()).decode() == before.replace("name: a", "name: new")


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('"/usr/bin/python3"', '"mine"', "mcpServers.a.command"),
        ('["-I", "-S"', '["-S"', "mcpServers.a.args"),
        ('"command": "/usr/bin/python3", // why', '"env": {"MINE": "1"}, "command": "/usr/bin/python3",', "a.env"),
        ('"b": {', '"b": {"cwd": "/mine",', "mcpServers.b.cwd"),
        ('"command": "/usr/bin/python3", // why', '"c": 1, // why', "mcpServers.a.command"),
    ],
)
def test_what_others_made_of_ours_is_named(old: str, new: str, key: str) -> None:
    done = simple()
    now = done.after.decode().replace(old, new, 1)
    with pytest.raises(HostFileError) as caught:
        undo(done, now.encode())
    assert f"{key} was changed since; nothing was changed" in caught.value.message
    assert "backup" in caught.value.remedy


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (b'{"mcpServers": {', "the file is broken at line 1, column 17: a key"),
        (b'{"a": "\xff"}', "no longer UTF-8"),
        (b'{"mcpServers": {"a": []}}', "mcpServers.a was changed since"),
    ],
)
def test_a_file_that_is_broken_stays_as_it_is(now: bytes, message: str) -> None:
    with pytest.raises(HostFileError) as caught:
        undo(simple(), now)
    assert message in caught.value.message
    assert "nothing was changed" in caught.value.message


def test_a_byte_order_mark_that_came_later_stays() -> None:
    done = simple()
    assert undo(done, b"\xef\xbb\xbf" + done.after) == b"\xef\xbb\xbf" + done.before


def test_entries_of_a_list_are_known_by_their_names() -> None:
    before = "mcpServers:\n- name: a\n  command: a\n- name: b\n  command: b\n  env: {K: v}\n"
    dialect = Dialect(syntax=Yaml(), name="name")
    paths = (("mcpServers", 0), ("mcpServers", 1))
    after = replace_entries(dialect, before, dict.fromkeys(paths, Replacement(SHIM)))
    done = Undo(dialect, before.encode(), after.encode(), paths)
    now = after.replace("mcpServers:\n", "mcpServers:\n- name: new\n  command: new\n")
    assert undo(done, now.encode()).decode() == before.replace(
        "mcpServers:\n", "mcpServers:\n- name: new\n  command: new\n"
    )
    # Without its first entry, the second one has moved.
    gone = now[: now.index("- name: a")] + now[now.index("- name: b") :]
    assert undo(done, gone.encode()).decode() == (
        "mcpServers:\n- name: new\n  command: new\n- name: b\n  command: b\n  env: {K: v}\n"
    )


def test_a_table_of_toml_comes_back_where_lines_do_not_help() -> None:
    before = '[mcp_servers.a]\ncommand = "a"\n[mcp_servers.a.env]\nK = "v"\n'
    dialect = Dialect(syntax=Toml(), tables=(("mcp_servers",),))
    after = replace_entries(dialect, before, {("mcp_servers", "a"): Replacement(SHIM)})
    done = Undo(dialect, before.encode(), after.encode(), (("mcp_servers", "a"),))
    now = after.replace('command = "', 'command="').replace("args = [", "args=[")
    back: Any = Toml().load(undo(done, now.encode()).decode())
    assert back == Toml().load(before)


def test_large_files_are_not_compared_line_by_line() -> None:
    lines = ",\n".join(f'"k{n}": {n}' for n in range(2500))
    before = '{"mcpServers": {"a": {"command": "a"}},\n' + lines + "}"
    after = replace_entries(Dialect(), before, {("mcpServers", "a"): Replacement(SHIM)})
    done = Undo(Dialect(), before.encode(), after.encode(), (("mcpServers", "a"),))
    now = after.replace('": ', '" : ')
    assert json.loads(undo(done, now.encode())) == json.loads(before)


@pytest.mark.parametrize(
    "now",
    [
        # What is written in one place counts in two.
        "x: &x {command: /usr/bin/python3, args: ['-I', '-S', /opt/smcp/shim.py, a name]}\nm: {a: *x}\n",
        "d: &d {command: /usr/bin/python3, args: ['-I', '-S', /opt/smcp/shim.py, a name]}\nm:\n  a:\n    <<: *d\n",
    ],
)
def test_what_cannot_be_given_back_alone_is_refused(now: str) -> None:
    dialect = Dialect(syntax=Yaml(), tables=(("m",),))
    before = "m:\n  a: {command: a}\n"
    after = replace_entries(dialect, before, {("m", "a"): Replacement(SHIM)})
    done = Undo(dialect, before.encode(), after.encode(), (("m", "a"),))
    with pytest.raises(HostFileError, match="without touching others; nothing was changed"):
        undo(done, now.encode())


def test_a_record_of_another_file_is_refused() -> None:
    done = simple()
    wrong = Undo(done.dialect, b"{}", done.after, done.paths)
    with pytest.raises(HostFileError, match="the record of the change does not fit the file"):
        undo(wrong, done.after + b" ")
