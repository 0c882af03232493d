"""Legacy hosts at a modern child: every row of protocol.md 6.4 in the column "LC to MS", and 6.8."""

from __future__ import annotations

import json
from typing import Any

import pytest

from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import Learned, Ready
from supervisord_mcp.protocol.eras.modern_child import LONGEST_WAIT
from tests.kit.conversation import (
    Talk,
    call,
    cancelled,
    changed,
    complete,
    discovered,
    error,
    notification,
    request,
    result,
)
from tests.protocol.eras.talking import PINNED, acknowledged, listens, meta, modern, tagged

WATCHES: dict[str, Any] = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
EVERY = {kind: {"listChanged": True} for kind in ("tools", "prompts", "resources")}
UPDATED = "notifications/resources/updated"


def updated(uri: str) -> dict[str, Any]:
    """Return the notification that a resource changed, as a legacy host hears it."""
    return notification(UPDATED, {"uri": uri})


# initialize, initialized, ping


def test_initialize_is_answered_from_what_the_server_says_of_itself() -> None:
    with Talk(terms=PINNED) as talk:
        a = talk.joins("a")
        a.initializes("2025-06-18", identity=0)
        talk.child_begins()
        capabilities: dict[str, Any] = {"tools": {}, "logging": {}, "completions": {}, "experimental": {"y": {}}}
        said = discovered({**capabilities, "extensions": {"x": {}}}, instructions="be kind", ttlMs=5)
        talk.server.answers(talk.server.hears(request(..., "server/discover", {"_meta": ...})), said)
        told = {
            "protocolVersion": "2025-06-18",
            "capabilities": {**capabilities, "tools": {"listChanged": True}},
            "serverInfo": {"name": "fake", "version": "1"},
            "instructions": "be kind",
        }
        a.hears(result(0, told))
        talk.child_lists()
        a.initialized()
        assert len(talk.did(Ready)) == 1
        assert (talk.mux.ready, talk.mux.era) == (True, "modern")


def test_a_host_that_comes_later_and_its_ping_never_reach_the_child() -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(request("p", "ping"))
        a.hears(result("p", {}))
        b = talk.host("b", "2024-11-05")
        b.says(request(2, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}))
        b.hears(error(2, -32600))


def test_what_the_server_says_is_kept_for_hosts_that_come_while_it_does_not_run() -> None:
    with modern(tools=["x"]) as talk:
        (learned,) = talk.did(Learned)
        assert isinstance(learned, Learned)
    kept = learned.catalogue
    assert kept.discovered is not None
    assert json.loads(kept.discovered) == discovered({"tools": {}})
    tool = json.dumps({"name": "x", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}}).encode()
    with Talk(terms=PINNED, known=Catalogue(kept.handshake, {"tools/list": (tool,)}, kept.discovered)) as talk:
        a = talk.joins("a")
        assert a.greets()["serverInfo"] == {"name": "fake", "version": "1"}
        a.says(request(1, "tools/list"))
        schema = {"type": "object", "properties": {"result": {"type": "array"}}, "required": ["result"]}
        a.hears(result(1, {"tools": [{"name": "x", "inputSchema": {"type": "object"}, "outputSchema": schema}]}))


# Requests


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", None),
        ("prompts/list", {}),
        ("resources/list", {"vendor": "c"}),
        ("resources/templates/list", {"_meta": {"vendor/x": 1}}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "n", "value": "v"}}),
        ("vendor/x", {"any": [1, 2]}),
        ("vendor/y", None),
    ],
)
def test_requests_carry_an_envelope_and_results_lose_theirs(method: str, params: Any) -> None:
    with modern(tools=[], prompts=[], resources=[]) as talk:
        a = talk.host("a")
        a.says(request("x", method, params))
        told = {**(params or {})}
        told["_meta"] = {**told.get("_meta", {}), **meta({"name": "a", "version": "1"}, {})}
        asked = talk.server.hears(request(..., method, told))
        hints = (
            {} if method in ("completion/complete", "vendor/x", "vendor/y") else {"ttlMs": 0, "cacheScope": "public"}
        )
        value = {"some": "thing"} if not hints else {}
        talk.server.answers(asked, {**complete(value), **hints})
        heard = a.hears(result("x", ...))["result"]
        assert "resultType" not in heard
        assert "ttlMs" not in heard


def test_only_the_answer_of_a_tool_that_was_wrapped_is_wrapped() -> None:
    with modern(tools=[]) as talk:
        a = talk.host("a")
        talk.server.says(notification("notifications/tools/list_changed"))
        a.says(call(1, "list"), call(2, "plain"))
        first, second = (talk.server.hears(request(..., "tools/call", ...)) for _ in range(2))
        talk.server.answers(first, complete({"content": [], "structuredContent": {"a": 1}}))
        talk.server.answers(second, complete({"content": [], "structuredContent": [1]}))
        a.hears(result(1, {"content": [], "structuredContent": {"a": 1}}), result(2, ...))
    with Talk(terms=PINNED) as talk:
        talk.child_begins()
        talk.server.answers(talk.server.hears(request(..., "server/discover", ...)), discovered({"tools": {}}))
        tools = [{"name": "list", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}}]
        talk.server.answers(talk.server.hears(request(..., "tools/list", ...)), complete({"tools": tools}))
        a = talk.host("a")
        for number in (1, 2):
            a.says(call(number, "list"))
            asked = talk.server.hears(request(..., "tools/call", ...))
            talk.server.answers(asked, complete({"content": [], "structuredContent": [1]}))
            a.hears(result(number, {"content": [], "structuredContent": {"result": [1]}}))


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"])
def test_there_are_no_tasks(method: str) -> None:
    with modern({"tools": {}}) as talk:
        talk.child_lists()
        a = talk.host("a")
        a.says(request(1, method, {"taskId": "t"}))
        a.hears(error(1, ...))


def test_a_task_is_left_out_of_a_call() -> None:
    with modern() as talk:
        a = talk.host("a")
        params = {"name": "echo", "arguments": {}}
        a.says(request(1, "tools/call", {**params, "task": {"ttl": 1}, "requestState": "x", "inputResponses": {}}))
        talk.server.answers(talk.server.hears(request(..., "tools/call", {**params, "_meta": ...})), complete())
        a.hears(result(1))


@pytest.mark.parametrize("params", [[], 5, {"_meta": {"progressToken": 1.5}}, {"_meta": {"progressToken": {}}}])
def test_a_malformed_request_never_reaches_the_child(params: Any) -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(request(1, "tools/call", params))
        a.hears(error(1, -32602))


def test_what_was_held_for_the_child_is_sent_in_its_order() -> None:
    with Talk(terms=PINNED) as talk:
        a = talk.host_first("a")
        a.says(call(1, "x"), notification("notifications/roots/list_changed"), notification("notifications/vendor"))
        a.says(request(2, "tools/call", []), request(3, "tools/list"))
        talk.child_begins()
        asked = talk.server.hears(request(..., "server/discover", ...))
        talk.server.answers(asked, discovered())
        a.hears(result("hello", ...), error(2, -32602))
        one = talk.server.hears(request(..., "tools/call", ...))
        talk.server.hears(notification("notifications/vendor"))
        two = talk.server.hears(request(..., "tools/list", ...))
        talk.server.answers(two, complete({"tools": []}))
        talk.server.answers(one, complete())
        a.hears(result(3, {"tools": []}), result(1))


# Log level and log


def test_the_log_level_of_a_host_goes_with_its_requests() -> None:
    with modern({"logging": {}}) as talk:
        a, b = talk.hosts("a", "b")
        a.says(request(1, "logging/setLevel", {"level": "debug"}), call(2))
        a.hears(result(1))
        b.says(call(3))
        b.says(request(4, "logging/setLevel", {"level": "loud"}))
        b.hears(error(4, -32602))
        two, three = (talk.server.hears(request(..., "tools/call", ...)) for _ in range(2))
        assert two["params"]["_meta"] == meta(..., {}, level="debug") | {
            "io.modelcontextprotocol/clientInfo": {"name": "a", "version": "1"}
        }
        assert three["params"]["_meta"] == meta({"name": "b", "version": "1"}, {})
        # Only one of them can have been meant.
        log = notification("notifications/message", {"level": "info", "data": 1})
        talk.server.says(log)
        a.hears(log)
        talk.server.answers(two, complete())
        a.hears(result(2))
        talk.server.says(log)
        assert talk.unshown == 1
        talk.server.answers(three, complete())
        b.hears(result(3))


def test_a_log_message_that_may_be_for_two_hosts_is_for_none() -> None:
    with modern({"logging": {}}) as talk:
        a, b = talk.hosts("a", "b")
        for host in (a, b):
            host.says(request(1, "logging/setLevel", {"level": "info"}), call(2))
            host.hears(result(1))
        talk.server.hears(request(..., "tools/call", ...))
        talk.server.hears(request(..., "tools/call", ...))
        talk.server.says(notification("notifications/message", {"level": "error", "data": 1}))
        talk.server.says(notification("notifications/message", {"level": "debug", "data": 1}))
        talk.server.says(notification("notifications/message", {"data": 1}))
        assert talk.unshown == 3


def test_a_server_without_logging_has_no_level() -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(request(1, "logging/setLevel", {"level": "debug"}))
        a.hears(error(1, -32601))


# Subscriptions


def test_the_first_subscriber_opens_a_listen_and_the_last_one_closes_it() -> None:
    with modern(WATCHES, resources=[]) as talk:
        watch = talk.server.hears(listens(toolsListChanged=True))
        talk.child_lists()
        a, b = talk.hosts("a", "b")
        a.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        b.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        listen = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        assert listen["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {}
        talk.server.says(acknowledged(listen["id"], resourceSubscriptions=["u:1"]))
        a.hears(result(1))
        b.hears(result(1))
        talk.server.says(tagged(UPDATED, listen["id"], {"uri": "u:1/part"}))
        a.hears(updated("u:1/part"))
        b.hears(updated("u:1/part"))
        a.says(request(2, "resources/unsubscribe", {"uri": "u:1"}))
        a.hears(result(2))
        talk.server.says(tagged(UPDATED, str(listen["id"]), {"uri": "u:1"}))
        b.hears(updated("u:1"))
        b.says(request(2, "resources/unsubscribe", {"uri": "u:1"}))
        b.hears(result(2))
        talk.server.hears(cancelled(listen["id"]))
        talk.server.says(tagged(UPDATED, listen["id"], {"uri": "u:1"}))  # it was on its way
        assert watch["id"] != listen["id"]
        assert not talk.mux.busy


def test_a_subscription_that_is_not_honoured_is_an_error() -> None:
    with modern() as talk:
        a, b = talk.hosts("a", "b")
        a.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        b.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        first = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        talk.server.says(acknowledged(first["id"]))
        a.hears(error(1, -32602))
        # Who waited has its turn.
        talk.server.hears(cancelled(first["id"]))
        second = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        talk.server.says({"jsonrpc": "2.0", "id": second["id"], "error": {"code": -32601, "message": "no listens"}})
        b.hears(error(1, -32601, "no listens"))
        a.says(request(2, "resources/subscribe", {"uri": "u:1"}))
        third = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        talk.server.says(cancelled(third["id"]))
        a.hears(error(2, -32602))


def test_an_update_before_the_acknowledgement_is_held_back_for_good() -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        listen = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        talk.server.says(tagged(UPDATED, listen["id"], {"uri": "u:1"}))
        assert talk.noted("unrouted") == 1
        talk.server.says(acknowledged(listen["id"], resourceSubscriptions=["u:1"]))
        a.hears(result(1))
        talk.server.says(tagged("notifications/tools/list_changed", listen["id"]))
        assert talk.noted("unrouted") == 2


def test_a_subscription_that_is_taken_back_before_the_acknowledgement() -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(request(1, "resources/subscribe", {"uri": "u:1"}), cancelled(1))
        listen = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        talk.server.says(acknowledged(listen["id"], resourceSubscriptions=["u:1"]))
        talk.server.hears(cancelled(listen["id"]))
        assert talk.waiting(a) == []


def test_who_leaves_before_the_acknowledgement_leaves_nothing_behind() -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        listen = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        a.leaves()
        talk.server.says(acknowledged(listen["id"], resourceSubscriptions=["u:1"]))
        talk.server.hears(cancelled(listen["id"]))
        assert not talk.mux.busy


@pytest.mark.parametrize("way", ["result", "cancelled", "both"])
def test_a_listen_that_the_server_ends_is_opened_again(way: str) -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        listen = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        talk.server.says(acknowledged(listen["id"], resourceSubscriptions=["u:1"]))
        a.hears(result(1))
        for wait in (1, 2, 4, 8, 16, 30, 30):
            if way != "cancelled":
                talk.server.answers(listen, complete())
            if way != "result":
                talk.server.says(cancelled(listen["id"]))
            talk.passes(wait - 0.1)
            talk.server.hears_nothing()
            talk.passes(0.1)
            listen = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
            talk.server.says(acknowledged(listen["id"], resourceSubscriptions=["u:1"]))
            a.hears(updated("u:1"))  # something may have been missed
        assert wait == LONGEST_WAIT


def test_nobody_may_be_left_when_a_listen_would_be_opened_again() -> None:
    with modern() as talk:
        a, b = talk.hosts("a", "b")
        a.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        listen = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        talk.server.says(acknowledged(listen["id"], resourceSubscriptions=["u:1"]))
        a.hears(result(1))
        talk.server.says({"jsonrpc": "2.0", "id": listen["id"], "error": {"code": -32000, "message": "lost"}})
        a.says(request(2, "resources/unsubscribe", {"uri": "u:1"}))
        a.hears(result(2))
        talk.passes(LONGEST_WAIT)
        b.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        listen = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        talk.server.says(acknowledged(listen["id"], resourceSubscriptions=["u:1"]))
        b.hears(result(1))


# Lists


def test_one_listen_tells_all_hosts_of_changed_lists() -> None:
    with modern(EVERY) as talk:
        watch = talk.server.hears(listens(toolsListChanged=True, promptsListChanged=True, resourcesListChanged=True))
        talk.server.says(acknowledged(watch["id"], toolsListChanged=True))
        talk.child_lists()
        a, b = talk.hosts("a", "b")
        talk.server.says(tagged("notifications/tools/list_changed", watch["id"]))
        a.hears(changed("tools"))
        b.hears(changed("tools"))
        talk.child_lists()
        # Without a tag it does not exist in this era, and with another meaning neither.
        talk.server.says(changed("tools"), tagged(UPDATED, watch["id"], {"uri": "u:1"}), tagged("vendor/x", 99))
        assert talk.noted("unrouted") == 3


def test_a_listen_for_lists_that_ends_is_opened_again_and_what_was_missed_is_fetched() -> None:
    with modern({"tools": {"listChanged": True}}) as talk:
        watch = talk.server.hears(listens(toolsListChanged=True))
        talk.child_lists(tools=["x"])
        a = talk.host("a")
        talk.server.answers(watch, complete())
        talk.passes(1)
        talk.server.hears(listens(toolsListChanged=True))
        talk.child_lists(tools=["y"])
        a.hears(changed("tools"))


def test_a_server_without_listens_is_no_problem() -> None:
    with modern({"tools": {"listChanged": True}, "prompts": {"listChanged": False}, "resources": 5}) as talk:
        watch = talk.server.hears(listens(toolsListChanged=True))
        talk.server.says({"jsonrpc": "2.0", "id": watch["id"], "error": {"code": -32601, "message": "no"}})
        assert talk.noted("listen") == 1
        talk.passes(LONGEST_WAIT)
        talk.child_lists()


# What a modern server must not send


def test_requests_of_the_server_are_ignored() -> None:
    with modern() as talk:
        talk.host("a", capabilities={"roots": {}})
        talk.server.says(request(1, "ping"), request("x", "roots/list"), request(2, "vendor/x", {}))
        assert talk.noted("violation") == 3


def test_the_end_of_a_listen_that_is_not_open_means_nothing() -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(call(1))
        one = talk.server.hears(request(..., "tools/call", ...))
        talk.server.says(cancelled(one["id"]), cancelled("x"), notification("notifications/cancelled"))
        assert talk.noted("late") == 3
        talk.server.answers(one, complete())
        a.hears(result(1))


def test_notifications_of_hosts() -> None:
    with modern() as talk:
        a = talk.host("a", capabilities={"roots": {"listChanged": True}})
        a.says(notification("notifications/roots/list_changed"), notification("notifications/tasks/status", {}))
        a.says(notification("notifications/progress", {"progressToken": 1, "progress": 1}))
        talk.server.hears_nothing()
        a.says(notification("notifications/vendor", {"a": 1}))
        talk.server.hears(notification("notifications/vendor", {"a": 1}))


# 6.8


def test_a_new_child_gets_the_listens_of_the_old_one() -> None:
    with modern(WATCHES, tools=["x"], resources=[]) as talk:
        talk.server.hears(listens(toolsListChanged=True))
        a = talk.host("a")
        a.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        listen = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        talk.server.says(acknowledged(listen["id"], resourceSubscriptions=["u:1"]))
        a.hears(result(1))
        talk.server.answers(listen, complete())  # and an alarm that waits dies with the child
        talk.child_dies()
        talk.passes(LONGEST_WAIT)
        talk.modern_child_runs(WATCHES, tools=["x"], resources=[])
        talk.server.hears(listens(toolsListChanged=True))
        listen = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        talk.server.says(acknowledged(listen["id"], resourceSubscriptions=["u:1"]))
        a.hears(updated("u:1"))


def test_a_session_that_survived_the_daemon_gets_its_listens() -> None:
    with Talk(terms=PINNED) as talk:
        talk.joins("a", State(version="2025-11-25", initialized=True, level="debug", uris=["u:1"]))
        talk.modern_child_runs()
        listen = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        talk.server.says({"jsonrpc": "2.0", "id": listen["id"], "error": {"code": -32601, "message": "no"}})
        assert talk.noted("subscription") == 1
