"""The pitfalls of interoperability that concern modern hosts at handshake servers: one test each, by number."""

from __future__ import annotations

import json
from typing import Any

import pytest

from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.callbacks import Shared
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import Demand, Remember
from supervisord_mcp.protocol.eras import parking
from supervisord_mcp.protocol.eras.probe import Terms
from supervisord_mcp.protocol.profiles import Profile
from tests.kit.conversation import (
    MCP,
    MODERN,
    Host,
    Json,
    Talk,
    call,
    cancelled,
    changed,
    completed,
    error,
    modern,
    notification,
    progress,
    request,
    result,
)

RESOURCES = {"resources": {"subscribe": True}}
FORM = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
ACCEPTED = {"action": "accept", "content": {}}
PAGES = {"elicitations": [{"mode": "url", "url": "https://x", "message": "log in", "elicitationId": "e"}]}
FULL: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "roots": {}, "sampling": {}}


def tool(identity: Any, capabilities: Json = None, **envelope: Any) -> dict[str, Any]:
    params = {"name": "echo", "arguments": {}}
    return modern(
        identity, "tools/call", params, capabilities=FULL if capabilities is None else capabilities, **envelope
    )


def retry(identity: Any, state: str, answers: Json, **meta: Any) -> dict[str, Any]:
    params = {"name": "echo", "arguments": {}, "requestState": state, "inputResponses": answers}
    return modern(identity, "tools/call", params, capabilities=FULL, meta=meta)


def listen(identity: Any, **wanted: Any) -> dict[str, Any]:
    return modern(identity, "subscriptions/listen", {"notifications": wanted})


def tag(identity: Any, message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "params": {**message.get("params", {}), "_meta": {f"{MCP}subscriptionId": identity}}}


def acknowledged(identity: Any, **honoured: Any) -> dict[str, Any]:
    return tag(identity, notification("notifications/subscriptions/acknowledged", {"notifications": honoured}))


def calling(talk: Talk, message: Json = None) -> tuple[Host, Json]:
    """A modern host with a child of its own has called it; return the host and what the child heard."""
    a = talk.joins("a")
    a.says(tool(1) if message is None else message)
    talk.child_greets(talk.child_starts(), {"logging": {}})
    return a, talk.server.hears(request(..., "tools/call", ...))


def told(talk: Talk, host: Host, identity: Any) -> dict[str, Any]:
    """The host hears what it is asked; return that."""
    talk.passes(parking.GATHERING)
    answer: dict[str, Any] = host.hears(result(identity, {"resultType": "input_required", ...: ...}))["result"]
    return answer


def test_pitfall_09_progress_increases_over_the_rounds_of_one_call() -> None:
    with Talk(relay=True) as talk:
        a, asked = calling(talk, tool(1, meta={"progressToken": "t"}))
        talk.server.says(progress(asked["id"], 1), progress(asked["id"], 5))
        a.hears(progress("t", 1), progress("t", 5))
        talk.server.says(request("q", "elicitation/create", FORM))
        state = told(talk, a, 1)["requestState"]
        a.says(retry(2, state, {"r1": ACCEPTED}, progressToken=7))
        talk.server.hears(result("q", ACCEPTED))
        talk.server.says(progress(asked["id"], 5), progress(asked["id"], 4), progress(asked["id"], 6))
        talk.server.answers(asked)
        a.hears(progress(7, 6), completed(2))


def test_pitfall_10_nothing_of_a_cancelled_request_comes_back() -> None:
    with Talk(relay=True) as talk:
        a, asked = calling(talk, tool(1, meta={"progressToken": "t"}))
        a.says(cancelled(1))
        talk.server.hears(cancelled(asked["id"]))
        talk.server.says(progress(asked["id"], 1), notification("notifications/message", {"level": "error", "data": 1}))
        talk.server.fails(asked, 0, "Request cancelled")


def test_pitfall_12_a_host_that_leaves_unblocks_the_child() -> None:
    with Talk(relay=True) as talk:
        a, asked = calling(talk)
        talk.server.says(request("q", "elicitation/create", FORM))
        told(talk, a, 1)
        a.leaves()
        talk.server.hears(result("q", {"action": "cancel"}), cancelled(asked["id"], "the host is gone"))
        assert not talk.mux.busy


def test_pitfall_12_nor_does_a_child_of_several_hosts_stay_blocked() -> None:
    with Talk(relay=Shared(Profile(("elicitation.form",)), serialized=True)) as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(tool(1))
        asked = talk.server.hears(request(..., "tools/call", ...))
        talk.server.says(request("q", "elicitation/create", FORM))
        told(talk, a, 1)
        a.leaves()
        talk.passes(parking.RETURNING)  # it might have come back on another connection (6.5 step 4)
        talk.server.hears(result("q", {"action": "cancel"}), cancelled(asked["id"], "the host is gone"))
        assert not talk.mux.busy


def test_pitfall_14_no_host_shakes_hands_with_a_running_child() -> None:
    with Talk() as talk:
        talk.child_runs()
        a, b = talk.joins("a"), talk.joins("b")
        a.says(modern(1, "server/discover"))
        a.hears(result(1, ...))
        b.initializes()
        b.hears(result("hello", ...))
        talk.server.hears_nothing()


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "vendor/x"])
def test_pitfall_15_a_legacy_child_never_sees_an_envelope(method: str) -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(modern(1, method, {"k": 1}, meta={f"{MCP}logLevel": "debug"}), modern(2, method))
        talk.server.answers(talk.server.hears(request(..., method, {"k": 1})), {"tools": []})
        talk.server.answers(talk.server.hears(request(..., method)), {"tools": []})
        a.hears(result(1, ...), result(2, ...))


def test_pitfall_20_the_daemon_checks_the_version_itself() -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        wrong = {f"{MCP}protocolVersion": "2099-01-01"}
        refused = {"supported": [MODERN], "requested": "2099-01-01"}
        a.says(modern(0, "server/discover", meta=wrong), tool(1))
        a.hears(error(0, -32022, ..., refused))
        asked = talk.server.hears(call(...))
        a.says(tool(2, meta=wrong), listen(3) | {"params": {"notifications": {}, "_meta": {}}})
        a.hears(error(2, -32022, ..., refused), error(3, -32602))
        talk.server.answers(asked)
        a.hears(completed(1))


@pytest.mark.parametrize("identity", [0, "0", "", 7, "seven"])
def test_pitfall_21_the_tag_is_the_id_of_the_listen_with_its_type(identity: Any) -> None:
    with Talk() as talk:
        talk.child_runs({"tools": {}})
        a = talk.joins("a")
        a.says(listen(identity, toolsListChanged=True))
        talk.server.says(changed("tools"))
        talk.child_lists()
        talk._apply(talk.mux.fail_session(a.key, "over"))
        a.hears(acknowledged(identity, toolsListChanged=True), tag(identity, changed("tools")))
        final = a.hears(result(identity, ...))["result"]
        assert final["_meta"][f"{MCP}subscriptionId"] == identity
        assert type(final["_meta"][f"{MCP}subscriptionId"]) is type(identity)
        a.hears(cancelled(identity))


def test_pitfall_22_the_acknowledgement_is_the_first_tagged_message() -> None:
    with Talk() as talk:
        talk.child_runs({"tools": {}, **RESOURCES})
        a = talk.joins("a")
        a.says(listen(1, toolsListChanged=True, resourceSubscriptions=["u:1"]))
        asked = talk.server.hears(request(..., "resources/subscribe", {"uri": "u:1"}))
        talk.server.says(changed("tools"))
        talk.child_lists()
        a.hears_nothing()
        talk.server.answers(asked)
        a.hears(
            acknowledged(1, toolsListChanged=True, resourceSubscriptions=["u:1"]),
            tag(1, changed("tools")),
        )


def test_pitfall_23_a_listen_gets_the_kinds_that_it_asked_for() -> None:
    with Talk() as talk:
        talk.child_runs({"tools": {}, "prompts": {}})
        a = talk.joins("a")
        a.says(listen(1, promptsListChanged=True))
        a.hears(acknowledged(1, promptsListChanged=True))
        talk.server.says(changed("tools"))
        talk.child_lists()
        talk.server.says(changed("prompts"))
        talk.child_lists()
        a.hears(tag(1, changed("prompts")))


def test_pitfall_24_an_update_may_name_a_part_of_what_is_listened_for() -> None:
    with Talk() as talk:
        talk.child_runs(RESOURCES)
        a = talk.joins("a")
        a.says(listen(1, resourceSubscriptions=["file:///d"]))
        talk.server.answers(talk.server.hears(request(..., "resources/subscribe", ...)))
        part = notification("notifications/resources/updated", {"uri": "file:///d/part"})
        talk.server.says(part)
        a.hears(acknowledged(1, resourceSubscriptions=["file:///d"]), tag(1, part))


def test_pitfall_25_a_listen_that_ends_takes_nothing_from_the_others() -> None:
    with Talk() as talk:
        talk.child_runs(RESOURCES)
        a, b = talk.joins("a"), talk.joins("b")
        a.says(listen(1, resourceSubscriptions=["u:1"]))
        talk.server.answers(talk.server.hears(request(..., "resources/subscribe", ...)))
        b.says(listen(1, resourceSubscriptions=["u:1"]))
        a.hears(acknowledged(1, resourceSubscriptions=["u:1"]))
        b.hears(acknowledged(1, resourceSubscriptions=["u:1"]))
        a.leaves()
        update = notification("notifications/resources/updated", {"uri": "u:1"})
        talk.server.says(update)
        b.hears(tag(1, update))


def test_pitfall_27_a_request_without_a_level_sees_no_log() -> None:
    with Talk() as talk:
        talk.child_runs({"logging": {}})
        a = talk.joins("a")
        a.says(tool(1))
        asked = talk.server.hears(call(...))
        for level in ("debug", "emergency"):
            talk.server.says(notification("notifications/message", {"level": level, "data": 1}))
        talk.server.answers(asked)
        a.hears(completed(1))


def test_pitfall_30_a_retry_is_known_by_the_value_of_its_arguments() -> None:
    with Talk(relay=True) as talk:
        a, asked = calling(talk)
        talk.server.says(request("q", "elicitation/create", FORM))
        state = told(talk, a, 1)["requestState"]
        other = retry(2, state, {"r1": ACCEPTED})
        other["params"]["arguments"] = {"changed": True}
        a.says(other)
        a.hears(error(2, -32602))
        a.says(retry(3, state, {"r1": ACCEPTED}))
        talk.server.hears(result("q", ACCEPTED))
        talk.server.answers(asked)
        a.hears(completed(3))


@pytest.mark.parametrize("method", ["tools/list", "completion/complete", "vendor/x"])
def test_pitfall_32_only_three_methods_are_ever_answered_with_a_question(method: str) -> None:
    with Talk(relay=True) as talk:
        a = talk.joins("a")
        a.says(modern(1, method, {"k": 1}, capabilities=FULL))
        talk.child_greets(talk.child_starts())
        asked = talk.server.hears(request(..., method, {"k": 1}))
        talk.server.says(request("q", "elicitation/create", FORM))
        talk.server.hears(error("q", -32601))
        talk.passes(1)
        talk.server.answers(asked, {"tools": []})
        a.hears(result(1, {"resultType": "complete", ...: ...}))
        a.says(modern(2, method, {"k": 2}, capabilities=FULL))
        talk.server.fails(talk.server.hears(request(..., method, {"k": 2})), -32042, "page", PAGES)
        a.hears(error(2, -32603, "page"))  # it declared everything, and would not be asked all the same


def test_pitfall_33_what_a_request_did_not_declare_is_not_asked_of_it() -> None:
    with Talk(relay=True) as talk:
        a, asked = calling(talk)
        a.says(tool(2, {"roots": {}}))
        other = talk.server.hears(call(...))
        talk.server.answers(asked)
        a.hears(completed(1))
        talk.server.says(request("q", "elicitation/create", FORM), request("p", "roots/list"))
        talk.server.hears(error("q", -32601))
        entries = told(talk, a, 2)["inputRequests"]
        assert list(entries.values()) == [{"method": "roots/list"}]
        a.leaves()
        talk.server.hears(error("p", -32603), cancelled(other["id"], ...))


def test_pitfall_34_of_two_retries_one_resumes() -> None:
    with Talk(relay=True) as talk:
        a, asked = calling(talk)
        talk.server.says(request("q", "elicitation/create", FORM))
        state = told(talk, a, 1)["requestState"]
        a.says(retry(2, state, {"r1": ACCEPTED}), retry(3, state, {"r1": ACCEPTED}))
        talk.server.hears(result("q", ACCEPTED))
        talk.server.answers(asked)
        a.hears(error(3, -32602), completed(2))


def test_pitfall_35_no_result_type_is_complete_and_an_unknown_one_an_error() -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        for identity, kind in enumerate([None, "complete", "strange", "task", "input_required", 7]):
            a.says(tool(identity))
            talk.server.answers(talk.server.hears(call(...)), {} if kind is None else {"resultType": kind})
            a.hears(completed(identity) if kind in (None, "complete") else error(identity, -32603))


def test_pitfall_37_an_empty_cursor_is_one() -> None:
    with Talk() as talk:
        talk.child_runs(tools=[])
        a = talk.joins("a")
        a.says(modern(0, "tools/list"))
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": [], "nextCursor": ""})
        a.hears(result(0, ...))
        a.says(modern(1, "tools/list", {"cursor": ""}))
        talk.server.answers(
            talk.server.hears(request(..., "tools/list", {"cursor": ""})), {"tools": [], "nextCursor": ""}
        )
        a.hears(completed(1, {"tools": [], "nextCursor": ""}, ttlMs=0, cacheScope="private"))


def test_pitfall_41_errors_become_those_of_the_era() -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(modern(1, "resources/read", {"uri": "u"}), tool(2))
        talk.server.fails(talk.server.hears(request(..., "resources/read", {"uri": "u"})), -32002, "none", {"uri": "u"})
        talk.server.fails(talk.server.hears(call(...)), -32042, "page", PAGES)
        a.hears(error(1, -32602, "none", {"uri": "u"}))
        page = {"mode": "url", "url": "https://x", "message": "log in"}
        assert told(talk, a, 2)["inputRequests"] == {"r1": {"method": "elicitation/create", "params": page}}


def test_pitfall_42_an_empty_elicitation_gets_no_page() -> None:
    with Talk(relay=True) as talk:
        a, asked = calling(talk, tool(1, {"elicitation": {}}))
        talk.server.says(request("q", "elicitation/create", {"mode": "url", "url": "https://x", "message": "m"}))
        talk.server.hears(error("q", -32602))
        talk.server.says(request("r", "elicitation/create", FORM))
        assert told(talk, a, 1)["inputRequests"] == {"r1": {"method": "elicitation/create", "params": FORM}}
        a.leaves()
        talk.server.hears(result("r", {"action": "cancel"}), cancelled(asked["id"], ...))


def test_pitfall_43_an_elicitation_id_is_taken_out() -> None:
    page = {"mode": "url", "url": "https://x", "message": "m", "elicitationId": "e"}
    with Talk(relay=True) as talk:
        a, asked = calling(talk)
        talk.server.says(request("q", "elicitation/create", page))
        entry = told(talk, a, 1)["inputRequests"]["r1"]
        assert entry == {"method": "elicitation/create", "params": {"mode": "url", "url": "https://x", "message": "m"}}
        # Its host retries by itself; nothing is waited for.
        talk.server.says(notification("notifications/elicitation/complete", {"elicitationId": "e"}))
        a.leaves()
        talk.server.hears(result("q", {"action": "cancel"}), cancelled(asked["id"], ...))


def test_pitfall_49_a_child_is_answered_before_it_is_stopped() -> None:
    with Talk(relay=True) as talk:
        a, _ = calling(talk)
        talk.server.says(request("q", "elicitation/create", FORM))
        told(talk, a, 1)
        talk.child_stops()
        talk.server.hears(result("q", {"action": "cancel"}))


def test_pitfall_56_a_death_of_the_child_leaves_no_state_behind() -> None:
    with Talk() as talk:
        talk.child_runs(RESOURCES)
        a = talk.joins("a")
        a.says(tool(1), listen(2, resourceSubscriptions=["u:1"]))
        asked = talk.server.hears(call(...))
        talk.server.answers(talk.server.hears(request(..., "resources/subscribe", ...)))
        a.hears(acknowledged(2, resourceSubscriptions=["u:1"]))
        talk.server.says(request("q", "elicitation/create", FORM))
        talk.server.hears(error("q", -32601))  # a child of several hosts was told of no capabilities
        talk.child_dies("it died")
        a.hears(error(1, -32603, "it died"))
        talk.child_runs(RESOURCES)
        talk.server.answers(talk.server.hears(request(..., "resources/subscribe", {"uri": "u:1"})))
        a.hears(tag(2, notification("notifications/resources/updated", {"uri": "u:1"})))
        a.says(retry(3, "of the old child", {}))
        a.hears(error(3, -32602))
        assert asked["id"]


@pytest.mark.parametrize("end", ["parked", "page", "outcome"])
def test_pitfall_56_whatever_a_state_stood_for_it_is_gone_with_the_child(end: str) -> None:
    with Talk(relay=True) as talk:
        a, asked = calling(talk)
        if end == "page":
            talk.server.fails(asked, -32042, "page", PAGES)
        else:
            talk.server.says(request("q", "elicitation/create", FORM))
        state = told(talk, a, 1)["requestState"]
        if end == "outcome":
            talk.server.answers(asked, {"content": []})
            talk.server.hears(result("q", {"action": "cancel"}))
        talk.child_dies()
        talk.child_greets(talk.child_starts())
        a.says(retry(2, state, {"r1": ACCEPTED}))
        a.hears(error(2, -32602, parking.STALE))
        assert not talk.mux.busy


def test_pitfall_57_a_parked_call_is_never_sent_again() -> None:
    with Talk(relay=True) as talk:
        a, _ = calling(talk)
        talk.server.says(request("q", "elicitation/create", FORM))
        state = told(talk, a, 1)["requestState"]
        talk.child_dies()
        talk.child_greets(talk.child_starts())
        a.says(retry(2, state, {"r1": ACCEPTED}))
        a.hears(error(2, -32602))
        talk.server.hears_nothing()


def test_pitfall_59_unknown_meta_survives_in_both_directions() -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(tool(1, meta={"vendor/x": [1], "tracestate": "a=b"}))
        asked = talk.server.hears(
            request(
                ..., "tools/call", {"name": "echo", "arguments": {}, "_meta": {"vendor/x": [1], "tracestate": "a=b"}}
            )
        )
        talk.server.answers(asked, {"content": [], "_meta": {"vendor/y": 2}})
        a.hears(result(1, {"content": [], "resultType": "complete", "_meta": {"vendor/y": 2, ...: ...}}))


def test_pitfall_60_a_probe_starts_nothing_and_is_no_session() -> None:
    known = Catalogue(
        b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'
    )
    with Talk(known=known) as talk:
        probe = talk.joins("probe")
        probe.says(modern("server-discover-probe-1", "server/discover", capabilities={"roots": {"listChanged": True}}))
        probe.hears(result("server-discover-probe-1", {"supportedVersions": [MODERN], ...: ...}))
        assert not talk.did(Demand)
        assert not talk.did(Remember)
        assert talk.mux.state(probe.key) == State()
        assert not talk.mux.busy
        probe.leaves()
        talk.server.hears_nothing()


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"_meta": {}},
        {"_meta": {f"{MCP}clientCapabilities": {}}},
        {"_meta": {f"{MCP}protocolVersion": MODERN}},
    ],
)
def test_pitfall_61_a_defective_envelope_is_an_error_of_parameters(params: Json) -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(request(0, "server/discover", params), tool(1))
        a.hears(error(0, -32602))
        talk.server.answers(talk.server.hears(call(...)))
        a.hears(completed(1))
        a.says(request(2, "tools/list", params), request(3, "tools/call", params))
        a.hears(error(2, -32602), error(3, -32602))


def test_pitfall_62_the_result_of_a_listen_comes_before_its_cancellation() -> None:
    with Talk() as talk:
        talk.child_runs({"tools": {}})
        a = talk.joins("a")
        a.says(listen(1, toolsListChanged=True))
        a.hears(acknowledged(1, toolsListChanged=True))
        talk._apply(talk.mux.fail_session(a.key, "moved"))
        a.hears(result(1, {"resultType": "complete", "_meta": ...}), cancelled(1))


def test_pitfall_65_a_wish_for_a_task_is_ignored() -> None:
    with Talk() as talk:
        talk.child_runs({"tasks": {"requests": {"tools": {"call": {}}}}})
        a = talk.joins("a")
        a.says(modern(1, "tools/call", {"name": "echo", "arguments": {}, "task": {"ttl": 1}}))
        talk.server.answers(talk.server.hears(call(...)))
        a.hears(completed(1))


def test_pitfall_67_a_cursor_of_a_child_that_is_gone_is_refused() -> None:
    with Talk() as talk:
        talk.child_runs(tools=["a"])
        a = talk.joins("a")
        a.says(modern(1, "tools/list"))
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": [], "nextCursor": "2"})
        a.hears(result(1, ...))
        talk.child_dies()
        talk.child_runs(tools=["a"])
        a.says(modern(2, "tools/list", {"cursor": "2"}))
        a.hears(error(2, -32602))


# At a child of their own era


TERMS = Terms("modern")


def of_their_era(talk: Talk, offered: Json = None) -> None:
    """A modern child runs; what the daemon asks it for itself is answered or heard."""
    talk.modern_child_runs(offered or {"tools": {}})
    while talk.server.inbox:
        talk.server.hears(...)


def test_pitfall_02_ids_and_tokens_of_two_modern_hosts_do_not_cross() -> None:
    with Talk(terms=TERMS) as talk:
        of_their_era(talk)
        a, b = talk.joins("a"), talk.joins("b")
        a.says(tool(1, meta={"progressToken": 1}))
        b.says(tool(1, meta={"progressToken": 1}))
        first, second = talk.server.hears(...), talk.server.hears(...)
        talk.server.says(progress(second["id"], 1), progress(first["id"], 2))
        talk.server.answers(second, {"resultType": "complete", "for": "b"})
        talk.server.answers(first, {"resultType": "complete", "for": "a"})
        a.hears(progress(1, 2), result(1, {"resultType": "complete", "for": "a"}))
        b.hears(progress(1, 1), result(1, {"resultType": "complete", "for": "b"}))


def test_pitfall_16_a_modern_child_always_gets_an_envelope() -> None:
    with Talk(terms=TERMS) as talk:
        of_their_era(talk)
        a = talk.joins("a")
        a.says(modern(1, "tools/list"))
        assert f"{MCP}protocolVersion" in talk.server.hears(request(..., "tools/list", ...))["params"]["_meta"]


def test_pitfall_20_the_version_is_checked_though_the_child_does_not() -> None:
    with Talk(terms=TERMS) as talk:
        of_their_era(talk)
        a = talk.joins("a")
        a.says(tool(1), tool(2, meta={f"{MCP}protocolVersion": "2099-01-01"}))
        talk.server.answers(talk.server.hears(...), {"resultType": "complete"})
        a.hears(error(2, -32022, ..., {"supported": [MODERN], "requested": "2099-01-01"}), result(1, ...))


@pytest.mark.parametrize("identity", [0, "0", "seven"])
def test_pitfall_21_the_tag_of_a_relayed_listen_is_the_id_of_its_host(identity: Any) -> None:
    with Talk(terms=TERMS) as talk:
        of_their_era(talk)
        a = talk.joins("a")
        a.says(listen(identity, toolsListChanged=True))
        upstream = talk.server.hears(request(..., "subscriptions/listen", ...))["id"]
        talk.server.says(acknowledged(upstream, toolsListChanged=True), tag(upstream, changed("tools")))
        a.hears(acknowledged(identity, toolsListChanged=True), tag(identity, changed("tools")))
        talk.server.says(result(upstream, {"resultType": "complete", "_meta": {f"{MCP}subscriptionId": upstream}}))
        final = a.hears(result(identity, ...), cancelled(identity))
        assert final["params"]["requestId"] == identity


def test_pitfall_30_a_state_is_passed_on_byte_for_byte() -> None:
    with Talk(terms=TERMS) as talk:
        of_their_era(talk)
        a = talk.joins("a")
        a.says(tool(1))
        state = "v1.\\u0041/\\/é"
        entry = '{"method":"roots/list"}'
        told = f'"result":{{"resultType":"input_required","inputRequests":{{"k":{entry}}},"requestState":"{state}"}}}}'
        asked = talk.server.hears(...)
        talk.server.says(f'{{"jsonrpc":"2.0","id":{asked["id"]},{told}')
        a.hears_text(f'{{"jsonrpc":"2.0","id":1,{told}'.encode())
        answer = json.dumps(tool(2)).replace(
            '"_meta"', f'"requestState":"{state}","inputResponses":{{"k":{{}}}},"_meta"'
        )
        a.says(answer)
        line = talk.server.inbox[0].decode()
        assert f'"requestState":"{state}","inputResponses":{{"k":{{}}}}' in line
        talk.server.answers(talk.server.hears(...), {"resultType": "complete"})
        a.hears(result(2, {"resultType": "complete"}))


def test_pitfall_33_a_question_that_was_not_declared_is_not_passed_on() -> None:
    with Talk(terms=TERMS) as talk:
        of_their_era(talk)
        a = talk.joins("a")
        a.says(tool(1, {"roots": {}}))
        entry = {"method": "elicitation/create", "params": FORM}
        talk.server.answers(talk.server.hears(...), {"resultType": "input_required", "inputRequests": {"k": entry}})
        a.hears(error(1, -32021))


def test_pitfall_36_a_list_that_changed_while_it_was_fetched_is_not_kept() -> None:
    with Talk(terms=TERMS) as talk:
        talk.modern_child_runs({"tools": {"listChanged": True}})
        watch = next(asked for asked in _heard(talk) if asked["method"] == "subscriptions/listen")["id"]
        talk.server.says(acknowledged(watch, toolsListChanged=True))
        a = talk.joins("a")
        page: Json = {"resultType": "complete", "tools": [], "ttlMs": 60000, "cacheScope": "public"}
        a.says(modern(1, "tools/list"))
        asked = talk.server.hears(request(..., "tools/list", ...))
        talk.server.says(tag(watch, changed("tools")))
        talk.child_lists()
        talk.server.answers(asked, page)
        a.hears(result(1, page))
        a.says(modern(2, "tools/list"))
        talk.server.answers(talk.server.hears(request(..., "tools/list", ...)), {**page, "ttlMs": -1})
        a.hears(result(2, {**page, "ttlMs": -1}))
        a.says(modern(3, "tools/list"))
        talk.server.answers(talk.server.hears(request(..., "tools/list", ...)), page)
        a.hears(result(3, page))


def _heard(talk: Talk) -> list[Json]:
    return [talk.server.hears(...) for _ in range(len(talk.server.inbox))]


def test_pitfall_38_the_order_of_tools_is_that_of_the_server() -> None:
    tools = [{"name": name} for name in ("z", "a", "m")]
    with Talk(terms=TERMS) as talk:
        of_their_era(talk)
        a = talk.joins("a")
        a.says(modern(1, "tools/list"))
        talk.server.answers(talk.server.hears(...), {"resultType": "complete", "tools": tools})
        a.hears(result(1, {"resultType": "complete", "tools": tools}))


def test_pitfall_44_a_task_of_another_host_is_unknown() -> None:
    able: Json = {"extensions": {f"{MCP}tasks": {}}}
    with Talk(terms=TERMS) as talk:
        of_their_era(talk)
        a, b = talk.joins("a"), talk.joins("b")
        a.says(tool(1, able))
        talk.server.answers(talk.server.hears(...), {"resultType": "task", "taskId": "t", "status": "completed"})
        a.hears(result(1, ...))
        b.says(modern(1, "tasks/get", {"taskId": "t"}, capabilities=able))
        b.hears(error(1, -32602))


def test_pitfall_45_a_task_that_nobody_can_take_is_no_success() -> None:
    with Talk(terms=TERMS) as talk:
        of_their_era(talk)
        a = talk.joins("a")
        a.says(tool(1))
        talk.server.answers(talk.server.hears(...), {"resultType": "task", "taskId": "t", "status": "working"})
        a.hears(error(1, -32603))
