"""What a child may use at most, and which means of this machine enforces each limit: pure decisions, no I/O.

Address space is never limited: Node and everything with WebAssembly reserve far more of it than they use. The number of
processes is limited by the kernel's own count for a user only where the child has a user namespace of its own; anywhere
else all processes of the person would count.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from supervisord_mcp.errors import IsolationError

Means = Literal["cgroup v2", "cgroup v1", "rlimit", "tmpfs", "memory limit", "watcher"]
#: The controllers that limits are made of; a machine may have some of them only.
CONTROLLERS = ("memory", "pids", "cpu")

#: How the cause of an end names the limits.
_CAUSES = {"memory": "memory", "process": "pids", "processor": "cpu", "file size": "fsize", "open files": "nofile"}
_CAUSE = re.compile(rf"({'|'.join(_CAUSES)}) limit ")
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
#: A watcher looks only now and then, so a process without a cgroup may not get more private memory than this many
#: times the limit; less would end servers that reserve memory and never touch it.
_BACKSTOP = 2
#: Far more signals that wait, and bytes of messages, than a server needs, and far less than a user may have.
_MOST_SIGNALS, _MOST_MESSAGES = 4096, 64 * _KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """What one child may use; None is no limit. Sizes are in bytes, ``cpu`` is in processors.

    ``pids`` counts threads too: a small Node server has twelve, and npx runs two of them. ``tmp``, ``shm`` and ``home``
    are the private places of a sandbox.
    """

    memory: int | None = _GIB
    pids: int | None = 128
    cpu: float | None = None
    nofile: int | None = 1024
    fsize: int | None = 2 * _GIB
    tmp: int | None = 256 * _MIB
    shm: int | None = 64 * _MIB
    home: int | None = 256 * _MIB
    core: int | None = 0


#: What a child gets where nothing else is said.
DEFAULTS = Limits()
#: No limit at all, for what the daemon runs for itself.
UNLIMITED = Limits(None, None, None, None, None, None, None, None, None)


@dataclass(frozen=True, slots=True)
class Available:
    """The means that there are for a child: cgroups of a version with some controllers, and what its runtime gives it.

    ``own_users``: the kernel counts the processes of its user for it alone. ``places``: it has private places in
    memory; ``sized``: their size can be limited.
    """

    version: Literal[1, 2] | None = None
    controllers: frozenset[str] = frozenset()
    own_users: bool = False
    places: bool = False
    sized: bool = False

    def group(self, controller: str) -> Means | None:
        """Return the kind of cgroup that has a controller, or None."""
        if controller not in self.controllers or self.version is None:
            return None
        return "cgroup v2" if self.version == 2 else "cgroup v1"


@dataclass(frozen=True, slots=True)
class Enforcement:
    """One limit as a person reads it, and what enforces it."""

    limit: str
    value: str
    means: Means

    @property
    def name(self) -> str:
        """The limit with its value."""
        return f"{self.limit} {self.value}"

    def __str__(self) -> str:
        return f"{self.name} by {self.means}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done to enforce the limits of a child.

    ``rlimits`` are numbers of the module `resource` with their values. ``grouped`` are the controllers that a cgroup of
    its own must have, ``watched`` the limits that only a watcher keeps.
    """

    limits: Limits
    enforcements: tuple[Enforcement, ...]
    rlimits: tuple[tuple[int, int], ...]
    grouped: frozenset[str]
    watched: frozenset[str]

    @property
    def report(self) -> tuple[str, ...]:
        """What a person is told, a line for each limit."""
        return tuple(map(str, self.enforcements))


def plan(limits: Limits, available: Available) -> Plan:
    """Given the limits of a child and the means that there are, return what enforces each of them.

    Raise `IsolationError` for a limit of a private place that nothing can keep.
    """
    found = tuple(_enforcements(limits, available))
    groups = ("cgroup v2", "cgroup v1")
    grouped = frozenset(e.limit for e in found if e.means in groups)
    if grouped and available.group("cpu"):
        # A group has the share of one process, however many there are in it: the daemon and the neighbours go on.
        grouped |= {"cpu"}
    return Plan(
        limits,
        found,
        tuple(_rlimits(limits, {e.limit: e.means for e in found}, own_users=available.own_users)),
        grouped,
        frozenset(e.limit for e in found if e.means == "watcher"),
    )


def counts_for_namespaces(release: str) -> bool:
    """Given the release of the kernel, return whether a user namespace has its own count of processes (since 5.14)."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return match is not None and (int(match[1]), int(match[2])) >= (5, 14)


def breached(cause: str) -> str:
    """Given why a child ended, return the limit that it exceeded under its name in the configuration, or nothing."""
    match = _CAUSE.match(cause)
    return _CAUSES[match[1]] if match is not None else ""


def excess(limit: str, value: str) -> str:
    """Given a limit under its name in the configuration and its value, return the cause of who ends for it."""
    return f"{next(words for words, name in _CAUSES.items() if name == limit)} limit {value}"


def amount_text(limit: str, value: float) -> str:
    """Return the value of a limit as it would be written in the configuration."""
    return size_text(int(value)) if limit == "memory" else f"{value:g}"


def size_text(size: int) -> str:
    """Return a size as it would be written in the configuration."""
    for unit, letter in ((_GIB, "G"), (_MIB, "M"), (_KIB, "K")):
        if size and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


def _enforcements(limits: Limits, available: Available) -> Iterator[Enforcement]:
    if limits.memory is not None:
        yield Enforcement("memory", size_text(limits.memory), available.group("memory") or "watcher")
    if limits.pids is not None:
        kernel: Means = "rlimit" if available.own_users else "watcher"
        yield Enforcement("pids", str(limits.pids), available.group("pids") or kernel)
    if limits.cpu is not None:
        # Over a minute: the daemon measures what its servers use anyway.
        yield Enforcement("cpu", f"{limits.cpu:g}", available.group("cpu") or "watcher")
    if limits.nofile is not None:
        yield Enforcement("nofile", str(limits.nofile), "rlimit")
    for name, size in (("fsize", limits.fsize), ("core", limits.core)):
        if size is not None:
            yield Enforcement(name, size_text(size), "rlimit")
    if available.places:
        for name, size in (("tmp", limits.tmp), ("shm", limits.shm), ("home", limits.home)):
            if size is not None:
                yield Enforcement(name, size_text(size), _place(name, limits, available))


def _place(name: str, limits: Limits, available: Available) -> Means:
    if available.sized:
        return "tmpfs"
    if limits.memory is not None and available.group("memory"):
        # What is written there counts as memory of the group, so that is its bound.
        return "memory limit"
    raise IsolationError(
        f"limit {name}: the installed bubblewrap cannot limit the size of a directory in memory (it has no --size)",
        remedy=f'Update bubblewrap to 0.8 or newer, or do without the limit: limits = {{ {name} = "off" }}',
    )


def _rlimits(limits: Limits, means: dict[str, Means], *, own_users: bool) -> Iterator[tuple[int, int]]:
    if means.get("pids") == "rlimit" and limits.pids is not None:
        yield resource.RLIMIT_NPROC, limits.pids
    if means.get("memory") == "watcher" and limits.memory is not None:
        yield resource.RLIMIT_DATA, _BACKSTOP * limits.memory
    if limits.memory is not None:
        # Nothing a server does needs memory that cannot be swapped out.
        yield resource.RLIMIT_MEMLOCK, 0
    if limits.memory is not None and own_users:
        # The kernel counts them in its own namespace and for the whole user: one server is to leave some to the others.
        yield from ((resource.RLIMIT_SIGPENDING, _MOST_SIGNALS), (resource.RLIMIT_MSGQUEUE, _MOST_MESSAGES))
    for number, value in (
        (resource.RLIMIT_NOFILE, limits.nofile),
        (resource.RLIMIT_FSIZE, limits.fsize),
        (resource.RLIMIT_CORE, limits.core),
    ):
        if value is not None:
            yield number, value
