"""The rest of the switches of the fake server: timing of the handshake, pings, probes, buffering and broken pipes."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.kit.bounded import bounded
from tests.kit.fhost import ConversationError, hello
from tests.kit_tests.direct import server


@bounded(10)
async def test_delays_of_start_and_handshake(tmp_path: Path) -> None:
    begin = time.monotonic()
    async with server(tmp_path, sleep_start=150, init_delay=150):
        assert time.monotonic() - begin > 0.29


@bounded(10)
async def test_notes_before_the_first_answer(tmp_path: Path) -> None:
    async with server(tmp_path, log_before_init=50) as (host, _):
        assert [note.params["data"] for note in host.notes] == list(range(50))
        assert all(note.at <= host.answers[0].at for note in host.notes)


@pytest.mark.parametrize(("reaction", "code"), [("ok", None), (-32000, -32000), ("silent", "silent")])
@bounded(10)
async def test_ping_reaction(tmp_path: Path, reaction: Any, code: Any) -> None:
    async with server(tmp_path, ping_reaction=reaction) as (host, _):
        if code == "silent":
            with pytest.raises(ConversationError):
                await host.request("ping", timeout=0.2)
            return
        error = (await host.request("ping")).error
        assert (error and error["code"]) == code


@pytest.mark.parametrize("reaction", [-32601, -32700, "silent", {"exit": 0}, {"exit": 3}])
@bounded(10)
async def test_probe_reaction(tmp_path: Path, reaction: Any) -> None:
    async with server(tmp_path, shake=False, probe_reaction=reaction) as (host, _):
        answer = host.post("server/discover", {"_meta": {}})
        if isinstance(reaction, dict):
            assert await host.exit_status() == reaction["exit"]
        elif reaction == "silent":
            await host.handshake()
            assert not answer.done()
        else:
            error = (await host.answer_of(answer)).error
            assert error is not None
            assert error["code"] == reaction


@bounded(10)
async def test_list_errors_dropped_tools_and_capabilities(tmp_path: Path) -> None:
    error = {"code": -1, "message": "no", "data": [1]}
    async with server(tmp_path, list_error=error, capabilities={"tools": {}}) as (host, _):
        assert (await host.request("tools/list")).error == error
        assert host.answers[0].result["capabilities"] == {"tools": {}}
    async with server(tmp_path, drop_tools=True, era="2025-03-26") as (host, _):
        assert (await host.request("tools/list")).result["tools"] == []
        assert host.answers[0].result["protocolVersion"] == "2025-03-26"


@bounded(10)
async def test_unrelated_and_related_server_requests(tmp_path: Path) -> None:
    async with server(tmp_path, server_request={"kind": "ping", "after_ms": 20, "id": "p"}) as (host, journal):
        assert (await host.server_request("ping")).id == '"p"'
        await journal.wait(lambda j: j.answers())
    async with server(tmp_path, server_request={"kind": "roots", "related": True}) as (host, _):
        await asyncio.sleep(0.05)
        assert host.asked == []
        await host.call("echo")
        await host.server_request("roots/list")


@bounded(10)
async def test_replies_to_notifications_and_changes_on_their_own(tmp_path: Path) -> None:
    async with server(tmp_path, reply_to_notification=True, change_tools=20) as (host, _):
        await host.note("notifications/tools/list_changed")
        assert len(host.answers_to("null")) == 1


@bounded(10)
async def test_buffered_output_comes_late(tmp_path: Path) -> None:
    async with server(tmp_path, shake=False, buffered_stdout=True) as (host, journal):
        answer = host.post("initialize", hello())
        await journal.wait(lambda j: j.events("out"))
        await asyncio.sleep(0.05)
        assert not answer.done()
        host.close_stdin()
        await host.answer_of(answer)


@pytest.mark.parametrize("loops", [False, True])
@bounded(10)
async def test_a_broken_pipe_ends_it_unless_told(tmp_path: Path, loops: bool) -> None:
    async with server(tmp_path, epipe_loop=loops) as (host, journal):
        host.close_stdout()
        host.post_call("echo")
        if loops:
            await journal.wait(lambda j: j.calls("echo"))
            with pytest.raises(ConversationError):
                await host.exit_status(0.2)
            host.kill()
        else:
            assert await host.exit_status() == 1
            assert journal.events("leaving")[-1]["why"] == "EPIPE"


@bounded(10)
async def test_a_fragile_server_ends_on_garbage(tmp_path: Path) -> None:
    for number, garbage in enumerate((b"[]", b"\xff", b"{", b'{"method":5}', b'"\\ud800"', b'{"a":"\\ud800"}'), 1):
        async with server(tmp_path, fragile=True) as (host, journal):
            host.raw(garbage + b"\n")
            assert await host.exit_status() == 0
            assert len(journal.events("garbage")) == number


@bounded(10)
async def test_block_serial_instant_and_delay(tmp_path: Path) -> None:
    async with server(tmp_path, block=100, delay=[50, 60], instant=True) as (host, _):
        begin = time.monotonic()
        calls = [host.post_call("echo", value=n) for n in range(3)]
        assert (await host.request("ping")).result == {}
        assert time.monotonic() - begin > 0.29
        for call in calls:
            await host.answer_of(call)
    async with server(tmp_path, serial=True) as (host, _):
        slow = host.post_call("slow", seconds=0.2)
        echo = await host.call("echo", value="after")
        assert slow.done()
        assert echo.text == "after"


@bounded(10)
async def test_environment_and_ports(tmp_path: Path) -> None:
    async with server(tmp_path, print_env=True) as (host, _):
        await host.wait(lambda: f"PATH={os.environ['PATH']}\n".encode() in host.stderr)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with server(tmp_path, shake=False, listen_port=port) as (host, _):
            assert await host.exit_status() == 1
            assert b"cannot listen" in host.stderr


@bounded(10)
async def test_a_server_that_is_deaf_or_ends_by_a_signal_after_a_while(tmp_path: Path) -> None:
    async with server(tmp_path, deaf=True, exit_after={"ms": 200, "signal": 9}) as (host, journal):
        call = host.post_call("echo")
        assert await host.exit_status() == -9
        assert not call.done()
        frames = [json.loads(event["raw"]) for event in journal.events("in")]
        assert frames[-1]["params"]["name"] == "echo"
