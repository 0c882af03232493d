"""One daemon under two configurations in turns: what a setting costs, with everything else the very same.

Two daemons differ by some percent before they differ in what is measured: each lies elsewhere in memory, and so does
each of their hosts. Where a running daemon takes a setting, nothing but the setting is different.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from contrib.bench.figures import Bar, Figure
from contrib.bench.hosts import Host, crowd, flood
from contrib.bench.place import BARE, Place
from contrib.bench.plan import Plan
from contrib.bench.revisions import CALL, COST, HOSTS, RATE, compared, p50, together, turns

#: The daemon is told when to read its configuration, so it need not watch for it.
_TOLD = "[daemon]\nreload = false\n"
#: How many daemons one after the other, into how many short turns a repetition is parted, so that what else the machine
#: does meets both settings alike; and how many calls are made after each change before any is measured.
_DAEMONS, _TURNS, _WARM = 9, 4, 20


def over_settings(
    settings: tuple[str, str], plan: Plan, bars: tuple[Bar | None, Bar | None, Bar | None]
) -> Iterator[Figure]:
    """Yield how long a call takes, how many there are in a second, and what one costs the daemon, under both.

    Each turn under the second is compared with the one under the first beside it, and what is told of each daemon is
    the median of that.
    """
    part = replace(plan, rounds=plan.rounds * _TURNS, calls=max(plan.calls // _TURNS, 20))
    found = []
    for _ in range(min(_DAEMONS, plan.rounds)):
        with Place(settings=_TOLD) as place:
            called, cost = _calls(place, settings, part)
            found.append((called, _floods(place, settings, plan), cost))
    yield from together(found, bars)


def _calls(place: Place, settings: tuple[str, str], plan: Plan) -> tuple[Figure, Figure]:
    """Return how long a call takes, and what one costs the daemon."""
    taken: tuple[list[float], list[float]] = ([], [])
    spent: tuple[list[float], list[float]] = ([], [])
    with Host(place.shim(BARE), place.environ) as host:
        host.do("open")
        for which in turns(plan.rounds):
            place.configure(_TOLD + settings[which])
            host.do("calls", count=_WARM)
            used = place.processor_time()
            taken[which].append(p50(host, plan.calls))
            spent[which].append((place.processor_time() - used) / plan.calls * 1e3)
    return compared(CALL, taken, "ms"), compared(COST, spent, "ms")


def _floods(place: Place, settings: tuple[str, str], plan: Plan) -> Figure:
    """Return how many calls ten hosts make in a second."""
    counted: tuple[list[float], list[float]] = ([], [])
    with crowd(place.shim(BARE), place.environ, HOSTS) as hosts:
        for which in turns(plan.floods * _TURNS):
            place.configure(_TOLD + settings[which])
            for host in hosts:
                host.do("calls", count=1)
            counted[which].append(flood(hosts, plan.seconds / _TURNS))
    return compared(RATE, counted, "/s")
