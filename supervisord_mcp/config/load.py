"""From files to one configuration: read, join, validate, and report every fault at once with file, line and key.

``config.toml`` comes first, then ``conf.d/*.toml`` in the order of their names. ``[daemon]`` is allowed in
``config.toml`` only, so that no second file can change the daemon unseen; every server is defined once. A file that
does not exist is an empty one; a file that exists and cannot be read is a fault.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from supervisord_mcp.config.faults import faults
from supervisord_mcp.config.files import link_directories, read_file
from supervisord_mcp.config.models import Config, DaemonConfig
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.config.source import KeyPath, key_lines, line_of, nearest_line, scan, written
from supervisord_mcp.errors import ConfigError, Problem

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a server is defined."""

    file: Path
    line: int | None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid configuration, the files it came from, and the directories where a change can change it."""

    config: Config
    files: tuple[Path, ...] = ()
    directories: tuple[Path, ...] = ()
    origins: Mapping[str, Origin] = field(default_factory=lambda: MappingProxyType({}))


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

    def origin(self, name: str) -> Origin:
        """Return where the file defines a server."""
        return Origin(self.file, nearest_line(self.lines, ("servers", name)))

    def problem(self, path: KeyPath, message: str) -> Problem:
        """Return a fault placed at a key, or at the closest table around it."""
        return Problem(str(self.file), nearest_line(self.lines, path), written(path), message)


@dataclass(slots=True)
class _Part:
    """What one file adds; without a config where the file has faults."""

    document: Document
    config: Config | None = None


def load(paths: Paths, overlay: Mapping[Path, bytes] | None = None) -> Loaded:
    """Return the configuration. Raise `ConfigError` with every fault of every file.

    ``overlay`` gives the content of files as they would be, so that an edit can be tried before it is made.
    """
    overlay = overlay or {}
    problems: list[Problem] = []
    parts: list[_Part] = []
    for file in config_files(paths, overlay, problems):
        found: list[Problem] = []
        document = _read(file, overlay.get(file), found)
        if document is not None:
            parts.append(_check(document, file == paths.config_file, parts, found))
        problems += sorted(found, key=lambda problem: problem.line or 0)
    if problems:
        raise ConfigError(tuple(problems))
    return Loaded(
        _join(parts),
        tuple(part.document.file for part in parts),
        watched_directories(paths),
        MappingProxyType({name: part.document.origin(name) for part in parts for name in part.document.servers}),
    )


def watched_directories(paths: Paths) -> tuple[Path, ...]:
    """Return every directory in which a change can change the configuration, a broken configuration too."""
    files = config_files(paths, {}, [])
    places = [*files, paths.config_file, paths.conf_dir / "any.toml"]
    return tuple(dict.fromkeys(directory for place in places for directory in link_directories(place)))


def config_files(paths: Paths, overlay: Mapping[Path, bytes], problems: list[Problem]) -> list[Path]:
    """Return the files that make the configuration, in order; hidden ones are those of editors and do not count."""
    found = {file.name for file in overlay if file.parent == paths.conf_dir}
    try:
        found |= set(os.listdir(paths.conf_dir))
    except FileNotFoundError:
        pass
    except OSError as error:
        problems.append(Problem(str(paths.conf_dir), None, "", f"cannot be read: {error.strerror}"))
    names = sorted(name for name in found if name.endswith(".toml") and not name.startswith("."))
    return [paths.config_file, *(paths.conf_dir / name for name in names)]


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


def _read(file: Path, content: bytes | None, problems: list[Problem]) -> Document | None:
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


def _check(document: Document, main: bool, earlier: list[_Part], problems: list[Problem]) -> _Part:
    """Return what one file adds to the configuration, and add its faults to the list."""
    part = _Part(document)
    if "daemon" in document.data and not main:
        problems.append(document.problem(("daemon",), "only config.toml may have the table [daemon]"))
    for name in part.document.servers:
        if first := next((other for other in earlier if name in other.document.servers), None):
            origin = first.document.origin(name)
            message = f"server '{name}' is defined twice; first at {origin.file}:{origin.line}"
            problems.append(document.problem(("servers", name), message))
    try:
        part.config = Config.model_validate(document.data)
    except ValidationError as error:
        problems += [document.problem(path, message) for path, message in faults(error)]
    return part


def _join(parts: list[_Part]) -> Config:
    servers = {name: server for part in parts if part.config for name, server in part.config.servers.items()}
    daemon = next(
        (part.config.daemon for part in parts if part.config and "daemon" in part.document.data), DaemonConfig()
    )
    return Config(daemon=daemon, servers=servers)
