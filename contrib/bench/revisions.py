"""Two revisions of smcp against each other, in one run: ``python -m contrib.bench.revisions OLD [NEW]``.

Says what a change cost on the way of a message. Each revision is taken out of git into a place of its own (NEW is this
checkout as it is, unless one is named), runs a daemon of its own, and their repetitions take turns.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from contrib.bench.figures import Bar, Figure, Sample, machine, table
from contrib.bench.gather import gather
from contrib.bench.hosts import Host, crowd, flood
from contrib.bench.place import BARE, ROOT, BenchError, Place
from contrib.bench.plan import FULL, QUICK, Plan

#: How many hosts call as often as they can.
HOSTS = 10
#: What is measured.
CALL = "time of a call, p50, one host, without a sandbox"
RATE = f"calls per second, {HOSTS} hosts, without a sandbox"
COST = "the daemon's processor time for a call"
_TURNS = 10
#: How many repetitions one daemon is asked for.
_ROUNDS = 15


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m contrib.bench.revisions", description=__doc__)
    parser.add_argument("old", help="a revision, as git knows it")
    parser.add_argument("new", nargs="?", help="another one; this checkout if it is left out")
    parser.add_argument("--quick", action="store_true", help="a short run, for a look; its figures are rough")
    parser.add_argument("--pin", action="store_true", help="keep everything on one processor, for a quieter figure")
    options = parser.parse_args(words)
    before = machine()
    if options.pin:
        # Who runs beside whom, and who has to be woken where, is then the same all the time.
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    figures, status = gather(_figures(options.old, options.new, QUICK if options.quick else FULL))
    described = ", ".join(f"{name} {value}" for name, value in before.items())
    sys.stdout.write(
        f"{described}\n'direct' is {options.old}, 'smcp' {options.new or 'this checkout'}\n\n{table(figures)}\n"
    )
    return status


def _figures(old: str, new: str | None, plan: Plan) -> Iterator[Figure]:
    with checkout(old) as before, checkout(new) as now:
        yield from compare(before, now, plan)


@contextmanager
def checkout(revision: str | None) -> Iterator[Path]:
    """Give the files of a revision for a block; this checkout where none is named. Raise `BenchError`."""
    if revision is None:
        yield ROOT
        return
    with tempfile.TemporaryDirectory(prefix="smcp-revision-") as place:
        packed = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=False)
        if packed.returncode != 0:
            raise BenchError(f"git has no {revision}: {packed.stderr.decode(errors='replace').strip()}")
        subprocess.run(["tar", "-x", "-C", place], input=packed.stdout, check=True)
        yield Path(place)


def compare(old: Path, new: Path, plan: Plan) -> Iterator[Figure]:
    """Yield how long a call takes, how many there are in a second, and what one costs the daemon, for both."""
    yield from over_daemons(lambda: (Place(old), Place(new)), in_turns(plan), (None, None, None))


def over_daemons(
    make: Callable[[], Sequence[Place]], plan: Plan, bars: tuple[Bar | None, Bar | None, Bar | None]
) -> Iterator[Figure]:
    """Yield the three figures about two kinds of places, each from several daemons of either kind.

    Where a process happens to lie in memory makes it some percent faster or slower for its whole life, which no
    repetition within it shows.
    """
    pairs = max(plan.rounds // _ROUNDS, 1)
    part = replace(plan, rounds=min(plan.rounds, _ROUNDS), floods=max(plan.floods // pairs, 1))
    found: list[tuple[Figure, Figure, Figure]] = []
    for _ in range(pairs):
        with ExitStack() as stack:
            places = [stack.enter_context(place) for place in make()]
            found.append((calls(places, part), floods(places, part), processor(places, part)))
    yield from together(found, bars)


def together(found: Sequence[Sequence[Figure]], bars: Sequence[Bar | None]) -> Iterator[Figure]:
    """Given the same figures of several daemons, yield each with what was found of every daemon, held to its bar."""
    for figures, bar in zip(zip(*found, strict=True), bars, strict=True):
        before = Sample.of(figure.direct.median for figure in figures if figure.direct is not None)
        now = Sample.of(figure.shared.median for figure in figures if figure.shared is not None)
        ratios = Sample.of(figure.value.median for figure in figures)
        first = figures[0]
        yield Figure(first.what, first.unit, ratios, bar, before, now, first.base_unit)


def in_turns(plan: Plan) -> Plan:
    """Return a plan of many short turns: what else the machine does meets both sides alike.

    It is more than what is looked for.
    """
    return replace(
        plan,
        rounds=plan.rounds * _TURNS,
        calls=max(plan.calls // _TURNS, 20),
        floods=plan.floods * 4,
        seconds=plan.seconds / 4,
    )


def calls(places: Sequence[Place], plan: Plan) -> Figure:
    """Return how long a call takes in two places, and the ratio."""
    taken: list[list[float]] = [[], []]
    with _hosts(places, plan) as hosts:
        for which in turns(plan.rounds):
            taken[which].append(p50(hosts[which], plan.calls))
    return compared(CALL, taken, "ms")


def floods(places: Sequence[Place], plan: Plan) -> Figure:
    """Return how many calls ten hosts make in a second in two places, and the ratio."""
    counted: list[list[float]] = [[], []]
    with ExitStack() as stack:
        crowds = [stack.enter_context(crowd(place.shim(BARE), place.environ, HOSTS)) for place in places]
        for which in turns(plan.floods):
            counted[which].append(flood(crowds[which], plan.seconds))
    return compared(RATE, counted, "/s")


def processor(places: Sequence[Place], plan: Plan) -> Figure:
    """Return what a call costs the daemon: unlike its duration hardly changed by what else the machine does."""
    spent: list[list[float]] = [[], []]
    with _hosts(places, plan) as hosts:
        for which in turns(plan.rounds):
            used = places[which].processor_time()
            hosts[which].do("calls", count=plan.calls)
            spent[which].append((places[which].processor_time() - used) / plan.calls * 1e3)
    return compared(COST, spent, "ms")


def p50(host: Host, count: int) -> float:
    """Let a host make so many calls; return how long the one in the middle took, in milliseconds."""
    times = sorted(host.do("calls", count=count)["nanoseconds"])
    return float(times[len(times) // 2] / 1e6)


def compared(what: str, both: Sequence[Sequence[float]], unit: str) -> Figure:
    """Return what was measured on two sides, and how many times the first the second is, turn by turn."""
    before, now = map(Sample.of, both)
    return Figure(what, "×", now.over(before), None, before, now, unit)


@contextmanager
def _hosts(places: Sequence[Place], plan: Plan) -> Iterator[list[Host]]:
    """Have a host in each place that has called for a while."""
    with ExitStack() as stack:
        hosts = [stack.enter_context(Host(place.shim(BARE), place.environ)) for place in places]
        for host in hosts:
            host.do("open")
            host.do("calls", count=plan.calls)
        yield hosts


def turns(rounds: int) -> Iterator[int]:
    """Yield whose turn it is of two: whoever comes first meets another machine than whoever comes second."""
    for number in range(rounds):
        yield from (0, 1) if number % 2 else (1, 0)


if __name__ == "__main__":
    sys.exit(main())
