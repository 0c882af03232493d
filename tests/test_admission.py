"""The way of a session to its instance, where that depends on what only its host says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.bounded import bounded
from tests.kit.daemon import START, Daemon, daemon, fake
from tests.kit.fhost import Host, hello

pytestmark = pytest.mark.bwrap
ALL: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {"listChanged": True}}
ANSWER = {"action": "accept", "content": {"name": "é"}}
MODERN = "2026-07-28"


def asking(**switches: Any) -> Any:
    """Return a server that may ask back, though hosts share it."""
    policy = switches.pop("callbacks", "on")
    return fake("s", entry={"callbacks": policy}, **switches)


async def come(d: Daemon, *uris: str, capabilities: Any = None) -> Host:
    """Connect a host that works on these directories."""
    host = d.host("s")
    host.replies["roots/list"] = {"roots": [{"uri": uri} for uri in uris]}
    await host.handshake(capabilities=ALL if capabilities is None else capabilities, id='"hello"', timeout=START)
    return host


def envelope(**more: Any) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "m", "version": "1"},
    }
    return {"_meta": meta, **more}


@bounded(60)
async def test_hosts_that_can_do_the_same_share_a_child_that_asks_each_of_them() -> None:
    async with daemon(asking(callbacks="cookie", copy_trace=True)) as d:
        hosts = [await come(d, "file:///p") for _ in range(4)]
        for host in hosts:
            host.replies["elicitation/create"] = None
        calls = [host.post_call("ask", kind="elicitation") for host in hosts]
        asked = [await host.server_request("elicitation/create") for host in hosts]
        for number, (host, request) in enumerate(zip(hosts, asked, strict=True)):
            host.respond(request, result={"action": "accept", "content": {"of": number}})
        for number, (host, call) in enumerate(zip(hosts, calls, strict=True)):
            assert (await host.answer_of(call)).value["result"]["content"] == {"of": number}
        assert len(await d.instances("s")) == 1
        roots = (await hosts[0].call("ask", kind="roots")).value["result"]
        assert roots == {"roots": [{"uri": "file:///p"}]}
        told = d.journal("s").requests("initialize")[-1]["params"]["capabilities"]
        assert told == {"elicitation": {}, "sampling": {}, "roots": {}}


@bounded(60)
async def test_calls_of_several_hosts_wait_for_each_other_while_one_is_asked() -> None:
    async with daemon(asking()) as d:
        a, b = await come(d, "file:///p"), await come(d, "file:///p")
        a.replies["elicitation/create"] = None
        first = a.post_call("ask", kind="elicitation")
        request = await a.server_request("elicitation/create")
        second = b.post_call("echo", value="b")
        assert "tools" in (await b.request("tools/list")).result
        assert not d.journal("s").calls("echo")
        a.respond(request, result=ANSWER)
        assert (await a.answer_of(first)).value["result"] == ANSWER
        assert (await b.answer_of(second)).text == "b"


@bounded(60)
async def test_hosts_that_differ_in_what_they_can_do_or_work_on_have_children_of_their_own() -> None:
    async with daemon(asking()) as d:
        hosts = [
            await come(d, "file:///p"),
            await come(d, "file:///q"),
            await come(d, capabilities={"sampling": {}}),
            await come(d, capabilities={}),
            await come(d, capabilities={"experimental": {"x": {}}}),
            await come(d, "file:///p", capabilities={**ALL, "elicitation": {"form": {}}}),
        ]
        seen = [(await host.call("where")).value for host in hosts]
        runs = [one["run"] for one in seen]
        assert runs[0] == runs[5]
        assert runs[3] == runs[4]
        assert len(set(runs)) == 4
        assert seen[3]["client"] == {}


@bounded(60)
async def test_a_host_that_works_elsewhere_moves_to_another_child() -> None:
    async with daemon(asking()) as d:
        a, b = await come(d, "file:///p"), await come(d, "file:///p")
        before = (await a.call("where")).value["run"]
        a.replies["roots/list"] = {"roots": [{"uri": "file:///q"}]}
        a.notify("notifications/roots/list_changed")
        await d.until("s", lambda found: len(found["instances"]) == 2, "the move")
        assert (await a.call("where")).value["run"] != before
        assert (await b.call("where")).value["run"] == before
        assert (await a.call("ask", kind="roots")).value["result"] == {"roots": [{"uri": "file:///q"}]}


@bounded(60)
async def test_sessions_find_their_child_again_after_a_death_of_the_daemon() -> None:
    async with daemon(asking()) as d:
        a, b = await come(d, "file:///p"), await come(d, "file:///q")
        for host in (a, b):
            await host.call("echo", value="x")
        await d.kill()
        await d.start()
        for host, uri in ((a, "file:///p"), (b, "file:///q")):
            answer = await host.call("ask", kind="roots")
            if answer.error is not None:  # it was under way when the daemon died
                answer = await host.call("ask", kind="roots")
            assert answer.value["result"] == {"roots": [{"uri": uri}]}


@bounded(60)
async def test_a_probe_learns_what_the_server_is_and_leaves_no_child() -> None:
    async with daemon(asking()) as d:
        host = d.host("s")
        found = (await host.request("server/discover", envelope())).result
        assert found["supportedVersions"] == [MODERN]
        assert "tools" in found["capabilities"]
        assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"]
        await d.journal("s").wait(lambda j: j.events("eof"), 10, "the end of the child that was asked")
        await host.handshake()
        assert (await host.call("echo", value="x")).text == "x"
        # Now that it is known, another host's probe starts nothing.
        other = d.host("s")
        runs = len(d.journal("s").runs())
        assert (await other.request("server/discover", envelope())).result["supportedVersions"] == [MODERN]
        assert len(d.journal("s").runs()) == runs


@bounded(60)
async def test_a_probe_of_a_server_that_does_not_start_is_answered() -> None:
    async with daemon(fake("s", entry={"command": ["/nonexistent/server"]})) as d:
        host = d.host("s")
        answer = await host.request("server/discover", envelope())
        assert answer.error is not None
        assert "/nonexistent/server" in answer.error["message"]


@bounded(60)
async def test_a_modern_host_of_a_server_that_needs_a_project_is_told_how_to_name_it(tmp_path: Path) -> None:
    async with daemon(fake("s", entry={"scope": "project"})) as d:
        host = d.host("s")
        answer = await host.request("tools/list", envelope())
        assert answer.error is not None
        assert "--project" in answer.error["message"]
        assert await host.exit_status() == 1


@bounded(60)
async def test_a_host_that_names_no_roots_is_served_without_them() -> None:
    async with daemon(asking()) as d:
        host = d.host("s")
        await host.handshake(capabilities=ALL)
        assert (await host.call("where")).value["client"] == {"elicitation": {}, "sampling": {}}
        assert (await host.call("ask", kind="roots")).value["error"]["code"] == -32601


@bounded(60)
async def test_sessions_follow_a_change_of_the_configuration() -> None:
    async with daemon(fake("s")) as d:
        host = await come(d, "file:///p")
        host.replies["elicitation/create"] = ANSWER
        assert (await host.call("ask", kind="elicitation")).value["error"]["code"] == -32601
        plain = await come(d, capabilities={})
        slow = plain.post_call("slow", seconds=1)
        d.configure(asking())
        await d.control("reload")
        assert (await plain.answer_of(slow)).text == "slow", "who can be asked nothing stays"
        assert (await host.call("ask", kind="elicitation")).value["result"] == ANSWER
        assert (await host.call("ask", kind="roots")).value["result"] == {"roots": [{"uri": "file:///p"}]}
        d.configure(fake("s"))
        await d.control("reload")
        assert (await host.call("ask", kind="elicitation")).value["error"]["code"] == -32601


@bounded(60)
async def test_a_host_of_arrays_is_served_where_it_has_to_name_its_roots() -> None:
    async with daemon(asking()) as d:
        host = d.host("s")
        host.replies["roots/list"] = None
        await host.handshake("2025-03-26", {"roots": {}, "sampling": {}}, timeout=START)
        asked = await host.server_request("roots/list")
        host.raw(b'[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"b","method":"tools/list"}]\n')
        host.respond(asked, result={"roots": [{"uri": "file:///p"}]})
        await host.wait(lambda: host.garbage, "the array of answers", 20)
        assert sorted(answer["id"] for answer in json.loads(host.garbage.pop())) == ["a", "b"]


@bounded(90)
async def test_a_handshake_that_waits_for_what_the_server_is_outlives_the_daemon() -> None:
    slow = {"init_delay": 3000}
    async with daemon(asking(scripts=[slow, {}])) as d:
        host = d.host("s")
        host.replies["roots/list"] = {"roots": [{"uri": "file:///p"}]}
        greeting = host.post("initialize", hello(capabilities=ALL))
        await d.journal("s").wait(lambda j: j.events("in"), 20, "that the server is asked")
        await d.kill()
        answer = await host.answer_of(greeting, timeout=START)
        assert answer.error is None, answer.error
        host.notify("notifications/initialized")
        assert (await host.call("echo", value="on")).text == "on"
        assert len(host.answers) == 2
        await d.kill()
        assert (await host.call("echo", value="and on", timeout=START)).text == "and on"
        assert len(host.answers) == 3, "nothing is answered twice"
