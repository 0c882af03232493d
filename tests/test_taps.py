"""Taps: messages of real servers, kept or live, masked, cut, and never felt by who is tapped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp import taps
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.errors import SmcpError, UnknownServerError
from supervisord_mcp.protocol.tapping import Tap, TapRecord
from tests.kit.bounded import bounded
from tests.kit.estate import Estate, estate
from tests.kit.fhost import hello

LIMIT = 40
#: A server whose last messages are kept.
KEEPS: dict[str, Any] = {"entry": {"kept_messages": 50}}


@pytest.fixture(autouse=True)
def _unlearnt() -> Iterator[None]:
    yield
    masker.clear()


async def kept(one: Estate, **wanted: Any) -> list[TapRecord]:
    """Return what is told of the kept messages of the one server."""
    found: list[TapRecord] = []
    await one.taps.serve(Tap(name="s", **wanted), found.append)
    return found


def tapped(one: Estate) -> bool:
    """Return whether somebody looks at the messages of the one server."""
    return one.observers.messages["s"].watched


@bounded(LIMIT)
async def test_what_is_kept_is_told_with_what_belongs_together(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": KEEPS}) as one:
        guest = await one.greeted("s")
        await guest.call("echo", value="hello")
        found = await kept(one)
        about = [(record.direction, record.kind, record.method, record.tool) for record in found]
        assert about[:2] == [
            ("from-host", "request", "initialize", ""),
            ("to-host", "result", "initialize", ""),
        ]
        assert about[-2:] == [
            ("from-host", "request", "tools/call", "echo"),
            ("to-host", "result", "tools/call", "echo"),
        ]
        asked, told = found[-2:]
        assert asked.session == told.session > 0
        assert {record.host for record in found} == {asked.host} != {""}
        assert asked.id == told.id
        assert told.seconds is not None
        assert told.seconds >= 0
        assert "hello" in json.loads(told.line)["result"]["content"][0]["text"]
        assert told.size == len(told.line.encode())
        behind = await kept(one, side="server", methods=("tools/call",))
        assert [record.direction for record in behind] == ["to-server", "from-server"]
        assert {record.session for record in behind} == {0}
        both = await kept(one, side="both", methods=("tools/call",))
        assert [record.direction for record in both] == ["from-host", "to-server", "from-server", "to-host"]


@bounded(LIMIT)
async def test_large_ones_are_cut_and_nothing_secret_is_told(tmp_path: Path) -> None:
    masker.learn("hunter2-hunter2", "vault:x")
    async with estate(tmp_path, {"s": KEEPS}) as one:
        guest = await one.greeted("s")
        answer = await guest.call("echo", value="é" * 200 + "hunter2-hunter2" + "z" * 9000)
        assert "hunter2-hunter2" in json.dumps(answer), "what hosts and servers say is not altered"
        for most in (None, 600, 471, *range(40, 60)):
            for record in await kept(one, methods=("tools/call",), most=most):
                assert "hunter2" not in record.line
                assert record.size > 9000
                assert record.cut is (most is not None)
                assert most is None or len(record.line.encode()) <= most
        whole = (await kept(one, methods=("tools/call",)))[-1]
        assert "***" in whole.line
        json.loads(whole.line)


@bounded(LIMIT)
async def test_a_host_is_called_the_same_in_all_that_it_says(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": KEEPS}) as one:
        guest = one.guest("s")
        await guest.ask("initialize", hello(name="a\x1b[2J\n" + "b" * 9000))
        guest.say("notifications/initialized")
        await guest.call("echo")
        assert {record.host for record in await kept(one)} == {"a\ufffd[2J\ufffd" + "b" * 58}


@bounded(LIMIT)
async def test_a_tap_follows_and_knows_what_was_asked_before(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}, "t": {}}) as one:
        guest, other = await one.greeted("s"), await one.greeted("t")
        slow = guest.post("tools/call", {"name": "echo", "arguments": {"value": 1, "delay": 0.2}})
        await other.call("echo")
        await one.until(lambda: one.instance("s").state == "RUNNING")
        assert not tapped(one)
        command = one.command()
        identity = command.post("tap", name="s", follow=True)
        while not tapped(one):
            await asyncio.sleep(0.01)
        assert not one.observers.messages["t"].watched, "what nobody taps costs nothing"
        await guest.answer(slow)
        await other.call("echo")
        await guest.call("echo")
        first, *_, last = await command.events(identity, 3)
        assert (first["direction"], first["method"], first["tool"]) == ("to-host", "tools/call", "echo")
        assert first["seconds"] > 0.1
        assert (last["direction"], last["kind"]) == ("to-host", "result")
        command.leave()
        while tapped(one):
            await asyncio.sleep(0.01)


@bounded(LIMIT)
async def test_a_tap_ends_with_its_server(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}, "t": {}}) as one:
        following = asyncio.create_task(one.taps.serve(Tap(name="s", follow=True), lambda record: None))
        while not tapped(one):
            await asyncio.sleep(0.01)
        one.reconfigure({"s": {}})
        await asyncio.sleep(0)
        assert not following.done(), "it was another server"
        one.reconfigure({"t": {}})
        with pytest.raises(UnknownServerError, match="'s' was removed from the configuration"):
            await following
        assert not tapped(one)


@bounded(LIMIT)
async def test_nothing_is_there_to_be_shown(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        error = await one.command().fail("tap", name="s")
        assert error["message"] == "no messages of 's' are kept"
        assert "kept_messages = 200" in error["remedy"]
        with pytest.raises(UnknownServerError):
            await one.taps.serve(Tap(name="u"), lambda _record: None)


@bounded(LIMIT)
async def test_what_is_said_at_the_door_is_told_once(tmp_path: Path) -> None:
    entry = {"kept_messages": 100, "scope": "project"}
    async with estate(tmp_path, {"s": {"entry": entry}}) as one:
        guest = await one.greeted("s", {"roots": {}})
        asking = guest.post("tools/call", {"name": "echo", "arguments": {"value": 1}})
        [question] = await guest.note("roots/list")
        root = {"uri": tmp_path.as_uri()}
        guest.raw({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": [root]}})
        await guest.answer(asking)
        found = [(record.direction, record.kind, record.method) for record in await kept(one)]
        assert found == [
            ("from-host", "request", "initialize"),
            ("to-host", "result", "initialize"),
            ("from-host", "notification", "notifications/initialized"),
            ("to-host", "request", "roots/list"),
            ("from-host", "result", "roots/list"),
            ("from-host", "request", "tools/call"),
            ("to-host", "result", "tools/call"),
        ]


@bounded(LIMIT)
async def test_much_that_is_kept_is_told_to_the_end(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": KEEPS}) as one:
        guest = await one.greeted("s")
        for _ in range(3):
            await guest.call("big", bytes=4 << 20)
        command = one.command()
        identity = command.post("tap", name="s", side="both")
        assert (await command.reply(identity)).get("result", "none") is None
        sizes = [told["event"]["size"] for told in command.replies if "event" in told]
        assert 16 << 20 >= sum(sizes) > 11 << 20


@bounded(LIMIT)
async def test_only_the_last_ones_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with estate(tmp_path, {"s": {"entry": {"kept_messages": 4}}}) as one:
        guest = await one.greeted("s")
        pid = one.instance("s").pid
        for number in range(5):
            await guest.call("echo", value=number)
        assert [record.direction for record in await kept(one, side="both")] == [
            *("from-host", "to-server", "from-server", "to-host")
        ]
        one.reconfigure({"s": {"entry": {"kept_messages": 2}}})
        assert len(await kept(one, side="both")) == 2
        monkeypatch.setattr(taps, "KEPT_BYTES", 1000)
        await guest.call("echo", value="x" * 2000)
        assert await kept(one, side="both") == [], "they would take too much"
        one.reconfigure({"s": {}})
        assert not one.observers.messages["s"].watched
        assert one.taps.rings == {}
        assert pid is None or one.instance("s").pid == pid, "the server goes on"


@bounded(LIMIT)
async def test_a_tap_that_is_taken_out_is_told_so(tmp_path: Path) -> None:
    def fail(record: TapRecord) -> None:
        raise ValueError(f"no room for {record.kind}")

    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")

        async def say() -> None:
            while not tapped(one):
                await asyncio.sleep(0.01)
            assert "result" in await guest.call("echo"), "no host feels it"

        saying = asyncio.create_task(say())
        with pytest.raises(SmcpError, match="the tap of s was taken out, so that no host feels it: no room for"):
            await one.taps.serve(Tap(name="s", follow=True), fail)
        await saying
        assert not tapped(one)
