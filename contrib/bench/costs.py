"""What stands in memory: for each connection of a host, and for the daemon with ten servers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import psutil

from contrib.bench.figures import Bar, Figure, Sample
from contrib.bench.hosts import crowd
from contrib.bench.place import BOXED, COPIES, TINY, Place
from contrib.bench.plan import Plan

CONNECTION = Bar(0.3)
DAEMON = Bar(40.0)

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


def daemon_afterwards(place: Place, plan: Plan) -> Iterator[Figure]:
    """The daemon once everything has passed through it, the large results too."""
    yield Figure("daemon, after large results, private", "MiB", Sample.of([_private(place.daemon.pid)]))


def _private(pid: int) -> float:
    return float(psutil.Process(pid).memory_full_info().uss) / _MIB
