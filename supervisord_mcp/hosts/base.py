"""What a host is to us: where its files are, and the dialect in which they name servers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.jsonc import Json
from supervisord_mcp.hosts.syntax import Syntax
from supervisord_mcp.hosts.variables import Input, Language, plain

#: Stands for every key, or every position, at its place in a path.
EACH = "*"


class Platform(StrEnum):
    """The systems on which hosts keep their files in different places."""

    LINUX = "linux"
    MACOS = "macos"
    WINDOWS = "windows"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where to look. ``windows_home`` is the home directory on the Windows side of a machine that runs in WSL."""

    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    platform: Platform = Platform.LINUX
    project: Path | None = None
    windows_home: Path | None = None

    @property
    def config(self) -> Path:
        """Where programs from the world of Unix keep their files, on every system: ``~/.config``."""
        return self._variable("XDG_CONFIG_HOME") or self.home / ".config"

    @property
    def data(self) -> Path:
        """Where they keep data: ``~/.local/share``."""
        return self._variable("XDG_DATA_HOME") or self.home / ".local" / "share"

    @property
    def app_data(self) -> Path:
        """Where applications of the system keep their files (``appData`` of Electron)."""
        if self.platform is Platform.MACOS:
            return self.home / "Library" / "Application Support"
        if self.platform is Platform.WINDOWS:
            return self._variable("APPDATA") or self.home / "AppData" / "Roaming"
        return self.config

    @property
    def local_app_data(self) -> Path:
        """The same, but on Windows where files stay on one machine."""
        if self.platform is Platform.WINDOWS:
            return self._variable("LOCALAPPDATA") or self.home / "AppData" / "Local"
        return self.app_data

    def on_windows(self) -> Surroundings | None:
        """Return what is on the Windows side, or None where there is none."""
        if self.windows_home is None:
            return None
        return Surroundings(self.windows_home, platform=Platform.WINDOWS)

    def _variable(self, name: str) -> Path | None:
        value = self.environ.get(name, "")
        # The rule of XDG: a relative path counts as unset.
        return Path(value) if Path(value).is_absolute() else None


@dataclass(frozen=True, slots=True)
class Shape:
    """Where an entry keeps what; paths are inside of the entry. Without ``args`` the command is a list of words."""

    command: KeyPath = ("command",)
    args: KeyPath | None = ("args",)
    env: KeyPath = ("env",)
    cwd: KeyPath | None = ("cwd",)
    env_file: KeyPath | None = None
    #: Names of variables that the host hands on from its own environment.
    inherited: KeyPath | None = None
    #: Names of variables whose values the host keeps for itself.
    kept: KeyPath | None = None


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a file names servers.

    ``tables`` are the places of the tables of servers; in a list of servers, ``name`` is the key of their names. The
    first of ``shapes`` whose command is there counts. An entry is off where a key of ``disabled`` has its value. Those
    of another ``type`` than a process or an URL (``ignored``) are no servers of ours.
    """

    syntax: Syntax = field(default_factory=Json)
    tables: tuple[KeyPath, ...] = (("mcpServers",),)
    shapes: tuple[Shape, ...] = (Shape(),)
    urls: tuple[KeyPath, ...] = (("url",), ("serverUrl",), ("httpUrl",))
    disabled: tuple[tuple[str, Any], ...] = (("disabled", True),)
    variables: Language = plain
    #: Fields in which the host knows variables.
    expanded: frozenset[str] = frozenset({"command", "args", "env", "cwd", "env_file"})
    name: str | None = None
    ignored: frozenset[str] = frozenset()
    #: Keys that say that an entry without a command takes it from somewhere else: an extension, a catalogue.
    elsewhere: frozenset[str] = frozenset()
    #: Whether the whole file is the table of servers where it has none of the tables.
    bare: bool = False
    #: Whether an entry with both a command and an URL is reached by the URL.
    url_wins: bool = False
    #: Given the whole file, what the host would ask for.
    inputs: Callable[[Any], Mapping[str, Input]] | None = None
    #: Given the whole file and the path of an entry, whether something else in the file switches it off.
    switched_off: Callable[[Any, KeyPath], bool] | None = None

    @property
    def project(self) -> str:
        """What stands in an argument for the directory that the host has open; empty where nothing does."""
        return self.variables.project if "args" in self.expanded else ""


@dataclass(frozen=True, slots=True)
class Place:
    """Paths of one kind of file, which ``label`` tells from the others; ``dialect`` is its own if it has one.

    ``pattern`` says in the reference where files are that can only be looked for, on Linux.
    """

    paths: Callable[[Surroundings], Iterable[Path]]
    scope: Scope = Scope.USER
    label: str = ""
    dialect: Dialect | None = None
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Host:
    """One program with MCP servers. ``sources`` say where its files and its dialect are documented."""

    key: str
    title: str
    dialect: Dialect
    places: tuple[Place, ...]
    sources: tuple[str, ...]

    def files(self, where: Surroundings) -> tuple[HostFile, ...]:
        """Return every file that the host would read, those too that do not exist."""
        found: dict[Path, HostFile] = {}
        for file in self._files(where, foreign=False):
            # Who works in the home directory has a file of the person where one of the project would be.
            found.setdefault(file.path, file)
        if windows := where.on_windows():
            for file in self._files(windows, foreign=True):
                found.setdefault(file.path, file)
        return tuple(found.values())

    def installed(self, where: Surroundings) -> bool:
        """Return whether the host has left traces: a file of its own, or the directory for one."""
        homes = {where.home, where.config, where.data, where.app_data}
        users = [file for file in self.files(where) if file.scope is Scope.USER and not file.foreign]
        return any(
            os.path.isfile(file.path) or (file.path.parent not in homes and os.path.isdir(file.path.parent))
            for file in users
        )

    def _files(self, where: Surroundings, *, foreign: bool) -> Iterator[HostFile]:
        for place in self.places:
            project = where.project if place.scope is Scope.PROJECT else None
            for path in place.paths(where):
                yield HostFile(self, path, place.scope, project, foreign, place.label, place.dialect or self.dialect)


@dataclass(frozen=True, slots=True)
class HostFile:
    """One file of a host. A ``foreign`` one is of a program on the Windows side, which cannot start our shim."""

    host: Host
    path: Path
    scope: Scope
    project: Path | None
    foreign: bool
    label: str
    dialect: Dialect


def in_home(*names: str) -> Callable[[Surroundings], Iterable[Path]]:
    """Return where a file in the home directory is."""
    return lambda where: (where.home.joinpath(name) for name in names)


def in_config(*names: str) -> Callable[[Surroundings], Iterable[Path]]:
    """Return where a file in ``~/.config`` is, on every system."""
    return lambda where: (where.config.joinpath(name) for name in names)


def in_app_data(*names: str) -> Callable[[Surroundings], Iterable[Path]]:
    """Return where a file in the system's directory for applications is."""
    return lambda where: (where.app_data.joinpath(name) for name in names)


def in_profiles(pattern: str, *names: str) -> Callable[[Surroundings], Iterable[Path]]:
    """Return where files in the directories are that exist and match a pattern, below that for applications."""

    def paths(where: Surroundings) -> Iterable[Path]:
        for directory in sorted(where.app_data.glob(pattern)):
            yield from (directory / name for name in names)

    return paths


def in_project_directory(directory: str, *patterns: str) -> Callable[[Surroundings], Iterable[Path]]:
    """Return the files that exist in a directory of the project and match a pattern."""

    def paths(where: Surroundings) -> Iterable[Path]:
        if where.project is not None:
            for pattern in patterns:
                yield from sorted((where.project / directory).glob(pattern))

    return paths


def in_home_directory(directory: str, *patterns: str) -> Callable[[Surroundings], Iterable[Path]]:
    """Return the files that exist in a directory of the home directory and match a pattern."""

    def paths(where: Surroundings) -> Iterable[Path]:
        for pattern in patterns:
            yield from sorted((where.home / directory).glob(pattern))

    return paths


def in_project(*names: str) -> Callable[[Surroundings], Iterable[Path]]:
    """Return where a file in the project is; nowhere without a project."""
    return lambda where: (where.project.joinpath(name) for name in names) if where.project is not None else ()


def in_variable(variable: str, otherwise: str, *names: str) -> Callable[[Surroundings], Iterable[Path]]:
    """Return where files in a directory are that a variable moves, else in a directory of the home directory."""

    def paths(where: Surroundings) -> Iterable[Path]:
        base = where.home / (where.environ.get(variable) or otherwise)
        return (base / name for name in names)

    return paths
