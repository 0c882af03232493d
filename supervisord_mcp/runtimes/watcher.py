"""Limits of a tree where no cgroup keeps them: its memory and its processes, looked at more often the nearer they are.

Resident memory counts a page once for each process that maps it, so it is never less than what the tree really holds.
As long as it is below the limit nothing dearer is read; beyond it the shared pages are counted by their share. What is
not mapped (a memfd, the content of pipes) is not seen: only a cgroup counts that.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from supervisord_mcp.runtimes.kernelfile import content
from supervisord_mcp.runtimes.limits import size_text

#: How fast a tree is taken to grow at most; a pause is never longer than what is left at this speed.
_BYTES_PER_SECOND = 1 << 30
_PROCESSES_PER_SECOND = 2000
_PAUSES = (0.02, 1.0)
#: A tree that came this near to its limit of processes was most likely refused one.
_NEARLY = 3
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is watched; ``kept`` tells for processes that something else refuses new ones: they are only noted."""

    memory: int | None = None
    pids: int | None = None
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """What a tree held at one moment: bytes of memory, and threads of all its processes."""

    memory: int
    pids: int


def excess(sample: Sample, bounds: Bounds) -> str:
    """Return which limit a tree has exceeded as the words a person reads, or nothing."""
    if bounds.memory is not None and sample.memory > bounds.memory:
        return f"memory limit {size_text(bounds.memory)}"
    if bounds.pids is not None and not bounds.kept and sample.pids > bounds.pids:
        return f"process limit {bounds.pids}"
    return ""


def pause(sample: Sample, bounds: Bounds) -> float:
    """Return for how many seconds a tree need not be looked at."""
    least, most = _PAUSES
    waits = [most]
    if bounds.memory is not None:
        waits.append((bounds.memory - sample.memory) / _BYTES_PER_SECOND)
    if bounds.pids is not None and not bounds.kept:
        waits.append((bounds.pids - sample.pids) / _PROCESSES_PER_SECOND)
    return max(least, min(waits))


def take(pids: Iterable[int], bounds: Bounds) -> Sample:
    """Return what some processes hold together; the shares of common pages are told apart only near the limit."""
    found = list(pids)
    threads = sum(map(_threads, found)) if bounds.pids is not None else len(found)
    resident = sum(map(_resident, found)) if bounds.memory is not None else 0
    if bounds.memory is not None and resident > bounds.memory:
        resident = sum(map(_share, found))
    return Sample(resident, threads)


class Watcher:
    """Looks at one tree again and again; `start` begins, ``exceeded`` is called once, with the name of the limit."""

    def __init__(self, bounds: Bounds, pids: Callable[[], Iterable[int]], exceeded: Callable[[str], None]) -> None:
        #: Whether the tree was seen so near to its limit of processes that it cannot start another.
        self.crowded = False
        self._bounds = bounds
        self._pids = pids
        self._exceeded = exceeded
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look now, and again until `stop`."""
        sample = take(self._pids(), self._bounds)
        if self._bounds.pids is not None and sample.pids > self._bounds.pids - _NEARLY:
            self.crowded = True
        if reason := excess(sample, self._bounds):
            self.stop()
            self._exceeded(reason)
        else:
            self._timer = self._loop.call_later(pause(sample, self._bounds), self.start)

    def stop(self) -> None:
        """Look no more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _resident(pid: int) -> int:
    words = _words(f"/proc/{pid}/statm")
    return int(words[1]) * _PAGE if len(words) > 1 else 0


def _share(pid: int) -> int:
    """Return what a process holds, its part of shared pages only; all of them where it hides its memory from us."""
    try:
        for line in content(f"/proc/{pid}/smaps_rollup").splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return _resident(pid)


def _threads(pid: int) -> int:
    text = b" ".join(_words(f"/proc/{pid}/stat"))
    fields = text[text.rfind(b")") + 2 :].split()
    return int(fields[17]) if len(fields) > 17 else 0


def _words(path: str) -> list[bytes]:
    with contextlib.suppress(OSError):
        return content(path).split()
    return []
