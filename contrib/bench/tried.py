"""What was tried to make a call cheaper, against the program as it is: ``python -m contrib.bench.tried [WAY…]``.

For each way the daemon runs as it is and with that one thing done otherwise: what it calls for a call of a tool is
counted, as in `profile`, and the time is measured by turns, as in `revisions`. ``--page`` puts the table into
``contrib/bench/SPEED.md``, between its markers; a way that fails is named below it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from contrib.bench import otherwise
from contrib.bench.figures import Figure, Sample, machine, table
from contrib.bench.gather import INTERRUPTED, gather
from contrib.bench.hosts import Host
from contrib.bench.place import BARE, Place
from contrib.bench.plan import FULL, QUICK, Plan
from contrib.bench.profile import ProfiledPlace
from contrib.bench.revisions import in_turns, over_daemons
from contrib.bench.steps import profile_of

PAGE = Path(__file__).with_name("SPEED.md")
BEGIN, END = "<!-- tried -->", "<!-- end of tried -->"


class CountedPlace(ProfiledPlace):
    """A place whose daemon is profiled and does one thing otherwise, or none."""

    def __init__(self, way: str = "") -> None:
        super().__init__()
        self.environ[otherwise.VARIABLE] = way


class OtherPlace(Place):
    """A place whose daemon does one thing otherwise."""

    program = ("-P", str(Path(otherwise.__file__).resolve()))

    def __init__(self, way: str) -> None:
        super().__init__(copies=0)
        self.environ[otherwise.VARIABLE] = way


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m contrib.bench.tried", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short run, for a look; its figures are rough")
    parser.add_argument("--pin", action="store_true", help="keep everything on one processor, for a quieter figure")
    parser.add_argument("--counts", action="store_true", help="count only, which a busy machine does as well; no times")
    parser.add_argument("--page", action="store_true", help=f"put the table into {PAGE.name} as well")
    parser.add_argument("ways", nargs="*", metavar="WAY", help=f"what (default: all): {', '.join(otherwise.WAYS)}")
    options = parser.parse_args(words)
    if unknown := set(options.ways) - set(otherwise.WAYS):
        parser.error(f"unknown way: {', '.join(sorted(unknown))}")
    before = machine()
    if options.pin:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    plan = QUICK if options.quick else FULL
    figures: list[Figure] = []
    failed: list[str] = []
    status = 0
    ways = list(options.ways or otherwise.WAYS)
    if "uvloop" in ways and importlib.util.find_spec("uvloop") is None:
        sys.stderr.write("uvloop is not installed: pip install uvloop\n")
        failed.append("uvloop, which is not installed")
        ways.remove("uvloop")
    for way in ways:
        reasons: list[str] = []
        found, ended = gather(measure(way, plan, times=not options.counts), reasons.append)
        figures += found
        for reason in reasons:
            sys.stderr.write(f"{way}: {reason}\n")
            failed.append(f"{way}: {' '.join(reason.split())[-200:]}")
        status = ended or status
        if ended == INTERRUPTED:
            break
    described = ", ".join(f"{name} {value}" for name, value in before.items())
    meaning = '"direct" is smcp as it is, "smcp" the same with this one thing done otherwise'
    below = f"\n\nNot measured: {'; '.join(failed)}." if failed else ""
    text = f"{datetime.now(UTC).date().isoformat()}, {described}; {meaning}.\n\n{table(figures)}{below}"
    sys.stdout.write(f"{text}\n")
    if options.page and figures and status != INTERRUPTED:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
    return status


def filled(page: str, text: str) -> str:
    """Return the page with a text between its markers. Raise `ValueError` where it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def measure(way: str, plan: Plan, *, times: bool = True) -> Iterator[Figure]:
    """Yield what the daemon calls for a call, how long one takes, how many there are in a second, what one costs it."""
    sys.stderr.write(f"{way} …\n")
    for figure in counted(way, plan):
        yield replace(figure, what=f"{way}: {figure.what}")
    if times:
        for figure in over_daemons(partial(_places, way), in_turns(plan), (None, None, None)):
            yield replace(figure, what=f"{way}: {figure.what}")


def counted(way: str, plan: Plan) -> Iterator[Figure]:
    """Yield how many functions and system calls the daemon needs more for a call than as it is, or less."""
    found = []
    for place in (CountedPlace(), CountedPlace(way)):
        with place, Host(place.shim(BARE), place.environ) as host:
            host.do("open")
            host.do("calls", count=plan.calls)
            found.append(profile_of(place.profile(host, plan.calls), plan.calls))
    for what, values in (
        ("functions called for a call", [profile.functions for profile in found]),
        ("system calls for a call", [sum(profile.system.values()) for profile in found]),
    ):
        before, now = (Sample.of([value]) for value in values)
        if way != "uvloop" or what.startswith("functions"):  # its waiting is nothing that Python calls
            yield Figure(what, "", now.less(before), None, before, now)


def _places(way: str) -> tuple[Place, Place]:
    return Place(copies=0), OtherPlace(way)


if __name__ == "__main__":
    sys.exit(main())
