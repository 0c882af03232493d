"""Two revisions of smcp against each other, in one run: ``python -m contrib.bench.revisions OLD [NEW]``.

Says what a change cost on the way of a message. Each revision is taken out of git into a place of its own (NEW is this
checkout as it is, unless one is named), runs a daemon of its own, and their repetitions take turns.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from contrib.bench.figures import Bar, Figure, Sample, machine, table
from contrib.bench.hosts import Host, crowd, flood
from contrib.bench.place import BARE, ROOT, BenchError, Place
from contrib.bench.plan import FULL, QUICK, Plan

_HOSTS = 10


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m contrib.bench.revisions", description=__doc__)
    parser.add_argument("old", help="a revision, as git knows it")
    parser.add_argument("new", nargs="?", help="another one; this checkout if it is left out")
    parser.add_argument("--quick", action="store_true", help="a short run, for a look; its figures are rough")
    options = parser.parse_args(words)
    before = machine()
    try:
        with checkout(options.old) as old, checkout(options.new) as new:
            figures = list(compare(old, new, QUICK if options.quick else FULL))
    except BenchError as error:
        sys.stderr.write(f"the benchmark ends here: {error}\n")
        return 1
    described = ", ".join(f"{name} {value}" for name, value in before.items())
    sys.stdout.write(
        f"{described}\n'direct' is {options.old}, 'smcp' {options.new or 'this checkout'}\n\n{table(figures)}\n"
    )
    return 0


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
    """Yield how long a call takes and how many there are in a second, for both."""
    with ExitStack() as stack:
        places = [stack.enter_context(Place(root)) for root in (old, new)]
        yield calls(places, plan)
        yield floods(places, plan)


def calls(places: Sequence[Place], plan: Plan, bar: Bar | None = None) -> Figure:
    """Return how long a call takes in two places, and the ratio."""
    taken: list[list[float]] = [[], []]
    with ExitStack() as stack:
        hosts = [stack.enter_context(Host(place.shim(BARE), place.environ)) for place in places]
        for host in hosts:
            host.do("open")
            host.do("calls", count=plan.calls)
        for number in range(plan.rounds):
            # Whoever comes first meets another machine than whoever comes second.
            for which in (0, 1) if number % 2 else (1, 0):
                times = sorted(hosts[which].do("calls", count=plan.calls)["nanoseconds"])
                taken[which].append(times[len(times) // 2] / 1e6)
    before, now = map(Sample.of, taken)
    return Figure("time of a call, p50, one host, without a sandbox", "×", now.over(before), bar, before, now, "ms")


def floods(places: Sequence[Place], plan: Plan, bar: Bar | None = None) -> Figure:
    """Return how many calls ten hosts make in a second in two places, and the ratio."""
    counted: list[list[float]] = [[], []]
    with ExitStack() as stack:
        crowds = [stack.enter_context(crowd(place.shim(BARE), place.environ, _HOSTS)) for place in places]
        for number in range(plan.floods):
            for which in (0, 1) if number % 2 else (1, 0):
                counted[which].append(flood(crowds[which], plan.seconds))
    before, now = map(Sample.of, counted)
    return Figure(f"calls per second, {_HOSTS} hosts, without a sandbox", "×", now.over(before), bar, before, now, "/s")


if __name__ == "__main__":
    sys.exit(main())
