"""Where this process may make control groups: found by looking only, nothing is changed."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal

from supervisord_mcp.runtimes.kernelfile import content
from supervisord_mcp.runtimes.limits import CONTROLLERS

#: The group that a daemon moves itself to: with version 2 a group that hands out controllers may hold no process.
LEAF = "supervisor"
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The directories below which groups can be made, one for each controller; version 2 has one for all of them."""

    version: Literal[1, 2]
    directories: tuple[tuple[str, str], ...]

    @property
    def controllers(self) -> frozenset[str]:
        """The controllers that there are."""
        return frozenset(name for name, _ in self.directories)

    @property
    def places(self) -> tuple[str, ...]:
        """The directories, each once: controllers of version 1 may be mounted together."""
        return tuple(dict.fromkeys(path for _, path in self.directories))

    def only(self, controllers: frozenset[str]) -> Hierarchy:
        """Return the same without all other controllers."""
        return Hierarchy(self.version, tuple(d for d in self.directories if d[0] in controllers))


@dataclass(frozen=True, slots=True)
class _Mount:
    """A mounted hierarchy: the part of it that is visible, and where."""

    root: str
    point: str
    version: Literal[1, 2]
    options: frozenset[str]


def detect(process: str = "/proc/self") -> Hierarchy | None:
    """Return where this process may make groups, version 2 before version 1; None where it may not."""
    try:
        own = _own_paths(_read(f"{process}/cgroup"))
        mounts = _mounts(_read(f"{process}/mountinfo"))
    except OSError:
        return None
    return _version_2(own, mounts) or _version_1(own, mounts)


def group_of(pid: int) -> Hierarchy | None:
    """Return the group that somebody else put a process into, to be read; None where it cannot be seen."""
    try:
        own = _own_paths(_read(f"/proc/{pid}/cgroup"))
        mounts = _mounts(_read("/proc/self/mountinfo"))
    except OSError:
        return None
    for mount in mounts:
        directory = _below(mount, own.get("")) if mount.version == 2 else None
        if directory is not None and os.path.exists(f"{directory}/memory.current"):
            return Hierarchy(2, tuple((name, directory) for name in CONTROLLERS))
    places = [(name, _below(mount, own.get(name))) for name in CONTROLLERS for mount in mounts if name in mount.options]
    found = tuple((name, place) for name, place in places if place is not None and os.path.isdir(place))
    return Hierarchy(1, found) if found else None


def is_root(directory: str) -> bool:
    """Whether a directory of version 2 is the root of all groups, for which the rule about processes does not hold."""
    return not os.path.exists(f"{directory}/cgroup.type")


def processes(directory: str) -> list[int]:
    """Return the processes of a group itself; those of another pid namespace are not among them."""
    try:
        return [int(word) for word in _read(f"{directory}/cgroup.procs").split() if word != "0"]
    except OSError:
        return []


def _version_2(own: dict[str, str], mounts: list[_Mount]) -> Hierarchy | None:
    for mount in mounts:
        directory = _below(mount, own.get("")) if mount.version == 2 else None
        if directory is None:
            continue
        # A daemon that was started by one that is dead, or by its group's other processes, finds itself in the leaf.
        if os.path.basename(directory) == LEAF and _is_delegated(os.path.dirname(directory)):
            directory = os.path.dirname(directory)
        if _is_delegated(directory):
            there = _read(f"{directory}/cgroup.controllers").split()
            found = tuple((name, directory) for name in CONTROLLERS if name in there)
            if found:
                return Hierarchy(2, found)
    return None


def _is_delegated(directory: str) -> bool:
    files = ("cgroup.controllers", "cgroup.procs", "cgroup.subtree_control")
    if not all(os.path.exists(f"{directory}/{name}") for name in files):
        return False
    writable = (directory, *(f"{directory}/{name}" for name in files[1:]))
    if not all(os.access(path, os.W_OK) for path in writable) or _is_kept(directory):
        return False
    # Processes of somebody else would have to be moved out of the way, and they are not ours to move.
    return is_root(directory) or set(processes(directory)) <= {os.getpid()}


def _is_kept(directory: str) -> bool:
    """Whether systemd did not delegate the group of a unit: to root it tells, and root may write there all the same.

    It would end the whole unit, and this process with it, for the memory of one child.
    """
    try:
        marks = {name.partition(".")[2] for name in os.listxattr(directory)} if os.geteuid() == 0 else set()
    except OSError:
        return False
    return "invocation_id" in marks and "delegate" not in marks


def _version_1(own: dict[str, str], mounts: list[_Mount]) -> Hierarchy | None:
    found = []
    for name in CONTROLLERS:
        for mount in mounts:
            if mount.version == 1 and name in mount.options:
                directory = _below(mount, own.get(name))
                if directory is not None and os.access(directory, os.W_OK | os.X_OK):
                    found.append((name, directory))
                    break
    return Hierarchy(1, tuple(found)) if found else None


def _below(mount: _Mount, own: str | None) -> str | None:
    """Return the directory of our own group in a mount that may show only a part of the hierarchy."""
    if own is None or own.startswith("/.."):
        return None
    relative = os.path.relpath(own, mount.root)
    if relative == ".." or relative.startswith("../"):
        return None
    return os.path.normpath(os.path.join(mount.point, relative))


def _own_paths(text: str) -> dict[str, str]:
    """Given /proc/PID/cgroup, return the path of each controller; that of version 2 is under the empty name."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        paths |= dict.fromkeys(names.split(","), path)
    return paths


def _mounts(text: str) -> list[_Mount]:
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        words, kind = before.split(" "), after.split(" ")
        if len(words) < 6 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        version: Literal[1, 2] = 2 if kind[0] == "cgroup2" else 1
        mounts.append(_Mount(_plain(words[3]), _plain(words[4]), version, frozenset(kind[2].split(","))))
    return mounts


def _plain(path: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), path)


def _read(path: str) -> str:
    return os.fsdecode(content(path))
