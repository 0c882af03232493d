"""Talking to an engine, and what is said where there is none."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from supervisord_mcp.runtimes.container.engine import Engine, EngineError, EngineRefusedError, Engines, failure
from supervisord_mcp.runtimes.container.places import Place
from tests.kit.bounded import bounded
from tests.kit.engine import Dockerd


@bounded(30)
async def test_it_says_what_it_is(engine: Dockerd) -> None:
    asked = Engine("", {"DOCKER_HOST": engine.url})
    facts = await asked.facts()
    assert facts.local
    assert not facts.podman
    assert not facts.rootless
    assert {"memory", "pids"} <= facts.controllers
    assert asked.known == facts
    await asked.aclose()


@bounded(30)
async def test_what_it_refuses_has_the_reason_of_the_engine(engine: Dockerd) -> None:
    asked = Engine("", {"DOCKER_HOST": engine.url})
    with pytest.raises(EngineRefusedError, match="No such container: nobody") as caught:
        await asked.call(lambda client: client.inspect_container("nobody"))
    assert (caught.value.status, caught.value.retryable, caught.value.unreachable) == (404, False, False)
    await asked.aclose()


@bounded(30)
async def test_many_ask_at_once(engine: Dockerd) -> None:
    engines = Engines({"DOCKER_HOST": engine.url})
    answers = await asyncio.gather(*(engines.of("").call(lambda client: client.ping()) for _ in range(40)))
    assert all(answers)
    await engines.aclose()


@bounded(30)
async def test_a_missing_engine_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=f"there is no {tmp_path}/s") as caught:
        await Engine("", {"DOCKER_HOST": f"unix://{tmp_path}/s"}).call(lambda client: client.ping())
    assert caught.value.retryable
    assert caught.value.unreachable
    assert "DOCKER_HOST" in caught.value.remedy


@bounded(30)
async def test_a_stopped_engine_is_named_with_what_to_do(tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as made:
        made.bind(f"{tmp_path}/s")
    with pytest.raises(EngineError, match="is not running") as caught:
        await Engine(f"{tmp_path}/s", {}).call(lambda client: client.ping())
    assert "systemctl" in caught.value.remedy


@pytest.mark.parametrize(
    "answer",
    [
        b"\0\xff",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n<",
    ],
)
@bounded(30)
async def test_what_is_no_engine_is_named(tmp_path: Path, answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The first connection only looks whether somebody listens.
        if await reader.read(1):
            writer.write(answer)
        writer.close()

    async with await asyncio.start_unix_server(serve, tmp_path / "s"):
        with pytest.raises(EngineError, match=f"{tmp_path}/s") as caught:
            await Engine(f"{tmp_path}/s", {}).facts()
        assert caught.value.retryable


def test_a_forbidden_engine_is_named_with_what_to_do() -> None:
    refused = OSError("outer")
    refused.__cause__ = PermissionError(13, os.strerror(13))
    error = failure(refused, Place("unix:///s", "found by itself"))
    assert "does not let this user in" in error.message
    assert "usermod -aG docker" in error.remedy


def test_one_that_is_slow_is_named() -> None:
    assert "did not answer in time" in failure(TimeoutError(), Place("tcp://far:1", "engine")).message


def test_anything_else_is_said_as_it_is() -> None:
    error = failure(ValueError("odd"), Place("ssh://far", "engine"))
    assert "cannot be used (engine): odd" in error.message


def test_engines_are_one_for_each_word() -> None:
    engines = Engines({})
    assert engines.of("a") is engines.of("a")
    assert engines.of("a") is not engines.of("")
    assert [engine.shown for engine in engines] == ["a", "the container engine"]
