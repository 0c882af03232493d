"""What the whole tree of a child uses, at one moment: the same figures from every runtime, and who reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a tree. ``cpu`` is in seconds, with that of its children that ended; sizes are in bytes.

    ``memory`` is its PSS: its own pages, and of each that it shares the part that falls to it.
    """

    pid: int
    parent: int
    name: str
    cpu: float
    memory: int
    resident: int
    threads: int
    files: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What a tree has used since it was started, and what it holds now.

    ``cpu`` is in seconds, of processes that ended too; it never goes down. ``memory`` is the PSS of all processes,
    ``private`` the part of it that nobody shares, ``resident`` their RSS (shared pages count once for each), ``swap``
    what is swapped out: bytes. ``read`` and ``written`` are bytes that went to and came from disks; ``sent`` and
    ``received`` those of the network, None where nobody counts them. ``most_files`` is how many files the process with
    the most of them has open.

    Where a control group tells: ``oom_kills`` are processes that the kernel ended for want of memory, ``refused`` how
    often no new one was allowed, ``throttled`` the seconds in which the tree was held back by its limit of processors,
    and the pressures (PSI) the percentage of the last ten seconds in which some process waited for a processor, for
    memory, for a disk.
    """

    cpu: float = 0.0
    memory: int = 0
    private: int = 0
    resident: int = 0
    swap: int = 0
    threads: int = 0
    files: int = 0
    sockets: int = 0
    most_files: int = 0
    read: int = 0
    written: int = 0
    sent: int | None = None
    received: int | None = None
    oom_kills: int | None = None
    refused: int | None = None
    throttled: float | None = None
    cpu_pressure: float | None = None
    memory_pressure: float | None = None
    disk_pressure: float | None = None
    processes: tuple[Process, ...] = ()


class Meter(Protocol):
    """Reads what one child uses. It keeps what it knows of the last time, so one thread at a time may ask it."""

    def read(self, now: float, *, thorough: bool = False) -> Reading | None:
        """Return what the tree uses; None where nothing is left of it. May block: not for the event loop.

        What is dear to find out (PSS, swap, sockets) is looked up again only where it can have changed since, or if it
        is asked for ``thorough``. ``now`` is in seconds of any clock that only goes forward.
        """

    def final(self) -> Reading | None:
        """Return what the tree had used when it ended, as far as that only grows; None before, or where nobody knows.

        It has what came after the last look, and what ended the tree.
        """
