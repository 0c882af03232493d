"""A daemon with a real engine and a real registry: images are fetched, held and changed; packages become containers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kit import images
from tests.kit.bounded import bounded
from tests.kit.daemon import ControlError, Daemon, Fake, daemon, fake
from tests.kit.engine import Dockerd
from tests.kit.fhost import ConversationError
from tests.kit.registry import Registry
from tests.kit.stalling import StallingRegistry
from tests.packages.registry import Place, place

#: An MCP server in one file, for a package of npm.
SERVER = """
const answers = {
    initialize: {
        protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "tiny", version: "1" },
    },
    "tools/list": { tools: [{ name: "echo", inputSchema: { type: "object" } }] },
    "tools/call": { content: [{ type: "text", text: process.argv.slice(2).join(" ") }] },
};
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, method } = JSON.parse(line);
    if (id === undefined) return;
    const told = method in answers ? { result: answers[method] } : { error: { code: -32601, message: method } };
    process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...told }) + "\\n");
});
"""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    made = Registry(tmp_path)
    yield made
    made.stop()


def contained(**entry: Any) -> Fake:
    return fake("srv", entry={"runtime": "container", **entry})


@asynccontextmanager
async def served(engine: Dockerd, entry: Fake, **environ: str) -> AsyncIterator[Daemon]:
    async with daemon(entry, env={"DOCKER_HOST": engine.url, **environ}) as d:
        yield d
    assert engine.containers() == []


async def smcp(d: Daemon, *words: str) -> str:
    """Run a command as a person would, and return what it writes."""
    command = [sys.executable, "-m", "supervisord_mcp", *words]
    done = await asyncio.to_thread(
        subprocess.run, command, env={**os.environ, **d.env}, capture_output=True, text=True, check=True
    )
    return done.stdout


def phase(found: dict[str, Any]) -> str:
    return str(found["instances"][0]["phase"]) if found["instances"] else ""


@bounded(120)
async def test_a_tag_that_was_moved_runs_only_when_a_person_says_so(engine: Dockerd, registry: Registry) -> None:
    name = registry.push(engine.client, images.load(engine.client, "loop"), "srv:1")
    async with served(engine, contained(image=name, pull="always")) as d:
        host = await d.connected("srv")
        assert (await host.call("echo")).text == "loop"
        (before,) = [one["image"] for one in await d.instances("srv")]
        assert before.startswith(f"{name} sha256:")
        registry.push(engine.client, images.load(engine.client, "loop", "USER 1234:1234"), "srv:1")
        await d.control("restart", names=["srv"], timeout=60)
        assert (await host.call("echo")).text == "loop"
        # Who it runs as tells the two images apart.
        assert (await d.instances("srv"))[0]["user"] == "65534:65534"
        assert "by now sha256:" in (await d.instances("srv"))[0]["image"]
        assert "smcp image accept srv" in await smcp(d, "status")
        assert "image-changed" in await smcp(d, "events")
        assert "from the next start on" in await smcp(d, "image", "accept", "srv")
        await d.control("restart", names=["srv"], timeout=60)
        assert (await host.call("echo")).text == "loop"
        (after,) = await d.instances("srv")
        assert after["user"] == "1234:1234"
        assert after["image"] != before
        assert "by now" not in after["image"]


@bounded(120)
async def test_a_pull_is_seen_and_a_daemon_that_is_killed_meanwhile_leaves_nothing(
    engine: Dockerd, registry: Registry
) -> None:
    name = registry.push(engine.client, images.load(engine.client, "loop"), "srv:1")
    async with served(engine, contained(image=name)) as d:
        registry.signal(signal.SIGSTOP)
        starting = asyncio.create_task(d.control("start", names=["srv"], timeout=60))
        await d.until("srv", lambda found: phase(found) == f"pulling {name}", "the pull")
        await d.kill()
        with pytest.raises((OSError, EOFError)):
            await starting
        assert engine.containers() == []
        registry.signal(signal.SIGCONT)
        await d.start()
        host = await d.connected("srv")
        assert (await host.call("echo")).text == "loop"


@pytest.mark.parametrize("trickle", [False, True])
@bounded(120)
async def test_a_registry_that_gets_nowhere_holds_nobody_up(engine: Dockerd, trickle: bool) -> None:
    image = images.load(engine.client, "loop")
    with StallingRegistry(trickle=trickle) as registry:
        name = registry.name("srv:1")
        there = fake("there", entry={"runtime": "container", "image": image})
        async with daemon(contained(image=name), there, env={"DOCKER_HOST": engine.url}) as d:
            starting = asyncio.create_task(d.control("start", names=["srv"], timeout=60))
            assert await asyncio.to_thread(registry.asked.wait, 20)
            await d.until("srv", lambda found: phase(found).startswith(f"pulling {name}"), "the pull")
            host = await d.connected("there")
            assert (await host.call("echo")).text == "loop"
            await d.control("stop", names=["srv"], timeout=10)
            assert (await d.server("srv"))["state"] == "STOPPED"
            with pytest.raises(ControlError, match="stop"):
                await starting
            # And once more, for the daemon that ends meanwhile.
            starting = asyncio.create_task(d.control("start", names=["srv"], timeout=60))
            await d.until("srv", lambda found: phase(found).startswith(f"pulling {name}"), "the pull")
            assert await d.terminate() == 0
            with pytest.raises((ControlError, EOFError)):
                await starting
            await d.start()
    assert engine.containers() == []


@bounded(60)
async def test_a_pull_has_a_time_of_its_own(engine: Dockerd) -> None:
    with StallingRegistry(trickle=True) as registry:
        async with served(engine, contained(image=registry.name("srv:1"), install_timeout="2s")) as d:
            with pytest.raises(ConversationError, match=r"not installed within 2 s: pulling 127\.0\.0\.1"):
                await d.connected("srv")


@bounded(60)
async def test_an_image_that_is_missing_is_told_to_the_host(engine: Dockerd) -> None:
    async with served(engine, contained(image="nobody/has:this", pull="never")) as d:
        with pytest.raises(ConversationError, match="the engine has no image nobody/has:this"):
            await d.connected("srv")
        found = await d.in_state("srv", "FATAL")
        assert "docker pull nobody/has:this" in found["last_error"]


@pytest.fixture(scope="module")
def packages() -> Iterator[Place]:
    with place() as made:
        made.npm_package("tiny", code=SERVER)
        yield made


@bounded(120)
async def test_an_entry_of_npx_becomes_a_container_by_one_word(engine: Dockerd, packages: Place) -> None:
    base = {"npx": images.load(engine.client, "node")}
    entry = contained(command=["npx", "-y", "tiny", "said", "before"], container=base)
    async with served(engine, entry, npm_config_registry=packages.url) as d:
        host = await d.connected("srv")
        assert (await host.call("echo")).text == "said before"
        explained = await smcp(d, "explain", "srv")
        assert "/opt/smcp/package/node_modules/tiny/cli.js said before" in explained
        owner = engine.client.volumes({"label": "smcp.package=tiny"})["Volumes"]
        assert len(owner) == 1
        await d.control("restart", names=["srv"], timeout=60)
        assert (await host.call("echo")).text == "said before"
        assert engine.client.volumes({"label": "smcp.package=tiny"})["Volumes"] == owner
