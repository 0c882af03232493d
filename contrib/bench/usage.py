"""What it costs to measure: ``python -m contrib.bench.usage``.

Calls with everything that is measured by default against calls with nothing measured; what the daemon itself uses while
twenty servers idle and it looks at them every five seconds; and whether somebody who looks is felt by who calls.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain

from contrib.bench.figures import Bar, Figure, Sample, machine, table
from contrib.bench.gather import gather
from contrib.bench.hosts import Host, crowd
from contrib.bench.place import BARE, Place
from contrib.bench.plan import FULL, QUICK, Plan
from contrib.bench.revisions import in_turns, over_daemons
from contrib.bench.switched import over_settings
from supervisord_mcp.protocol import control

#: The configuration with nothing measured.
OFF = "[metrics]\nusage = false\ncalls = false\n"
#: … and the one in which every call is recorded.
RECORDED = "[audit]\nenabled = true\n"
_SERVERS = 20
_HOT = Bar(1.03)
_MANY = Bar(0.97, at_least=True)
_IDLE = Bar(0.5)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m contrib.bench.usage", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short run, for a look; its figures are rough")
    plan = QUICK if parser.parse_args(words).quick else FULL
    before = machine()
    figures, status = gather(chain(hot_path(plan), kept_messages(plan), recorded_calls(plan), idle(plan), looks(plan)))
    described = ", ".join(f"{name} {value}" for name, value in before.items())
    sys.stdout.write(f"{described}\n'direct' measures nothing, 'smcp' what it does by default\n\n{table(figures)}\n")
    return status


def hot_path(plan: Plan) -> Iterator[Figure]:
    """Yield how long a call takes and how many there are in a second, with everything measured and with nothing."""
    yield from over_settings((OFF, ""), plan, (_HOT, _MANY, _HOT))


def kept_messages(plan: Plan) -> Iterator[Figure]:
    """Yield the same for a server whose last messages are kept, and for one without: nobody has to keep them."""

    def made() -> list[Place]:
        return [Place(entry=text) for text in ("", "kept_messages = 1000")]

    for figure in over_daemons(made, in_turns(plan), (None, None, None)):
        yield replace(figure, what=f"messages kept: {figure.what}")


def recorded_calls(plan: Plan) -> Iterator[Figure]:
    """Yield the same with the record of calls and without: by default there is none."""
    for figure in over_settings(("", RECORDED), plan, (None, None, None)):
        yield replace(figure, what=f"calls recorded: {figure.what}")


def idle(plan: Plan) -> Iterator[Figure]:
    """Yield which part of a processor the daemon uses while many servers idle, and how much memory it holds."""
    for what, settings in (("every 5 s", ""), ("never", OFF)):
        with Place(settings=settings, copies=_SERVERS) as place, ExitStack() as stack:
            for name in place.copies:
                [host] = stack.enter_context(crowd(place.shim(name), place.environ, 1))
                host.do("calls", count=1)
            time.sleep(2.0)
            shares = []
            for _ in range(3):
                before, began = place.processor_time(), time.monotonic()
                time.sleep(plan.idle)
                shares.append(100 * (place.processor_time() - before) / (time.monotonic() - began))
            bar = _IDLE if not settings else None
            yield Figure(f"daemon, {_SERVERS} idle servers, looked at {what}", "%", Sample.of(shares), bar)
            memory = place.daemon.memory_full_info().pss / (1 << 20)
            yield Figure("… its memory, PSS", "MiB", Sample.of([memory]))


def looks(plan: Plan) -> Iterator[Figure]:
    """Yield the time that the slowest of a hundred calls takes, while all servers are looked at and while not."""
    quiet, watched = [], []
    with Place(copies=_SERVERS) as place, ExitStack() as stack:
        for name in place.copies:
            [other] = stack.enter_context(crowd(place.shim(name), place.environ, 1))
            other.do("calls", count=1)
        host = stack.enter_context(Host(place.shim(BARE), place.environ))
        host.do("open")
        host.do("calls", count=plan.calls)
        with place.client() as client:
            for _ in range(plan.rounds):
                quiet.append(_tail(host.do("calls", count=plan.calls)["nanoseconds"]))
                host.order("calls", count=plan.calls)
                client.ask(control.Usage(fresh=True))
                watched.append(_tail(host.report()["nanoseconds"]))
                time.sleep(1.0)  # sooner it would not look again
    before, now = Sample.of(quiet), Sample.of(watched)
    yield Figure(
        f"p99 of a call while {_SERVERS} servers are looked at", "×", now.over(before), None, before, now, "ms"
    )


def _tail(taken: Sequence[int]) -> float:
    ordered = sorted(taken)
    return ordered[len(ordered) * 99 // 100 - 1] / 1e6


if __name__ == "__main__":
    sys.exit(main())
