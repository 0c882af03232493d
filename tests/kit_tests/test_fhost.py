"""The fake host itself: bounded waits with the transcript, raw ids, and control over reading and the pipes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.kit.bounded import bounded
from tests.kit.fhost import ConversationError, Host
from tests.kit.probe import LeakGuard, nothing_left
from tests.kit.rawjson import members
from tests.kit_tests.direct import environment, server


@bounded(10)
async def test_a_wait_that_fails_shows_the_conversation(tmp_path: Path) -> None:
    async with server(tmp_path, deaf=True) as (host, _):
        with pytest.raises(ConversationError) as caught:
            await host.call("echo", value="hello", timeout=0.2)
        assert "the answer to tools/call" in str(caught.value)
        assert '=> {"jsonrpc":"2.0","id":2,"method":"tools/call"' in str(caught.value)
        assert '<= {"jsonrpc": "2.0", "id": 1' in str(caught.value)


@bounded(10)
async def test_the_exit_status_and_stderr_are_shown() -> None:
    argv = [sys.executable, "-I", "-S", "-c", "import sys; sys.exit('cannot start')"]
    async with Host(argv).start(env=environment()) as host:
        assert await host.exit_status() == 1
        with pytest.raises(ConversationError, match=r"(?s)exit status 1.*cannot start"):
            await host.request("ping", timeout=0.1)


@bounded(10)
async def test_scripted_answers(tmp_path: Path) -> None:
    async with server(tmp_path) as (host, _):
        host.replies["roots/list"] = lambda frame: {"roots": [{"uri": f"file:///{frame.method}"}]}
        assert (await host.call("ask", kind="roots")).value["result"]["roots"] == [{"uri": "file:///roots/list"}]
        host.replies["sampling/createMessage"] = None
        ask = host.post_call("ask", kind="sampling")
        request = await host.server_request("sampling/createMessage")
        host.respond(request, error={"code": -1, "message": "no"})
        assert (await host.answer_of(ask)).value["error"] == {"code": -1, "message": "no"}


@bounded(15)
async def test_reading_can_be_stopped_and_slowed(tmp_path: Path) -> None:
    async with server(tmp_path) as (host, _):
        before = host.received
        host.stop_read()
        flood = host.post_call("flood", bytes=200_000)
        await asyncio.sleep(0.1)
        assert host.received == before
        host.go_on_reading()
        await host.answer_of(flood)
        host.slow_read(100_000)
        flood = host.post_call("flood", bytes=100_000)
        await asyncio.sleep(0.3)
        assert not flood.done()
        host.go_on_reading()
        await host.answer_of(flood)


@bounded(10)
async def test_a_killed_host_leaves_nothing(tmp_path: Path) -> None:
    async with server(tmp_path) as (host, _):
        host.kill()
        assert await host.exit_status() == -9
    await nothing_left([str(tmp_path)])


def test_members_are_raw() -> None:
    text = ' {"id" : 1.0, "x":{"a":[1,"}"]} ,"e":"\\u00e9","n":1e400}\r'
    assert members(text) == {"id": "1.0", "x": '{"a":[1,"}"]}', "e": '"\\u00e9"', "n": "1e400"}
    for bad in ("[]", "1", "{", '{"a"}', '{"a":1} x', '{"a":1 "b":2}', "{1:2}", ""):
        with pytest.raises(ValueError, match=r".+"):
            members(bad)


def test_the_leak_guard_can_fail(tmp_path: Path) -> None:
    files = []
    with pytest.raises(AssertionError, match="left behind"), LeakGuard(tmp_path):
        files.append(open(tmp_path / "new", "w"))  # noqa: SIM115 - the leak is the point
    files[0].close()


def test_a_bounded_test_fails_for_what_it_leaves() -> None:
    kept: list[asyncio.Task[None]] = []

    @bounded(5)
    async def leaves_a_task() -> None:
        kept.append(asyncio.create_task(asyncio.sleep(60)))
        await asyncio.sleep(0)

    with pytest.raises(AssertionError, match="tasks are left"):
        leaves_a_task()

    @bounded(0.1)
    async def hangs() -> None:
        await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        hangs()
