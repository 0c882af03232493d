"""The process table: what /proc says about a process, with the start time that tells two owners of one pid apart."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from supervisord_mcp.runtimes.kernelfile import content

#: The environment variable that every process of a tree carries.
MARKER_VARIABLE = "SMCP_INSTANCE"
_MARKER = MARKER_VARIABLE.encode()


@dataclass(frozen=True, slots=True)
class Entry:
    """One process at the moment of reading; ``started`` is in clock ticks since boot."""

    pid: int
    ppid: int
    pgrp: int
    session: int
    state: str
    started: int

    @property
    def alive(self) -> bool:
        """Whether the process can still run code: a zombie cannot."""
        return self.state not in "ZXx"

    @property
    def identity(self) -> tuple[int, int]:
        """The pid with its start time: unlike the pid alone never used again."""
        return self.pid, self.started


def read_entry(pid: int) -> Entry | None:
    """Return what the table says about a pid, or None where there is no such process."""
    try:
        text = content(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name may hold blanks and parentheses, so the fields begin after the last one.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return Entry(
        pid, int(fields[1]), int(fields[2]), int(fields[3]), fields[0].decode("ascii", "replace"), int(fields[19])
    )


def entries() -> Iterator[Entry]:
    """Yield every process that can be seen."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (entry := read_entry(int(name))) is not None:
            yield entry


def environment(pid: int) -> bytes | None:
    """Return a process's initial environment, NUL between the variables; None where it cannot be read.

    It is empty for a zombie, a kernel thread, and for a moment in the middle of an execve. The kernel waits with it as
    long as the memory of the process is locked: see `markers`, which does not.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            return file.read(2 << 20)
    except OSError:
        return None


def markers_in(environment: bytes) -> tuple[str, ...]:
    """Return the markers in an environment: a program may have been given one more than its own."""
    variables = (variable.partition(b"=") for variable in environment.split(b"\0"))
    return tuple(value.decode("utf-8", "surrogateescape") for name, _, value in variables if name == _MARKER)


def children() -> list[int]:
    """Return the direct children of this process, of all its threads."""
    return children_of(os.getpid())


def children_of(pid: int) -> list[int]:
    """Return the direct children of a process, of all its threads; none where it has ended."""
    if not _tells_children():
        return [entry.pid for entry in entries() if entry.ppid == pid]
    threads: list[str] = []
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        threads = os.listdir(f"/proc/{pid}/task")
    for thread in threads:
        # The children of a thread that ends are taken over by another one.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, content(f"/proc/{pid}/task/{thread}/children").split())
    return found


@functools.cache
def _tells_children() -> bool:
    """Return whether the kernel has CONFIG_PROC_CHILDREN."""
    return os.path.exists("/proc/thread-self/children")


def descendants(top: int, known: Collection[int] = ()) -> list[int]:
    """Return a process and everything below it: all that is in a pid namespace, where ``top`` is its first process.

    What is below those that are known is left out.
    """
    found = [top]
    for pid in found:
        if pid not in known:
            found += children_of(pid)
    return found


def ancestors() -> frozenset[int]:
    """Return this process and everything above it: never part of a tree that may be ended."""
    above = {1, os.getpid()}
    entry = read_entry(os.getpid())
    while entry is not None and entry.ppid > 1 and entry.ppid not in above:
        above.add(entry.ppid)
        entry = read_entry(entry.ppid)
    return frozenset(above)
