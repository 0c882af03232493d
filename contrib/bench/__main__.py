"""Direct against smcp, in one run on one machine: ``python -m contrib.bench``.

Every figure comes from repetitions that take turns, so that what else the machine does meets both sides. It meets one
daemon harder than ten servers all the same: a machine that was busy before gives figures for nobody. The table shows
medians and the whole spread; the bars are those that the project has set itself.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from contrib.bench import calls, containers, costs, masking, starts
from contrib.bench.figures import Figure, machine, table
from contrib.bench.gather import gather
from contrib.bench.place import Place
from contrib.bench.plan import FULL, QUICK, Plan

#: In this order: what the daemon needs is looked at before large messages have passed through it.
MEASURES: Mapping[str, Callable[[Place, Plan], Iterator[Figure]]] = {
    "daemon": costs.daemon_with_ten_servers,
    "connections": costs.connections,
    "sandbox-memory": costs.sandboxes,
    "calls": calls.added_time,
    "throughput": calls.calls_per_second,
    "first-reply": starts.first_reply,
    "sandbox-start": starts.sandboxes,
    "crashes": starts.crashes,
    "large-result": calls.large_result,
    "daemon-afterwards": costs.daemon_afterwards,
    "messages-masking": masking.messages_with_secrets,
    "stderr-masking": masking.stderr_with_secrets,
    "containers": containers.containers,
}


def measure(plan: Plan, names: Sequence[str], tell: Callable[[str], None]) -> Iterator[Figure]:
    """Measure what is named, in the order of all; ``tell`` is told what goes on."""
    with Place() as place:
        for lack in place.lacks:
            tell(f"no sandbox on this machine, so nothing runs in one: {lack}")
        for name, function in MEASURES.items():
            if name in names:
                tell(f"{name} …")
                yield from function(place, plan)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print the table, and return the exit status. A missed bar is no failure: it is a figure."""
    parser = argparse.ArgumentParser(prog="python -m contrib.bench", description="Measure smcp against direct servers.")
    parser.add_argument("--quick", action="store_true", help="a short run, for a look; its figures are rough")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every value to a file as well")
    parser.add_argument("names", nargs="*", metavar="MEASURE", help=f"what (default: all): {', '.join(MEASURES)}")
    options = parser.parse_args(words)
    if unknown := set(options.names) - set(MEASURES):
        parser.error(f"unknown measure: {', '.join(sorted(unknown))}")
    before, began = machine(), time.monotonic()
    plan = QUICK if options.quick else FULL
    names = options.names or list(MEASURES)
    figures, status = gather(measure(plan, names, lambda text: _say(sys.stderr, text)))
    described = ", ".join(f"{name} {value}" for name, value in before.items())
    _say(sys.stdout, f"{described}; {time.monotonic() - began:.0f} s\n\n{table(figures)}")
    if options.json is not None:
        content = {"machine": before, "figures": [figure.plain() for figure in figures]}
        try:
            options.json.write_text(json.dumps(content, indent=1) + "\n")
        except OSError as error:
            _say(sys.stderr, f"the values are not written: {error}")
            return status or 1
    return status


def _say(stream: TextIO, text: str) -> None:
    stream.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
