"""The entries of a file in the normal form: one dialect read, its variables translated, its oddities named."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisord_mcp.config.source import KeyPath, written
from supervisord_mcp.errors import Problem
from supervisord_mcp.hosts.base import EACH, Dialect, HostFile, Shape
from supervisord_mcp.hosts.entry import HostEntry, Scope, Unresolved
from supervisord_mcp.hosts.syntax import value_at
from supervisord_mcp.hosts.variables import Context, plain


@dataclass(frozen=True, slots=True)
class Found:
    """One entry as the file has it: where it is, and for which project it counts if for one only."""

    path: KeyPath
    name: str
    value: Any
    project: Path | None = None


class _OddError(ValueError):
    """An entry is not what its host would accept; ``path`` is inside of the entry."""

    def __init__(self, path: KeyPath, message: str) -> None:
        super().__init__(message)
        self.path = path


def find_entries(dialect: Dialect, data: Any) -> Iterator[Found | tuple[KeyPath, str]]:
    """Yield every entry of loaded data, or the path of what should be one and why it is none."""
    for path, project in _places(dialect, data):
        servers = value_at(data, path)
        if isinstance(servers, dict) and dialect.name is None:
            yield from (Found((*path, name), str(name), value, project) for name, value in servers.items())
        elif isinstance(servers, list) and dialect.name is not None:
            yield from _listed(servers, path, dialect.name)
        else:
            yield path, "not a table of servers" if dialect.name is None else "not a list of servers"


def read_entries(file: HostFile, text: str, data: Any) -> tuple[tuple[HostEntry, ...], tuple[Problem, ...]]:
    """Given a text and what it means, return its entries, and what is wrong with the others."""
    dialect = file.dialect
    lines = dialect.syntax.lines(text)
    context = Context(dialect.inputs(data) if dialect.inputs else {})
    entries: list[HostEntry] = []
    problems: list[Problem] = []
    for found in find_entries(dialect, data):
        if not isinstance(found, Found):
            problems.append(_problem(file, lines, *found))
            continue
        try:
            reader = _Reader(dialect, context, found)
            if not reader.ignored:
                off = dialect.switched_off is not None and dialect.switched_off(data, found.path)
                entries.append(reader.entry(file, _line(lines, found.path) or 1, switched_off=off))
        except _OddError as odd:
            problems.append(_problem(file, lines, (*found.path, *odd.path), str(odd)))
    return tuple(entries), tuple(problems)


def shape_of(dialect: Dialect, entry: Any) -> Shape | None:
    """Return how an entry names its command, or None where it has none that counts."""
    if dialect.url_wins and any(_get(entry, path) for path in dialect.urls):
        return None
    return next((shape for shape in dialect.shapes if _get(entry, shape.command) is not None), None)


def _places(dialect: Dialect, data: Any) -> Iterator[tuple[KeyPath, Path | None]]:
    """Yield the paths of the tables of servers that the data has, and the projects that they are for."""
    found = [place for table in dialect.tables for place in _tables(data, table)]
    return iter(found or ([((), None)] if dialect.bare else []))


def _tables(data: Any, table: KeyPath) -> Iterator[tuple[KeyPath, Path | None]]:
    if EACH not in table:
        if _get(data, table) is not None:
            yield table, None
        return
    at = table.index(EACH)
    above = _get(data, table[:at])
    for key in above if isinstance(above, dict) else ():
        path = (*table[:at], key, *table[at + 1 :])
        if _get(data, path) is not None:
            yield path, Path(key)


def _listed(servers: list[Any], path: KeyPath, key: str) -> Iterator[Found]:
    for at, value in enumerate(servers):
        name = value.get(key) if isinstance(value, dict) else None
        # An entry that is taken from somewhere else may have no name here.
        yield Found((*path, at), name if isinstance(name, str) else "", value)


@dataclass(slots=True)
class _Reader:
    """One entry on its way into the normal form."""

    dialect: Dialect
    context: Context
    found: Found
    unresolved: list[Unresolved] = field(default_factory=list)

    @property
    def ignored(self) -> bool:
        value = self.found.value
        if not isinstance(value, dict):
            return False
        kind = value.get("type")
        if isinstance(kind, str) and kind in self.dialect.ignored:
            return True
        own = shape_of(self.dialect, value) is not None or any(
            _get(value, path) is not None for path in self.dialect.urls
        )
        return not own and not self.dialect.elsewhere.isdisjoint(value)

    def entry(self, file: HostFile, line: int, *, switched_off: bool) -> HostEntry:
        """Return the entry. Raise `_OddError` if its host would not accept it."""
        value, found = self.found.value, self.found
        if not isinstance(value, dict):
            raise _OddError((), "not a table")
        if not found.name:
            raise _OddError((), "an entry without a name")
        _check_text((), found.name)
        disabled = switched_off or any(value.get(key) is state for key, state in self.dialect.disabled)
        scope = file.scope if found.project is None else Scope.LOCAL
        common: dict[str, Any] = {
            "host": file.host.key,
            "file": file.path,
            "scope": scope,
            "path": found.path,
            "name": found.name,
            "line": line,
            "disabled": disabled,
            "project": found.project or file.project,
        }
        shape = shape_of(self.dialect, value)
        if shape is None:
            return HostEntry(**common, url=self._url(value))
        return HostEntry(
            **common,
            argv=self._argv(shape),
            env=self._env(shape),
            cwd=self._text(shape.cwd, "cwd"),
            env_file=self._text(shape.env_file, "env_file"),
            unresolved=tuple(self.unresolved),
        )

    def _url(self, value: Mapping[str, Any]) -> str:
        for path in self.dialect.urls:
            if isinstance(url := _get(value, path), str):
                return url
        raise _OddError((), f"neither a command nor an URL ({', '.join(map(written, self.dialect.urls))})")

    def _argv(self, shape: Shape) -> tuple[str, ...]:
        command = _get(self.found.value, shape.command)
        if shape.args is None:
            if not isinstance(command, list) or not command:
                raise _OddError(shape.command, "not a list of words that begins with a program")
            return tuple(self._word((*shape.command, at), word, "command") for at, word in enumerate(command))
        if not isinstance(command, str) or not command.strip():
            raise _OddError(shape.command, "not the name of a program")
        args = _get(self.found.value, shape.args)
        if args is not None and not isinstance(args, list):
            raise _OddError(shape.args, "not a list of words")
        words = [self._word(shape.command, command, "command")]
        return (*words, *(self._word((*shape.args, at), word, "args") for at, word in enumerate(args or ())))

    def _env(self, shape: Shape) -> dict[str, str]:
        env = _get(self.found.value, shape.env)
        if env is not None and not isinstance(env, dict):
            raise _OddError(shape.env, "not a table of variables")
        found = {
            name: self._word((*shape.env, name), value, "env", name)
            for name, value in (env or {}).items()
            # Null takes a variable away, or is a slip; neither gives it a value.
            if value is not None
        }
        for name in self._names(shape.inherited):
            found.setdefault(name, f"${{{name}}}")
        for name in self._names(shape.kept):
            self.unresolved.append(
                Unresolved(
                    (*self.found.path, *(shape.kept or ())),
                    f"env.{name}",
                    name,
                    "the host keeps its value",
                    secret=True,
                    variable=name,
                )
            )
        return found

    def _names(self, path: KeyPath | None) -> tuple[str, ...]:
        names = _get(self.found.value, path) if path is not None else None
        found = (item.get("name") if isinstance(item, dict) else item for item in names or ())
        return tuple(name for name in found if isinstance(name, str))

    def _text(self, path: KeyPath | None, kind: str) -> str | None:
        value = _get(self.found.value, path) if path is not None else None
        return None if path is None or value is None or value == "" else self._word(path, value, kind)

    def _word(self, path: KeyPath, value: Any, kind: str, variable: str | None = None) -> str:
        if isinstance(value, bool | int | float):
            # What a host makes of it when it builds a command line or an environment.
            value = json.dumps(value)
        if not isinstance(value, str):
            raise _OddError(path, "not a text")
        _check_text(path, value)
        language = self.dialect.variables if kind in self.dialect.expanded else plain
        translation = language(value, self.context)
        inside = f"env.{variable}" if variable is not None else written(path)
        place = (*self.found.path, *path)
        for unknown in translation.unknown:
            given = None if unknown.verbatim else variable
            self.unresolved.append(Unresolved(place, inside, unknown.written, unknown.why, unknown.secret, given))
        return translation.text


def _get(data: Any, path: KeyPath) -> Any:
    try:
        return value_at(data, path)
    except KeyError:
        return None


def _check_text(path: KeyPath, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _OddError(path, "half of a surrogate pair, which is no text") from None
    if "\0" in text:
        raise _OddError(path, "a text with a null character, which no program can be given")


def _problem(file: HostFile, lines: Mapping[KeyPath, int], path: KeyPath, message: str) -> Problem:
    return Problem(str(file.path), _line(lines, path), written(path), message)


def _line(lines: Mapping[KeyPath, int], path: KeyPath) -> int | None:
    for length in range(len(path), 0, -1):
        if (line := lines.get(path[:length])) is not None:
            return line
    return None
