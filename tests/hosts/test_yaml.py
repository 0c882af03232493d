"""YAML: what it means, where it is wrong, and edits that keep every other character."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.hosts.syntax import CannotEditError, SyntaxFaultError
from supervisord_mcp.hosts.yaml import Yaml, _scalar

YAML = Yaml()


def test_words_of_older_yaml_are_texts() -> None:
    assert YAML.load("a: yes\nb: off\nc: 010\nd: true\ne:\n") == {"a": "yes", "b": "off", "c": 10, "d": True, "e": None}
    assert YAML.load("") is None


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a: 1\n b: 2\n", 2, 3, "mapping values are not allowed"),
        ("a: [1\nb: 2\n", 2, 2, "expected ',' or ']'"),
        ("a: 1\na: 2\n", 2, 1, 'found duplicate key "a"'),
        ("a: *x\n", 1, 4, "found undefined alias"),
        ("a: 1\n---\nb: 2\n", 2, 1, "but found another document"),
        ("a: !!python/object:os.system x\n", 1, 4, "could not determine a constructor"),
        ("a: b\x07\n", 1, 5, "a character that YAML does not allow"),
        ("\tb: 1\n", 1, 1, "found character '\\t' that cannot start any token"),
        ("a: " + "[" * 3000, 1, 1, "values are nested too deeply"),
    ],
)
def test_where_a_text_is_wrong(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(SyntaxFaultError) as caught:
        YAML.load(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert message in caught.value.message


def test_aliases_do_not_multiply_without_end() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(SyntaxFaultError, match="too many values"):
        YAML.load("\n".join(lines))


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        ("x:\n  k: a # c\n", ("x", "k"), "b", "x:\n  k: b # c\n"),
        ("x:\n  k: 'a'\n", ("x", "k"), "-I", 'x:\n  k: "-I"\n'),
        ("x:\n  k:\n", ("x", "k"), "b", "x:\n  k: b\n"),
        ("x:\n  k: |\n    two\n    lines\n  z: 1\n", ("x", "k"), "b", "x:\n  k: b\n  z: 1\n"),
        ("x:\n  k: two\n    lines\n  z: 1\n", ("x", "k"), "b", "x:\n  k: b\n  z: 1\n"),
        ("x:\n  k: &anchor a\n", ("x", "k"), "b", "x:\n  k: b\n"),
        ("x:\n  k: !!str a\n", ("x", "k"), "b", "x:\n  k: b\n"),
        ("x:\n  k: [a, b] # c\n", ("x", "k"), ["c d"], 'x:\n  k: ["c d"] # c\n'),
        ("x:\n  k:\n  - a # 1\n  - b # 2\n# 3\n", ("x", "k"), ["c", "d"], "x:\n  k:\n  - c\n  - d # 2\n# 3\n"),
        (
            "x:\r\n  k:\r\n    - a\r\n  z: 1\r\n",
            ("x", "k"),
            ["c", "d"],
            "x:\r\n  k:\r\n    - c\r\n    - d\r\n  z: 1\r\n",
        ),
        ("x:\n  k:\n    - a\n", ("x", "k"), [], "x:\n  k:\n    []\n"),
        ("x:\n  k:\n    - a\n", ("x", "k"), "b", "x:\n  k:\n    b\n"),
        ("x:\n  k: a # c\n\n  # d\n  z: 1\n", ("x", "args"), "b", "x:\n  k: a # c\n  args: b\n\n  # d\n  z: 1\n"),
        ("x:\n  k: a", ("x", "args"), {"b": "c"}, "x:\n  k: a\n  args: {b: c}"),
        ("x: {k: a}\n", ("x", "args"), True, "x: {k: a, args: true}\n"),
        ("x: {k: a, args: 1}\n", ("x", "args"), "b", "x: {k: a, args: b}\n"),
        ("x:\n  k: *y\n", ("x", "args"), "b", None),
        ("y: &y 1\nx:\n  k: *y # c\n", ("x", "k"), "b", "y: &y 1\nx:\n  k: b # c\n"),
        ("y: &y 1\nx:\n  k: *y # c\n", ("x", "args"), "b", "y: &y 1\nx:\n  k: *y # c\n  args: b\n"),
        ("x:\n  k:\n  z: 1\n", ("x", "args"), "b", "x:\n  k:\n  args: b\n  z: 1\n"),
    ],
)
def test_a_value_is_put(before: str, path: KeyPath, value: Any, after: str | None) -> None:
    if after is None:
        with pytest.raises(SyntaxFaultError):
            YAML.load(before)
        return
    assert YAML.put(before, path, value, ("x", "k")) == after
    assert YAML.load(after)["x"][path[-1]] == value


@pytest.mark.parametrize(
    ("before", "path", "after"),
    [
        ("x:\n  a: 1 # gone\n  # stays\n  b: 2\n", ("x", "a"), "x:\n  # stays\n  b: 2\n"),
        ("x:\n  b: 2\n  a:\n    c: 1\n\n    d: 2 # gone\n", ("x", "a"), "x:\n  b: 2\n"),
        ("x:\n  b: 2\n  a: 1", ("x", "a"), "x:\n  b: 2\n"),
        ("x:\r\n  b: 2\r\n  a: 1\r\ny: 1\r\n", ("x", "a"), "x:\r\n  b: 2\r\ny: 1\r\n"),
        ("x:\r\n  b: 2\n  a: 1\ny: 1\r\n", ("x", "a"), "x:\r\n  b: 2\ny: 1\r\n"),
        ("x: {a: 1, b: 2}\n", ("x", "a"), "x: {b: 2}\n"),
        ("x: {b: 2, a: 1}\n", ("x", "a"), "x: {b: 2}\n"),
        ("x: {a: 1}\n", ("x", "a"), "x: {}\n"),
        ("x:\n- a: 1\n  b: 2\n", ("x", 0, "a"), "x:\n- b: 2\n"),
        ("y: &y {c: 1}\nx:\n  a: *y\n  b: 2\n", ("x", "a"), "y: &y {c: 1}\nx:\n  b: 2\n"),
    ],
)
def test_a_key_is_cut(before: str, path: KeyPath, after: str) -> None:
    assert YAML.cut(before, path) == after
    YAML.load(after)


def test_what_cannot_be_edited_is_refused() -> None:
    wrong: Callable[[], object]
    for wrong in (
        lambda: YAML.cut("x:\n  b: 1\n", ("x", "a")),
        lambda: YAML.cut("x:\n- a: 1\n", ("x", 0, "a")),
        lambda: YAML.cut("x: [1]\n", ("x", "a")),
        lambda: YAML.cut("x: [1]\n", ("y", "a")),
        lambda: YAML.cut("x: [1]\n", ("x", 1, "a")),
        lambda: YAML.put("x:\n  b: 1\n", ("x", "a"), 1, ("x", "c")),
        lambda: YAML.put("x:\n  b: 1\nc: 1\n", ("x", "a"), 1, ("c",)),
        lambda: YAML.put_source("", (), "", ()),
        # A merged key is not written here.
        lambda: YAML.cut("y: &y {a: 1}\nx:\n  <<: *y\n", ("x", "a")),
    ):
        with pytest.raises(CannotEditError):
            wrong()


def test_where_things_are() -> None:
    text = "a: 'x'\nm:\n- k: v\n  e: {A: \"1\"}\n- |\n  two\n  lines\nn:\n"
    assert [(leaf.path, text[leaf.start : leaf.end], leaf.value) for leaf in YAML.leaves(text)] == [
        (("a",), "'x'", "x"),
        (("m", 0, "k"), "v", "v"),
        (("m", 0, "e", "A"), '"1"', "1"),
        (("m", 1), "|\n  two\n  lines", "two\nlines\n"),
    ]
    assert YAML.lines(text)["m", 0, "e"] == 4
    assert YAML.lines(text)["m", 1] == 5
    assert (list(YAML.leaves("")), YAML.lines("")) == ([], {})
    assert YAML.source(text, ("a",)) is None
    extract = YAML.extract(text, ("m", 0))
    assert (extract.start, extract.end, extract.path) == (0, len(text), ("m", 0))


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12))
def test_any_text_is_written_so_that_it_is_read(text: str) -> None:
    assert YAML.load(f"k: {_scalar(text)}\nl: [{_scalar(text)}]\n") == {"k": text, "l": [text]}


@pytest.mark.parametrize(
    "word", ["yes", "No", "null", "~", "1", "1.5", "0x1", ".inf", "@a", "a:", "a: b", "#a", "-", "y"]
)
def test_words_that_mean_something_else_are_quoted(word: str) -> None:
    assert _scalar(word).startswith('"')


@pytest.mark.parametrize("word", ["npx", "/usr/bin/python3", "./x", "a-b_c", "a/b.py"])
def test_plain_words_are_not_quoted(word: str) -> None:
    assert _scalar(word) == word
