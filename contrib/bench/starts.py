"""What a start costs: connecting to a running server, the sandbox around a new one, the way back after a crash."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from contrib.bench.figures import Bar, Figure, Sample
from contrib.bench.hosts import Host
from contrib.bench.place import BARE, BOXED, RULED, TINY, BenchError, Place
from contrib.bench.plan import Plan

FIRST_REPLY = Bar(60.0)
SANDBOX, LISTENERS = Bar(25.0), Bar(35.0)
RECOVERY = Bar(150.0)


def first_reply(place: Place, plan: Plan) -> Iterator[Figure]:
    """From the start of the command that a host names to the answer to its first request; the server runs already."""
    commands = {"direct": TINY, "the shim": place.shim(BOXED), "`smcp connect`": place.connect(BOXED)}
    taken: dict[str, list[float]] = {name: [] for name in commands}
    with Host(place.shim(BOXED), place.environ) as host:
        host.do("open")
        host.do("calls", count=1)
        for _ in range(plan.starts):
            for name, command in commands.items():
                taken[name].append(_connect(command, place))
    direct, *others = ((name, Sample.of(values)) for name, values in taken.items())
    for name, sample in others:
        yield Figure(f"start to first reply through {name}", "ms", sample, FIRST_REPLY, direct[1], sample)


def _connect(command: list[str], place: Place) -> float:
    with Host(command, place.environ) as host:
        seconds = float(host.do("open")["seconds"])
        if host.do("close")["status"]:
            raise BenchError(f"{command} did not end orderly")
    return seconds * 1e3


def sandboxes(place: Place, plan: Plan) -> Iterator[Figure]:
    """A server that is started: without a sandbox, in one, and in one whose network has rules and so listeners."""
    started: dict[str, list[float]] = {name: [] for name in (BARE, BOXED, RULED)}
    with ExitStack() as stack:
        for name in started:
            place.start(name)  # once before it counts: what the daemon finds out it finds out only once
            stack.enter_context(Host(place.shim(name), place.environ)).do("open")
        for number in range(2 * plan.starts):
            # Whoever comes first meets another machine than whoever comes second.
            for name in (BARE, BOXED, RULED) if number % 2 else (RULED, BOXED, BARE):
                place.stop(name)
                started[name].append(place.start(name) * 1e3)
    bare, boxed, ruled = (Sample.of(values) for values in started.values())
    yield Figure("sandboxed start over bare start", "ms", boxed.less(bare), SANDBOX, bare, boxed)
    yield Figure("… with rules for its network", "ms", ruled.less(bare), LISTENERS, bare, ruled)


def crashes(place: Place, plan: Plan) -> Iterator[Figure]:
    """A server that is killed and called again, over a start of it; without and with a sandbox."""
    started: dict[str, list[float]] = {BARE: [], BOXED: []}
    answered: dict[str, list[float]] = {BARE: [], BOXED: []}
    with ExitStack() as stack:
        hosts = {name: stack.enter_context(Host(place.shim(name), place.environ)) for name in (BARE, BOXED)}
        for host in hosts.values():
            host.do("open")
        for _ in range(plan.starts):
            for name, host in hosts.items():
                place.stop(name)
                started[name].append(place.start(name) * 1e3)
                host.do("calls", count=1)
                answered[name].append(host.do("kill", pid=place.child(name).pid)["seconds"] * 1e3)
    bare, boxed = Sample.of(started[BARE]), Sample.of(started[BOXED])
    for name, start, kind in ((BARE, bare, "without a sandbox"), (BOXED, boxed, "sandboxed")):
        recovered = Sample.of(answered[name])
        what = f"call answered after kill -9, over a start, {kind}"
        yield Figure(what, "ms", recovered.less(start), RECOVERY, start, recovered)
