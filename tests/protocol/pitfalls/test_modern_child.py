"""The pitfalls of protocol.md 7 where the child is a modern one and its hosts are not; each is one test."""

from __future__ import annotations

import json
from typing import Any

import pytest

from supervisord_mcp.protocol.commands import Judged
from supervisord_mcp.protocol.eras.probe import PATIENCE, Terms, Verdict
from tests.kit.conversation import (
    Talk,
    call,
    cancelled,
    changed,
    complete,
    discovered,
    error,
    needs,
    notification,
    progress,
    request,
    result,
)
from tests.protocol.eras.talking import FORM, PAGE, acknowledged, elicits, listens, meta, modern, tagged

ACCEPTED = {"action": "accept", "content": {}}
CALL = request(..., "tools/call", ...)


def tells_no(talk: Talk, asked: Any, code: int, data: Any = None) -> None:
    body = {"code": code, "message": "no"} | ({} if data is None else {"data": data})
    talk.server.says({"jsonrpc": "2.0", "id": asked["id"], "error": body})


@pytest.mark.parametrize("identity", [0, "", "0", -7, "é"])
def test_pitfall_01_an_id_comes_back_as_it_was_sent(identity: Any) -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(call(identity))
        talk.server.answers(talk.server.hears(CALL), needs(state="s"))
        talk.passes(1)
        talk.server.answers(talk.server.hears(CALL), complete())
        a.hears(result(identity, {}))


def test_pitfall_02_two_hosts_use_the_same_id_and_token_at_once() -> None:
    with modern() as talk:
        a, b = (talk.host(name, capabilities={"roots": {}}) for name in ("a", "b"))
        a.says(call(1, token=1, of="a"))
        b.says(call(1, token=1, of="b"))
        one, two = talk.server.hears(CALL), talk.server.hears(CALL)
        talk.server.says(progress(two["id"], 5))
        b.hears(progress(1, 5))
        talk.server.answers(one, needs({"k": {"method": "roots/list"}}))
        talk.server.answers(two, needs({"k": {"method": "roots/list"}}))
        at_a, at_b = a.hears(request(..., "roots/list")), b.hears(request(..., "roots/list"))
        b.says(result(at_b["id"], {"roots": [{"uri": "file:///b"}]}))
        a.says(result(at_a["id"], {"roots": [{"uri": "file:///a"}]}))
        two, one = talk.server.hears(CALL), talk.server.hears(CALL)
        for asked, name in ((one, "a"), (two, "b")):
            assert asked["params"]["arguments"] == {"of": name}
            assert asked["params"]["inputResponses"] == {"k": {"roots": [{"uri": f"file:///{name}"}]}}
        talk.server.answers(one, complete({"for": "a"}))
        a.hears(result(1, {"for": "a"}))
        talk.server.answers(two, complete({"for": "b"}))
        b.hears(result(1, {"for": "b"}))


def test_pitfall_05_progress_of_an_earlier_round_reaches_nobody() -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(call(1, token="t"))
        one = talk.server.hears(CALL)
        talk.server.answers(one, needs(state="s"))
        talk.server.says(progress(one["id"], 1))
        talk.passes(1)
        two = talk.server.hears(CALL)
        talk.server.says(progress(one["id"], 2), progress("t", 3), progress(4711, 4))
        assert talk.noted("late") == 4
        talk.server.answers(two, complete())
        a.hears(result(1))


def test_pitfall_08_a_host_that_gave_no_token_gets_no_progress() -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(call(1))
        one = talk.server.hears(CALL)
        assert "progressToken" not in one["params"]["_meta"]
        talk.server.says(progress(one["id"], 1))
        talk.server.answers(one, complete())
        a.hears(result(1))


def test_pitfall_09_progress_over_several_rounds_strictly_increases() -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(call(1, token="t"))
        one = talk.server.hears(CALL)
        talk.server.says(progress(one["id"], 0.5), progress(one["id"], 0.5), progress(one["id"], 2))
        a.hears(progress("t", 0.5), progress("t", 2))
        talk.server.answers(one, needs(state="s"))
        talk.passes(1)
        two = talk.server.hears(CALL)
        talk.server.says(progress(two["id"], 0), progress(two["id"], 1))
        a.hears(progress("t", 3))
        talk.server.answers(two, complete())
        a.hears(result(1))


def test_pitfall_10_what_comes_after_a_cancel_is_swallowed() -> None:
    with modern({"logging": {}}) as talk:
        a = talk.host("a")
        a.says(request(0, "logging/setLevel", {"level": "debug"}), call(1, token="t"))
        a.hears(result(0))
        one = talk.server.hears(CALL)
        a.says(cancelled(1))
        talk.server.hears(cancelled(one["id"]))
        talk.server.says(progress(one["id"], 1), notification("notifications/message", {"level": "error", "data": 1}))
        talk.server.answers(one, needs({"k": elicits()}))
        tells_no(talk, one, 0)


def test_pitfall_12_a_host_that_leaves_cancels_and_lets_go() -> None:
    with modern() as talk:
        a = talk.host("a", capabilities={"elicitation": {}})
        a.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        listen = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        talk.server.says(acknowledged(listen["id"], resourceSubscriptions=["u:1"]))
        a.hears(result(1))
        a.says(call(2), call(3))
        two, three = talk.server.hears(CALL), talk.server.hears(CALL)
        talk.server.answers(two, needs({"k": elicits()}))
        a.hears(request(..., "elicitation/create", FORM))
        a.leaves()
        talk.server.hears(cancelled(three["id"], ...), cancelled(listen["id"]))
        assert not talk.mux.busy


def test_pitfall_16_every_request_has_an_envelope() -> None:
    with modern({"tools": {"listChanged": True}}, tools=[], prompts=[]) as talk:
        a = talk.host("a")
        for number, method in enumerate(["tools/list", "prompts/list", "vendor/x"]):
            a.says(request(number, method))
            asked = talk.server.hears(request(..., ..., {"_meta": ..., ...: ...}))
            while asked["method"] != method:
                asked = talk.server.hears(request(..., ..., {"_meta": ..., ...: ...}))
            assert asked["params"] == {"_meta": meta({"name": "a", "version": "1"}, {})}
            tells_no(talk, asked, -32601)
            a.hears(error(number, -32601))


def test_pitfall_17_a_server_that_dies_of_the_probe_is_started_again() -> None:
    with Talk(terms=Terms(None)) as talk:
        a = talk.host_first("a")
        talk.child_begins()
        talk.server.hears(request(..., "server/discover", ...))
        assert talk.mux.doubtful
        talk.child_dies()
        talk.child_runs()
        a.hears(result("hello", ...))
        assert talk.did(Judged) == [Judged(Verdict(True, False))]


def test_pitfall_18_a_slow_modern_server_is_no_failure() -> None:
    with Talk(terms=Terms(None, verdict=Verdict(False, None))) as talk:
        a = talk.host_first("a")
        talk.child_begins()
        talk.server.hears(request(..., "server/discover", ...))
        talk.passes(PATIENCE)
        tells_no(talk, talk.server.hears(request(..., "initialize", ...)), -32022, {"supported": ["2026-07-28"]})
        talk.server.answers(talk.server.hears(request(..., "server/discover", ...)), discovered())
        # It may have been bound by the probe: the next one hears nothing before its handshake.
        talk.child_stops()
        talk.child_dies()
        talk.child_begins()
        tells_no(talk, talk.server.hears(request(..., "initialize", ...)), -32022)
        talk.server.answers(talk.server.hears(request(..., "server/discover", ...)), discovered())
        a.hears(result("hello", ...))
        assert talk.mux.era == "modern"


@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32000, 0, None])
def test_pitfall_19_any_error_and_silence_mean_a_handshake(code: int | None) -> None:
    with Talk(terms=Terms(None)) as talk:
        talk.child_begins()
        asked = talk.server.hears(request(..., "server/discover", ...))
        if code is None:
            talk.passes(PATIENCE)
        else:
            tells_no(talk, asked, code)
        talk.child_greets(talk.server.hears(request(..., "initialize", ...)))
        assert talk.mux.era == "legacy"


def test_pitfall_24_an_update_may_name_a_part_of_what_was_subscribed() -> None:
    with modern() as talk:
        a, b = talk.hosts("a", "b")
        found = {}
        for host, uri in ((a, "u:1"), (b, "u:2")):
            host.says(request(1, "resources/subscribe", {"uri": uri}))
            found[uri] = talk.server.hears(listens(resourceSubscriptions=[uri]))["id"]
            talk.server.says(acknowledged(found[uri], resourceSubscriptions=[uri]))
            host.hears(result(1))
        talk.server.says(tagged("notifications/resources/updated", found["u:2"], {"uri": "other:9"}))
        b.hears(notification("notifications/resources/updated", {"uri": "other:9"}))


def test_pitfall_25_63_a_set_of_subscribers_and_not_a_count() -> None:
    with modern() as talk:
        a, b = talk.hosts("a", "b")
        a.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        listen = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        talk.server.says(acknowledged(listen["id"], resourceSubscriptions=["u:1"]))
        b.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        a.says(request(2, "resources/subscribe", {"uri": "u:1"}), request(3, "resources/unsubscribe", {"uri": "u:1"}))
        a.hears(result(1), result(2), result(3))
        b.hears(result(1))
        talk.server.says(tagged("notifications/resources/updated", listen["id"], {"uri": "u:1"}))
        b.hears(notification("notifications/resources/updated", {"uri": "u:1"}))
        b.says(request(2, "resources/unsubscribe", {"uri": "u:1"}))
        b.hears(result(2))
        talk.server.hears(cancelled(listen["id"]))


def test_pitfall_26_the_log_level_of_one_host_does_not_silence_another() -> None:
    with modern({"logging": {}}) as talk:
        a, b = talk.hosts("a", "b")
        a.says(request(1, "logging/setLevel", {"level": "error"}))
        a.hears(result(1))
        b.says(request(1, "logging/setLevel", {"level": "debug"}), call(2))
        b.hears(result(1))
        one = talk.server.hears(CALL)
        assert one["params"]["_meta"]["io.modelcontextprotocol/logLevel"] == "debug"
        log = notification("notifications/message", {"level": "info", "data": 1})
        talk.server.says(log)
        b.hears(log)
        talk.server.answers(one, complete())
        b.hears(result(2))


def test_pitfall_27_a_host_that_set_no_level_sees_no_log() -> None:
    with modern({"logging": {}}) as talk:
        a = talk.host("a")
        a.says(call(1))
        one = talk.server.hears(CALL)
        assert "io.modelcontextprotocol/logLevel" not in one["params"]["_meta"]
        talk.server.says(notification("notifications/message", {"level": "emergency", "data": 1}))
        assert talk.unshown == 1
        talk.server.answers(one, complete())
        a.hears(result(1))


def test_pitfall_30_state_and_arguments_come_back_as_they_were() -> None:
    with modern() as talk:
        a = talk.host("a", capabilities={"roots": {}})
        raw = rb'{"n":1e400,"big":123456789012345678901234567890,"s":"\u00e9\/","n":2, "o" : {} }'
        a.says(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":%b}}' % raw)
        a.says(call(2))
        assert raw in talk.server.inbox[0]
        talk.server.says(
            b'{"jsonrpc":"2.0","id":%d,"result":{"resultType":"input_required","requestState":"\\u00e9\\/+="}}'
            % json.loads(talk.server.inbox.popleft())["id"]
        )
        other = talk.server.hears(CALL)
        talk.passes(1)
        assert raw in talk.server.inbox[0]
        assert b'"requestState":"\\u00e9\\/+="' in talk.server.inbox[0]
        first = json.loads(talk.server.inbox.popleft())["id"]
        # Nothing of it is on another request, and nothing where there was none.
        talk.server.answers(other, needs({"k": {"method": "roots/list"}}))
        asked = a.hears(request(..., "roots/list"))
        a.says(result(asked["id"], {"roots": []}))
        again = talk.server.hears(CALL)
        assert again["params"].keys() == {"name", "arguments", "inputResponses", "_meta"}
        for identity in (first, again["id"]):
            talk.server.says(result(identity, complete()))
        a.hears(result(1), result(2))


def test_pitfall_31_a_call_is_made_again_under_another_id() -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(call(1))
        seen = set()
        for _ in range(5):
            asked = talk.server.hears(CALL)
            assert asked["id"] not in seen
            seen.add(asked["id"])
            talk.server.answers(asked, needs(state="s"))
            talk.passes(1)
        talk.server.answers(talk.server.hears(CALL), complete())
        a.hears(result(1))


@pytest.mark.parametrize("method", ["tools/list", "resources/list", "completion/complete", "vendor/x"])
def test_pitfall_32_nobody_is_asked_for_what_may_not_ask(method: str) -> None:
    with modern(tools=[], resources=[]) as talk:
        a = talk.host("a", capabilities={"elicitation": {}})
        a.says(request(1, method))
        talk.server.answers(talk.server.hears(request(..., method, ...)), needs({"k": elicits()}, "s"))
        a.hears(error(1, -32603))


def test_pitfall_33_a_host_is_not_asked_for_what_it_did_not_declare() -> None:
    with modern() as talk:
        a = talk.host("a", capabilities={"roots": {}})
        a.says(call(1))
        talk.server.answers(talk.server.hears(CALL), needs({"r": {"method": "roots/list"}, "k": elicits()}))
        assert a.hears(result(1, ...))["result"]["isError"] is True


@pytest.mark.parametrize(("kind", "code"), [("complete", None), (..., None), ("partial", -32603), (5, -32603)])
def test_pitfall_35_an_unknown_kind_of_result_is_an_error(kind: Any, code: int | None) -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(call(1))
        told = {"content": []} if kind is ... else {"content": [], "resultType": kind}
        talk.server.answers(talk.server.hears(CALL), told)
        a.hears(result(1, {"content": []}) if code is None else error(1, code))


def test_pitfall_39_a_value_that_is_no_object_is_wrapped_or_left_out() -> None:
    with modern(tools=[]) as talk:
        a = talk.host("a")
        tool = {"name": "echo", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}}
        a.says(request(1, "tools/list"))
        talk.server.answers(talk.server.hears(request(..., "tools/list", ...)), complete({"tools": [tool]}))
        schema = {"type": "object", "properties": {"result": {"type": "array"}}, "required": ["result"]}
        a.hears(result(1, {"tools": [{**tool, "outputSchema": schema}]}))
        a.says(call(2, "other"))
        told = {"content": [{"type": "text", "text": "x"}]}
        talk.server.answers(talk.server.hears(CALL), complete({**told, "structuredContent": [1]}))
        a.hears(result(2, told))


@pytest.mark.parametrize(("version", "has"), [("2025-11-25", True), ("2025-06-18", False)])
def test_pitfall_43_a_page_gets_an_id_for_hosts_that_need_one(version: str, has: bool) -> None:
    with modern() as talk:
        a = talk.host("a", version, {"elicitation": {"url": {}}})
        seen = set()
        for number in (1, 2):
            a.says(call(number))
            talk.server.answers(talk.server.hears(CALL), needs({"k": elicits(PAGE)}))
            if not has:
                assert a.hears(result(number, ...))["result"]["isError"] is True
                continue
            asked = a.hears(request(..., "elicitation/create", {**PAGE, "elicitationId": ...}))
            seen.add(asked["params"]["elicitationId"])
            a.says(result(asked["id"], ACCEPTED))
            talk.server.answers(talk.server.hears(CALL), complete())
            a.hears(result(number))
        assert len(seen) == (2 if has else 0)


def test_pitfall_45_a_task_that_nobody_asked_for_is_no_success() -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(call(1))
        task = {"resultType": "task", "taskId": "t", "status": "working", "ttlMs": None}
        asked = talk.server.hears(CALL)
        capabilities = asked["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        assert "extensions" not in capabilities
        talk.server.answers(asked, task)
        a.hears(error(1, -32603))


def test_pitfall_56_a_crash_fails_calls_and_brings_listens_back() -> None:
    with modern({"tools": {"listChanged": True}}, tools=["x"]) as talk:
        talk.server.hears(listens(toolsListChanged=True))
        a = talk.host("a")
        a.says(call(1))
        talk.server.answers(talk.server.hears(CALL), needs(state="old"))
        talk.child_dies("it died")
        a.hears(error(1, -32603, "it died"))
        talk.passes(1)
        talk.modern_child_runs({"tools": {"listChanged": True}}, tools=["y"])
        talk.server.hears(listens(toolsListChanged=True))
        a.hears(changed("tools"))


def test_pitfall_57_a_call_is_never_sent_again_by_us() -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(call(1))
        talk.server.hears(CALL)
        talk.child_dies()
        a.hears(error(1, -32603))
        talk.modern_child_runs()
        talk.passes(100)


def test_pitfall_59_unknown_meta_survives_in_both_directions() -> None:
    with modern() as talk:
        a = talk.host("a")
        trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor/x": {"y": 1}}
        a.says(request(1, "tools/call", {"name": "x", "_meta": trace}))
        asked = talk.server.hears(CALL)
        assert trace.items() <= asked["params"]["_meta"].items()
        told = {"content": [], "_meta": {"vendor/z": [1]}}
        talk.server.answers(asked, complete(told))
        a.hears(result(1, told))


def test_pitfall_67_a_cursor_of_a_dead_child_never_gets_a_page_of_the_next() -> None:
    with modern(tools=[]) as talk:
        a = talk.host("a")
        a.says(request(1, "tools/list"))
        asked = talk.server.hears(request(..., "tools/list", ...))
        talk.server.answers(asked, complete({"tools": [], "nextCursor": "c"}))
        a.hears(result(1, {"tools": [], "nextCursor": "c"}))
        talk.child_dies()
        talk.modern_child_runs(tools=[])
        a.says(request(2, "tools/list", {"cursor": "c"}))
        a.hears(error(2, -32602))
