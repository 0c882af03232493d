"""From files to one configuration: read, join, validate, and report every fault at once with file, line and key.

``config.toml`` comes first, then ``conf.d/*.toml`` in the order of their names. ``[daemon]``, ``[audit]`` and
``[metrics]`` are allowed in ``config.toml`` only, so that no second file can change the daemon unseen; every server is
defined once. A file that does not exist is an empty one; a file that exists and cannot be read is a fault. What comes
out has the servers as they apply, each under its profile: a change of a profile is a change of the servers that use it,
and of no other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from pydantic import ValidationError

from supervisord_mcp.config.document import Document, Origin, read_document
from supervisord_mcp.config.exposure import Known, commands_of, exposures, nothing_known
from supervisord_mcp.config.faults import faults
from supervisord_mcp.config.files import link_directories
from supervisord_mcp.config.granting import Granted, granted
from supervisord_mcp.config.models import Config, ServerConfig
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.config.profile_files import profile_directories
from supervisord_mcp.config.profiles import Profiles, find_profiles
from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.errors import ConfigError, Problem, SmcpError, UsageError

#: The tables that say something of the daemon, not of a server.
_OF_THE_DAEMON = ("daemon", "audit", "metrics")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid configuration, the files it came from, and the directories where a change can change it."""

    config: Config
    files: tuple[Path, ...] = ()
    directories: tuple[Path, ...] = ()
    origins: Mapping[str, Origin] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(slots=True)
class _Part:
    """What one file adds; without a config where the file has faults."""

    document: Document
    config: Config | None = None
    servers: dict[str, Granted] = field(default_factory=dict)


def load(paths: Paths, overlay: Mapping[Path, bytes] | None = None, known: Known = nothing_known) -> Loaded:
    """Return the configuration. Raise `ConfigError` with every fault of every file.

    ``overlay`` gives the content of files as they would be, so that an edit can be tried before it is made. ``known``
    names the stored secrets that no command may show.
    """
    overlay = overlay or {}
    problems: list[Problem] = []
    parts: list[_Part] = []
    for file in config_files(paths, overlay, problems):
        found: list[Problem] = []
        document = read_document(file, overlay.get(file), found)
        if document is not None:
            parts.append(_check(document, file == paths.config_file, parts, found))
        problems += sorted(found, key=lambda problem: problem.line or 0)
    problems += _grant(parts, paths)
    problems += _exposed(parts, known)
    if problems:
        raise ConfigError(tuple(problems))
    return Loaded(
        _join(parts), tuple(part.document.file for part in parts), watched_directories(paths), _origins(parts)
    )


def watched_directories(paths: Paths) -> tuple[Path, ...]:
    """Return every directory in which a change can change the configuration, a broken configuration too."""
    files = config_files(paths, {}, [])
    places = [*files, paths.config_file, paths.conf_dir / "any.toml"]
    found = (directory for place in places for directory in link_directories(place))
    return tuple(dict.fromkeys((*found, *profile_directories(paths))))


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


def _check(document: Document, main: bool, earlier: list[_Part], problems: list[Problem]) -> _Part:
    """Return what one file adds to the configuration, and add its faults to the list."""
    part = _Part(document)
    problems += [
        document.problem((table,), f"only config.toml may have the table [{table}]")
        for table in _OF_THE_DAEMON
        if table in document.data and not main
    ]
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


def _grant(parts: list[_Part], paths: Paths) -> list[Problem]:
    """Put every server under its profile; return what is wrong, a fault of a profile only once."""
    wanted = [(part, name, server) for part in parts if part.config for name, server in part.config.servers.items()]
    if not wanted:
        return []
    try:
        profiles = find_profiles(paths)
    except SmcpError as error:
        return [Problem(str(paths.profiles_dir), None, "", error.message)]
    problems: dict[Problem, None] = {}
    for part, name, server in wanted:
        try:
            part.servers[name] = _granted(part.document, name, server, profiles)
        except ConfigError as error:
            problems |= dict.fromkeys(error.problems)
    return list(problems)


def _exposed(parts: list[_Part], known: Known) -> Iterator[Problem]:
    """Yield the words of commands that show a secret."""
    for part in parts:
        for name, server in () if part.config is None else part.config.servers.items():
            for path, message in (found for words in commands_of(server) for found in exposures(server, words, known)):
                yield part.document.problem(("servers", name, *path), message)


def _granted(document: Document, name: str, server: ServerConfig, profiles: Profiles) -> Granted:
    def place(path: KeyPath, message: str) -> Problem:
        return document.problem(("servers", name, *path), message)

    try:
        effective = profiles.effective(server.profile)
    except UsageError as error:
        raise ConfigError((place(("profile",), error.message),)) from None
    return granted(name, server, effective, place)


def _origins(parts: list[_Part]) -> Mapping[str, Origin]:
    return MappingProxyType(
        {
            name: replace(part.document.origin(name, _mounts_before(part, name, server)), beyond=server.beyond)
            for part in parts
            for name, server in part.servers.items()
        }
    )


def _mounts_before(part: _Part, name: str, server: Granted) -> int:
    own = part.config.servers[name].mounts if part.config else ()
    return len(server.config.mounts) - len(own)


def _join(parts: list[_Part]) -> Config:
    servers = {name: server.config for part in parts for name, server in part.servers.items()}
    # Only one file can say anything of the daemon.
    main = next((part.config for part in parts if part.config and set(_OF_THE_DAEMON) & set(part.document.data)), None)
    own = {} if main is None else {table: getattr(main, table) for table in _OF_THE_DAEMON}
    return Config(**own, servers=servers)
