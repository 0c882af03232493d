"""Recordings that are said again, to real servers of both eras, through sessions like those of any host."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.protocol.replay import Line
from supervisord_mcp.protocol.tapping import Tap, TapRecord
from tests.kit.bounded import bounded
from tests.kit.estate import Estate, estate

LIMIT = 40
MODERN = "2026-07-28"


@pytest.fixture(autouse=True)
def _unlearnt() -> Iterator[None]:
    yield
    masker.clear()


async def recorded(one: Estate) -> list[Line]:
    """Return what is kept of the one server, as ``smcp tap --save`` writes it."""
    found: list[TapRecord] = []
    await one.taps.serve(Tap(name="s"), found.append)
    return [msgspec.convert(msgspec.to_builtins(record), Line) for record in found]


async def replayed(one: Estate, lines: Sequence[Line], **more: Any) -> list[dict[str, Any]]:
    """Say a recording again, and return how its requests ended."""
    command = one.command()
    identity = command.post("replay", name="s", lines=[msgspec.to_builtins(line) for line in lines], **more)
    reply = await command.reply(identity)
    assert reply.get("result", "none") is None, reply
    command.leave()
    return [one["event"] for one in command.replies if "event" in one]


def keeps(**switches: Any) -> dict[str, Any]:
    """Return a server whose messages are kept."""
    return {"entry": {"kept_messages": 1000}, **switches}


def verdicts(found: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    return {(one["method"], one["tool"]): one["verdict"] for one in found}


@bounded(LIMIT)
async def test_a_recording_is_said_again(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": keeps()}) as one:
        first, second = await one.greeted("s"), await one.greeted("s")
        await first.call("echo", value="a")
        await second.call("echo", value="b")
        await first.ask("tools/list", {})
        await first.ask("tools/call", {"name": "no such tool"})
        lines = await recorded(one)
        before = one.reception.sessions
        found = await replayed(one, lines)
        assert {verdict["verdict"] for verdict in found} == {"same"}
        assert len(found) == sum('"id"' in line.line for line in lines) / 2
        assert len({verdict["session"] for verdict in found}) == 2
        assert all(verdict["now"] is not None for verdict in found)
        await one.until(lambda: one.reception.sessions == before)
        calls = [call["params"].get("arguments") for call in one.journal("s").requests("tools/call")]
        assert [call for call in calls if call] == [{"value": "a"}, {"value": "b"}] * 2


@bounded(LIMIT)
async def test_where_the_answers_differ(tmp_path: Path) -> None:
    masker.learn("hunter2-hunter2", "vault:x")
    async with estate(tmp_path, {"s": keeps()}) as one:
        guest = await one.greeted("s")
        await guest.call("echo", value="hunter2-hunter2")
        lines = await recorded(one)
        assert (await replayed(one, lines))[-1]["verdict"] == "same", "a secret compares as one"
        lines[-1] = msgspec.structs.replace(lines[-1], line=lines[-1].line.replace("***", "other"))
        last = (await replayed(one, lines))[-1]
        assert last["verdict"] == "different"
        assert last["differences"][0]["path"] == "result.content[0].text"
        assert "other" in last["differences"][0]["before"]
        assert "hunter2" not in json.dumps(last)


@bounded(LIMIT)
async def test_a_call_that_hung_or_failed_shows_again(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": keeps()}) as one:
        guest = await one.greeted("s")
        guest.post("tools/call", {"name": "echo", "arguments": {"delay": 60}})
        await guest.call("echo", value=1)
        lines = await recorded(one)
        found = await replayed(one, lines, patience=0.3)
        assert sorted(one["verdict"] for one in found if one["method"] == "tools/call") == ["same", "unanswered"]
        # An answer is recorded that does not come.
        asked = next(line for line in lines if '"delay"' in line.line)
        identity = json.loads(asked.line)["id"]
        answer = json.dumps({"jsonrpc": "2.0", "id": identity, "result": {}})
        lines.append(msgspec.structs.replace(asked, direction="to-host", line=answer, time=lines[-1].time))
        found = await replayed(one, lines, patience=0.3)
        assert sorted(one["verdict"] for one in found if one["method"] == "tools/call") == ["missing", "same"]


@bounded(LIMIT)
async def test_a_modern_recording(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": keeps(eras=["legacy", "modern"])}) as one:
        guest = one.guest("s")
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "new", "version": "1"},
        }
        await guest.ask("server/discover", {"_meta": meta})
        answer = await guest.ask("tools/call", {"name": "echo", "arguments": {"value": "x"}, "_meta": meta})
        assert answer["result"]["resultType"] == "complete"
        lines = await recorded(one)
        assert [line.direction for line in lines] == ["from-host", "to-host"] * 2, "the door answers for the server"
        found = await replayed(one, lines)
        assert verdicts(found) == {("server/discover", ""): "same", ("tools/call", "echo"): "same"}
        assert {verdict["verdict"] for verdict in found} == {"same"}


@bounded(LIMIT)
async def test_questions_of_the_server_are_answered_as_they_were(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": {"kept_messages": 100, "callbacks": "on"}}}) as one:
        guest = await one.greeted("s", {"sampling": {}})
        asking = guest.post("tools/call", {"name": "ask", "arguments": {"kind": "sampling"}})
        [question] = await guest.note("sampling/createMessage")
        said = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}}
        guest.raw({"jsonrpc": "2.0", "id": question["id"], "result": said})
        assert "yes" in json.dumps(await guest.answer(asking))
        found = await replayed(one, await recorded(one))
        assert verdicts(found)["initialize", ""] == "same"
        # What this tool returns is the reply as it was, with the id of a question that was asked anew.
        [difference] = found[-1]["differences"]
        assert difference["path"] == "result.content[0].text"
        assert "yes" in difference["before"]
        assert "yes" in difference["now"]


@bounded(LIMIT)
async def test_a_session_that_is_refused_is_told(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": {"env": {"X": "${NO_SUCH_VARIABLE}"}}}, "t": {}}) as one:
        command = one.command()
        line = {"time": 0.0, "session": 1, "direction": "from-host", "line": '{"id":1,"method":"ping"}'}
        assert (await command.fail("replay", name="u", lines=[line]))["code"] == "unknown-server"
        assert "nothing that a host said" in (await command.fail("replay", name="t", lines=[]))["message"]
        identity = command.post("replay", name="s", lines=[line])
        reply = await command.reply(identity)
        assert reply["error"]["message"].startswith("a session was ended: ")
        assert "NO_SUCH_VARIABLE" in reply["error"]["message"]
        events = [told["event"]["verdict"] for told in command.replies if "event" in told]
        assert events == ["unanswered"]
