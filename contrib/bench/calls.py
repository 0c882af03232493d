"""What a call costs: the time that is added to one, how many there are in a second, and a very large result."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from contrib.bench.figures import Bar, Figure, Sample
from contrib.bench.hosts import Host, crowd, flood
from contrib.bench.place import BARE, BOXED, TINY, Place
from contrib.bench.plan import Plan

ADDED_P50 = Bar(0.10)
TEN_HOSTS = Bar(0.8, at_least=True)
LARGE = Bar(1.5)
#: Bytes of the large result.
LARGE_SIZE = 1 << 24

_KINDS = ("direct", "without a sandbox", "sandboxed")


def added_time(place: Place, plan: Plan) -> Iterator[Figure]:
    """One host that calls one time after the other."""
    middles: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    tails: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    with ExitStack() as stack:
        hosts = [stack.enter_context(host) for host in _three(place)]
        for host in hosts:
            host.do("open")
            host.do("calls", count=plan.calls)
        for _ in range(plan.rounds):
            for kind, host in zip(_KINDS, hosts, strict=True):
                taken = sorted(host.do("calls", count=plan.calls)["nanoseconds"])
                middles[kind].append(percentile(taken, 50) / 1e6)
                tails[kind].append(percentile(taken, 99) / 1e6)
    for name, values in (("p50", middles), ("p99", tails)):
        direct = Sample.of(values[_KINDS[0]])
        for kind in _KINDS[1:]:
            shared = Sample.of(values[kind])
            bar = ADDED_P50 if name == "p50" else None
            yield Figure(f"added to a call, {name}, one host, {kind}", "ms", shared.less(direct), bar, direct, shared)


def calls_per_second(place: Place, plan: Plan) -> Iterator[Figure]:
    """Hosts that all call as often as they can; directly, each has a server process of its own."""
    for count in plan.crowds:
        apart, together = [], []
        with crowd(TINY, os.environ, count) as direct, crowd(place.shim(BOXED), place.environ, count) as shared:
            for _ in range(plan.floods):
                apart.append(flood(direct, plan.seconds))
                together.append(flood(shared, plan.seconds))
        before, now = Sample.of(apart), Sample.of(together)
        what = f"calls per second, {count} host{'s' if count > 1 else ''}"
        yield Figure(what, "×", now.over(before), TEN_HOSTS if count == 10 else None, before, now, "/s")


def large_result(place: Place, plan: Plan) -> Iterator[Figure]:
    """A tool whose result has 16 MiB, until the host has decoded it."""
    taken: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    with ExitStack() as stack:
        hosts = [stack.enter_context(host) for host in _three(place)]
        for host in hosts:
            host.do("open")
            host.do("blob", size=LARGE_SIZE)
        for _ in range(plan.rounds):
            for kind, host in zip(_KINDS, hosts, strict=True):
                taken[kind].append(host.do("blob", size=LARGE_SIZE)["seconds"] * 1e3)
    direct, shared = Sample.of(taken[_KINDS[0]]), Sample.of(taken[_KINDS[2]])
    yield Figure("a result of 16 MiB", "×", shared.over(direct), LARGE, direct, shared, "ms")


def _three(place: Place) -> list[Host]:
    environ = place.environ
    return [Host(TINY, environ), Host(place.shim(BARE), environ), Host(place.shim(BOXED), environ)]


def percentile(values: Sequence[int], percent: int) -> float:
    """Given sorted values, return the one that so many percent of them do not exceed."""
    return float(values[max(0, len(values) * percent // 100 - 1)])
