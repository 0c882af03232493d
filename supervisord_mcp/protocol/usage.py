"""What the daemon answers to `control.Usage`: what servers use, what they did, what sharing saves.

Sizes are in bytes, times in seconds, times of day in seconds since the epoch. What nobody can tell is null.
"""

from __future__ import annotations

import msgspec


class ProcessUsage(msgspec.Struct, frozen=True, kw_only=True):
    """One process. ``cpu`` counts that of its children that ended; ``memory`` is its PSS, ``resident`` its RSS."""

    pid: int
    parent: int = 0
    name: str = ""
    cpu: float = 0.0
    memory: int = 0
    resident: int = 0
    threads: int = 0
    files: int = 0


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a tree of processes uses; the fields are those of `runtimes.reading.Reading`.

    ``load`` is how many processors it keeps busy: 0.5 is half of one. The pressures are percentages.
    """

    cpu: float = 0.0
    load: float = 0.0
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
    processes: tuple[ProcessUsage, ...] = ()


class CallUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of hosts that were meant for a server: all of them, those for a tool, or those of a host.

    What the daemon answers by itself (lists that it knows, ping) is not among them. ``errors`` are answers that were
    errors, and results of tools that say that they failed. ``timeouts`` are requests that a host cancelled because it
    had waited for too long. ``p50``, ``p95`` and ``p99`` are the times within which that percentage of the answers
    came, give or take a tenth. ``last`` is how long ago the last one ended.
    """

    name: str = ""
    calls: int = 0
    pending: int = 0
    errors: int = 0
    cancelled: int = 0
    timeouts: int = 0
    asked: int = 0
    told: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float | None = None
    last: float | None = None


class Starts(msgspec.Struct, frozen=True, kw_only=True):
    """How often children became ready, how many of those starts a call waited for, and how long all of them took."""

    count: int = 0
    on_demand: int = 0
    restarts: int = 0
    seconds: float = 0.0
    last_seconds: float = 0.0


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """What the same sessions would cost beyond this if each had a server of its own; ``basis`` says how it is known."""

    processes: int = 0
    memory: int = 0
    basis: str = ""


class PointUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a server used in one step of its history; see `metrics.ring.Point`. ``starts`` marks (re)starts."""

    at: float
    seconds: float = 0.0
    cpu: float = 0.0
    load: float = 0.0
    memory: int = 0
    resident: int = 0
    processes: int = 0
    threads: int = 0
    files: int = 0
    read: int = 0
    written: int = 0
    sent: int = 0
    received: int = 0
    starts: int = 0


class InstanceUsage(msgspec.Struct, frozen=True, kw_only=True):
    """One running copy of a server; without ``figures`` where nothing of it runs, or nobody can tell."""

    key: str
    state: str = ""
    pid: int | None = None
    project: str | None = None
    sessions: int = 0
    generation: int = 0
    uptime: float | None = None
    figures: Figures | None = None


class ServerUsage(msgspec.Struct, frozen=True, kw_only=True):
    """One server. ``figures`` is the sum of what runs, ``cpu`` what all runs spent since ``since``.

    ``breaches`` counts the limits that were exceeded. ``history`` is there where it was asked for, in steps of
    ``step`` seconds.
    """

    name: str
    state: str = ""
    sessions: int = 0
    figures: Figures = Figures()
    cpu: float = 0.0
    since: float = 0.0
    total: CallUsage = CallUsage()
    tools: tuple[CallUsage, ...] = ()
    hosts: tuple[CallUsage, ...] = ()
    starts: Starts = Starts()
    saved: Saved = Saved()
    breaches: dict[str, int] = msgspec.field(default_factory=dict)
    last_error: str | None = None
    instances: tuple[InstanceUsage, ...] = ()
    step: float = 0.0
    history: tuple[PointUsage, ...] = ()


class UsageResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. ``daemon`` is what the daemon itself uses; ``problems`` are observers that were taken out."""

    at: float
    daemon: Figures = Figures()
    servers: tuple[ServerUsage, ...] = ()
    saved: Saved = Saved()
    problems: tuple[str, ...] = ()
