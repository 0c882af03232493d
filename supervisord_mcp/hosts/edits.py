"""What adopting changes in a file: the command of an entry and its variables, and not one character else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.hosts.base import Dialect, Shape
from supervisord_mcp.hosts.entries import shape_of
from supervisord_mcp.hosts.syntax import (
    CannotEditError,
    Extract,
    Syntax,
    SyntaxFaultError,
    same,
    value_at,
    with_value,
    without_value,
)


@dataclass(frozen=True, slots=True)
class Replacement:
    """What an entry shall start instead, in words as the file has them, with these variables.

    Of the variables that it has, those in ``keep`` stay as they are written; so does a list of variables that the host
    hands on. Its directory and its file of variables go unless its command changes ``alone``; everything else stays.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    keep: Collection[str] = ()
    alone: bool = False


#: Where an entry can be edited, its path in the whole text, and how it names its command.
_Place = tuple[Extract, KeyPath, Shape]


def replace_entries(dialect: Dialect, text: str, replacements: Mapping[KeyPath, Replacement]) -> str:
    """Given a valid text, return it with entries replaced.

    Raise `CannotEditError` if that would change anything else, or if there is no such entry with a command.
    """
    syntax = dialect.syntax
    data = syntax.load(text)
    for place, path, shape in _in_order(dialect, text, data, replacements):
        # Where the part is the whole text, the one before has changed it.
        end = place.end if place.path == () else len(text)
        edit = _Edit(syntax, text[place.start : end], place.path, value_at(data, path))
        try:
            edit.replace(shape, replacements[path])
        except SyntaxFaultError as fault:
            raise _wrong(fault) from None
        text = text[: place.start] + edit.text + text[end:]
        data = with_value(data, path, edit.entry)
    verify(syntax, text, data)
    return text


def _in_order(
    dialect: Dialect, text: str, data: Any, paths: Collection[KeyPath]
) -> list[tuple[Extract, KeyPath, Shape]]:
    """Return the entries from the end of the text to its start, so that those to come stay where they are."""
    found: list[tuple[Extract, KeyPath, Shape]] = []
    for path in paths:
        try:
            shape = shape_of(dialect, value_at(data, path))
        except KeyError:
            shape = None
        if shape is None:
            raise CannotEditError("there is no entry with a command")
        found.append((dialect.syntax.extract(text, path), path, shape))
    return sorted(found, key=lambda one: one[0].start, reverse=True)


def verify(syntax: Syntax, text: str, wanted: Any) -> None:
    """Raise `CannotEditError` if a text does not mean what is wanted."""
    try:
        found = syntax.load(text)
    except SyntaxFaultError as fault:
        raise _wrong(fault) from None
    if not same(found, wanted):
        raise CannotEditError("the change would touch other parts of the file")


def _wrong(fault: SyntaxFaultError) -> CannotEditError:
    return CannotEditError(f"the result would be wrong in line {fault.line}: {fault.message}")


@dataclass(slots=True)
class _Edit:
    """A part of a text on its way, where the entry is in it, and what the entry shall be."""

    syntax: Syntax
    text: str
    path: KeyPath
    entry: Any

    def replace(self, shape: Shape, new: Replacement) -> None:
        if shape.args is None:
            self._put(shape.command, list(new.argv), shape.command)
        else:
            self._put(shape.command, new.argv[0], shape.command)
            self._put(shape.args, list(new.argv[1:]), shape.command)
        self._replace_variables(shape, new)
        for path in () if new.alone else (shape.cwd, shape.env_file):
            if path is not None and self._get(path) is not None:
                self._cut(path)

    def _replace_variables(self, shape: Shape, new: Replacement) -> None:
        env = shape.env
        old = self._get(env)
        kept = [name for name in old if name in new.keep] if isinstance(old, dict) else []
        if kept:
            for name in old:
                if name not in kept and name not in new.env:
                    self._cut((*env, name))
            for name, value in new.env.items():
                self._put((*env, name), value, (*env, kept[0]))
        elif new.env:
            self._put(env, dict(new.env), shape.command)
        elif old:
            self._cut(env)

    def _get(self, path: KeyPath) -> Any:
        try:
            return value_at(self.entry, path)
        except KeyError:
            return None

    def _put(self, path: KeyPath, value: Any, after: KeyPath) -> None:
        if not same(self._get(path), value):
            self.text = self.syntax.put(self.text, (*self.path, *path), value, (*self.path, *after))
            self.entry = with_value(self.entry, path, value)

    def _cut(self, path: KeyPath) -> None:
        self.text = self.syntax.cut(self.text, (*self.path, *path))
        self.entry = without_value(self.entry, path)
