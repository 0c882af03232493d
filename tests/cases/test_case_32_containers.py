"""Case 32: what a container does that docker run -i does not: it stops at once, and nothing of it is left."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kit.bounded import bounded
from tests.kit.daemon import Daemon, daemon, fake
from tests.kit.engine import Dockerd, make
from tests.kit.fhost import ConversationError, Host
from tests.kit.images import load
from tests.kit.registry import Registry

#: What the case gives five stops.
STOPPED = 3.0


def contained(name: str, image: str, **entry: Any) -> Any:
    """Return an entry with an image; what it runs is up to the image."""
    return fake(name, entry={"runtime": "container", "image": image, "pull": "never", **entry})


@asynccontextmanager
async def served(engine: Dockerd, *fakes: Any) -> AsyncIterator[Daemon]:
    """Have a daemon that uses an engine; nothing of it is left on the engine."""
    async with daemon(*fakes, env={"DOCKER_HOST": engine.url}) as d:
        yield d
    assert engine.containers() == []


def five(image: str) -> list[Any]:
    """Return five entries that hear no SIGTERM."""
    return [contained(f"loop{number}", image) for number in range(5)]


@bounded(90)
async def test_a_server_in_a_container_is_like_any_other(engine: Dockerd) -> None:
    image = load(engine.client, "fake")
    async with served(engine, contained("s", image)) as d:
        hosts = [await d.connected("s") for _ in range(2)]
        for host in hosts:
            assert (await host.call("echo", value=host.name)).text == host.name
        (name,) = engine.containers()
        # Neither argv nor labels nor environment of the container say what only the server is to know.
        told = json.dumps(engine.client.inspect_container(name))
        assert '"Tty": false' in told
        server = await d.server("s")
        assert server["state"] == "RUNNING"
        await d.control("stop", names=["s"])
        assert engine.containers() == []


@bounded(90)
async def test_five_stops_in_parallel_take_less_than_three_seconds(engine: Dockerd) -> None:
    entries = five(load(engine.client, "loop"))
    async with served(engine, *entries) as d:
        for entry in entries:
            await d.connected(entry.name)
            await d.control("start", names=[entry.name])
        assert len(engine.containers()) == 5
        begin = time.monotonic()
        await asyncio.gather(*(d.control("stop", names=[entry.name]) for entry in entries))
        assert time.monotonic() - begin < STOPPED
        assert engine.containers() == []


@bounded(90)
async def test_what_a_killed_daemon_left_is_gone_when_the_next_one_serves(engine: Dockerd) -> None:
    entries = five(load(engine.client, "loop"))[:2]
    async with served(engine, *entries) as d:
        for entry in entries:
            await d.connected(entry.name)
            await d.control("start", names=[entry.name])
        before = set(engine.containers())
        assert len(before) == 2
        await d.kill()  # the shims bring the next one up
        async with asyncio.timeout(20):
            while before & set(engine.containers()):
                await asyncio.sleep(0.05)


@bounded(120)
async def test_an_engine_that_does_not_run_is_named_and_used_when_it_does() -> None:
    engine = await asyncio.to_thread(make)
    try:
        image = load(engine.client, "fake")
        await asyncio.to_thread(engine.stop, signal.SIGTERM)
        async with daemon(contained("s", image), fake("other"), env={"DOCKER_HOST": engine.url}) as d:
            other = await d.connected("other")
            # More often than a server may fail: a missing engine is no fault of it.
            for _ in range(8):
                with pytest.raises(ConversationError, match="container engine"):
                    await d.connected("s")
            assert (await other.call("echo", value="fine")).text == "fine"
            await asyncio.to_thread(engine.start)
            host = await d.connected("s")
            assert (await host.call("echo", value="late")).text == "late"
        assert engine.containers() == []
    finally:
        await asyncio.to_thread(engine.close)


@pytest.mark.parametrize("moment", ["starting", "running", "stopping"])
@bounded(90)
async def test_a_daemon_killed_at_any_moment_leaves_nothing(engine: Dockerd, moment: str) -> None:
    # Long enough to be killed in, and only there: its server uses all of it, twice.
    grace = "2s" if moment == "stopping" else "500ms"
    entry = contained("loop", load(engine.client, "loop"), engine=engine.url, stop_grace=grace)
    async with served(engine, entry) as d:
        starting = asyncio.ensure_future(d.connected("loop"))
        async with asyncio.timeout(20):
            while not engine.containers():
                await asyncio.sleep(0.005)
        if moment != "starting":
            await starting
        if moment == "stopping":
            stopping = asyncio.ensure_future(d.control("stop", names=["loop"]))
            await d.in_state("loop", "STOPPING")
        before = set(engine.containers())
        assert before
        await d.kill()
        if moment == "stopping":
            with pytest.raises((EOFError, OSError, AssertionError)):
                await stopping
        # Who had its answer goes on with the next daemon, who had none gets one from it.
        host = await starting
        answer = await host.call("echo", timeout=20)
        if moment == "stopping":
            assert answer.error is not None
            assert "stopped" in answer.error["message"]
        else:
            assert answer.text == "loop"
        async with asyncio.timeout(20):
            while before & set(engine.containers()):
                await asyncio.sleep(0.05)


@bounded(120)
async def test_an_engine_that_is_restarted_under_load_costs_calls_and_nothing_else() -> None:
    engine = await asyncio.to_thread(make)
    try:
        image = load(engine.client, "fake")
        entry = contained("s", image, backoff={"first": "200ms"}, budget={"restarts": 50})
        async with daemon(entry, env={"DOCKER_HOST": engine.url}) as d:
            hosts = [await d.connected("s") for _ in range(3)]
            answers: list[bool] = []

            async def calling(host: Host) -> None:
                while len(answers) < 1000:
                    answer = await host.call("echo", value=host.name, timeout=40)
                    answers.append(answer.error is None)
                    if answer.error is not None:
                        await asyncio.sleep(0.2)
                    elif done.is_set():
                        return

            done = asyncio.Event()
            calls = [asyncio.ensure_future(calling(host)) for host in hosts]
            async with asyncio.timeout(60):
                while len(answers) < 20:
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(engine.stop, signal.SIGTERM)
                await asyncio.to_thread(engine.start)
                done.set()
                await asyncio.gather(*calls)
            assert answers[0]
            assert answers[-1]
            assert len(engine.containers()) == 1
        assert engine.containers() == []
    finally:
        await asyncio.to_thread(engine.close)


@bounded(90)
async def test_a_daemon_killed_while_it_pulls_leaves_nothing_and_the_next_one_has_it(
    engine: Dockerd, tmp_path: Path
) -> None:
    registry = await asyncio.to_thread(Registry, tmp_path)
    try:
        name = registry.push(engine.client, load(engine.client, "fake"), "fake:1")
        # One that was stopped takes connections and says nothing.
        registry.signal(signal.SIGSTOP)
        entry = fake("s", entry={"runtime": "container", "image": name, "engine": engine.url})
        async with served(engine, entry) as d:
            connecting = asyncio.ensure_future(d.connected("s"))
            await d.in_state("s", "STARTING")
            await d.kill()
            registry.signal(signal.SIGCONT)
            host = await connecting
            assert (await host.call("echo", value="pulled", timeout=20)).text == "pulled"
            assert len(engine.containers()) == 1
    finally:
        await asyncio.to_thread(registry.stop)
