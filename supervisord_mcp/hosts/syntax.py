"""What a language of configuration files can do here, and the faults it finds.

Every operation works on the text as its owner wrote it and touches only the characters of the key that it is asked to
change. Whoever edits loads the result and compares it with what was wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from supervisord_mcp.config.source import KeyPath

#: Deeper values are no configuration, and would exhaust the stack.
DEEPEST = 200


class SyntaxFaultError(ValueError):
    """A text is not of its language; ``line`` and ``column`` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


class CannotEditError(ValueError):
    """The text defines a key in a way that cannot be changed without touching other parts of it."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value that has no keys of its own: its path, its characters from ``start`` to ``end``, and what it means."""

    path: KeyPath
    start: int
    end: int
    value: Any


@dataclass(frozen=True, slots=True)
class Extract:
    """The characters of a text, from ``start`` to ``end``, in which a value can be edited, and its path in them."""

    start: int
    end: int
    path: KeyPath


class Syntax(Protocol):
    """One language of configuration files."""

    def load(self, text: str) -> Any:
        """Return what a text means, in plain dictionaries and lists. Raise `SyntaxFaultError` where it is wrong."""

    def lines(self, text: str) -> dict[KeyPath, int]:
        """Given a valid text, return the line, from 1, in which each key and element begins."""

    def leaves(self, text: str) -> Iterator[Leaf]:
        """Given a valid text, yield its values in the order in which they are written."""

    def extract(self, text: str, path: KeyPath) -> Extract:
        """Given a valid text and a path that it has, return the smallest part that is a text of the language itself."""

    def put(self, text: str, path: KeyPath, value: Any, after: KeyPath) -> str:
        """Given a valid text, return it with the value of a key replaced, or with the key added behind another one.

        Raise `CannotEditError` where that is not possible.
        """

    def cut(self, text: str, path: KeyPath) -> str:
        """Given a valid text, return it without a key that it has. Raise `CannotEditError` if that is not possible."""

    def source(self, text: str, path: KeyPath) -> str | None:
        """Given a valid text, return how it writes a value, for `put_source`; None where it has no such value.

        A language whose values mean something else in another place returns None for all of them.
        """

    def put_source(self, text: str, path: KeyPath, source: str, after: KeyPath) -> str:
        """Do what `put` does with a value that is already written in the language."""


def fault_at(text: str, offset: int, message: str) -> SyntaxFaultError:
    """Return a fault at an offset of a text."""
    line = text.count("\n", 0, offset) + 1
    return SyntaxFaultError(message, line, offset - text.rfind("\n", 0, offset))


def newline_of(text: str) -> str:
    """Return how the first line of a text ends."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def value_at(data: Any, path: KeyPath) -> Any:
    """Return the value at a path of loaded data. Raise `KeyError` where there is none."""
    for key in path:
        inside = (isinstance(data, dict) and key in data) or (
            isinstance(data, list) and isinstance(key, int) and key < len(data)
        )
        if not inside:
            raise KeyError(path)
        data = data[key]
    return data


def with_value(data: Any, path: KeyPath, value: Any) -> Any:
    """Return a copy of loaded data in which a path that it has, up to the last key, holds another value."""
    key, rest = path[0], path[1:]
    changed: Any = dict(data) if isinstance(data, dict) else list(data)
    changed[key] = with_value(data[key], rest, value) if rest else value
    return changed


def without_value(data: Any, path: KeyPath) -> Any:
    """Return a copy of loaded data without a key that it has."""
    key, rest = path[0], path[1:]
    if rest:
        return with_value(data, (key,), without_value(data[key], rest))
    return {other: value for other, value in data.items() if other != key}


def same(one: Any, other: Any) -> bool:
    """Return whether two loaded values mean the same. 1, 1.0 and true are three things; keys have no order."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (isinstance(one, float) and one != one and other != other)  # noqa: PLR0124 - not a number
