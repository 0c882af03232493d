"""What is left behind: processes found by marks in their environment or command line, fd tables, and a leak guard."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from supervisord_mcp.runtimes import orphans

#: The variable whose value marks every process of one test.
MARKER = "MCPT_RUN"


@dataclass(frozen=True, slots=True)
class Process:
    """One living process as /proc shows it (a zombie has no environment, so it is found by its parent only)."""

    pid: int
    state: str
    ppid: int
    pgid: int
    sid: int
    cmdline: str
    fds: Mapping[int, str] = field(repr=False, default_factory=dict)


def look(pid: int) -> Process | None:
    """Return what /proc says of a process, None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        cmdline = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, ppid, pgid, sid = stat.rsplit(")", 1)[1].split()[:4]
    return Process(pid, state, int(ppid), int(pgid), int(sid), cmdline.strip()[:300], fd_table(pid))


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    found = look(pid)
    return found is not None and found.state not in "ZX"


def fd_table(pid: int | str = "self") -> dict[int, str]:
    """Return the open file descriptors of a process and what they are; empty when it is gone."""
    found = {}
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return {}
    for name in names:
        try:
            found[int(name)] = os.readlink(f"{folder}/{name}")
        except OSError:
            continue
    return found


def children(pid: int | None = None) -> list[int]:
    """Return the direct children of a process (ours, unless named), zombies too."""
    wanted = os.getpid() if pid is None else pid
    return [found.pid for found in map(look, _pids()) if found and found.ppid == wanted]


def descendants(pid: int) -> list[int]:
    """Return every process below this one."""
    parents = {found.pid: found.ppid for found in map(look, _pids()) if found}
    below: list[int] = []
    layer = {pid}
    while layer := {child for child, parent in parents.items() if parent in layer}:
        below.extend(layer)
    return below


def find(marks: Iterable[str]) -> list[Process]:
    """Return every process (but ours) with one of the marks in its environment or command line."""
    wanted = [mark.encode() for mark in marks]
    found = []
    for pid in _pids():
        if pid == os.getpid():
            continue
        try:
            where = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if any(mark in where for mark in wanted) and (process := look(pid)):
            found.append(process)
    return found


async def nothing_left(marks: Iterable[str], timeout: float = 5.0) -> None:
    """Return once no process with a mark is left. Raise with the list after the time-out."""
    wanted = list(marks)
    end = time.monotonic() + timeout
    while left := find(wanted):
        if time.monotonic() > end:
            raise AssertionError("processes are left:\n" + "\n".join(map(str, left)))
        await asyncio.sleep(0.02)


def kill_all(marks: Iterable[str]) -> list[Process]:
    """Kill every process with a mark, and return them."""
    found = find(marks)
    for process in found:
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return found


def rss(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def private(pid: int) -> int:
    """Return the memory in bytes that only this process has."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private"))


class LeakGuard:
    """Fail when the block leaves open fds, children, files in the given folders, or unclosed resources."""

    def __init__(self, *folders: Path) -> None:
        self.folders = folders

    def __enter__(self) -> Self:
        self._warnings = warnings.catch_warnings(record=True)
        self._seen = self._warnings.__enter__()
        warnings.simplefilter("always", ResourceWarning)
        self._before = self._look()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        gc.collect()
        seen = [str(warning.message) for warning in self._seen or [] if issubclass(warning.category, ResourceWarning)]
        self._warnings.__exit__(kind, error, trace)
        if error is not None:
            return
        after = self._settled()
        more = {what: sorted(after[what] - self._before[what]) for what in after if after[what] - self._before[what]}
        if more or seen:
            raise AssertionError(f"left behind: {more} {seen}")

    def _settled(self) -> dict[str, set[str]]:
        """Return what is there once those that were adopted have ended and are reaped, which takes them a moment."""
        limit = time.monotonic() + 2.0
        while (after := self._look())["children"] - self._before["children"] and time.monotonic() < limit:
            orphans.reap_strangers()
            time.sleep(0.01)
        return after

    def _look(self) -> dict[str, set[str]]:
        pipes = {f"{fd} {what}" for fd, what in fd_table().items() if not what.startswith("/proc/")}
        files = {str(path) for folder in self.folders for path in folder.rglob("*")}
        return {"fds": pipes, "children": {str(look(pid)) for pid in children()}, "files": files}


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
