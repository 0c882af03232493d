"""The sampler looks where something runs, keeps what it saw, and tells of limits."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from supervisord_mcp.metrics import pace
from supervisord_mcp.metrics.counts import Counts
from supervisord_mcp.metrics.sampler import Sampler, Target, read_all
from supervisord_mcp.policy.breach import NOTHING, Bounds
from supervisord_mcp.runtimes.reading import Process, Reading
from tests.kit.bounded import bounded
from tests.kit.virtual import virtual


class Meter:
    """Tells what it is told to tell."""

    def __init__(self, *readings: Reading | Exception | None) -> None:
        self.readings = list(readings)
        self.looks: list[tuple[float, bool]] = []
        self.threads: set[int] = set()
        self.ended: Reading | None = None

    def read(self, now: float, *, thorough: bool = False) -> Reading | None:
        self.looks.append((now, thorough))
        self.threads.add(threading.get_ident())
        reading = self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        if isinstance(reading, Exception):
            raise reading
        return reading

    def final(self) -> Reading | None:
        return self.ended

    @property
    def pauses(self) -> list[float]:
        times = [round(at, 1) for at, _ in self.looks]
        return [round(after - before, 1) for before, after in itertools.pairwise(times)]


def reading(cpu: float = 0.0, memory: int = 0, threads: int = 1, **more: Any) -> Reading:
    process = Process(1, 0, "x", cpu, memory, memory, threads, 3)
    return Reading(cpu=cpu, memory=memory, private=memory, threads=threads, most_files=3, processes=(process,), **more)


class World:
    """A sampler over targets that a test sets."""

    def __init__(self, *targets: Target) -> None:
        self.targets = list(targets)
        self.told: list[tuple[str, bool]] = []
        self.counts = Counts(asyncio.get_running_loop().time)
        clock = asyncio.get_running_loop().time
        self.sampler = Sampler(lambda: self.targets, self.counts, clock, self.read)

    async def read(self, targets: Sequence[Target], now: float, thorough: bool) -> list[Reading | None]:
        return read_all(targets, now, thorough)

    def target(self, meter: Meter, bounds: Bounds = NOTHING, name: str = "s/1", generation: int = 1) -> None:
        """Let a child run."""

        def exceeded(limit: str, refused: bool) -> None:
            self.told.append((limit, refused))

        self.targets.append(Target("s", name, generation, meter, bounds, exceeded))
        self.sampler.wake()

    async def runs(self, seconds: float) -> None:
        """Let it run for so long."""
        with anyio.move_on_after(seconds):
            await self.sampler.run()


@virtual(10_000)
async def test_where_nothing_runs_nothing_is_looked_at() -> None:
    world = World()
    await world.runs(5000)
    assert world.sampler.samples == {}
    # Nothing but the limit of this test was waited for.
    assert world.counts.tallies == {}


@virtual(10_000)
async def test_it_looks_often_while_something_happens_and_seldom_after() -> None:
    world, meter = World(), Meter(reading(1.0))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.sampler.run)
        await anyio.sleep(100)
        world.target(meter)
        await anyio.sleep(3000)
        tasks.cancel_scope.cancel()
    assert set(meter.pauses) == {pace.BUSY, pace.QUIET}
    busy = meter.pauses.index(pace.QUIET)
    assert 55 <= busy <= 62
    assert set(meter.pauses[busy:]) == {pace.QUIET}


@virtual(10_000)
async def test_one_that_is_called_is_looked_at_often() -> None:
    world, meter = World(), Meter(reading(1.0))
    world.target(meter)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.sampler.run)
        for _ in range(10):
            await anyio.sleep(200)
            world.counts.called = True
        tasks.cancel_scope.cancel()
    assert set(meter.pauses) == {pace.BUSY}


@virtual(10_000)
async def test_one_that_works_is_looked_at_often_for_ever() -> None:
    world, meter = World(), Meter(*(reading(float(second)) for second in range(600)))
    world.target(meter)
    await world.runs(2000)
    assert set(meter.pauses) == {pace.BUSY}
    sample = world.sampler.samples["s/1"]
    assert sample.load == pytest.approx(0.2, rel=0.01)
    assert world.counts.tallies["s"].cpu == pytest.approx(sample.reading.cpu)


@virtual(1000)
async def test_somebody_who_looks_gets_what_is_new_but_not_more_than_once_a_second() -> None:
    world, meter = World(), Meter(reading(1.0))
    world.target(meter)
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(world.sampler.fresh)
    assert [thorough for _, thorough in meter.looks] == [True]
    await anyio.sleep(100)
    await world.sampler.fresh()
    assert len(meter.looks) == 2


@virtual(1000)
async def test_it_can_be_switched_off_but_for_limits() -> None:
    world, unbounded, kept = World(), Meter(reading()), Meter(reading())
    world.sampler.enabled = False
    world.target(unbounded, Bounds(nofile=10))
    world.target(kept, Bounds(memory=10), name="s/2")
    await world.runs(30)
    assert unbounded.looks == []
    assert len(kept.looks) > 3


@virtual(1000)
async def test_two_instances_are_one_server() -> None:
    world = World()
    world.target(Meter(reading(1.0, 100)))
    world.target(Meter(reading(2.0, 50)), name="s/2")
    await world.sampler.fresh()
    _, [point] = world.sampler.histories["s"].since(0.0, 1.0)
    assert (point.cpu, point.memory, point.processes, point.starts) == (3.0, 150, 2, 2)
    assert point.seconds == pace.BUSY
    assert world.counts.tallies["s"].memory == 50


@virtual(1000)
async def test_a_restart_is_marked_and_begins_anew() -> None:
    world = World()
    world.target(Meter(reading(100.0)))
    await world.sampler.fresh()
    world.targets.clear()
    world.target(Meter(reading(1.0), reading(2.0)), generation=2)
    for _ in range(2):
        await anyio.sleep(100)
        await world.sampler.fresh()
    _, points = world.sampler.histories["s"].since(0.0, 1.0)
    assert [(point.cpu, point.starts) for point in points] == [(100.0, 1), (1.0, 1), (1.0, 0)]
    world.sampler.keep(["t"])
    assert world.sampler.histories == {}


@virtual(1000)
async def test_what_runs_used_is_counted_beyond_their_end() -> None:
    used: dict[str, Any] = {
        "read": 10,
        "written": 20,
        "sent": 3,
        "received": 4,
        "oom_kills": 1,
        "refused": 2,
        "throttled": 0.5,
    }
    world = World()
    world.target(Meter(reading(1.0, **used), reading(1.5, **{name: 2 * value for name, value in used.items()})))
    for _ in range(2):
        await world.sampler.fresh()
        await anyio.sleep(100)
    world.targets.clear()
    world.target(Meter(reading(0.25, **used)), generation=2)
    await world.sampler.fresh()
    tally = world.counts.tallies["s"]
    assert {name: getattr(tally, name) for name in used} == {name: 3 * value for name, value in used.items()}
    assert tally.cpu == 1.75


@virtual(1000)
@pytest.mark.parametrize("another", [False, True])
async def test_what_came_after_the_last_look_is_counted_at_the_end(another: bool) -> None:
    world, meter = World(), Meter(reading(1.0, oom_kills=0, written=9), None)
    world.target(meter)
    await world.sampler.fresh()
    await anyio.sleep(100)
    meter.ended = Reading(cpu=1.5, oom_kills=1, refused=2, throttled=0.5)
    await world.sampler.fresh()
    assert world.counts.tallies["s"].oom_kills == 0, "it may not be at its end yet"
    world.targets.clear()
    if another:
        world.target(Meter(reading(0.25)), generation=2)
    for _ in range(2):
        await anyio.sleep(100)
        await world.sampler.fresh()
    tally = world.counts.tallies["s"]
    assert (tally.oom_kills, tally.refused, tally.throttled, tally.written) == (1, 2, 0.5, 9)
    assert tally.cpu == 1.75 if another else 1.5


@virtual(1000)
async def test_what_was_counted_is_not_counted_again_after_a_look_that_saw_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.target(Meter(reading(100.0), ValueError("no answer"), reading(101.0)))
    for _ in range(3):
        await world.sampler.fresh()
        await anyio.sleep(100)
    assert world.counts.tallies["s"].cpu == 101.0
    _, points = world.sampler.histories["s"].since(0.0, 1.0)
    assert [(point.cpu, point.starts) for point in points] == [(100.0, 1), (1.0, 0)]
    # Nor where it does not look by itself, so that between two looks there is nothing to look at.
    world.sampler.enabled = False
    await world.runs(100)
    assert world.sampler.samples == {}
    await world.sampler.fresh()
    assert world.counts.tallies["s"].cpu == 101.0


@virtual(1000)
async def test_what_has_ended_is_not_there_any_more() -> None:
    world = World()
    world.target(Meter(reading(), None))
    await world.sampler.fresh()
    assert set(world.sampler.samples) == {"s/1"}
    await anyio.sleep(100)
    await world.sampler.fresh()
    assert world.sampler.samples == {}


@virtual(1000)
async def test_limits_are_told_of_once() -> None:
    world = World()
    meter = Meter(reading(memory=50), *[reading(memory=200)] * 3, reading(memory=50), reading(memory=200))
    world.target(meter, Bounds(memory=100, nofile=3))
    await world.runs(60)
    assert world.told == [("nofile", True), ("memory", False), ("memory", False)]


@virtual(1000)
async def test_processors_are_measured_over_a_minute() -> None:
    world = World()
    world.target(Meter(*(reading(second * 5.0) for second in range(100))), Bounds(cpu=0.5))
    await world.runs(58)
    assert world.told == []
    await world.runs(30)
    assert world.told == [("cpu", False)]


@virtual(1000)
async def test_a_group_that_refuses_is_told_of_once_while_it_does() -> None:
    world = World()
    told = [0, 3, 9, 9, 12]
    world.target(Meter(*(reading(refused=count) for count in told)))
    await world.runs(60)
    assert world.told == [("pids", True), ("pids", True)]


@virtual(1000)
@pytest.mark.parametrize(("error", "bug"), [(RuntimeError("no such file"), True), (OSError(24, "too many"), False)])
async def test_one_that_cannot_be_read_does_not_hide_the_others(
    caplog: pytest.LogCaptureFixture, error: Exception, bug: bool
) -> None:
    world = World()
    world.target(Meter(error))
    world.target(Meter(reading()), name="s/2")
    with caplog.at_level(logging.WARNING):
        await world.sampler.fresh()
    assert set(world.sampler.samples) == {"s/2"}
    assert "server 's' cannot be measured" in caplog.text
    assert ("Traceback" in caplog.text) == bug


@bounded(10)
async def test_it_is_read_in_another_thread() -> None:
    meter = Meter(reading())
    clock = asyncio.get_running_loop().time
    sampler = Sampler(lambda: [Target("s", "s/1", 1, meter)], Counts(clock), clock)
    await sampler.fresh()
    assert meter.threads != {threading.get_ident()}
    assert set(sampler.samples) == {"s/1"}
