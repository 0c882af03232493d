"""Case 16: a thousand random interleavings of what happens to a server, against a process table that is known."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisord_mcp.errors import SmcpError, UnknownServerError
from supervisord_mcp.observer import Event
from supervisord_mcp.runtimes.base import ExitStatus
from tests.kit.estate import Estate, PipeGuest, estate
from tests.kit.fhost import hello
from tests.kit.fruntime import FakeRuntime, Script
from tests.kit.virtual import run_virtually

#: Daemons, interleavings in the life of each, and what happens in one: a thousand as the case wants, and half as many
#: with a server that is taken out of the configuration.
DAEMONS, INTERLEAVINGS, STEPS = 20, 50, 8
#: The grace and the waits of the entry, and the edges around them: where timers meet what a test does.
PAUSES = (0.0, 0.0, 0.001, 0.099, 0.1, 0.101, 0.2, 0.2001, 1.0)


def entry(version: int) -> dict[str, Any]:
    """Return the entry of the server in one of its versions; the last one gives up early.

    Its era is known: a child that dies of the question for it is replaced without a change of state.
    """
    budget = {"restarts": 2 if version == 2 else 1000, "within": "10s"}
    backoff = {"first": "100ms", "most": "200ms"}
    command = ["/bin/true", f"--version={version}"]
    return {"command": command, "runtime": "bare", "stop_grace": "100ms", "budget": budget, "backoff": backoff,
            "start_timeout": "1s", "idle_timeout": "1s", "era": "legacy"}  # fmt: skip


class World:
    """A daemon's middle with a fake process table, what is done to it, and what must hold whenever it changes."""

    def __init__(self, chance: random.Random, *, removing: bool) -> None:
        self.chance = chance
        self.removing = removing
        self.runtime = FakeRuntime(self.launched)
        self.guests: list[PipeGuest] = []
        self.asked: list[tuple[PipeGuest, int]] = []
        #: How often a person said start or restart, and whether a stop has succeeded since.
        self.wishes = 0
        self.stopped = False
        self.problems: list[str] = []
        self.told: list[Event] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.done: Counter[str] = Counter()

    def script(self) -> Script:
        pick = self.chance.choice
        return Script(
            spawning=pick([0.0, 0.0, 0.05, 0.1]),
            fails=pick(["", "", "", "no luck"]),
            ready_after=pick([0.0, 0.0, 0.1, 0.5, None]),
            lives=pick([None, None, None, 0.05, 0.1, 0.3]),
            code=pick([0, 1]),
            deaf=pick([0, 0, 1, 2]),
            leaving=pick([0.0, 0.05, 0.1]),
        )

    # What must hold

    def launched(self, name: str) -> None:
        """Look at a launch; what is raised here would only be a failed start, so it is kept for later."""
        if self.runtime.processes(name):
            self.problems.append("never two children of one instance")
        if self.stopped:
            self.problems.append("after a stop that succeeded nothing starts until a person asks")

    def noted(self, event: Event) -> None:
        """Keep what was told; an observer that fails would only be told no more."""
        if event.kind == "state":
            self.told.append(event)

    def check_story(self) -> None:
        """Look whether each change belongs to the run it names: a start opens one, the rest goes on in it."""
        shown: dict[tuple[str, int], str] = {}
        for event in self.told:
            before, after = event.data["from"], event.data["to"]
            run = (event.data["instance"], event.data["generation"])
            if run in shown:
                assert before == shown[run], f"a change is lost: {event}"
                assert after != "STARTING", f"a second start in one run: {event}"
            else:
                assert after == "STARTING", f"a run that was not begun: {event}"
            shown[run] = after

    async def compare(self, one: Estate) -> None:
        """Compare what status says with the process table, once what happened just now has been seen."""
        for _ in range(20):
            await asyncio.sleep(0)
        assert not self.problems
        if not one.config.servers:
            assert one.supervisor.status() == ()
            assert bool(self.runtime.living) <= bool(one.supervisor._leaving)
            return
        (status,) = one.supervisor.status()
        (child,) = self.runtime.living or (None,)
        told = [instance for instance in status.instances if instance.pid is not None]
        if one.supervisor._leaving:  # a predecessor ends, which no session can find any more
            assert not told
            return
        assert [instance.pid for instance in told] == ([] if child is None else [child.pid])
        for instance in status.instances:
            assert (instance.pid is not None) == (child is not None and instance.state not in ("STOPPED", "BACKOFF"))
            mine = [event.data for event in self.told if event.data["instance"] == instance.key]
            last = [data["to"] for data in mine if data["generation"] == instance.generation]
            assert instance.state == (last[-1] if last else "STOPPED")

    # What happens

    async def crash(self, _one: Estate) -> None:
        for child in self.runtime.living:
            child.exit(ExitStatus(code=self.chance.choice([0, 1, 7])))

    async def start(self, one: Estate) -> None:
        self.wish()
        with suppress(SmcpError):
            await one.supervisor.start(["s"])

    async def restart(self, one: Estate) -> None:
        self.wish()
        with suppress(SmcpError):
            await one.supervisor.restart(["s"])

    def wish(self) -> None:
        self.wishes += 1
        self.stopped = False

    async def stop(self, one: Estate) -> None:
        before = self.wishes
        try:
            await one.supervisor.stop(["s"])
        except UnknownServerError:
            return
        if self.wishes == before:
            self.done["stopped"] += 1
            self.stopped = True
            assert self.runtime.living == [], "a stop that succeeded leaves no process"

    async def change(self, one: Estate) -> None:
        one.reconfigure({"s": entry(self.chance.randrange(3))})

    async def remove(self, one: Estate) -> None:
        """Take the server out of the configuration; one that is put in again was not stopped by anybody."""
        self.wish()
        one.reconfigure({})
        await anyio.sleep(self.chance.choice(PAUSES))
        one.reconfigure({"s": entry(self.chance.randrange(3))})

    async def ask(self, one: Estate) -> None:
        self.guests = [guest for guest in self.guests if not guest.ended]
        if not self.guests or self.chance.random() < 0.05:
            guest = one.guest("s")
            self.guests.append(guest)
            self.asked.append((guest, guest.post("initialize", hello())))
            guest.say("notifications/initialized")
        guest = self.chance.choice(self.guests)
        self.asked.append((guest, guest.post_call("echo", value=len(self.asked))))

    async def timer(self, _one: Estate) -> None:
        await anyio.sleep(self.chance.choice(PAUSES))

    async def interleaving(self, one: Estate) -> None:
        """Do several things, some at the same time, some exactly when a timer is due."""
        whatever: list[Callable[[Estate], Coroutine[Any, Any, None]]]
        whatever = [self.crash, self.start, self.stop, self.restart, self.change, self.ask, self.ask, self.timer]
        whatever += [self.remove, self.ask] if self.removing else []
        loop = asyncio.get_running_loop()
        for _ in range(STEPS):
            step = self.chance.choice(whatever)
            self.done[step.__name__] += 1
            task: asyncio.Task[None] = loop.create_task(step(one))
            self.tasks.append(task)
            await asyncio.sleep(self.chance.choice(PAUSES))
            await self.compare(one)
        if self.chance.random() < 0.5:
            await asyncio.gather(*self.tasks)
            self.tasks.clear()

    async def settle(self, one: Estate) -> None:
        """Let everything come to its end, and look whether all was answered and nothing starts after a last stop."""
        await asyncio.gather(*self.tasks)
        await self.stop(one)
        for guest, identity in self.asked:
            await guest.until(lambda: guest.answers(identity) or guest.ended)  # noqa: B023 - awaited here
            assert len(guest.answers(identity)) == 1 or "removed" in guest.word or "no server" in guest.word
        for guest in {guest for guest, _ in self.asked}:
            answered = Counter(message["id"] for message in guest.got if "id" in message)
            assert set(answered.values()) <= {1}, "nothing is answered twice"
        executed = Counter(str(params) for _, params in self.runtime.calls)
        assert set(executed.values()) <= {1}, "nothing is executed twice"
        launches = len(self.runtime.launches)
        late = one.guest("s")
        answer = await late.greet()
        if "result" in answer:  # from the catalogue
            answer = await late.call("echo", value="late")
        assert "is stopped" in answer["error"]["message"]
        await anyio.sleep(100)
        assert len(self.runtime.launches) == launches
        await self.compare(one)
        self.check_story()


@pytest.mark.parametrize(
    ("seed", "removing"), [(seed, False) for seed in range(DAEMONS)] + [(seed, True) for seed in range(DAEMONS // 2)]
)
def test_whatever_comes_first_there_is_one_process_or_none(seed: int, removing: bool, tmp_path: Path) -> None:
    random.seed(seed)  # the jitter of the back-off
    world = World(random.Random(seed), removing=removing)

    async def live() -> None:
        async with estate(tmp_path, {"s": entry(0)}, runtimes={"bare": world.runtime}) as one:
            one.observers.add(world.noted)
            world.guests += [await one.greeted("s") for _ in range(3)]
            world.runtime.script = lambda _: world.script()
            for _ in range(INTERLEAVINGS):
                await world.interleaving(one)
            await world.settle(one)

    run_virtually(live, 5000.0, world.chance)
    happened = {"crash", "start", "stop", "restart", "change", "ask", "timer", "stopped"}
    assert happened <= set(world.done), "each of them happened"
    assert len(world.runtime.launches) > INTERLEAVINGS / 2
