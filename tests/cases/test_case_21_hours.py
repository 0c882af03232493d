"""Case 21 over two hours each: what is down is not started more often than its budget allows, however many ask."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.kit.estate import Estate, PipeGuest, estate
from tests.kit.fhost import hello
from tests.kit.fruntime import FakeRuntime, Script
from tests.kit.virtual import virtual

MINUTES, REQUESTS = 120, 50
HOURS = 3 * 3600.0
WHY = "cannot find module 'left-pad'"
#: What is configured: nothing, so that the defaults are what is tested (5 restarts in 60 s, waits from 1 s to 30 s).
#: Its era is known, so no start is spent on the question for it.
PLAIN: dict[str, Any] = {"command": ["/bin/true"], "runtime": "bare", "era": "legacy"}


class Town:
    """A server that has trouble, one that has none, and hosts that come each minute."""

    def __init__(self, one: Estate, runtime: FakeRuntime) -> None:
        self.one, self.runtime = one, runtime
        self.errors: list[dict[str, Any]] = []
        #: How long the hosts of each minute waited for their last answer, in seconds to two places.
        self.waits: list[float] = []

    async def live(self) -> None:
        """Let the hosts come."""
        loop = asyncio.get_running_loop()
        good = await self.one.greeted("healthy")
        begin = loop.time()
        for minute in range(MINUTES):
            await anyio.sleep(max(0.0, begin + 60 * minute - loop.time()))
            await self.visit()
            assert "result" in await good.call("echo", value=f"minute {minute}"), "the other one is not affected"
        assert len(self.runtime.launched("healthy")) == 1
        assert sum(path.stat().st_size for path in self.one.paths.log_dir.iterdir()) < 1 << 20

    async def visit(self) -> None:
        """Let a host come, ask much at once, and go."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        guest = self.one.guest("s")
        asked = [guest.post("initialize", hello())]
        guest.say("notifications/initialized")
        asked += [guest.post_call("echo", value=f"{begin} {number}") for number in range(REQUESTS)]
        for identity in asked:
            answer = await guest.answer(identity)
            assert len(guest.answers(identity)) == 1
            self.errors += [answer["error"]] if "error" in answer else []
        self.waits.append(round(loop.time() - begin, 2))
        self.leave(guest)

    def leave(self, guest: PipeGuest) -> None:
        guest.close()
        self.one.guests.remove(guest)

    @property
    def starts(self) -> list[float]:
        """When the server in trouble was started."""
        return self.runtime.launched("s")

    @property
    def state(self) -> str:
        return self.one.instance("s").state


def town(directory: Path, script: Script, **more: Any) -> Any:
    """Return an estate with its runtime, both servers in it."""
    runtime = FakeRuntime()
    runtime.script = lambda name: script if name == "s" else Script()
    servers = {"s": {**PLAIN, **more}, "healthy": PLAIN}
    return runtime, estate(directory, servers, {"idle_exit": "off"}, runtimes={"bare": runtime})


def gaps(starts: list[float]) -> Iterator[float]:
    return (after - before for before, after in itertools.pairwise(starts))


@virtual(HOURS)
async def test_a_slow_start_is_one_start(tmp_path: Path) -> None:
    runtime, opened = town(tmp_path, Script(spawning=2.0, ready_after=3.0))
    async with opened as one:
        place = Town(one, runtime)
        await place.live()
        assert len(place.starts) == 1
        assert place.errors == []
        assert place.waits[0] == 5.0


@pytest.mark.parametrize("code", [1, 0])
@virtual(HOURS)
async def test_an_exit_at_the_start_is_tried_with_growing_delays_and_then_parked(code: int, tmp_path: Path) -> None:
    runtime, opened = town(tmp_path, Script(lives=0.0, code=code, stderr=f"{WHY}\n"))
    async with opened as one:
        place = Town(one, runtime)
        await place.live()
        assert len(place.starts) == 6, "the first, and the five that the budget allows"
        waits = list(gaps(place.starts))
        for before, after in itertools.pairwise(waits):
            assert after > before * 1.2, "the delay grows"
        assert place.state == "FATAL"
        assert len(place.errors) == MINUTES * (REQUESTS + 1)
        told = place.errors[-51]["message"]
        assert [part in told for part in (f"exit {code}", WHY, "smcp start s")] == [True] * 3
        assert place.waits[2:] == [0.0] * (MINUTES - 2), "later hosts are told at once"


@virtual(HOURS)
async def test_who_comes_during_a_long_wait_is_told_when_it_ends(tmp_path: Path) -> None:
    runtime, opened = town(tmp_path, Script(lives=0.0, stderr=f"{WHY}\n"))
    async with opened as one:
        place = Town(one, runtime)
        await place.visit()
        await one.until(lambda: len(place.starts) == 4)
        await one.until(lambda: place.state == "BACKOFF")
        await place.visit()
        error = place.errors[-51]
        assert error["data"]["reason"] == "server_backoff"
        assert 5.9 < error["data"]["retryAfter"] <= 8.0
        assert WHY in error["message"]
        assert (place.waits[-1], len(place.starts)) == (0.0, 4)


@pytest.mark.parametrize("program", ["no-such-program-anywhere", "/etc/passwd"])
@virtual(HOURS)
async def test_a_command_that_cannot_run_is_tried_once(program: str, tmp_path: Path) -> None:
    runtime, opened = town(tmp_path, Script(), command=[program])
    async with opened as one:
        place = Town(one, runtime)
        await place.live()
        starts = [event for event in one.events("state") if event.server == "s" and event.data["to"] == "STARTING"]
        assert len(starts) == 1
        assert (place.state, place.starts, one.instance("s").restarts) == ("FATAL", [], 0)
        assert len(place.errors) == MINUTES * (REQUESTS + 1)
        assert program in place.errors[-51]["message"]
        assert place.waits == [0.0] * MINUTES


@virtual(HOURS)
async def test_a_crash_soon_after_each_start_is_parked(tmp_path: Path) -> None:
    runtime, opened = town(tmp_path, Script(lives=0.1, from_ready=True, stderr=f"{WHY}\n"))
    async with opened as one:
        place = Town(one, runtime)
        await place.live()
        assert place.state == "FATAL"
        assert len(place.starts) == 6
        assert "budget" in place.errors[-1]["message"]
        assert place.waits[-1] == 0.0


@virtual(HOURS)
async def test_a_crash_after_each_good_run_is_no_reason_to_give_up(tmp_path: Path) -> None:
    runtime, opened = town(tmp_path, Script(lives=60.0, from_ready=True))
    async with opened as one:
        place = Town(one, runtime)
        await place.live()
        assert place.state in ("RUNNING", "BACKOFF", "STARTING")
        assert MINUTES - 5 <= len(place.starts) <= MINUTES + 5
        assert all(60.0 <= gap <= 61.0 for gap in gaps(place.starts)), "each wait is the first one again"
        assert place.errors == []


@virtual(HOURS)
async def test_flapping_after_a_long_good_run_trips_as_well(tmp_path: Path) -> None:
    runtime, opened = town(tmp_path, Script())
    good, bad = Script(lives=3600.0, from_ready=True), Script(lives=0.1, from_ready=True, stderr=f"{WHY}\n")
    async with opened as one:
        place = Town(one, runtime)
        runtime.script = lambda name: Script() if name != "s" else bad if place.starts else good
        await place.live()
        assert len(place.starts) == 6, "the good run, and the five restarts that the budget allows"
        assert place.state == "FATAL"
        assert place.starts[1] - place.starts[0] >= 3600


@virtual(HOURS)
async def test_a_start_that_hangs_each_time_is_parked(tmp_path: Path) -> None:
    runtime, opened = town(tmp_path, Script(ready_after=None, deaf=2))
    async with opened as one:
        place = Town(one, runtime)
        await place.live()
        assert place.state == "FATAL"
        assert len(place.starts) == 6
        assert "not ready" in place.errors[-51]["message"]
        assert one.supervisor.status()[1].restarts == 5
