"""A control group for each child, of version 2 or 1: limits of the whole tree, a kill that nothing escapes, events.

A group is named after the daemon that made it, by pid, start time and pid namespace, so that a later daemon knows whose
leftovers it may clear away: pids of another namespace say nothing, and its daemon may live. `memory.high` is not used:
a server that reached it would hardly run any more, and never end.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import time
from collections.abc import Iterator
from typing import Literal

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes import proctable
from supervisord_mcp.runtimes.accounting import GroupFigures
from supervisord_mcp.runtimes.hierarchy import LEAF, Hierarchy, detect, is_root, processes
from supervisord_mcp.runtimes.kernelfile import content
from supervisord_mcp.runtimes.limits import Limits
from supervisord_mcp.runtimes.tree import send

_PREFIX = "smcp"
_NAME = re.compile(rf"{_PREFIX}-(\d+)-(\d+)-n(\d+)-")
_PERIOD = 100_000
#: How long the processes of a dead daemon may take to end once they are killed.
_LEFTOVER_SECONDS = 2.0

_REMEDY = "Run the daemon where it may make control groups (systemd: Delegate=yes)."


class Group:
    """The group of one child, with a directory in each hierarchy that it needs. Made by `Groups.make`."""

    def __init__(self, version: int, name: str, directories: tuple[tuple[str, str], ...]) -> None:
        self.name = name
        self._version = version
        self._directories = dict(directories)
        self._places = tuple(dict.fromkeys(self._directories.values()))

    def attach(self, pid: int) -> None:
        """Put a process into the group, and with it all that it will start. Raise `IsolationError` if it is not."""
        for place in self._places:
            _write(f"{place}/cgroup.procs", str(pid))
            if pid not in processes(place):
                raise IsolationError(f"cgroup {place}: process {pid} is not in it", remedy=_REMEDY)

    def members(self) -> list[int]:
        """Return the processes that are in the group now."""
        return sorted({pid for place in self._places for pid in processes(place)})

    def held(self) -> list[int]:
        """Return the processes that are in the group now, as one of its directories has them: enough to measure.

        To end them, where nothing may be left over, `members` looks into every one.
        """
        return processes(self._places[0]) if self._places else []

    def kill(self) -> bool:
        """Kill every process of the group; return whether there was none."""
        if not self.members():
            return True
        for place in self._places:
            # The kernel's own way leaves no gap for a fork; it came with 5.14, and version 1 never got it.
            with contextlib.suppress(OSError):
                _put(f"{place}/cgroup.kill", "1")
                return False
        for pid in self.members():
            entry = proctable.read_entry(pid)
            # Read again, for a number may have changed hands before its start time was known.
            if entry is not None and pid in self.members():
                send(entry, signal.SIGKILL)
        return False

    def memory_kills(self) -> int:
        """Return how many processes were ended because the group reached its limit for memory."""
        return self._count("memory", "memory.events" if self._version == 2 else "memory.oom_control", "oom_kill")

    def refused_processes(self) -> int:
        """Return how often a new process was refused because of the limit for processes."""
        return self._count("pids", "pids.events", "max")

    def figures(self) -> GroupFigures:
        """Return what the group tells of the use of all that is in it."""
        # With version 2 every group tells of processors and of waiting, whatever it limits.
        place = self._places[0] if self._version == 2 else self._directories.get("cpu")
        told = {} if place is None else _numbers(f"{place}/cpu.stat")
        throttled = told.get("throttled_usec", 0) / 1e6 + told.get("throttled_time", 0) / 1e9
        pressed = place if self._version == 2 else None
        return GroupFigures(
            cpu=told["usage_usec"] / 1e6 if "usage_usec" in told else None,
            oom_kills=self.memory_kills() if "memory" in self._directories else None,
            refused=self.refused_processes() if "pids" in self._directories else None,
            throttled=throttled if "nr_throttled" in told else None,
            cpu_pressure=_pressure(pressed, "cpu"),
            memory_pressure=_pressure(pressed, "memory"),
            disk_pressure=_pressure(pressed, "io"),
        )

    def memory_event(self) -> int:
        """Return a descriptor that becomes readable when memory runs out in the group, -1 where there is no need.

        With version 2 the kernel ends the whole group, with version 1 only one process of it. The caller closes it.
        """
        place = self._directories.get("memory")
        if self._version == 2 or place is None:
            return -1
        event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            control = os.open(f"{place}/memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
            try:
                _put(f"{place}/cgroup.event_control", f"{event} {control}")
            finally:
                os.close(control)
        except OSError as error:
            os.close(event)
            raise _failure(place, error) from error
        return event

    def remove(self) -> bool:
        """Remove the group; return whether it is gone. A group that still has a process is not removed."""
        gone = [_remove(place) for place in self._places]
        return all(gone)

    def _count(self, controller: str, file: str, key: str) -> int:
        place = self._directories.get(controller)
        with contextlib.suppress(OSError, ValueError):
            if place is not None:
                words = _get(f"{place}/{file}").split()
                return int(dict(zip(words[::2], words[1::2], strict=False)).get(key, "0"))
        return 0


class Groups:
    """All groups of one daemon. Made by `prepare`; `controllers` are those that really work here."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy
        self._count = 0
        self._stuck: list[Group] = []

    @property
    def version(self) -> Literal[1, 2]:
        """The version of control groups, 1 or 2."""
        return self._hierarchy.version

    @property
    def hierarchy(self) -> Hierarchy:
        """Where the groups are made."""
        return self._hierarchy

    @property
    def controllers(self) -> frozenset[str]:
        """The controllers that limit something here."""
        return self._hierarchy.controllers

    def make(self, server: str, limits: Limits, controllers: frozenset[str]) -> Group:
        """Return a new group with the limits of some controllers. Raise `IsolationError` that names what failed."""
        self._stuck = [group for group in self._stuck if not group.remove()]
        self._count += 1
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", server)[:64]
        name = f"{_own_prefix()}{self._count}-{plain}"
        chosen = tuple((c, f"{path}/{name}") for c, path in self._hierarchy.directories if c in controllers)
        group = Group(self._hierarchy.version, name, chosen)
        try:
            for place in dict.fromkeys(path for _, path in chosen):
                _make(place)
            for controller, file, value in settings(self._hierarchy.version, limits):
                if controller in controllers:
                    _set(f"{dict(chosen)[controller]}/{file}", value, optional=file in _OPTIONAL)
        except BaseException:
            self.drop(group)
            raise
        return group

    def drop(self, group: Group) -> None:
        """Remove a group; one whose last process has not quite gone yet is removed later."""
        if not group.remove():
            self._stuck.append(group)

    def close(self) -> None:
        """Remove what can be removed of groups whose child has ended."""
        self._stuck = [group for group in self._stuck if not group.remove()]


#: Settings that a kernel may lack: without swap there is nothing to be kept from it.
_OPTIONAL = frozenset({"memory.swap.max", "memory.memsw.limit_in_bytes", "memory.oom.group"})


def settings(version: int, limits: Limits) -> Iterator[tuple[str, str, str]]:
    """Yield the controller, the file and the value of every setting that limits become, in the order of writing."""
    if limits.memory is not None:
        memory = str(limits.memory)
        if version == 2:
            yield from (("memory", "memory.max", memory), ("memory", "memory.swap.max", "0"))
            yield "memory", "memory.oom.group", "1"
        else:
            yield "memory", "memory.limit_in_bytes", memory
            yield "memory", "memory.memsw.limit_in_bytes", memory
    if limits.pids is not None:
        yield "pids", "pids.max", str(limits.pids)
    if limits.cpu is not None:
        quota = max(1000, round(limits.cpu * _PERIOD))
        if version == 2:
            yield "cpu", "cpu.max", f"{quota} {_PERIOD}"
        else:
            yield from (("cpu", "cpu.cfs_period_us", str(_PERIOD)), ("cpu", "cpu.cfs_quota_us", str(quota)))


def prepare(hierarchy: Hierarchy | None = None) -> Groups | None:
    """Make ready for groups: clear away those of dead daemons, and try what works. None where nothing does.

    With version 2 this process moves into a group of its own first; call it before children are started.
    """
    found = hierarchy or detect()
    if found is None:
        return None
    clear_leftovers(found)
    if found.version == 2:
        with contextlib.suppress(OSError):
            _settle(found)
    working = frozenset(name for name in found.controllers if _works(found.only(frozenset({name}))))
    return Groups(found.only(working)) if working else None


def clear_leftovers(hierarchy: Hierarchy) -> int:
    """End and remove the groups of daemons of this pid namespace that are dead; return how many groups are gone."""
    here = _pid_namespace()
    left: dict[str, list[tuple[str, str]]] = {}
    for number, place in enumerate(hierarchy.places):
        with contextlib.suppress(OSError):
            for name in os.listdir(place):
                match = _NAME.match(name)
                if match and int(match[3]) == here and not _is_alive(int(match[1]), int(match[2])):
                    left.setdefault(name, []).append((str(number), f"{place}/{name}"))
    groups = [Group(hierarchy.version, name, tuple(places)) for name, places in left.items()]
    deadline = time.monotonic() + _LEFTOVER_SECONDS
    removed = 0
    while groups:
        for group in groups:
            group.kill()
        remaining = [group for group in groups if not group.remove()]
        removed += len(groups) - len(remaining)
        groups = remaining
        if time.monotonic() >= deadline:
            break
        if groups:
            time.sleep(0.005)
    return removed


def _settle(hierarchy: Hierarchy) -> None:
    (directory,) = hierarchy.places
    if not is_root(directory):
        leaf = f"{directory}/{LEAF}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(leaf)
        _put(f"{leaf}/cgroup.procs", str(os.getpid()))
    for name in sorted(hierarchy.controllers):
        with contextlib.suppress(OSError):
            _put(f"{directory}/cgroup.subtree_control", f"+{name}")


def _works(hierarchy: Hierarchy) -> bool:
    """Whether a group with a limit can be made: only a trial tells whether a directory is really ours."""
    groups = Groups(hierarchy)
    try:
        groups.drop(groups.make("trial", Limits(cpu=1.0), hierarchy.controllers))
    except IsolationError:
        return False
    return True


def _own_prefix() -> str:
    entry = proctable.read_entry(os.getpid())
    return f"{_PREFIX}-{os.getpid()}-{entry.started if entry else 0}-n{_pid_namespace()}-"


def _pid_namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _is_alive(pid: int, started: int) -> bool:
    entry = proctable.read_entry(pid)
    return entry is not None and entry.alive and entry.started == started


def _set(path: str, value: str, *, optional: bool) -> None:
    """Write a setting and read it back."""
    if optional and not os.path.exists(path):
        return
    _write(path, value)
    try:
        held = _get(path).split()
    except OSError as error:
        raise _failure(path, error) from error
    if not all(map(_holds, held, value.split())) or len(held) != len(value.split()):
        raise IsolationError(f"cgroup {path}: the kernel holds {' '.join(held)} instead of {value}")


def _holds(held: str, wanted: str) -> bool:
    # Memory is counted in pages, so a limit is rounded down to whole ones.
    page = os.sysconf("SC_PAGE_SIZE")
    return held == wanted or (held.isdigit() and int(wanted) // page * page == int(held))


def _write(path: str, value: str) -> None:
    try:
        _put(path, value)
    except OSError as error:
        raise _failure(path, error) from error


def _failure(path: str, error: OSError) -> IsolationError:
    return IsolationError(
        f"cgroup {path}: {error.strerror}",
        remedy=_REMEDY,
    )


def _put(path: str, value: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def _get(path: str) -> str:
    return content(path).decode("ascii")


def _make(place: str) -> None:
    try:
        os.mkdir(place, 0o755)
    except OSError as error:
        raise _failure(place, error) from error


def _remove(place: str) -> bool:
    try:
        os.rmdir(place)
    except OSError as error:
        return error.errno == errno.ENOENT
    return True


def _numbers(path: str) -> dict[str, int]:
    """Return the numbers of a file with a name and a number on each line."""
    with contextlib.suppress(OSError, ValueError):
        words = _get(path).split()
        return dict(zip(words[::2], map(int, words[1::2]), strict=True))
    return {}


def _pressure(place: str | None, what: str) -> float | None:
    """Return the percentage of the last ten seconds in which some process waited; None if the kernel does not say."""
    if place is None:
        return None
    with contextlib.suppress(OSError, ValueError):
        for word in _get(f"{place}/{what}.pressure").partition("\n")[0].split():
            name, _, value = word.partition("=")
            if name == "avg10":
                return float(value)
    return None
