"""Case 16: who is this process? (pid re-use and generations)"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import pytest

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import ControlError, Daemon, bare, daemon, fake
from tests.kit.fhost import Host

FREE = {"budget": {"restarts": 1000}, "backoff": {"first": "10ms", "most": "20ms"}, "stop_grace": "200ms"}


def fakes(d: Daemon) -> list[probe.Process]:
    """Return the processes of fake servers (the sandbox around them does not count)."""
    return [
        process
        for process in probe.find([d.marker])
        if "fserver.py" in process.cmdline and "bwrap" not in process.cmdline
    ]


@contextmanager
def innocent(**env: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that is none of the daemon's business."""
    process = subprocess.Popen(["/bin/sleep", "60"], env=env, start_new_session=True)
    try:
        yield process
        assert process.poll() is None, "an innocent process was killed"
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def neighbours() -> AsyncIterator[tuple[subprocess.Popen[bytes], Daemon]]:
    """Run a marked process that nobody here started, and another daemon with a child."""
    with innocent(SMCP_INSTANCE="other-0123456789abcdef") as stranger:
        async with daemon(bare("s")) as neighbour:
            yield stranger, neighbour


@bounded(60)
async def test_a_new_daemon_kills_its_own_leftovers_only() -> None:
    async with neighbours() as (stranger, neighbour):
        await neighbour.control("start", names=["s"])
        theirs = (await neighbour.instances("s"))[0]["pid"]
        async with daemon(bare("s", spawn_child="setsid", child_ignores_term=True)) as d:
            await d.control("start", names=["s"])
            await d.journal("s").wait(lambda j: j.events("child"))
            assert len(fakes(d)) == 2
            await d.kill()
            await d.start()
            for _ in range(100):
                if not fakes(d):
                    break
                await asyncio.sleep(0.03)
            assert fakes(d) == []
            assert stranger.poll() is None
            assert probe.alive(theirs), "the child of another daemon lives"
        assert (await neighbour.instances("s"))[0]["pid"] == theirs


@pytest.mark.parametrize("seed", range(3))
@bounded(90)
async def test_random_interleavings_leave_one_process_or_none(seed: int) -> None:
    chance = random.Random(seed)
    async with daemon(bare("s", ignore_eof=True, entry=FREE)) as d:
        host = await d.connected("s")
        most = 0

        async def command(op: str) -> None:
            try:
                await d.control(op, names=["s"])
            except ControlError:
                if op == "stop":
                    raise

        async def crash() -> None:
            for process in fakes(d):
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)

        async def call(client: Host) -> None:
            await client.call("echo", value=1, timeout=15)

        steps: list[Callable[[], Awaitable[None]]] = [
            crash,
            lambda: call(host),
            *(lambda op=op: command(op) for op in ("start", "stop", "restart")),
        ]
        running: set[asyncio.Task[None]] = set()
        for _ in range(60):
            running.add(asyncio.ensure_future(chance.choice(steps)()))
            await asyncio.sleep(chance.choice([0, 0, 0.005, 0.03]))
            most = max(most, len(fakes(d)))
            if len(running) > 12:
                _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*running)
        assert most <= 1, "never two children of one instance"

        await d.control("stop", names=["s"])
        assert (await d.server("s"))["state"] == "STOPPED"
        starts = len(d.journal("s").runs())
        await asyncio.sleep(0.3)
        assert (fakes(d), len(d.journal("s").runs())) == ([], starts), "nothing starts after a stop"
        assert (await host.call("echo", value="asked")).error or fakes(d)
        await d.control("start", names=["s"])
        assert (await host.call("echo", value="again")).text == "again"
        assert len(fakes(d)) == 1
        counted = Counter(event["event"] for event in d.journal("s").events())
        assert counted["started"] == len(set(d.journal("s").runs()))


@pytest.mark.bwrap
@bounded(60)
async def test_generations_and_pids_in_the_status_match_the_process_table() -> None:
    async with daemon(fake("s", entry=FREE)) as d:
        generations = []
        for _ in range(3):
            await d.control("restart", names=["s"])
            one = (await d.instances("s"))[0]
            generations.append(one["generation"])
            assert one["state"] == "RUNNING"
            assert probe.alive(one["pid"])
            assert one["pid"] in probe.descendants(await d.pid())
        assert generations == sorted(set(generations))
        await d.control("stop", names=["s"])
        assert (await d.server("s"))["state"] == "STOPPED"
        assert all(one["pid"] is None for one in await d.instances("s"))
        assert probe.descendants(await d.pid()) == []
