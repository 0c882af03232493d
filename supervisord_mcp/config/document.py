"""One TOML file: what it says, in which line each key stands, and what is wrong with it if it is no TOML."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisord_mcp.config.files import read_file
from supervisord_mcp.config.source import KeyPath, key_lines, line_of, nearest_line, scan, written
from supervisord_mcp.errors import ConfigError, Problem

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a server is defined; ``beyond`` are the keys with which it grants more than its profile.

    ``lines`` has the keys of its table, as `ServerConfig` has them under its profile: ``mounts[2].path``.
    """

    file: Path
    line: int | None
    beyond: tuple[str, ...] = ()
    lines: Mapping[KeyPath, int] = field(default_factory=dict, compare=False, repr=False)

    def problem(self, server: str, path: KeyPath, message: str) -> Problem:
        """Return a fault of a server that shows only where it is used, placed as exactly as the file allows."""
        line = nearest_line(dict(self.lines), path) or self.line
        return Problem(str(self.file), line, written(("servers", server, *path)), message)


@dataclass(frozen=True, slots=True)
class Document:
    """One file that TOML accepts: what it says, and in which line each key stands."""

    file: Path
    data: Mapping[str, Any]
    lines: dict[KeyPath, int]

    @property
    def servers(self) -> tuple[str, ...]:
        """The names of the servers in the file, those with faults too."""
        table = self.data.get("servers")
        return tuple(table) if isinstance(table, dict) else ()

    def origin(self, name: str, mounts_before: int = 0) -> Origin:
        """Return where the file defines a server. So many mounts of its profile come before its own."""
        lines: dict[KeyPath, int] = {}
        for path, line in self.lines.items():
            match path:
                case ("servers", owner, "mounts", int(number), *rest) if owner == name:
                    lines["mounts", number + mounts_before, *rest] = line
                case ("servers", owner, *rest) if owner == name and rest:
                    lines[tuple(rest)] = line
        return Origin(self.file, nearest_line(self.lines, ("servers", name)), lines=lines)

    def problem(self, path: KeyPath, message: str) -> Problem:
        """Return a fault placed at a key, or at the closest table around it."""
        return Problem(str(self.file), nearest_line(self.lines, path), written(path), message)


def parse_document(file: Path, content: bytes) -> Document:
    """Return what a file says. Raise `ConfigError` if it is not UTF-8 or not TOML."""
    text = decode(file, content)
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise ConfigError((Problem(str(file), None, "", "values are nested too deeply"),)) from None
    except ValueError as error:
        raise ConfigError((_syntax_problem(file, text, str(error)),)) from None
    return Document(file, data, key_lines(text))


def decode(file: Path, content: bytes) -> str:
    """Return the text of a file without byte order mark. Raise `ConfigError` if it is not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if content.startswith((b"\xff\xfe", b"\xfe\xff")):
            message, line = "the file is UTF-16; save it as UTF-8", 1
        else:
            message, line = "not valid UTF-8; save the file as UTF-8", content.count(b"\n", 0, error.start) + 1
        raise ConfigError((Problem(str(file), line, "", message),)) from None


def read_document(file: Path, content: bytes | None, problems: list[Problem]) -> Document | None:
    """Return what a file says, or None where it says nothing: then why is added to the problems.

    ``content`` is taken instead of what the file holds. A file that does not exist is no problem.
    """
    try:
        return parse_document(file, read_file(file) if content is None else content)
    except FileNotFoundError:
        if file.is_symlink():
            message = f"the link leads to {os.readlink(file)}, which does not exist"
            problems.append(Problem(str(file), None, "", message))
    except OSError as error:
        problems.append(Problem(str(file), None, "", f"cannot be read: {error.strerror}"))
    except ConfigError as error:
        problems.extend(error.problems)
    return None


def _syntax_problem(file: Path, text: str, message: str) -> Problem:
    """Given the words of the TOML library, return them with their place; a double key gets the place of the first."""
    place = _POSITION.search(message)
    if place is None:
        return Problem(str(file), None, "", f"not valid TOML: {message.partition(':')[0]}")
    line = int(place[1] or line_of(text, len(text)))
    if twice := _defined_twice(text, line):
        path, first, second = twice
        return Problem(str(file), second, written(path), f"defined twice; first in line {first}")
    where = f"column {place[2]}" if place[2] else "end of file"
    what = message[: place.start()]
    return Problem(str(file), line, "", f"not valid TOML, {where}: {what[:1].lower()}{what[1:]}")


def _defined_twice(text: str, line: int) -> tuple[KeyPath, int, int] | None:
    """Return a key that is defined a second time before or in a line, with both lines. No valid text has one."""
    first: dict[KeyPath, int] = {}
    for entry in scan(text):
        here = line_of(text, entry.start)
        if here > line:
            break
        if entry.path in first:
            return entry.path, first[entry.path], here
        first[entry.path] = here
    return None
