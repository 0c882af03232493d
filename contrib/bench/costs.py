"""What stands in memory: for each connection of a host, and for the daemon with ten servers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import psutil

from contrib.bench.figures import Bar, Figure, Sample
from contrib.bench.hosts import crowd
from contrib.bench.place import BARE, BOXED, COPIES, RULED, TINY, Place
from contrib.bench.plan import Plan

CONNECTION = Bar(0.3)
DAEMON = Bar(40.0)
SANDBOX = Bar(1.0)

_MIB = 1 << 20


def daemon_with_ten_servers(place: Place, plan: Plan) -> Iterator[Figure]:
    """Ten servers that run, each with a host that uses it."""
    with ExitStack() as stack:
        for name in COPIES:
            [host] = stack.enter_context(crowd(place.shim(name), place.environ, 1))
            host.do("calls", count=plan.calls)
        memory = place.daemon.memory_full_info()
    yield Figure("daemon, ten servers, PSS", "MiB", Sample.of([memory.pss / _MIB]), DAEMON)
    yield Figure("daemon, ten servers, private", "MiB", Sample.of([memory.uss / _MIB]))


def connections(place: Place, plan: Plan) -> Iterator[Figure]:
    """What waits in the shim's place, and what the daemon keeps for it; directly it is the server process."""
    shells: list[float] = []
    with crowd(place.shim(BOXED), place.environ, 1) as [first]:
        first.do("calls", count=plan.calls)
        before = place.daemon.memory_full_info().uss
        with crowd(place.shim(BOXED), place.environ, plan.connections) as hosts:
            for host in hosts:
                host.do("calls", count=10)
                shells.append(_private(host.command_pid))
            growth = (place.daemon.memory_full_info().uss - before) / _MIB / plan.connections
    with crowd(TINY, os.environ, 3) as hosts:
        direct = Sample.of(_private(host.command_pid) for host in hosts)
    total = Sample.of(shell + growth for shell in shells)
    yield Figure("private memory of a connection", "MiB", total, CONNECTION, direct, total)
    yield Figure("… of that in the waiting shell", "MiB", Sample.of(shells))
    yield Figure("… of that in the daemon", "MiB", Sample.of([growth]))


def sandboxes(place: Place, plan: Plan) -> Iterator[Figure]:
    """What the same server needs with its sandbox; all run at once, so that what they share is divided alike."""
    held: dict[str, list[float]] = {name: [] for name in (BARE, BOXED, RULED)}
    for _ in range(plan.starts):
        for name in held:
            place.stop(name)
            place.start(name)
        with ExitStack() as stack:
            for name in held:
                [host] = stack.enter_context(crowd(place.shim(name), place.environ, 1))
                host.do("calls", count=10)
            for name, values in held.items():
                values.append(sum(process.memory_full_info().pss for process in place.family(name)) / _MIB)
    bare, boxed, ruled = (Sample.of(values) for values in held.values())
    yield Figure("sandboxed server over a bare one, PSS", "MiB", boxed.less(bare), SANDBOX, bare, boxed)
    yield Figure("… with rules for its network", "MiB", ruled.less(bare), SANDBOX, bare, ruled)


def daemon_afterwards(place: Place, plan: Plan) -> Iterator[Figure]:
    """The daemon once everything has passed through it, the large results too."""
    yield Figure("daemon, after large results, private", "MiB", Sample.of([_private(place.daemon.pid)]))


def _private(pid: int) -> float:
    return float(psutil.Process(pid).memory_full_info().uss) / _MIB
