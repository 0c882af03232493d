"""Looks at the trees of all children again and again, in a worker thread, and keeps what it saw."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import anyio.to_thread

from supervisord_mcp.metrics import pace
from supervisord_mcp.metrics.counts import Counts
from supervisord_mcp.metrics.ring import History, Point
from supervisord_mcp.policy.breach import NOTHING, REFUSING, Bounds, Held, crossed
from supervisord_mcp.runtimes.reading import Meter, Reading

_log = logging.getLogger(__name__)

#: Over how long the use of processors is measured for its limit, in seconds.
_CPU_WINDOW = 60.0


@dataclass(frozen=True, slots=True)
class Target:
    """One child that is looked at: whose it is, which run, and who is told of a limit that it is found beyond.

    ``exceeded`` gets the name of the limit, and whether the child was only refused more.
    """

    server: str
    instance: str
    generation: int
    meter: Meter
    bounds: Bounds = NOTHING
    exceeded: Callable[[str, bool], None] = lambda name, refused: None


#: Reads the meters of targets; the last argument is whether it is to be thorough.
Read: TypeAlias = Callable[[Sequence[Target], float, bool], Awaitable[list[Reading | None]]]


@dataclass(slots=True)
class Sample:
    """What was last seen of one instance. ``load`` is how many processors were busy since the look before."""

    target: Target
    reading: Reading
    at: float
    load: float = 0.0
    beyond: frozenset[str] = frozenset()
    past: deque[tuple[float, float]] = field(default_factory=deque)
    refused: int = 0
    refusing: bool = False


def read_all(targets: Sequence[Target], now: float, thorough: bool) -> list[Reading | None]:
    """Return what each target uses now; None where nothing is left of it, or where it cannot be read."""
    readings: list[Reading | None] = []
    for target in targets:
        try:
            readings.append(target.meter.read(now, thorough=thorough))
        except OSError as error:  # no descriptor is left, mostly
            _log.warning("server '%s' cannot be measured: %s", target.server, error)
            readings.append(None)
        except Exception:  # noqa: BLE001 - one tree that cannot be read must not hide the others
            _log.exception("server '%s' cannot be measured", target.server)
            readings.append(None)
    return readings


async def read_apart(targets: Sequence[Target], now: float, thorough: bool) -> list[Reading | None]:
    """Read in a worker thread: a process that is busy with its memory holds up whoever asks for it."""
    return await anyio.to_thread.run_sync(read_all, targets, now, thorough)


class Sampler:
    """What all servers use. Made in the event loop, as soon as `run` is started."""

    def __init__(
        self,
        targets: Callable[[], Sequence[Target]],
        counts: Counts,
        wall: Callable[[], float],
        read: Read = read_apart,
    ) -> None:
        """``wall`` is the time since the epoch, ``read`` reads the meters of targets."""
        self.samples: dict[str, Sample] = {}
        self.histories: dict[str, History] = {}
        #: Whether it looks by itself; limits that depend on it are looked after all the same.
        self.enabled = True
        #: How often something was added to the histories.
        self.added = 0
        self._targets = targets
        self._counts = counts
        self._wall = wall
        self._read = read
        self._loop = asyncio.get_running_loop()
        self._looking = anyio.Lock()
        self._woken = anyio.Event()
        self._looked = self._happened = -pace.LINGERING
        # What was last seen of each child that runs, also where a look left it out, or could not read it: what it used
        # by then was counted.
        self._known: dict[str, Sample] = {}

    def wake(self) -> None:
        """Something runs now, or may."""
        self._happened = self._loop.time()
        self._woken.set()

    def keep(self, servers: Sequence[str]) -> None:
        """Forget the servers that there are not any more."""
        for name in self.histories.keys() - set(servers):
            del self.histories[name]

    async def run(self) -> None:
        """Look, again and again; where there is nothing to look at, wait until there is."""
        while True:
            self._woken = anyio.Event()
            targets = self._wanted()
            if not targets:
                self.samples.clear()
                await self._woken.wait()
                await anyio.sleep(pace.FRESH)  # what has just begun tells nothing yet
                continue
            await self._look(targets)
            now = self._loop.time()
            bounded = any(target.bounds.pressing for target in targets)
            with anyio.move_on_after(pace.pause(now, self._happened, bounded=bounded)) as scope:
                await self._woken.wait()
            if not scope.cancelled_caught:
                # Somebody came or a child began: no sooner than the pace of busy times all the same.
                await anyio.sleep(max(self._looked + pace.BUSY - self._loop.time(), 0.0))

    def _wanted(self) -> list[Target]:
        return [target for target in self._targets() if self.enabled or target.bounds.pressing]

    async def fresh(self) -> None:
        """Look now, unless that was just done: somebody wants to know."""
        self.wake()
        if self._loop.time() - self._looked >= pace.FRESH:
            await self._look(list(self._targets()), thorough=True)

    async def _look(self, targets: Sequence[Target], *, thorough: bool = False) -> None:
        async with self._looking:
            if thorough and self._loop.time() - self._looked < pace.FRESH:
                return  # another one looked while this one waited
            now = self._loop.time()
            readings = await self._read(targets, now, thorough)
            self._looked = now
            self._take(list(zip(targets, readings, strict=True)), now)

    def _take(self, found: list[tuple[Target, Reading | None]], now: float) -> None:
        if self._counts.called:
            self._counts.called = False
            self._happened = now
        points: dict[str, Point] = {}
        samples: dict[str, Sample] = {}
        for target, reading in found:
            if reading is None:
                continue
            before = self._known.get(target.instance)
            if before is not None and before.target.generation != target.generation:
                self._ended(before)
                before = None
            sample = self._sample(target, reading, before, now)
            samples[target.instance] = self._known[target.instance] = sample
            point = self._point(sample, before)
            known = points.get(target.server)
            points[target.server] = point if known is None else _together(known, point)
            self._spent(target.server, reading, before.reading if before is not None else Reading(), point)
        self.samples = samples
        running = {target.instance for target in self._targets()}
        for instance in self._known.keys() - running:
            self._ended(self._known.pop(instance))
        self.added += bool(points)
        for server, point in points.items():
            self.histories.setdefault(server, History()).add(point)
        for sample in samples.values():
            self._remember(sample)
            self._judge(sample)

    def _sample(self, target: Target, reading: Reading, before: Sample | None, now: float) -> Sample:
        if before is None:
            past = deque([(now, reading.cpu)])
            return Sample(target, reading, now, past=past)
        load = max(reading.cpu - before.reading.cpu, 0.0) / max(now - before.at, 1e-3)
        past = before.past
        past.append((now, reading.cpu))
        while len(past) > 2 and past[1][0] <= now - _CPU_WINDOW:
            past.popleft()
        if load > pace.ACTIVE:
            self._happened = now
        return Sample(target, reading, now, load, before.beyond, past, before.refused, before.refusing)

    def _point(self, sample: Sample, before: Sample | None) -> Point:
        now, old = sample.reading, before.reading if before is not None else Reading()
        return Point(
            at=self._wall(),
            seconds=sample.at - before.at if before is not None else max(pace.BUSY, now.cpu),
            memory=now.memory,
            resident=now.resident,
            processes=len(now.processes),
            threads=now.threads,
            files=now.files,
            starts=int(before is None),
            **_grown(now, old),
        )

    def _spent(self, server: str, now: Reading, before: Reading, point: Point) -> None:
        """Count what was used since the look before, beyond the end of the run that used it."""
        tally = self._counts.tally(server)
        tally.cpu += point.cpu
        tally.read += point.read
        tally.written += point.written
        tally.sent += point.sent
        tally.received += point.received
        tally.oom_kills += max((now.oom_kills or 0) - (before.oom_kills or 0), 0)
        tally.refused += max((now.refused or 0) - (before.refused or 0), 0)
        tally.throttled += max((now.throttled or 0.0) - (before.throttled or 0.0), 0.0)
        self._counts.changed = True

    def _ended(self, sample: Sample) -> None:
        """Count what a run used after it was last seen: an end for want of memory is in no look."""
        if (final := sample.target.meter.final()) is not None:
            before = sample.reading
            self._spent(sample.target.server, final, before, Point(self._wall(), **_grown(final, before)))

    def _remember(self, sample: Sample) -> None:
        """Keep what an instance takes, for what is said of it when it does not run."""
        tally, reading = self._counts.tally(sample.target.server), sample.reading
        tally.memory, tally.private, tally.processes = reading.memory, reading.private, len(reading.processes)

    def _judge(self, sample: Sample) -> None:
        bounds, reading = sample.target.bounds, sample.reading
        first, last = sample.past[0], sample.past[-1]
        seconds = last[0] - first[0]
        load = (last[1] - first[1]) / seconds if seconds >= _CPU_WINDOW else None
        held = Held(reading.memory, reading.threads, load, reading.most_files)
        sample.beyond, new = crossed(bounds, held, sample.beyond)
        for name in new:
            sample.target.exceeded(name, name in REFUSING)
        refused = (reading.refused or 0) > sample.refused
        sample.refused = reading.refused or 0
        if refused and not sample.refusing:
            sample.target.exceeded("pids", True)
        sample.refusing = refused


def _grown(now: Reading, before: Reading) -> dict[str, Any]:
    """Return what of a point was used between two readings."""
    names = ("cpu", "read", "written", "sent", "received")
    return {name: max((getattr(now, name) or 0) - (getattr(before, name) or 0), 0) for name in names}


def _together(one: Point, other: Point) -> Point:
    """Return the sum of what two instances of a server used at the same time."""
    whole = one.joined(other)
    return Point(
        at=whole.at,
        seconds=max(one.seconds, other.seconds),
        cpu=whole.cpu,
        memory=one.memory + other.memory,
        resident=one.resident + other.resident,
        processes=one.processes + other.processes,
        threads=one.threads + other.threads,
        files=one.files + other.files,
        read=whole.read,
        written=whole.written,
        sent=whole.sent,
        received=whole.received,
        starts=whole.starts,
    )
