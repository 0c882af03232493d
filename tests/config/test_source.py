"""The scanner finds every key where it stands, and stops quietly where a text is not TOML."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.config.source import Form, KeyPath, key_lines, line_of, nearest_line, quoted, scan, written

TEXT = '''\
# comment [not.a.table]
top = "a # b" # c
[servers.time]
command = ["uvx", # one
  "mcp-server-time", ["nested"]]
env = { A = "x", "B C" = 'y', d.e = { f = 1 } }
long = """
[not.a.table]
\\"" ""
"""
other = \'\'\'
'' [x] \'\'\'
when = 1979-05-27 07:32:00
n = -1_000.5e3

  [ "servers" . 'a.b' ]
dotted . "key\\u0041" = true
[[servers.x.mounts]]
path = "1"
[servers.x.mounts.inner]
y = 1
[[servers.x.mounts]]
path = "2"
'''

LINES: dict[KeyPath, int] = {
    ("top",): 2,
    ("servers",): 3,
    ("servers", "time"): 3,
    ("servers", "time", "command"): 4,
    ("servers", "time", "command", 0): 4,
    ("servers", "time", "command", 1): 5,
    ("servers", "time", "command", 2): 5,
    ("servers", "time", "command", 2, 0): 5,
    ("servers", "time", "env"): 6,
    ("servers", "time", "env", "A"): 6,
    ("servers", "time", "env", "B C"): 6,
    ("servers", "time", "env", "d"): 6,
    ("servers", "time", "env", "d", "e"): 6,
    ("servers", "time", "env", "d", "e", "f"): 6,
    ("servers", "time", "long"): 7,
    ("servers", "time", "other"): 11,
    ("servers", "time", "when"): 13,
    ("servers", "time", "n"): 14,
    ("servers", "a.b"): 16,
    ("servers", "a.b", "dotted"): 17,
    ("servers", "a.b", "dotted", "keyA"): 17,
    ("servers", "x"): 18,
    ("servers", "x", "mounts"): 18,
    ("servers", "x", "mounts", 0): 18,
    ("servers", "x", "mounts", 0, "path"): 19,
    ("servers", "x", "mounts", 0, "inner"): 20,
    ("servers", "x", "mounts", 0, "inner", "y"): 21,
    ("servers", "x", "mounts", 1): 22,
    ("servers", "x", "mounts", 1, "path"): 23,
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines(newline: str) -> None:
    tomllib.loads(TEXT)
    assert key_lines(TEXT.replace("\n", newline)) == LINES


def test_offsets_hold_key_and_value() -> None:
    text = 'a.b = [1, 22] # c\n[x] # y\nk="v"\n'
    found = [(entry.form, text[entry.start : entry.end], text[entry.value : entry.end]) for entry in scan(text)]
    assert found == [
        (Form.STATEMENT, "a.b = [1, 22]", "[1, 22]"),
        (Form.ELEMENT, "1", "1"),
        (Form.ELEMENT, "22", "22"),
        (Form.HEADER, "[x]", ""),
        (Form.STATEMENT, 'k="v"', '"v"'),
    ]


def test_nearest_line() -> None:
    assert nearest_line(LINES, ("servers", "time", "missing", "deep")) == 3
    assert nearest_line(LINES, ("nowhere",)) is None
    assert nearest_line(LINES, ()) is None


def test_line_of() -> None:
    assert [line_of("a\nb\n", offset) for offset in range(5)] == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("path", "text"),
    [(("servers", "time"), "servers.time"), (("m", 0, "p"), "m[0].p"), (("a b", 'c"\n'), '"a b"."c\\"\\u000a"')],
)
def test_written(path: KeyPath, text: str) -> None:
    assert written(path) == text


@given(st.text(st.characters(codec="utf-8")))
def test_a_quoted_key_is_that_key(key: str) -> None:
    assert tomllib.loads(f"{quoted(key)} = 1") == {key: 1}
    [entry] = scan(f"{quoted(key)} = 1")
    assert entry.path == (key,)


@pytest.mark.parametrize(
    "text", ["a = ", "a = [", "a = {b", '"a', "a", "[a", "[a] x", 'a = "b', "= 1", '"\\x" = 1', "a = [1 2]", "[" * 9999]
)
def test_what_comes_before_a_fault_is_found(text: str) -> None:
    assert key_lines(f"first = 1\n{text}")[("first",)] == 1


def test_deep_nesting_ends_quietly() -> None:
    assert key_lines("first = 1\na = " + "[" * 100_000)[("first",)] == 1


KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=4)
SCALARS = st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.text(max_size=6) | st.floats() | st.datetimes()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)


def leaves(value: Any, path: KeyPath = ()) -> dict[KeyPath, Any]:
    if isinstance(value, dict):
        return {deep: leaf for key, inner in value.items() for deep, leaf in leaves(inner, (*path, key)).items()}
    if isinstance(value, list):
        return {deep: leaf for n, inner in enumerate(value) for deep, leaf in leaves(inner, (*path, n)).items()}
    return {path: value}


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.booleans())
def test_every_value_is_found_where_it_stands(data: dict[str, Any], multiline: bool) -> None:
    text = tomli_w.dumps(data, multiline_strings=multiline)
    found = {entry.path: text[entry.value : entry.end] for entry in scan(text)}
    for path, leaf in leaves(tomllib.loads(text)).items():
        value = tomllib.loads(f"x = {found[path]}")["x"]
        assert value == leaf or value != value  # noqa: PLR0124 - nan is not itself


@given(st.text(st.sampled_from("[]{}=,.\"'\\\n\r #ab1") | st.characters(), max_size=40))
def test_any_text_is_survived(text: str) -> None:
    for entry in scan(text):
        assert 0 <= entry.start <= entry.value <= entry.end <= len(text)
