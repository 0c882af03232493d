"""Where every key of a TOML text stands, for errors that name a line and for edits that leave the rest alone.

The TOML library says what a text means but not where; this scanner says where and leaves the meaning to the library.
It expects a text that the library accepts. In any other text it stops at the first thing it does not understand, and
what it found until then is right.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto

#: Keys from the top of the file down to one value; numbers are positions in arrays.
KeyPath = tuple[str | int, ...]


class Form(Enum):
    """How a key is written."""

    HEADER = auto()  # [servers.time] or [[servers.time.mounts]]
    STATEMENT = auto()  # command = "x" on a line of its own
    INLINE = auto()  # inside { … }
    ELEMENT = auto()  # inside [ … ]


@dataclass(frozen=True, slots=True)
class Entry:
    """One key with its offsets: from ``start`` to ``end``, the value (of a header: nothing) from ``value`` on."""

    path: KeyPath
    form: Form
    start: int
    value: int
    end: int


class _StopError(Exception):
    """The text is not TOML from here on."""


_BLANK = re.compile(r"[ \t]*")
_FILLER = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL = re.compile(r"'[^'\n]*'")
_LONG_BASIC = re.compile(r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''(?:[^']|'{1,2}(?!'))*'{3,5}", re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}#]+(?: [0-9][^\s,\]}#]*)?")


def scan(text: str) -> tuple[Entry, ...]:
    """Return every key and array element of a text in the order in which they begin."""
    scanner = _Scanner(text)
    with suppress(_StopError, ValueError, RecursionError):
        scanner.document()
    return tuple(sorted(scanner.entries, key=lambda entry: (entry.start, -entry.end)))


def line_of(text: str, offset: int) -> int:
    """Return the line, from 1, in which an offset lies."""
    return text.count("\n", 0, offset) + 1


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the first line of every key, array element and table of a text, tables that are only implied as well."""
    lines: dict[KeyPath, int] = {}
    line, counted = 1, 0
    for entry in scan(text):
        line, counted = line + text.count("\n", counted, entry.start), entry.start
        for length in range(1, len(entry.path) + 1):
            lines.setdefault(entry.path[:length], line)
    return lines


def nearest_line(lines: dict[KeyPath, int], path: KeyPath) -> int | None:
    """Return the line of a key, or of the closest table around it that the text mentions."""
    for length in range(len(path), 0, -1):
        if (line := lines.get(path[:length])) is not None:
            return line
    return None


def written(path: Iterable[str | int]) -> str:
    """Return a key path as a person writes it: ``servers.time.mounts[0].path``."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            text += ("." if text else "") + quoted(key)
    return text


def quoted(key: str) -> str:
    """Return a key as TOML wants it, in quotes where it needs them."""
    if _BARE.fullmatch(key):
        return key
    escaped = "".join(f"\\u{ord(c):04x}" if c < " " or c == "\x7f" else f"\\{c}" if c in '"\\' else c for c in key)
    return f'"{escaped}"'


class _Scanner:
    """One pass over a text; ``at`` is how far it came."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.entries: list[Entry] = []
        self._lengths: dict[KeyPath, int] = {}

    def document(self) -> None:
        """Scan the whole text."""
        table: KeyPath = ()
        while True:
            self._skip(_FILLER)
            if self.at >= len(self.text):
                return
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table, Form.STATEMENT)

    def _header(self) -> KeyPath:
        start = self.at
        many = self.text.startswith("[[", start)
        self.at += 2 if many else 1
        keys = self._key()
        self._expect("]]" if many else "]")
        path: KeyPath = ()
        for key in keys[:-1]:
            path = self._last((*path, key))
        path = (*path, keys[-1])
        if many:
            self._lengths[path] = self._lengths.get(path, 0) + 1
        path = self._last(path)
        self.entries.append(Entry(path, Form.HEADER, start, self.at, self.at))
        return path

    def _last(self, path: KeyPath) -> KeyPath:
        """Return the path, with the position of the last table where it is an array of tables."""
        count = self._lengths.get(path)
        return path if count is None else (*path, count - 1)

    def _pair(self, table: KeyPath, form: Form) -> None:
        start = self.at
        path = (*table, *self._key())
        self._expect("=")
        self._skip(_BLANK)
        self._value(path, form, start)

    def _value(self, path: KeyPath, form: Form, start: int) -> None:
        value = self.at
        match self.text[value : value + 1]:
            case "[":
                self._array(path)
            case "{":
                self._inline(path)
            case '"' | "'" as quote:
                long = self.text.startswith(quote * 3, value)
                basic, literal = (_LONG_BASIC, _LONG_LITERAL) if long else (_BASIC, _LITERAL)
                self._take(basic if quote == '"' else literal)
            case _:
                self._take(_SCALAR)
        self.entries.append(Entry(path, form, start, value, self.at))

    def _array(self, path: KeyPath) -> None:
        self.at += 1
        position = 0
        while True:
            self._skip(_FILLER)
            if self._found("]"):
                return
            self._value((*path, position), Form.ELEMENT, self.at)
            position += 1
            self._skip(_FILLER)
            if not self._found(","):
                self._expect("]")
                return

    def _inline(self, path: KeyPath) -> None:
        self.at += 1
        while True:
            self._skip(_FILLER)
            if self._found("}"):
                return
            self._pair(path, Form.INLINE)
            self._skip(_FILLER)
            if not self._found(","):
                self._expect("}")
                return

    def _key(self) -> tuple[str, ...]:
        keys = []
        while True:
            self._skip(_BLANK)
            match self.text[self.at : self.at + 1]:
                case '"':
                    keys.append(_decoded(self._take(_BASIC)))
                case "'":
                    keys.append(self._take(_LITERAL)[1:-1])
                case _:
                    keys.append(self._take(_BARE))
            self._skip(_BLANK)
            if not self._found("."):
                return tuple(keys)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise _StopError
        self.at = match.end()
        return match[0]

    def _found(self, mark: str) -> bool:
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        return True

    def _expect(self, mark: str) -> None:
        self._skip(_BLANK)
        if not self._found(mark):
            raise _StopError


def _decoded(raw: str) -> str:
    return str(tomllib.loads(f"key = {raw}")["key"])
