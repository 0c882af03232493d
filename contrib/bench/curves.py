"""How cost grows: ``python -m contrib.bench.curves``, the daemon with 1 to 50 servers and with 1 to 200 sessions.

Prints what the daemon needs at each of them as tables, and draws both as curves (SVG, with matplotlib: the extra
``plot``): constant for a message, linear and small for a server and for a session is what they should show.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import linear_regression

from contrib.bench.calls import percentile
from contrib.bench.figures import Sample, grid, machine, number
from contrib.bench.gather import gather
from contrib.bench.hosts import Host
from contrib.bench.place import BARE, Place
from contrib.bench.plan import FULL, QUICK, Plan
from supervisord_mcp.cli.plot import check
from supervisord_mcp.errors import SmcpError

SERVERS, SESSIONS = (1, 2, 5, 10, 20, 30, 40, 50), (1, 10, 25, 50, 100, 150, 200)
_MIB, _KIB = 1 << 20, 1 << 10


@dataclass(frozen=True, slots=True)
class Point:
    """What the daemon needs with so many of them: MiB for itself, µs of a processor and ms in all for a call."""

    count: int
    memory: float
    processor: Sample
    call: Sample

    def cells(self) -> tuple[str, ...]:
        """Return the point as a line of the table."""
        values = (self.memory, self.processor.median, self.call.median)
        low, high = min(self.call.values), max(self.call.values)
        return (str(self.count), *map(number, values), f"{number(low)} … {number(high)}")


@dataclass(frozen=True, slots=True)
class Curve:
    """The points over one quantity."""

    over: str
    points: tuple[Point, ...]

    @property
    def slope(self) -> float:
        """How many KiB of memory one more of them needs, as the straight line through all points says."""
        if len(self.points) < 2:
            return 0.0
        counts = [point.count for point in self.points]
        return linear_regression(counts, [point.memory for point in self.points]).slope * _MIB / _KIB

    def table(self) -> str:
        """Return the points as a table of Markdown, and what one more costs."""
        head = (self.over, "private memory, MiB", "processor for a call, µs", "call p50, ms", "min … max")
        return f"{grid([head, *(point.cells() for point in self.points)])}\n\none more: {number(self.slope)} KiB"


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print the tables, draw the curves, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m contrib.bench.curves", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short run, for a look; its figures are rough")
    parser.add_argument("--svg", type=Path, metavar="FILE", default=Path("curves.svg"), help="default: curves.svg")
    options = parser.parse_args(words)
    plan = replace(QUICK if options.quick else FULL, rounds=5 if options.quick else 11)
    try:
        check(options.svg)
    except SmcpError as error:
        sys.stderr.write(f"the benchmark ends here: {error}\n")
        return 1
    before = machine()
    curves, status = [], 0
    for over, points in (("servers", over_servers(SERVERS, plan)), ("sessions", over_sessions(SESSIONS, plan))):
        found, status = gather(points)
        if found:
            curves.append(Curve(over, tuple(found)))
        if status:
            break
    described = ", ".join(f"{name} {value}" for name, value in before.items())
    sys.stdout.write("\n\n".join([described, *(curve.table() for curve in curves)]) + "\n")
    if status:
        return status  # what is drawn already may be whole
    try:
        draw(curves, options.svg)
    except OSError as error:
        sys.stderr.write(f"nothing is drawn: {error}\n")
        return 1
    sys.stdout.write(f"\ndrawn: {options.svg}\n")
    return 0


def over_servers(counts: Sequence[int], plan: Plan) -> Iterator[Point]:
    """Yield what the daemon needs with so many servers that run, one of which is called."""
    with Place(copies=max(counts)) as place:
        names = iter(place.copies)
        yield from _points(place, counts, lambda: place.start(next(names)), plan)


def over_sessions(counts: Sequence[int], plan: Plan) -> Iterator[Point]:
    """Yield what the daemon needs with so many sessions with one server, one of which calls."""
    with Place(copies=0) as place, ExitStack() as stack:

        def connect() -> None:
            host = stack.enter_context(Host(place.shim(BARE), place.environ))
            host.do("open")
            host.do("calls", count=10)

        yield from _points(place, counts, connect, plan)


def _points(place: Place, counts: Sequence[int], add: Callable[[], object], plan: Plan) -> Iterator[Point]:
    """Yield the point at each count; whoever calls is one of the sessions, and the first server is called."""
    there = 0
    with Host(place.shim(BARE), place.environ) as host:
        host.do("open")
        host.do("calls", count=plan.calls)
        for count in counts:
            while there < count:
                # The host that calls is the first session, and its server is running.
                if there:
                    add()
                there += 1
            spent, taken = [], []
            for _ in range(plan.rounds):
                used = place.processor_time()
                times = sorted(host.do("calls", count=plan.calls)["nanoseconds"])
                spent.append((place.processor_time() - used) / plan.calls * 1e6)
                taken.append(percentile(times, 50) / 1e6)
            yield Point(count, place.daemon.memory_full_info().uss / _MIB, Sample.of(spent), Sample.of(taken))


def draw(curves: Sequence[Curve], file: Path) -> None:
    """Draw all curves side by side, with the whole spread behind the medians."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(curves), 8), layout="constrained")
    axes = figure.subplots(3, len(curves), squeeze=False, sharey="row")
    for column, curve in enumerate(curves):
        counts = [point.count for point in curve.points]
        rows: list[tuple[str, list[Sample]]] = [
            ("daemon, private memory, MiB", [Sample.of([point.memory]) for point in curve.points]),
            ("daemon, processor for a call, µs", [point.processor for point in curve.points]),
            ("a call, p50, ms", [point.call for point in curve.points]),
        ]
        for row, (label, samples) in enumerate(rows):
            panel = axes[row][column]
            panel.plot(counts, [sample.median for sample in samples], marker="o", markersize=3, linewidth=1.5)
            low, high = [min(sample.values) for sample in samples], [max(sample.values) for sample in samples]
            panel.fill_between(counts, low, high, alpha=0.2)
            # Both columns of a row share it, so it must have room for the higher one.
            panel.set_ylim(0, max(*high, panel.get_ylim()[1] / 1.05 if column else 0.0) * 1.05)
            panel.grid(alpha=0.3)
            panel.spines[["top", "right"]].set_visible(False)
            if not column:
                panel.set_ylabel(label)
        axes[-1][column].set_xlabel(curve.over)
    figure.savefig(file)


if __name__ == "__main__":
    sys.exit(main())
