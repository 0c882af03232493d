"""What was tried to make a call cheaper, against the program as it is: ``python -m contrib.bench.tried [WAY…]``.

For each way the daemon runs as it is and with that one thing done otherwise, by turns, as in `revisions`. What
`contrib/bench/SPEED.md` says of it is from here.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from contrib.bench import otherwise
from contrib.bench.figures import Figure, machine, table
from contrib.bench.place import BenchError, Place
from contrib.bench.plan import FULL, QUICK, Plan
from contrib.bench.revisions import in_turns, over_daemons


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
    parser.add_argument("ways", nargs="*", metavar="WAY", help=f"what (default: all): {', '.join(otherwise.WAYS)}")
    options = parser.parse_args(words)
    if unknown := set(options.ways) - set(otherwise.WAYS):
        parser.error(f"unknown way: {', '.join(sorted(unknown))}")
    before = machine()
    if options.pin:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        figures = list(measure(options.ways or list(otherwise.WAYS), QUICK if options.quick else FULL))
    except BenchError as error:
        sys.stderr.write(f"the benchmark ends here: {error}\n")
        return 1
    described = ", ".join(f"{name} {value}" for name, value in before.items())
    meaning = "'direct' is smcp as it is, 'smcp' the same with this one thing done otherwise"
    sys.stdout.write(f"{described}\n{meaning}\n\n{table(figures)}\n")
    return 0


def measure(ways: Sequence[str], plan: Plan) -> Iterator[Figure]:
    """Yield how long a call takes, how many there are in a second, and what one costs the daemon, for each way."""
    for way in ways:
        if way == "uvloop" and importlib.util.find_spec("uvloop") is None:
            sys.stderr.write("uvloop is not installed: pip install uvloop\n")
            continue
        sys.stderr.write(f"{way} …\n")
        for figure in over_daemons(partial(_places, way), in_turns(plan), (None, None, None)):
            yield replace(figure, what=f"{way}: {figure.what}")


def _places(way: str) -> tuple[Place, Place]:
    return Place(copies=0), OtherPlace(way)


if __name__ == "__main__":
    sys.exit(main())
