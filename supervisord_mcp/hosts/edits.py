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
    Syntax,
    SyntaxFaultError,
    same,
    value_at,
    with_value,
    without_value,
)


@dataclass(frozen=True, slots=True)
class Replacement:
    """What an entry shall start instead, as plain words, with these variables.

    Of the variables that it has, those in ``keep`` stay as they are written; so does a list of variables that the host
    hands on. Its directory and its file of variables go, everything else stays.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    keep: Collection[str] = ()


def replace_entries(dialect: Dialect, text: str, replacements: Mapping[KeyPath, Replacement]) -> str:
    """Given a valid text, return it with entries replaced.

    Raise `CannotEditError` if that would change anything else, or if there is no such entry with a command.
    """
    data = dialect.syntax.load(text)
    for path, replacement in replacements.items():
        edit = _Edit(dialect.syntax, text, data)
        try:
            shape = shape_of(dialect, value_at(data, path))
        except KeyError:
            shape = None
        if shape is None:
            raise CannotEditError("there is no entry with a command")
        edit.replace(path, shape, replacement)
        text, data = edit.text, edit.data
    verify(dialect.syntax, text, data)
    return text


def verify(syntax: Syntax, text: str, wanted: Any) -> None:
    """Raise `CannotEditError` if a text does not mean what is wanted."""
    try:
        found = syntax.load(text)
    except SyntaxFaultError as fault:
        raise CannotEditError(f"the result would be wrong in line {fault.line}: {fault.message}") from None
    if not same(found, wanted):
        raise CannotEditError("the change would touch other parts of the file")


@dataclass(slots=True)
class _Edit:
    """A text on its way, and what it shall mean."""

    syntax: Syntax
    text: str
    data: Any

    def replace(self, entry: KeyPath, shape: Shape, new: Replacement) -> None:
        command = (*entry, *shape.command)
        env = (*entry, *shape.env)
        if shape.args is None:
            self._put(command, list(new.argv), command)
        else:
            self._put(command, new.argv[0], command)
            self._put((*entry, *shape.args), list(new.argv[1:]), command)
        old = self._get(env)
        kept = {name: value for name, value in old.items() if name in new.keep} if isinstance(old, dict) else {}
        if kept:
            for name in [name for name in old if name not in kept and name not in new.env]:
                self._cut((*env, name))
            for name, value in new.env.items():
                self._put((*env, name), value, (*env, next(iter(kept))))
        elif new.env:
            self._put(env, dict(new.env), command)
        elif old:
            self._cut(env)
        for path in (shape.cwd, shape.env_file):
            if path is not None and self._get((*entry, *path)) is not None:
                self._cut((*entry, *path))

    def _get(self, path: KeyPath) -> Any:
        try:
            return value_at(self.data, path)
        except KeyError:
            return None

    def _put(self, path: KeyPath, value: Any, after: KeyPath) -> None:
        if not same(self._get(path), value):
            self.text = self.syntax.put(self.text, path, value, after)
            self.data = with_value(self.data, path, value)

    def _cut(self, path: KeyPath) -> None:
        self.text = self.syntax.cut(self.text, path)
        self.data = without_value(self.data, path)
