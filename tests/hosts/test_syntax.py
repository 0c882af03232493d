"""Values at paths, and when two of them mean the same."""

from __future__ import annotations

from typing import Any

import pytest

from supervisord_mcp.hosts.syntax import fault_at, newline_of, same, value_at, with_value, without_value

DATA = {"a": {"b": [1, {"c": 2}]}, "d": None}


def test_values_at_paths() -> None:
    assert value_at(DATA, ()) is DATA
    assert value_at(DATA, ("a", "b", 1, "c")) == 2
    for path in (("x",), ("a", "b", 2), ("a", "b", "c"), ("d", "e"), ("a", "b", 0, "x")):
        with pytest.raises(KeyError):
            value_at(DATA, path)


def test_copies_with_and_without_a_value() -> None:
    assert with_value(DATA, ("a", "b", 1, "c"), 3) == {"a": {"b": [1, {"c": 3}]}, "d": None}
    assert with_value(DATA, ("a", "e"), 3) == {"a": {"b": [1, {"c": 2}], "e": 3}, "d": None}
    assert without_value(DATA, ("a", "b", 1, "c")) == {"a": {"b": [1, {}]}, "d": None}
    assert without_value(DATA, ("d",)) == {"a": {"b": [1, {"c": 2}]}}
    assert DATA == {"a": {"b": [1, {"c": 2}]}, "d": None}


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"b": 1}, False),
        ([1, 2], [1, 2], True),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        (float("nan"), float("nan"), True),
        (float("inf"), float("inf"), True),
        (float("nan"), 1.0, False),
        (None, None, True),
        ("1", 1, False),
    ],
)
def test_what_means_the_same(one: Any, other: Any, equal: bool) -> None:
    assert same(one, other) is equal
    assert same(other, one) is equal


def test_places_count_from_one() -> None:
    fault = fault_at("a\nbc\n", 3, "what")
    assert (fault.line, fault.column, fault.message, str(fault)) == (2, 2, "what", "what")


@pytest.mark.parametrize(("text", "newline"), [("", "\n"), ("a\r\nb\n", "\r\n"), ("a\nb\r\n", "\n"), ("\n", "\n")])
def test_how_lines_end(text: str, newline: str) -> None:
    assert newline_of(text) == newline
