"""Case 7: requests from the server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.kit.bounded import bounded
from tests.kit.daemon import daemon, fake
from tests.kit.journal import Event

pytestmark = pytest.mark.bwrap
ALL = {"elicitation": {"form": {}}, "sampling": {}, "roots": {"listChanged": True}}
METHODS = {"elicitation": "elicitation/create", "sampling": "sampling/createMessage", "roots": "roots/list"}
RESULTS: dict[str, dict[str, Any]] = {
    "elicitation": {"action": "accept", "content": {"name": "é"}},
    "sampling": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "x"}},
    "roots": {"roots": [{"uri": "file:///p", "name": "p"}]},
}
OWN = {"scope": "session"}


@bounded(60)
async def test_a_server_of_one_session_reaches_its_host() -> None:
    async with daemon(fake("s", entry=OWN)) as d:
        a, b = await d.connected("s", capabilities=ALL), await d.connected("s", capabilities=ALL)
        for kind, method in METHODS.items():
            a.replies[method] = b.replies[method] = None
            for ask_id in ("1", 1):
                count = len(a.asked_of(method)) + 1
                call = a.post_call("ask", kind=kind, ask_id=ask_id)
                request = await a.server_request(method, count)
                a.respond(request, result=RESULTS[kind])
                assert (await a.answer_of(call)).value["result"] == RESULTS[kind]
        assert b.asked == [], "another host is never asked"
        back = [event["id"] for event in d.journal("s").answers()]
        assert back == ["1", 1, "1", 1, "1", 1], "the reply goes back under the server's own id and type"
        refused = a.post_call("ask", kind="sampling")
        a.respond(await a.server_request("sampling/createMessage", 3), error={"code": -1, "message": "no – thanks"})
        assert (await a.answer_of(refused)).value["error"] == {"code": -1, "message": "no – thanks"}


@bounded(60)
async def test_what_the_host_did_not_declare_is_refused_at_once() -> None:
    async with daemon(fake("s", entry=OWN)) as d:
        host = await d.connected("s", capabilities={})
        for kind in METHODS:
            assert (await host.call("ask", kind=kind, timeout=2)).value["error"]["code"] == -32601
        assert host.asked == []
        assert d.journal("s").requests("initialize")[0]["params"]["capabilities"] == {}


@bounded(60)
async def test_a_shared_server_asks_nobody() -> None:
    async with daemon(fake("s")) as d:
        a, b = await d.connected("s", capabilities=ALL), await d.connected("s", capabilities=ALL)
        b.post_call("slow", seconds=3)
        for kind in METHODS:
            assert (await a.call("ask", kind=kind, timeout=2)).value["error"]["code"] == -32601
        assert a.asked == []
        assert b.asked == []


@bounded(60)
async def test_a_host_that_leaves_answers_what_it_was_asked() -> None:
    async with daemon(fake("s", entry=OWN)) as d:
        journal = d.journal("s")
        host = await d.connected("s", capabilities=ALL)
        host.replies["elicitation/create"] = None
        host.post_call("ask", kind="elicitation", ask_id=77)
        await host.server_request("elicitation/create")
        host.close_stdin()
        assert await host.exit_status() == 0

        def told(event: Event) -> bool:
            return event["id"] == 77 and ("error" in event or event["result"] == {"action": "cancel"})

        await journal.wait(lambda j: any(map(told, j.answers())), 3, "an answer to the elicitation")
        answer = next(event for event in journal.answers() if event["id"] == 77)
        await journal.wait(lambda j: j.events("eof"), 5, "the end of the session's own server")
        assert answer["at"] <= journal.events("eof")[0]["at"]


@bounded(60)
async def test_a_ping_is_answered_while_all_hosts_are_idle() -> None:
    async with daemon(fake("s", journal_notes=True)) as d:
        host = await d.connected("s")
        for ask_id in (1, "1"):
            await host.call("ask", kind="ping", ask_id=ask_id, later_ms=100)
            await d.journal("s").wait(lambda j: j.answers() and j.answers()[-1]["id"] == ask_id)  # noqa: B023
        await asyncio.sleep(0)
        assert host.asked == []
        answers = d.journal("s").answers()
        assert [json.loads(event["raw"]) for event in answers] == [
            {"jsonrpc": "2.0", "id": 1, "result": {}},
            {"jsonrpc": "2.0", "id": "1", "result": {}},
        ]
        pings = [event for event in d.journal("s").events("out") if event.get("method") == "ping"]
        for ping, answer in zip(pings, answers, strict=True):
            assert answer["at"] - ping["at"] < 0.5


@bounded(60)
async def test_the_server_gives_its_question_up() -> None:
    async with daemon(fake("s", entry=OWN)) as d:
        host = await d.connected("s", capabilities=ALL)
        host.replies["elicitation/create"] = None
        host.post_call("ask", kind="elicitation", ask_id=5)
        request = await host.server_request("elicitation/create")
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5, "reason": "gone"}}
        await host.call("emit", data=json.dumps(note) + "\n")
        told = (await host.note("notifications/cancelled"))[0].params
        assert json.dumps(told["requestId"]) == request.id
