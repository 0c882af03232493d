"""Where the time of one call goes: ``python -m contrib.bench.profile [OLD]``.

Counts which functions the daemon calls for one call of a tool, and how long each step takes for itself; counts are the
same in every run, so they tell two revisions apart on a busy machine, too: with OLD its column stands beside that of
this checkout. Below is the floor: the same call through a process that only moves bytes, in Python and in C.
"""

from __future__ import annotations

import argparse
import os
import pstats
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from contrib.bench import profiled, relay
from contrib.bench.calls import percentile
from contrib.bench.figures import Figure, Sample, grid, machine, number, table
from contrib.bench.gather import gather
from contrib.bench.hosts import Host, crowd, flood
from contrib.bench.place import BARE, ROOT, STEP, TINY, BenchError, Place
from contrib.bench.plan import FULL, QUICK, Plan
from contrib.bench.revisions import checkout
from contrib.bench.steps import STEPS, Profile, Stats, hottest, profile_of

#: How many times the calls of a plan are profiled.
_MANY = 8
_PATIENCE = 10.0
_HOTTEST = 12
_HOSTS = 10
#: What waits is not what works.
_WAITING = STEPS[0]


class ProfiledPlace(Place):
    """A place whose daemon has a profiler in it."""

    program = ("-P", str(Path(profiled.__file__).resolve()))

    def __init__(self, root: Path = ROOT) -> None:
        super().__init__(root, copies=0)
        self._file = self.home / "profile"
        self.environ["SMCP_PROFILE"] = str(self._file)

    def profile(self, host: Host, count: int) -> Stats:
        """Return what the daemon called while a host made so many calls."""
        self._switch(on=True)
        host.do("calls", count=count)
        self._switch(on=False)
        stats: Stats = pstats.Stats(str(self._file)).stats  # type: ignore[attr-defined]
        return stats

    def _switch(self, *, on: bool) -> None:
        os.kill(self.daemon.pid, signal.SIGUSR1)
        end = time.monotonic() + _PATIENCE
        while self._file.exists() == on:
            if time.monotonic() > end:
                raise BenchError("the profiler does not answer")
            time.sleep(STEP)


def main(words: Sequence[str] | None = None) -> int:
    """Profile, measure the floor, print the tables, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m contrib.bench.profile", description=__doc__)
    parser.add_argument("old", nargs="?", help="a revision to compare with, as git knows it")
    parser.add_argument("--quick", action="store_true", help="a short run, for a look; its times are rough")
    options = parser.parse_args(words)
    plan = QUICK if options.quick else FULL
    before = machine()
    profiles, status = gather(_profiles(options.old, plan))
    below, status = ([], status) if status else gather(chain(processor(plan), floor(plan)))
    parts = [", ".join(f"{name} {value}" for name, value in before.items())]
    if profiles:
        now, *old = profiles
        parts.append(tables(now, old[0] if old else None, plan.calls * _MANY))
    if below:
        parts.append(table(below))
    sys.stdout.write("\n\n".join(parts) + "\n")
    return status


def _profiles(old: str | None, plan: Plan) -> Iterator[Stats]:
    """Yield what the daemon of this checkout called, and what that of the old one did if it is named."""
    yield stats(ROOT, plan)
    if old:
        with checkout(old) as root:
            yield stats(root, plan)


def stats(root: Path, plan: Plan) -> Stats:
    """Return what the daemon of a checkout called for the calls of one host."""
    with ProfiledPlace(root) as place, Host(place.shim(BARE), place.environ) as host:
        host.do("open")
        host.do("calls", count=plan.calls)
        return place.profile(host, plan.calls * _MANY)


def tables(now: Stats, old: Stats | None, count: int) -> str:
    """Return the steps of a call with what they cost, before and now, and the functions that take longest."""
    profiles = [profile_of(found, count) for found in (old, now) if found is not None]
    names = ["before", "now"] if old is not None else [""]
    head = ["step of a call", *(f"{what} {name}".strip() for what in ("functions", "µs profiled") for name in names)]
    rows = [head]
    for step in STEPS:
        times = ["" if step == _WAITING else number(profile.times[step]) for profile in profiles]
        rows.append([step, *(number(profile.calls[step]) for profile in profiles), *times])
    totals = [number(sum(profile.times.values()) - profile.times[_WAITING]) for profile in profiles]
    rows.append(["**all**", *(number(profile.functions) for profile in profiles), *totals])
    functions = [["function", "calls", "µs profiled"]]
    for _, (name, calls, spent) in zip(range(_HOTTEST), hottest(now, count), strict=False):
        functions.append([name, number(calls), number(spent)])
    return "\n\n".join([grid(rows), _system(profiles[-1]), grid(functions)])


def _system(profile: Profile) -> str:
    calls = ", ".join(f"{name} {number(often)}" for name, often in sorted(profile.system.items()))
    return f"System calls of the daemon for one call: {number(sum(profile.system.values()))} ({calls})."


def processor(plan: Plan) -> Iterator[Figure]:
    """Yield the daemon's processor time for a call, without a profiler, and how much of it the kernel takes."""
    count = plan.calls * _MANY
    with Place(copies=0) as place, Host(place.shim(BARE), place.environ) as host:
        host.do("open")
        host.do("calls", count=plan.calls)
        before, used = place.daemon.cpu_times(), place.processor_time()
        host.do("calls", count=count)
        after, now = place.daemon.cpu_times(), place.processor_time()
    yield Figure("the daemon's processor time for a call", "µs", Sample.of([(now - used) / count * 1e6]))
    total = (after.user - before.user) + (after.system - before.system)
    if total >= 10 / os.sysconf("SC_CLK_TCK"):  # less than that is told in steps that are too large
        share = 100 * (after.system - before.system) / total
        yield Figure("… of that in the kernel", "%", Sample.of([share]))


def floor(plan: Plan) -> Iterator[Figure]:
    """Yield what a process in between that does nothing costs one host and ten, and what smcp costs them."""
    with tempfile.TemporaryDirectory(prefix="smcp-relay-") as folder, Place(copies=0) as place:
        between = {name: [*command, *TINY] for name, command in relays(Path(folder)).items()}
        commands = {"direct": TINY, **between, "smcp": place.shim(BARE)}
        yield from _added(commands, place.environ, plan)
        yield from _rates(commands, place.environ, plan)


def _added(commands: Mapping[str, Sequence[str]], environ: Mapping[str, str], plan: Plan) -> Iterator[Figure]:
    taken: dict[str, list[float]] = {name: [] for name in commands}
    with ExitStack() as stack:
        hosts = {name: stack.enter_context(Host(command, environ)) for name, command in commands.items()}
        for host in hosts.values():
            host.do("open")
            host.do("calls", count=plan.calls)
        for turn in range(plan.rounds):
            for name in _in_turn(hosts, turn):
                times = sorted(hosts[name].do("calls", count=plan.calls)["nanoseconds"])
                taken[name].append(percentile(times, 50) / 1e6)
    direct, *others = ((name, Sample.of(values)) for name, values in taken.items())
    for name, sample in others:
        yield Figure(f"added to a call by {name}, p50", "ms", sample.less(direct[1]), None, direct[1], sample)


def _rates(commands: Mapping[str, Sequence[str]], environ: Mapping[str, str], plan: Plan) -> Iterator[Figure]:
    # A relay serves one host, so ten have ten relays and ten servers; only smcp has one.
    counted: dict[str, list[float]] = {name: [] for name in commands}
    with ExitStack() as stack:
        crowds = {name: stack.enter_context(crowd(command, environ, _HOSTS)) for name, command in commands.items()}
        for turn in range(plan.floods):
            for name in _in_turn(crowds, turn):
                counted[name].append(flood(crowds[name], plan.seconds))
    direct, *others = ((name, Sample.of(values)) for name, values in counted.items())
    for name, sample in others:
        what = f"calls per second, {_HOSTS} hosts, through {name}"
        yield Figure(what, "×", sample.over(direct[1]), None, direct[1], sample, "/s")


def _in_turn(names: Iterable[str], turn: int) -> list[str]:
    # Nobody is always the first.
    return list(names) if turn % 2 else list(names)[::-1]


def relays(folder: Path) -> dict[str, list[str]]:
    """Return the commands of what does nothing in between; the one in C is made here, where a compiler is found."""
    source = Path(relay.__file__).resolve()
    commands = {"a relay in Python": [os.path.realpath(sys.executable), "-I", "-S", str(source)]}
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        sys.stderr.write("no compiler for C: the floor is measured in Python only\n")
        return commands
    program = folder / "relay"
    words = [compiler, "-O2", "-o", str(program), str(source.with_suffix(".c"))]
    done = subprocess.run(words, check=False, timeout=60, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(f"the floor is measured in Python only: {done.stderr.strip()}\n")
        return commands
    return {"a relay in C": [str(program)], **commands}


if __name__ == "__main__":
    sys.exit(main())
