"""Modern hosts at a modern child: every row of protocol.md 6.4, column MC to MS, as a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import Demand
from supervisord_mcp.protocol.eras.listening import TASKS
from supervisord_mcp.protocol.eras.probe import Terms
from tests.kit.conversation import (
    MCP,
    MODERN,
    Json,
    Talk,
    cancelled,
    complete,
    completed,
    discovered,
    error,
    modern,
    needs,
    notification,
    progress,
    request,
    result,
)

TERMS = Terms("modern")
FORM: Json = {"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": {}}}
WITH_TASKS: Json = {"extensions": {TASKS: {}}}
KNOWN = Catalogue(
    b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}',
    {"tools/list": (b'{"name":"echo","inputSchema":{"type":"object"}}',)},
    b'{"resultType":"complete","supportedVersions":["2026-07-28","2027-01-01"],"capabilities":{"tools":{},'
    b'"extensions":{"x":{}}},"ttlMs":60000,"cacheScope":"public"}',
)


def tool(identity: Any, params: Json = None, **envelope: Any) -> dict[str, Any]:
    return modern(identity, "tools/call", {"name": "x", **(params or {})}, **envelope)


def heard(method: str, params: Json = None, **meta: Any) -> dict[str, Any]:
    """The request of a host as the child hears it."""
    return modern(..., method, params, **meta)


def served(talk: Talk, capabilities: Json = None) -> None:
    """A modern child runs and has been asked for its lists."""
    talk.modern_child_runs(capabilities or {"tools": {}})
    while talk.server.inbox:
        talk.server.hears(...)


def test_requests_and_results_pass_as_they_are() -> None:
    params = '{"name":"x","arguments":{"n":1e400,"a":1,"a":2},"_meta":%s}'
    meta = (
        '{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"x":1},'
        '"vendor/y":[1]}'
    )
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        a.says('{"jsonrpc":"2.0","id":"h","method":"tools/call","params":' + params % meta + "}")
        upstream = talk.mux._talk.last_id
        text = f'{{"jsonrpc":"2.0","id":{upstream},"method":"tools/call","params":' + params % meta + "}"
        talk.server.hears_text(text.encode())
        told = '"result":{"resultType":"complete","content":[],"big":1e400,"_meta":{"vendor/z":1}}}'
        talk.server.says(f'{{"jsonrpc":"2.0","id":{upstream},' + told)
        a.hears_text(b'{"jsonrpc":"2.0","id":"h",' + told.encode())


@pytest.mark.parametrize("method", ["prompts/get", "completion/complete", "resources/read", "vendor/x"])
def test_every_other_request_passes_too(method: str) -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a, b = talk.joins("a"), talk.joins("b")
        a.says(modern(1, method, {"uri": "u"}))
        b.says(modern(1, method, {"uri": "u"}))
        first, second = talk.server.hears(heard(method, {"uri": "u"})), talk.server.hears(heard(method, {"uri": "u"}))
        talk.server.answers(second, complete({"for": "b"}))
        talk.server.fails(first, -32602, "no", {"x": 1})
        b.hears(result(1, complete({"for": "b"})))
        a.hears(error(1, -32602, "no", {"x": 1}))


def test_what_does_not_exist_is_unknown_here_too() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        for identity, method in enumerate(("ping", "initialize", "logging/setLevel", "resources/subscribe")):
            a.says(modern(identity, method))
            a.hears(error(identity, -32601))


def test_versions_are_checked_before_the_child_sees_them() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        a.says(tool(1, meta={f"{MCP}protocolVersion": "2099-01-01"}))
        a.hears(error(1, -32022, ..., {"supported": [MODERN], "requested": "2099-01-01"}))


def test_versions_that_only_the_child_speaks_are_not_promised() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        a.says(tool(1), tool(2))
        first, second = talk.server.hears(...), talk.server.hears(...)
        refused = {"supported": ["2027-01-01", MODERN], "requested": MODERN, "more": 1}
        talk.server.fails(first, -32022, "no", refused)
        a.hears(error(1, -32022, "no", {**refused, "supported": [MODERN]}))
        talk.server.fails(second, -32022, "no")
        a.hears(error(2, -32022, "no"))


# server/discover


def test_discovery_is_the_child_s_own_while_there_is_one() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a, b = talk.joins("a"), talk.joins("b")
        a.says(modern(1, "server/discover"))
        said = discovered({"extensions": {"x": {}}}, supportedVersions=["2027-01-01", MODERN], ttlMs=60000)
        talk.server.answers(talk.server.hears(heard("server/discover")), said)
        told = {**said, "supportedVersions": [MODERN]}
        a.hears(result(1, told))
        assert talk.mux._talk.sessions[a.key].era is None
        b.says(modern(1, "server/discover"))
        b.hears(result(1, {**told, "ttlMs": 0}))
        b.says(modern(2, "server/discover", capabilities={"roots": {}}))
        talk.server.answers(talk.server.hears(...), discovered(supportedVersions=["2027-01-01"]))
        b.hears(result(2, discovered(supportedVersions=[])))


def test_discovery_is_told_from_what_is_known_while_there_is_none() -> None:
    with Talk(terms=TERMS, known=KNOWN) as talk:
        a = talk.joins("a")
        a.says(modern(1, "server/discover"))
        a.hears(
            result(
                1,
                {
                    "resultType": "complete",
                    "supportedVersions": [MODERN],
                    "capabilities": {"tools": {}, "extensions": {"x": {}}},
                    "ttlMs": 0,
                    "cacheScope": "public",
                },
            )
        )
        assert not talk.did(Demand)


def test_a_probe_waits_for_a_child_of_which_nothing_is_known() -> None:
    with Talk(terms=TERMS) as talk:
        a = talk.joins("a")
        a.says(modern(1, "server/discover"))
        assert talk.did(Demand)
        talk.modern_child_runs()
        talk.server.answers(talk.server.hears(heard("server/discover")), discovered({"tools": {}}))
        a.hears(result(1, discovered({"tools": {}})))


# Lists and what may be kept (3.11)


def test_lists_are_told_from_the_catalogue_while_there_is_no_child() -> None:
    with Talk(terms=TERMS, known=KNOWN) as talk:
        a = talk.joins("a")
        a.says(modern(1, "tools/list"))
        told = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        a.hears(completed(1, told, ttlMs=0, cacheScope="private"))
        assert not talk.did(Demand)


def test_what_is_fresh_is_told_again_to_who_can_do_the_same() -> None:
    page: Json = complete({"tools": [{"name": "a"}], "nextCursor": "", "ttlMs": 5000, "cacheScope": "public"})
    with Talk(terms=TERMS) as talk:
        served(talk)
        a, b = talk.joins("a"), talk.joins("b")
        a.says(modern(1, "tools/list"))
        talk.server.answers(talk.server.hears(heard("tools/list")), page)
        a.hears(result(1, page))
        b.says(modern(1, "tools/list"), modern(2, "tools/list", capabilities={"sampling": {}}))
        b.hears(result(1, {**page, "ttlMs": 0}))
        talk.server.answers(talk.server.hears(...), complete({"tools": []}))
        b.hears(result(2, complete({"tools": []})))
        talk.passes(5)
        b.says(modern(3, "tools/list"))
        talk.server.answers(talk.server.hears(heard("tools/list")), page)
        b.hears(result(3, page))


def test_what_is_not_final_is_not_kept() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        for identity, kind in enumerate(("input_required", "strange")):
            told: Json = {"resultType": kind, "ttlMs": 5000, "requestState": "s"}
            a.says(modern(identity, "resources/read", {"uri": "u"}))
            talk.server.answers(talk.server.hears(heard("resources/read", {"uri": "u"})), told)
            a.hears(result(identity, told))


def test_a_cursor_of_a_child_that_is_gone_is_refused() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        a.says(modern(1, "tools/list"))
        talk.server.answers(talk.server.hears(heard("tools/list")), complete({"tools": [], "nextCursor": "2"}))
        a.hears(result(1, ...))
        talk.child_dies()
        served(talk)
        a.says(modern(2, "tools/list", {"cursor": "2"}))
        a.hears(error(2, -32602))


# Rounds of input, as of 3.6


def test_rounds_pass_byte_for_byte() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        a.says(tool(1, capabilities={"elicitation": {}}))
        talk.server.answers(talk.server.hears(...), needs({"k": FORM}, "v1.\u00e9/+="))
        a.hears(result(1, needs({"k": FORM}, "v1.\u00e9/+=")))
        answers = {"inputResponses": {"k": {"action": "accept", "content": {}}}, "requestState": "v1.\u00e9/+="}
        a.says(tool(2, answers, capabilities={"elicitation": {}}))
        asked = talk.server.hears(heard("tools/call", {"name": "x", **answers}, capabilities={"elicitation": {}}))
        talk.server.answers(asked, complete())
        a.hears(result(2, complete()))


def test_a_state_of_a_child_that_is_gone_is_for_its_successor_to_judge() -> None:
    with Talk(terms=TERMS) as talk:
        a = talk.joins("a")
        a.says(tool(1, {"requestState": "old"}))
        served_now = tool(..., {"requestState": "old"})
        talk.modern_child_runs()
        talk.server.fails(talk.server.hears(served_now), -32602, "Invalid or expired requestState")
        a.hears(error(1, -32602, "Invalid or expired requestState"))


def test_a_context_that_was_not_declared_is_not_asked_for() -> None:
    plain = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
    wide = {**plain, "params": {"messages": [], "maxTokens": 1, "includeContext": "allServers"}}
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        cases: list[tuple[Json, Json]] = [({"context": {}}, wide), ({}, plain)]
        for capabilities, told in cases:
            a.says(tool(1, capabilities={"sampling": capabilities, "roots": {}}))
            asked = needs({"k": wide, "r": {"method": "roots/list"}}, "s")
            talk.server.answers(talk.server.hears(...), {**asked, "x": 1})
            a.hears(result(1, {**needs({"k": told, "r": {"method": "roots/list"}}, "s"), "x": 1}))


@pytest.mark.parametrize(
    ("entry", "needed"),
    [
        (FORM, {"elicitation": {"form": {}}}),
        ({"method": "elicitation/create", "params": {"mode": "url"}}, {"elicitation": {"url": {}}}),
        ({"method": "sampling/createMessage", "params": {}}, {"sampling": {}}),
        ({"method": "roots/list"}, {"roots": {}}),
        ({"method": "vendor/ask"}, {}),
        (7, {}),
    ],
)
def test_a_question_that_was_not_declared_is_not_surfaced(entry: Json, needed: Json) -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        a.says(tool(1))
        talk.server.answers(talk.server.hears(...), needs({"k": entry}))
        a.hears(error(1, -32021, ..., {"requiredCapabilities": needed}))


@pytest.mark.parametrize(
    ("method", "kind", "capabilities"),
    [
        ("tools/list", "input_required", {}),
        ("completion/complete", "input_required", {}),
        ("tools/call", "task", {}),
        ("tools/call", "task", {"extensions": []}),
        ("prompts/get", "task", WITH_TASKS),
    ],
)
def test_a_result_that_the_request_does_not_allow_is_an_error(method: str, kind: str, capabilities: Json) -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        a.says(modern(1, method, capabilities=capabilities))
        talk.server.answers(talk.server.hears(...), {"resultType": kind, "taskId": "t"})
        a.hears(error(1, -32603))


# Tasks of the extension


def test_a_task_is_its_owner_s_alone() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a, b = talk.joins("a"), talk.joins("b")
        a.says(tool(1, capabilities=WITH_TASKS))
        task: Json = {"resultType": "task", "taskId": "t", "status": "working"}
        talk.server.answers(talk.server.hears(...), task)
        a.hears(result(1, task))
        assert bool(talk.mux._talk.tasks)
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            b.says(modern(1, method, {"taskId": "t"}, capabilities=WITH_TASKS))
            b.hears(error(1, -32602, "Task not found"))
            a.says(modern(2, method, {"taskId": "t"}))
            a.hears(error(2, -32021, ..., {"requiredCapabilities": WITH_TASKS}))
            a.says(modern(3, method, {"taskId": "t"}, capabilities=WITH_TASKS))
            asked = talk.server.hears(heard(method, {"taskId": "t"}, capabilities=WITH_TASKS))
            talk.server.answers(asked, complete())
            a.hears(result(3, complete()))
        a.says(modern(4, "tasks/get", {"taskId": "t"}, capabilities=WITH_TASKS))
        done = complete({"taskId": "t", "status": "completed", "result": {}})
        talk.server.answers(talk.server.hears(...), done)
        a.hears(result(4, done))
        assert not talk.mux.busy
        a.says(modern(5, "tasks/list", capabilities=WITH_TASKS), modern(6, "tasks/get", capabilities=WITH_TASKS))
        a.hears(error(5, -32601), error(6, -32602))


def test_a_task_of_a_host_that_left_is_claimed_by_the_same_application() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        a.says(tool(1, capabilities=WITH_TASKS))
        talk.server.answers(talk.server.hears(...), {"resultType": "task", "taskId": "t", "status": "working"})
        a.leaves()
        assert not talk.mux.busy
        b = talk.joins("b")
        b.says(modern(1, "tasks/get", {"taskId": "t"}, capabilities=WITH_TASKS))
        talk.server.answers(talk.server.hears(...), complete({"status": "working"}))
        b.hears(result(1, ...))


# Progress, logs, cancelling


def test_progress_goes_by_the_token_of_the_host() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a, b = talk.joins("a"), talk.joins("b")
        a.says(tool(1, meta={"progressToken": 0}))
        b.says(tool(1, meta={"progressToken": "0"}))
        first, second = talk.server.hears(...), talk.server.hears(...)
        assert first["params"]["_meta"]["progressToken"] == first["id"]
        talk.server.says(progress(second["id"], 1), progress(first["id"], 2), progress(first["id"], 2))
        a.hears(progress(0, 2))
        b.hears(progress("0", 1))
        a.says(tool(2, meta={"progressToken": [1]}))
        a.hears(error(2, -32602))
        talk.server.answers(first, complete())
        talk.server.answers(second, complete())
        a.hears(result(1, complete()))
        b.hears(result(1, complete()))


def test_log_messages_go_to_the_one_host_that_wants_them() -> None:
    def log(level: str) -> dict[str, Any]:
        return notification("notifications/message", {"level": level, "data": 1})

    with Talk(terms=TERMS) as talk:
        served(talk, {"logging": {}})
        a, b = talk.joins("a"), talk.joins("b")
        a.says(tool(1, meta={f"{MCP}logLevel": "info"}))
        talk.server.hears(heard("tools/call", {"name": "x"}, meta={f"{MCP}logLevel": "info"}))
        b.says(tool(1, meta={f"{MCP}logLevel": "error"}), tool(2))
        talk.server.hears(...), talk.server.hears(...)
        talk.server.says(log("debug"), log("info"), log("error"))
        a.hears(log("info"))
        assert talk.unshown == 2
        b.leaves()
        talk.server.hears(cancelled(..., ...), cancelled(..., ...))
        talk.server.says(log("error"))
        a.hears(log("error"))


def test_a_cancelled_request_is_cancelled_at_the_child() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        a.says(tool(1), cancelled(1, "why"))
        asked = talk.server.hears(...)
        talk.server.hears(cancelled(asked["id"], "why"))
        talk.server.answers(asked, complete())
        assert not talk.mux._modern.relay.calls
        assert not talk.mux.busy


def test_everything_ends_with_the_child_and_with_the_host() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a, b = talk.joins("a"), talk.joins("b")
        a.says(tool(1))
        b.says(tool(1))
        talk.server.hears(...)
        asked = talk.server.hears(...)
        b.leaves()
        talk.server.hears(cancelled(asked["id"], "the host is gone"))
        talk.child_dies("it died")
        a.hears(error(1, -32603, "it died"))
        assert not talk.mux._modern.relay.calls
        assert not talk.mux.busy


def test_the_state_of_a_legacy_child_is_for_its_modern_successor_to_refuse() -> None:
    with Talk(relay=True) as talk:
        a = talk.joins("a")
        a.says(tool(1, capabilities={"roots": {}}))
        talk.child_greets(talk.child_starts())
        asked = talk.server.hears(request(..., "tools/call", {"name": "x"}))
        talk.server.says(request("q", "roots/list"))
        talk.passes(1)
        state = a.hears(result(1, ...))["result"]["requestState"]
        talk.server.answers(asked)
        talk.server.hears(error("q", -32603))
        talk.child_dies()
        talk.terms = TERMS
        served(talk)
        a.says(tool(2, {"requestState": state}, capabilities={"roots": {}}))
        told = talk.server.hears(request(..., "tools/call", {"requestState": state, ...: ...}))
        talk.server.fails(told, -32602, "unknown state")
        a.hears(error(2, -32602, "unknown state"))
