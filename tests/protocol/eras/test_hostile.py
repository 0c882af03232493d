"""What a tester with ill will found: races, odd servers, several calls of one modern host (6.3 to 6.8)."""

from __future__ import annotations

from typing import Any

import pytest

from supervisord_mcp.protocol.callbacks import Shared
from supervisord_mcp.protocol.eras import parking
from supervisord_mcp.protocol.eras.probe import Terms
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.profiles import Profile
from tests.kit.conversation import (
    MCP,
    Host,
    Json,
    Talk,
    call,
    cancelled,
    changed,
    complete,
    discovered,
    error,
    modern,
    needs,
    notification,
    request,
    result,
)
from tests.protocol.eras.test_parking import ACCEPTED, FORM, SOON, retry, tool

ELICITS: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
TASKS: dict[str, Any] = {"extensions": {f"{MCP}tasks": {}}}
CALL = request(..., "tools/call", ...)
LIST = request(..., "tools/list", ...)
LISTEN = request(..., "subscriptions/listen", ...)
ASKED: dict[Json, Json] = {"resultType": "input_required", ...: ...}
DONE: dict[Json, Json] = {"resultType": "complete", "content": [], ...: ...}
SAMPLE: dict[str, Any] = {"messages": [], "maxTokens": 1}


def legacy(*words: str, serialized: bool = False) -> Talk:
    """A shared legacy child whose hosts can be asked."""
    return Talk(relay=Shared(Profile(words or ("elicitation.form",)), serialized))


def modern_child(capabilities: Json = None) -> Talk:
    talk = Talk(terms=Terms(pinned="modern"))
    talk.modern_child_runs(capabilities, tools=["x"])
    talk.server.inbox.clear()
    return talk


def acknowledged(listen: Json, **honoured: Json) -> dict[str, Any]:
    params = {"notifications": honoured, "_meta": {f"{MCP}subscriptionId": listen["id"]}}
    return notification("notifications/subscriptions/acknowledged", params)


def tagged(listen: Json, method: str, params: Json) -> dict[str, Any]:
    return notification(method, {**params, "_meta": {f"{MCP}subscriptionId": listen["id"]}})


def two_calls(talk: Talk) -> tuple[Host, Json, Json]:
    """A modern host with two calls, during one of which the child asks."""
    talk.child_runs()
    a = talk.joins("a")
    a.says(tool(1), tool(2))
    first, second = talk.server.hears(CALL), talk.server.hears(CALL)
    talk.server.says(request("q", "elicitation/create", FORM))
    return a, first, second


def told(talk: Talk, host: Host, identity: Json) -> str:
    """The host is asked in the answer to that call; return its state."""
    talk.passes(SOON)
    return str(host.hears(result(identity, ASKED))["result"]["requestState"])


# Several calls of one modern host at a legacy child


def test_a_question_moves_to_another_call_when_the_newest_ends() -> None:
    with legacy() as talk:
        a, first, second = two_calls(talk)
        talk.server.answers(second, {"content": []})
        a.hears(result(2, DONE))
        state = told(talk, a, 1)
        a.says(retry(3, state, {"r1": ACCEPTED}))
        talk.server.hears(result("q", ACCEPTED))
        talk.server.answers(first, {"content": []})
        a.hears(result(3, DONE))
        assert not talk.mux.busy


def test_a_question_is_not_told_in_a_call_that_cannot_ask() -> None:
    with legacy() as talk:
        talk.child_runs({"completions": {}})
        a = talk.joins("a")
        a.says(tool(1), modern(2, "completion/complete", {}), tool(3, capabilities={"roots": {}}, params={"name": "y"}))
        talk.server.inbox.clear()
        talk.server.says(request("q", "elicitation/create", FORM))
        told(talk, a, 1)
        a.leaves()
        talk.server.inbox.clear()


def test_a_call_that_ended_while_its_host_was_asked_still_carries_the_answer() -> None:
    with legacy() as talk:
        a, first, second = two_calls(talk)
        state = told(talk, a, 2)
        talk.server.answers(second, {"content": []})
        a.says(retry(3, state, {"r1": ACCEPTED}))
        talk.server.hears(result("q", ACCEPTED))
        a.hears(result(3, DONE))
        talk.server.answers(first, {"content": []})
        a.hears(result(1, DONE))


def test_a_question_of_a_call_that_expires_is_told_in_the_other() -> None:
    with legacy() as talk:
        a, first, second = two_calls(talk)
        told(talk, a, 2)
        talk.server.answers(second, {"content": []})
        talk.passes(700)
        a.hears(result(1, ASKED))
        talk.passes(700)
        talk.server.hears(result("q", {"action": "cancel"}), cancelled(first["id"], ...))
        assert not talk.mux.busy


def test_a_question_of_a_call_that_is_given_up_is_told_in_the_other() -> None:
    with legacy() as talk:
        a, first, second = two_calls(talk)
        told(talk, a, 2)
        a.says(cancelled(2))
        talk.server.hears(cancelled(second["id"], ...))
        told(talk, a, 1)
        a.leaves()
        talk.passes(parking.RETURNING)
        talk.server.hears(result("q", {"action": "cancel"}), cancelled(first["id"], ...))


@pytest.mark.parametrize("end", ["stops", "dies", "withdraws"])
def test_a_question_that_is_over_is_not_answered_by_the_retry(end: str) -> None:
    with legacy() as talk:
        a, first, second = two_calls(talk)
        state = told(talk, a, 2)
        talk.server.answers(second, {"content": []})
        match end:
            case "stops":
                talk.child_stops()
                talk.server.hears(result("q", {"action": "cancel"}))
            case "dies":
                talk.child_dies()
                a.hears(error(1, -32603))
            case _:
                talk.server.says(cancelled("q"))
        a.says(retry(3, state, {"r1": ACCEPTED}))
        if end == "dies":
            talk.child_runs()
            a.hears(error(3, -32602, parking.STALE))
            return
        a.hears(result(3, DONE))
        talk.server.hears_nothing()
        talk.server.answers(first, {"content": []})
        a.hears(result(1, DONE))


def test_an_id_used_again_does_not_cancel_what_it_was_used_for_before() -> None:
    with legacy() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(tool(1))
        asked = talk.server.hears(CALL)
        talk.server.says(request("q", "elicitation/create", FORM))
        state = told(talk, a, 1)
        a.says(modern(1, "vendor/x"))
        talk.server.answers(talk.server.hears(request(..., "vendor/x")))
        a.hears(result(1, ...))
        a.says(cancelled(1))  # it crossed the answer
        talk.server.hears_nothing()
        a.says(retry(2, state, {"r1": ACCEPTED}))
        talk.server.hears(result("q", ACCEPTED))
        talk.server.answers(asked, {"content": []})
        a.hears(result(2, DONE))


def test_what_a_host_was_not_told_it_cannot_answer() -> None:
    with legacy() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(tool(1))
        asked = talk.server.hears(CALL)
        talk.server.says(request("q", "elicitation/create", FORM))
        state = told(talk, a, 1)
        talk.server.says(request("r", "elicitation/create", FORM))
        a.says(retry(2, state, {"r1": ACCEPTED, "r2": ACCEPTED}))
        talk.server.hears(result("q", ACCEPTED))
        state = str(a.hears(result(2, ASKED))["result"]["requestState"])
        a.says(retry(3, state, {"r2": ACCEPTED}))
        talk.server.hears(result("r", ACCEPTED))
        talk.server.answers(asked, {"content": []})
        a.hears(result(3, DONE))


# What may be asked


def test_tools_in_sampling_need_their_capability() -> None:
    with legacy("sampling", "sampling.tools") as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(tool(1, capabilities={"sampling": {}}))
        asked = talk.server.hears(CALL)
        talk.server.says(request("q", "sampling/createMessage", {**SAMPLE, "tools": []}))
        talk.server.hears(error("q", -32602))
        talk.server.answers(asked, {"content": []})
        a.hears(result(1, DONE))


@pytest.mark.parametrize("key", ["tools", "toolChoice"])
def test_tools_in_sampling_of_a_modern_child_need_their_capability(key: str) -> None:
    entry = {"method": "sampling/createMessage", "params": {**SAMPLE, key: {} if key == "toolChoice" else []}}
    with modern_child() as talk:
        a, b = talk.joins("a"), talk.host("b", capabilities={"sampling": {}})
        a.says(tool(1, capabilities={"sampling": {}}))
        talk.server.answers(talk.server.hears(CALL), needs({"k": entry}))
        a.hears(error(1, -32021, ..., {"requiredCapabilities": {"sampling": {"tools": {}}}}))
        a.says(tool(2, capabilities={"sampling": {"tools": {}}}))
        talk.server.answers(talk.server.hears(CALL), needs({"k": entry}))
        a.hears(result(2, ASKED))
        b.says(call(1))
        talk.server.answers(talk.server.hears(CALL), needs({"k": entry}))
        b.hears(result(1, {"isError": True, ...: ...}))


def test_a_host_of_an_older_revision_is_asked_in_its_words() -> None:
    block = {"type": "text", "text": "x"}
    choice = {"type": "string", "oneOf": [{"const": "a", "title": "A"}]}
    with legacy("elicitation.form", "sampling") as talk:
        talk.child_runs()
        a = talk.host("a", "2025-06-18", {"elicitation": {}, "sampling": {}})
        a.says(call(1))
        talk.server.hears(CALL)
        schema = {"type": "object", "properties": {"c": choice}}
        talk.server.says(
            request("q", "elicitation/create", {"mode": "form", "message": "?", "requestedSchema": schema})
        )
        plain = {"type": "object", "properties": {"c": {"type": "string", "enum": ["a"], "enumNames": ["A"]}}}
        a.hears(request(1, "elicitation/create", {"message": "?", "requestedSchema": plain}))
        messages = [{"role": "user", "content": [block]}]
        talk.server.says(request("r", "sampling/createMessage", {"messages": messages, "maxTokens": 1}))
        a.hears(
            request(2, "sampling/createMessage", {"messages": [{"role": "user", "content": block}], "maxTokens": 1})
        )


def test_a_question_without_proper_parameters_is_not_asked() -> None:
    with modern_child() as talk:
        a = talk.host("a", capabilities=ELICITS)
        a.says(call(1))
        entry = {"method": "elicitation/create", "params": 5}
        talk.server.answers(talk.server.hears(CALL), needs({"k": entry}))
        a.hears(result(1, {"isError": True, ...: ...}))


def test_a_state_of_null_is_none() -> None:
    with modern_child() as talk:
        a = talk.host("a")
        a.says(call(1))
        talk.server.answers(talk.server.hears(CALL), {"resultType": "input_required", "requestState": None})
        a.hears(error(1, -32603))


# The era of a host


def test_a_probe_that_waited_does_not_say_what_a_legacy_host_can_do() -> None:
    with Talk(terms=Terms(pinned="modern")) as talk:
        a = talk.joins("a")
        a.says(modern("p", "server/discover"))
        a.initializes(capabilities={"elicitation": {}})
        a.initialized()
        talk.modern_child_runs()
        a.hears(result("hello", ...))
        talk.server.answers(talk.server.hears(request(..., "server/discover", ...)), {"resultType": "complete"})
        a.hears(result("p", ...))
        a.says(call(1))
        asked = talk.server.hears(CALL)
        assert asked["params"]["_meta"][f"{MCP}clientCapabilities"] == {"elicitation": {}}


def test_what_a_child_asked_before_its_host_turned_out_modern_is_answered() -> None:
    with Talk(relay=True) as talk:
        a = talk.joins("a")
        a.says(modern("p", "server/discover", capabilities={"roots": {}}))
        talk.child_greets(talk.child_starts())
        a.hears(result("p", ...))
        talk.server.says(request("q", "roots/list"))
        a.says(modern(1, "vendor/x", capabilities={"roots": {}}))
        talk.server.hears(error("q", -32601))
        talk.server.hears(request(..., "vendor/x"))


# Listens


def test_a_listen_that_the_child_ends_twice_is_opened_again_once() -> None:
    with modern_child({"resources": {"subscribe": True}}) as talk:
        for name in ("a", "b"):
            host = talk.host(name)
            host.says(request(1, "resources/subscribe", {"uri": "u:1"}))
            listen = talk.server.hears(LISTEN)
            talk.server.says(acknowledged(listen, resourceSubscriptions=["u:1"]))
            host.hears(result(1))
            talk.server.answers(listen, complete())
        for host in list(talk._by_key.values()):
            host.inbox.clear()
        talk.passes(60)
        talk.server.hears(LISTEN)


def test_a_second_acknowledgement_is_nothing_new() -> None:
    with modern_child({"resources": {"subscribe": True}}) as talk:
        a = talk.host("a")
        a.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        listen = talk.server.hears(LISTEN)
        talk.server.says(acknowledged(listen, resourceSubscriptions=["u:1"]))
        a.hears(result(1))
        talk.server.says(acknowledged(listen, resourceSubscriptions=["u:1"]), acknowledged(listen))
        talk.server.says(tagged(listen, "notifications/resources/updated", {"uri": "u:1"}))
        a.hears(notification("notifications/resources/updated", {"uri": "u:1"}))


def test_a_listen_gets_what_it_asked_for_and_ends_in_the_words_of_the_child() -> None:
    with modern_child({"tools": {"listChanged": True}}) as talk:
        a = talk.joins("a")
        wanted = {"notifications": {"toolsListChanged": True}}
        a.says(modern("L", "subscriptions/listen", wanted, meta={"progressToken": 7, "vendor/y": 1}))
        listen = talk.server.hears(LISTEN)
        assert "progressToken" not in listen["params"]["_meta"]
        assert listen["params"]["_meta"]["vendor/y"] == 1
        talk.server.says(acknowledged(listen, toolsListChanged=True))
        a.hears(notification("notifications/subscriptions/acknowledged", ...))
        talk.server.says(tagged(listen, "notifications/message", {"level": "error", "data": 1}))
        talk.server.says(tagged(listen, "notifications/tasks", {"taskId": "of another host"}))
        meta = {f"{MCP}subscriptionId": listen["id"], "vendor/x": 1}
        talk.server.answers(listen, {"resultType": "complete", "_meta": meta})
        ended = a.hears(result("L", ...))["result"]
        assert ended["_meta"][f"{MCP}subscriptionId"] == "L"
        assert ended["_meta"]["vendor/x"] == 1
        a.hears(cancelled("L"))


def test_a_listen_lost_with_the_child_leaves_nothing_pending() -> None:
    with Talk() as talk:
        talk.child_runs({"resources": {"subscribe": True}})
        a = talk.joins("a")
        a.says(modern(1, "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["u:1", "u:2"]}}))
        first = talk.server.hears(request(..., "resources/subscribe", ...))
        talk.server.hears(request(..., "resources/subscribe", ...))
        talk.server.answers(first)
        talk.child_dies()
        a.hears(error(1, -32603))
        assert not talk.mux._talk.pending
        assert not talk.mux.busy


# Turns, levels, tasks, pages, answers


def test_a_host_that_leaves_lets_those_behind_it_go_on() -> None:
    with legacy(serialized=True) as talk:
        talk.child_runs()
        a, b = (talk.host(name, capabilities={"elicitation": {}}) for name in ("a", "b"))
        a.says(call(1))
        talk.server.hears(CALL)
        b.says(call(1))
        a.says(call(2))
        talk.server.hears_nothing()
        b.leaves()
        talk.server.hears(CALL)


def test_a_refused_call_does_not_change_the_log_level() -> None:
    with Talk() as talk:
        talk.child_runs({"logging": {}})
        a = talk.joins("a")
        a.says(tool(1, logLevel="debug", progressToken={}))
        a.hears(error(1, -32602))
        a.says(tool(2, logLevel="debug"))
        talk.server.hears(request(..., "logging/setLevel", {"level": "debug"}), CALL)


def test_a_log_message_is_shown_to_nobody_where_two_hosts_wait_for_lists() -> None:
    level = {f"{MCP}logLevel": "debug"}
    with Talk() as talk:
        talk.child_runs({"logging": {}}, tools=["x"])
        a, b = talk.joins("a"), talk.joins("b")
        a.says(modern(1, "tools/list", meta=level))
        talk.server.hears(request(..., "logging/setLevel", {"level": "debug"}), request(..., "tools/list"))
        talk.server.says(notification("notifications/message", {"level": "error", "data": "of a"}))
        a.hears(notification("notifications/message", ...))
        b.says(modern(1, "tools/list", meta=level))
        talk.server.hears(request(..., "tools/list"))
        talk.server.says(notification("notifications/message", {"level": "error", "data": "of one"}))


@pytest.mark.parametrize("info", [None, "x", {}, 5])
def test_a_name_that_is_none_is_not_told_to_a_legacy_host(info: Json) -> None:
    with Talk(terms=Terms(pinned="modern")) as talk:
        talk.child_begins()
        asked = talk.server.hears(request(..., "server/discover", ...))
        talk.server.answers(asked, discovered({}, _meta={f"{MCP}serverInfo": info}))
        assert talk.joins("a").greets()["serverInfo"] == {"name": "s", "version": ""}


def test_answers_that_a_task_does_not_take_do_not_end_it() -> None:
    task = {"taskId": "T", "status": "working", "createdAt": "t", "lastUpdatedAt": "t", "ttlMs": None}
    with modern_child() as talk:
        a = talk.joins("a")
        a.says(tool(1, capabilities=TASKS))
        talk.server.answers(talk.server.hears(CALL), {"resultType": "task", **task})
        a.hears(result(1, ...))
        a.says(modern(2, "tasks/update", {"taskId": "T", "inputResponses": 5}, capabilities=TASKS))
        talk.server.fails(talk.server.hears(request(..., "tasks/update", ...)), -32602)
        a.hears(error(2, -32602))
        assert talk.mux.busy


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_cursor_that_fails_drops_the_pages_before_it(era: str) -> None:
    def lists(identity: int, params: Json = None) -> Json:
        return (modern if era == "modern" else request)(identity, "tools/list", params)

    page = {"resultType": "complete", "tools": [], "nextCursor": "c", "ttlMs": 99999, "cacheScope": "public"}
    with modern_child() as talk:
        a = talk.joins("a") if era == "modern" else talk.host("a")
        a.says(lists(1))
        talk.server.answers(talk.server.hears(LIST), page)
        a.hears(result(1, ...))
        a.says(lists(2, {"cursor": "c"}))
        talk.server.fails(talk.server.hears(LIST), -32602)
        a.hears(error(2, -32602))
        a.says(lists(3))
        talk.server.fails(talk.server.hears(LIST), -32603)
        a.hears(error(3, -32603))


@pytest.mark.parametrize("child", ["modern", "legacy"])
def test_an_error_beside_a_result_of_null_is_an_error(child: str) -> None:
    with modern_child() if child == "modern" else Talk() as talk:
        if child == "legacy":
            talk.child_runs()
        host, said = (talk.host("a"), call(1)) if child == "modern" else (talk.joins("a"), tool(1))
        host.says(said)
        asked = talk.server.hears(CALL)
        line = b'{"jsonrpc":"2.0","id":%d,"result":null,"error":{"code":-32602,"message":"no"}}'
        talk.server.says(line % asked["id"])
        host.hears(error(1, -32602, "no"))


@pytest.mark.parametrize("value", [5, [], "x"])
def test_a_result_that_is_no_object_is_not_made_one(value: Json) -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(tool(1))
        asked = talk.server.hears(CALL)
        talk.server.says({"jsonrpc": "2.0", "id": asked["id"], "result": value})
        a.hears(error(1, -32603))


def test_a_message_that_is_lost_ends_a_call_and_no_listen() -> None:
    with modern_child({"tools": {"listChanged": True}}) as talk:
        a = talk.host("a")
        a.says(call(1))
        talk.server.hears(CALL)
        talk.server.says(Oversized(b'{"jsonrpc":"2.0","result":{"x":"', b'yyy"}', 99999999))
        a.hears(error(1, -32603))
        talk.server.says(changed("tools"))
