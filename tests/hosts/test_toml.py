"""TOML: edits of one key that keep every other character."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.hosts.syntax import CannotEditError, SyntaxFaultError
from supervisord_mcp.hosts.toml import Toml

TOML = Toml()


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a = \n", 1, 5, "invalid value"),
        ('a = "x"\nb == 1', 2, 4, "invalid value"),
        ("a = 1\na = 2\n", 2, 6, "cannot overwrite a value"),
        ('[a]\nb = "', 2, 6, "unterminated string"),
        ("a = " + "[" * 5000, 1, 1, "values are nested too deeply"),
    ],
)
def test_where_a_text_is_wrong(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(SyntaxFaultError) as caught:
        TOML.load(text)
    assert (caught.value.line, caught.value.column, caught.value.message) == (line, column, message)


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        ('[m.x]\nk = "a" # c\n', ("m", "x", "k"), "b", '[m.x]\nk = "b" # c\n'),
        ("[m.x]\nk = 'a'\n", ("m", "x", "n"), ["1"], "[m.x]\nk = 'a'\nn = [\"1\"]\n"),
        ("[m.x]\nk = 1 # c\nz = 2\n", ("m", "x", "n"), "v", '[m.x]\nk = 1 # c\nn = "v"\nz = 2\n'),
        ("[m.x]\r\n  k = 1\r\n", ("m", "x", "n"), "v", '[m.x]\r\n  k = 1\r\n  n = "v"\r\n'),
        ("[m.x]\nk = 1", ("m", "x", "n"), "v", '[m.x]\nk = 1\nn = "v"'),
        ("m.x.k = 1\n", ("m", "x", "n"), "v", 'm.x.k = 1\nm.x.n = "v"\n'),
        ("m.'x'.\"k\"=1\n", ("m", "x", "n m"), "v", 'm.\'x\'."k"=1\nm.\'x\'."n m" = "v"\n'),
        ("m = {x={k=1}}\n", ("m", "x", "n"), "v", 'm = {x={k=1, n = "v"}}\n'),
        ("m = {x={k=1, n=2}}\n", ("m", "x", "n"), "v", 'm = {x={k=1, n="v"}}\n'),
        ("[m.x]\nk = 1\n[m.x.n]\na = 1\n", ("m", "x", "n"), {"b": "c"}, '[m.x]\nk = 1\nn = {b = "c"}\n'),
        ("[m.x]\nn.a = 1\nk = 1\n", ("m", "x", "n"), "v", '[m.x]\nk = 1\nn = "v"\n'),
        (
            '[m.x]\r\nk = 1\r\nn = ["1"]\r\n',
            ("m", "x", "n"),
            ["a" * 60, "b" * 60],
            f'[m.x]\r\nk = 1\r\nn = [\r\n    "{"a" * 60}",\r\n    "{"b" * 60}",\r\n]\r\n',
        ),
    ],
)
def test_a_value_is_put(before: str, path: KeyPath, value: Any, after: str) -> None:
    assert TOML.put(before, path, value, ("m", "x", "k")) == after
    assert TOML.load(after)["m"]["x"][path[-1]] == value


def test_what_cannot_be_edited_is_refused() -> None:
    wrong: Callable[[], object]
    for wrong in (
        lambda: TOML.put("[m.x]\nz = 1\n", ("m", "x", "n"), 1, ("m", "x", "k")),
        lambda: TOML.put("[m]\nk = 1\n[m.x]\n", ("m", "x", "n"), 1, ("m", "k")),
        lambda: TOML.put_source("", (), "", ()),
    ):
        with pytest.raises(CannotEditError):
            wrong()


def test_a_key_is_cut() -> None:
    text = '[m.x]\nk = 1 # c\n# of n\nn = 2\n\n[m.x.env]\nA = "1"\n\n# other\n[o]\n'
    assert TOML.cut(text, ("m", "x", "env")) == "[m.x]\nk = 1 # c\n# of n\nn = 2\n\n# other\n[o]\n"
    assert TOML.cut("m = {x={k=1, n=2}}\n", ("m", "x", "k")) == "m = {x={n=2}}\n"


def test_where_things_are() -> None:
    text = 'a = "x"\n[m.x]\nargs = ["-y", 1]\nenv = { K = \'v\', L = 2024-01-01 }\n'
    assert [(leaf.path, text[leaf.start : leaf.end], str(leaf.value)) for leaf in TOML.leaves(text)] == [
        (("a",), '"x"', "x"),
        (("m", "x", "args", 0), '"-y"', "-y"),
        (("m", "x", "args", 1), "1", "1"),
        (("m", "x", "env", "K"), "'v'", "v"),
        (("m", "x", "env", "L"), "2024-01-01", "2024-01-01"),
    ]
    assert TOML.lines(text)["m", "x", "env"] == 4
    assert TOML.source(text, ("a",)) is None
    extract = TOML.extract(text, ("m", "x"))
    assert (extract.start, extract.end, extract.path) == (0, len(text), ("m", "x"))
