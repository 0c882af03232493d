"""TOML: edits of one key, by the scanner and the cuts that our own configuration is edited with."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

from supervisord_mcp.config.rewrite import cut_path, written_value
from supervisord_mcp.config.source import Entry, Form, KeyPath, key_lines, quoted, scan
from supervisord_mcp.hosts.syntax import CannotEditError, Extract, Leaf, SyntaxFaultError, fault_at, newline_of

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
#: The part of a statement up to its last key.
_LAST_KEY = re.compile(r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\]|\\.)*\"|'[^']*')[ \t]*=[ \t]*\Z")


class Toml:
    """The language of Codex."""

    def load(self, text: str) -> Any:
        """Return what a text means. Raise `SyntaxFaultError` where it is wrong."""
        try:
            return tomllib.loads(text)
        except RecursionError:
            raise fault_at(text, 0, "values are nested too deeply") from None
        except ValueError as error:
            place = _POSITION.search(str(error))
            message = str(error)[: place.start()] if place else str(error)
            message = message[:1].lower() + message[1:]
            if place is None or place[1] is None:
                raise fault_at(text, len(text), message) from None
            raise SyntaxFaultError(message, int(place[1]), int(place[2])) from None

    def lines(self, text: str) -> dict[KeyPath, int]:
        """Return the line of each key and element."""
        return key_lines(text)

    def leaves(self, text: str) -> Iterator[Leaf]:
        """Yield the values that are neither tables nor arrays."""
        for entry in scan(text):
            source = text[entry.value : entry.end]
            if entry.form is not Form.HEADER and not source.startswith(("[", "{")):
                value = tomllib.loads(f"key = {source}")["key"]
                yield Leaf(entry.path, entry.value, entry.end, value)

    def extract(self, text: str, path: KeyPath) -> Extract:
        """Return the whole text: a table may be written in several places."""
        return Extract(0, len(text), path)

    def put(self, text: str, path: KeyPath, value: Any, after: KeyPath) -> str:
        """Return the text with a value replaced, or a key added behind another one."""
        mine = [entry for entry in scan(text) if entry.path[: len(path)] == path and entry.form is not Form.ELEMENT]
        exact = _written(mine, path)
        new = written_value(value, str(path[-1])).replace("\n", newline_of(text))
        if exact is not None:
            return text[: exact.value] + new + text[exact.end :]
        if mine:
            # It is spread over tables or dotted keys.
            text = cut_path(text, path)
        sibling = _written(scan(text), after)
        if sibling is None or after[:-1] != path[:-1]:
            raise CannotEditError(f"there is no {after[-1]} to put {path[-1]} behind")
        start = text[sibling.start : sibling.value]
        last = _LAST_KEY.search(start)
        assert last is not None, "a statement ends its keys with an equals sign"
        pair = f"{start[: last.start()]}{quoted(str(path[-1]))} = {new}"
        if sibling.form is Form.INLINE:
            return f"{text[: sibling.end]}, {pair}{text[sibling.end :]}"
        line = text.rfind("\n", 0, sibling.start) + 1
        end = text.find("\n", sibling.end)
        gap = newline_of(text)
        lead = text[line : sibling.start]
        if end < 0:
            return f"{text}{gap}{lead}{pair}"
        return f"{text[: end + 1]}{lead}{pair}{gap}{text[end + 1 :]}"

    def cut(self, text: str, path: KeyPath) -> str:
        """Return the text without a key and all that is below it."""
        return cut_path(text, path)

    def source(self, text: str, path: KeyPath) -> str | None:
        """Return None: a value may be spread over tables."""
        return None

    def put_source(self, text: str, path: KeyPath, source: str, after: KeyPath) -> str:
        """Raise `CannotEditError`: there are no written values here."""
        raise CannotEditError("a value of TOML is not put as it is written")


def _written(entries: tuple[Entry, ...] | list[Entry], path: KeyPath) -> Entry | None:
    """Return where a key is written with its whole value."""
    forms = (Form.STATEMENT, Form.INLINE)
    return next((entry for entry in entries if entry.path == path and entry.form in forms), None)
