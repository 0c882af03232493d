"""A daemon whose engine is behind a real sshd: servers there, connections that break, keys that are not taken."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kit.bounded import bounded
from tests.kit.daemon import Daemon, Fake, daemon, fake
from tests.kit.engine import Dockerd
from tests.kit.fhost import ConversationError, Host
from tests.kit.images import load
from tests.kit.sshd import Sshd


@contextmanager
def behind(engine: Dockerd, place: Path) -> Iterator[Sshd]:
    """Have a server of ssh for a block, behind which is an engine."""
    made = Sshd(place, {"DOCKER_HOST": engine.url})
    try:
        yield made
    finally:
        made.close()


def far(name: str, sshd: Sshd, image: str, **entry: Any) -> Fake:
    backoff = {"first": "100ms", "most": "500ms"}
    base = {"runtime": "container", "engine": sshd.url, "image": image, "pull": "never", "backoff": backoff}
    # A start is some ten connections of ssh, each with its own handshake.
    base["start_timeout"] = "60s"
    return fake(name, entry={**base, **entry})


@asynccontextmanager
async def served(engine: Dockerd, sshd: Sshd, *fakes: Fake) -> AsyncIterator[Daemon]:
    path = f"{sshd.path}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    async with daemon(*fakes, env={"PATH": path}) as d:
        yield d
    async with asyncio.timeout(20):
        while engine.containers() or sshd.connections():
            await asyncio.sleep(0.05)


async def connected(d: Daemon) -> Host:
    """Start a host of the server over there, and do its handshake."""
    host = d.host("s")
    await host.handshake("2025-11-25", None, id='"hello"', timeout=60)
    return host


@bounded(180)
async def test_a_server_behind_ssh_answers_and_comes_back_after_the_connection(engine: Dockerd, tmp_path: Path) -> None:
    image = load(engine.client, "fake")
    with behind(engine, tmp_path) as sshd:
        async with served(engine, sshd, far("s", sshd, image), fake("other")) as d:
            other = await d.connected("other")
            host = await connected(d)
            assert (await host.call("echo", value="far")).text == "far"
            before = engine.containers()
            assert len(before) == 1
            waiting = asyncio.ensure_future(host.call("deaf", timeout=60))
            await asyncio.sleep(0)
            assert sshd.cut() >= 2
            answer = await waiting
            assert answer.error is not None, "a call that nobody can answer any more is told so"
            assert (await host.call("echo", value="again", timeout=60)).text == "again"
            after = engine.containers()
            assert len(after) == 1
            assert after != before
            assert (await d.server("s"))["state"] == "RUNNING"
            assert (await other.call("echo", value="near")).text == "near"


@bounded(180)
async def test_a_killed_daemon_leaves_nothing_behind_ssh(engine: Dockerd, tmp_path: Path) -> None:
    image = load(engine.client, "loop")
    with behind(engine, tmp_path) as sshd:
        async with served(engine, sshd, far("s", sshd, image)) as d:
            host = await connected(d)
            assert (await host.call("echo", timeout=60)).text == "loop"
            before = set(engine.containers())
            assert len(before) == 1
            await d.kill()
            assert (await host.call("echo", timeout=60)).text == "loop"
            async with asyncio.timeout(60):
                while before & set(engine.containers()):
                    await asyncio.sleep(0.05)


@bounded(150)
async def test_a_key_that_is_not_taken_is_named_with_what_to_do(engine: Dockerd, tmp_path: Path) -> None:
    image = load(engine.client, "fake")
    with behind(engine, tmp_path) as sshd:
        sshd.use("stranger")
        async with served(engine, sshd, far("s", sshd, image), fake("other")) as d:
            with pytest.raises(ConversationError, match=r"Permission denied \(publickey\)"):
                await connected(d)
            assert "SSH_AUTH_SOCK" in (await d.server("s"))["last_error"]
            assert (await (await d.connected("other")).call("echo", value="near")).text == "near"
            sshd.use("person")
            assert (await (await connected(d)).call("echo", value="far")).text == "far"


@bounded(150)
async def test_a_machine_that_is_not_known_is_never_taken_for_the_one_that_is_meant(
    engine: Dockerd, tmp_path: Path
) -> None:
    image = load(engine.client, "fake")
    with behind(engine, tmp_path) as sshd:
        sshd.know(known=False)
        async with served(engine, sshd, far("s", sshd, image)) as d:
            with pytest.raises(ConversationError, match="Host key verification failed"):
                await connected(d)
            assert f"ssh -l {sshd.user} -p {sshd.port} -- 127.0.0.1" in (await d.server("s"))["last_error"]
            assert (sshd.place / "known").read_text() == ""
            sshd.know()
            assert (await (await connected(d)).call("echo", value="far")).text == "far"
