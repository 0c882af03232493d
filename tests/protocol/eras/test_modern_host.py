"""Hosts of the modern era at a legacy child: every row of protocol.md 6.4, column MC to LS, as a conversation."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.callbacks import Rules, Shared
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import Demand, Remember
from supervisord_mcp.protocol.eras import modern_host
from supervisord_mcp.protocol.profiles import Profile
from tests.kit.conversation import (
    MCP,
    MODERN,
    SERVER,
    Host,
    Talk,
    call,
    cancelled,
    completed,
    error,
    modern,
    notification,
    progress,
    request,
    result,
)
from tests.protocol.eras.throng import Throng

PROFILE = Profile(("elicitation.form",))
RULES: tuple[Rules, ...] = (False, True, Shared(PROFILE, serialized=True), Shared(PROFILE, serialized=False))
CACHE = {"ttlMs": 0, "cacheScope": "private"}
KNOWN = Catalogue(
    b'{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"tasks":{},"resources":{"subscribe":true}},'
    b'"serverInfo":{"name":"fake","version":"1"},"instructions":"be kind"}',
    {"tools/list": (b'{"name":"echo","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}',)},
)


def log(level: str, text: Any = "x") -> dict[str, Any]:
    return notification("notifications/message", {"level": level, "data": text})


def modern_call(identity: Any, name: str = "echo", **envelope: Any) -> dict[str, Any]:
    return modern(identity, "tools/call", {"name": name, "arguments": {}}, **envelope)


def era(talk: Talk, host: Host) -> str | None:
    return talk.mux._talk.sessions[host.key].era


@given(st.integers(0, 1 << 64), st.integers(0, 150), st.sampled_from(RULES))
def test_nothing_crosses_and_nothing_is_left(seed: int, moves: int, rules: Rules) -> None:
    # Drawn from a seed: there are too many choices for what hypothesis would make of them.
    throng = Throng(rules, Random(seed))
    throng.start()
    throng.join()
    for _ in range(moves):
        throng.move()
    throng.settle()
    throng.go()


def test_where_too_much_waits_for_the_child_requests_are_refused() -> None:
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a")
        a.says(modern_call(1))
        talk.mux.crowded = True
        a.says(modern_call(2), modern(3, "server/discover"))
        assert "too much waits" in a.hears(error(2, -32603))["error"]["message"]
        a.hears(result(3, ...))


# The era of a host (6.9)


def test_a_probe_decides_nothing_and_a_modern_request_does() -> None:
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a")
        a.says(modern(1, "server/discover"))
        a.hears(result(1, ...))
        assert era(talk, a) is None
        assert not talk.did(Demand)
        assert talk.mux.state(a.key) == State()
        a.says(modern_call(2, capabilities={"roots": {}}))
        assert era(talk, a) == "modern"
        assert talk.did(Demand)
        told = {"name": "host", "version": "1"}
        assert talk.mux.state(a.key) == State(version=MODERN, capabilities={"roots": {}}, client=told, era="modern")


def test_a_probe_before_a_handshake_leaves_the_host_legacy() -> None:
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a")
        a.says(modern(1, "server/discover"))
        a.hears(result(1, ...))
        a.greets()
        assert era(talk, a) == "legacy"
        a.says(modern(2, "server/discover"))
        a.hears(error(2, -32601))
        a.says(request(3, "ping"))
        a.hears(result(3))


def test_what_a_server_offers_is_told_from_its_handshake() -> None:
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a")
        a.says(modern("d", "server/discover"))
        a.hears(
            result(
                "d",
                {
                    "resultType": "complete",
                    "supportedVersions": [MODERN],
                    "capabilities": {
                        "tools": {"listChanged": True},
                        "resources": {"subscribe": True, "listChanged": True},
                    },
                    "instructions": "be kind",
                    **CACHE,
                    "_meta": {f"{MCP}serverInfo": SERVER},
                },
            )
        )


def test_a_child_is_started_for_a_probe_only_where_nothing_is_known_of_it() -> None:
    with Talk() as talk:
        a = talk.joins("a")
        a.says(modern(1, "server/discover"))
        assert talk.did(Demand)
        talk.child_runs({"logging": {}})
        told = {"supportedVersions": [MODERN], "capabilities": {"logging": {}}}
        a.hears(completed(1, told, **CACHE))
        assert era(talk, a) is None
        a.says(modern(2, "server/discover"))
        a.hears(completed(2, told, **CACHE))


def test_a_probe_that_waits_never_reaches_a_child_even_if_its_host_shakes_hands_meanwhile() -> None:
    with Talk() as talk:
        a = talk.joins("a")
        a.says(modern(1, "server/discover"))
        a.initializes()
        talk.child_runs()
        a.hears(completed(1, {"supportedVersions": [MODERN], "capabilities": {}}, **CACHE))
        a.hears(result("hello", ...))


def test_a_probe_is_answered_with_an_error_where_no_child_comes() -> None:
    with Talk() as talk:
        a = talk.joins("a")
        a.says(modern(1, "server/discover"))
        talk.gives_up("it is broken")
        a.hears(error(1, -32603, "it is broken"))


def test_a_modern_host_cannot_shake_hands_any_more() -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(modern_call(1))
        asked = talk.server.hears(call(...))
        talk.server.answers(asked)
        a.hears(completed(1))
        a.initializes("2025-06-18")
        a.hears(error("hello", -32022, ..., {"supported": [MODERN], "requested": "2025-06-18"}))
        a.says(request(2, "initialize"))
        a.hears(error(2, -32022, ..., {"supported": [MODERN], "requested": ""}))
        assert era(talk, a) == "modern"


@pytest.mark.parametrize("method", sorted(modern_host.GONE))
def test_what_the_modern_era_does_not_have_is_unknown(method: str) -> None:
    with Talk() as talk:
        talk.child_runs({"logging": {}, "resources": {"subscribe": True}})
        a = talk.joins("a")
        a.says(modern(1, "x/y"))
        talk.server.answers(talk.server.hears(request(..., "x/y")))
        a.hears(completed(1))
        a.says(modern(2, method, {"level": "debug", "uri": "u", "taskId": "t"}))
        a.hears(error(2, -32601, f"Method not found: {method}"))


def test_an_envelope_after_a_handshake_is_taken_off() -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(modern_call(1, meta={"vendor/x": 1}))
        asked = talk.server.hears(request(..., "tools/call", {**call(1)["params"], "_meta": {"vendor/x": 1}}))
        talk.server.answers(asked, {"content": []})
        a.hears(result(1, {"content": []}))


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({f"{MCP}protocolVersion": None}, -32602),
        ({f"{MCP}clientCapabilities": []}, -32602),
        ({f"{MCP}clientInfo": 7}, -32602),
        ({f"{MCP}logLevel": "loud"}, -32602),
        ({f"{MCP}protocolVersion": "2099-01-01"}, -32022),
        ({f"{MCP}protocolVersion": "2025-11-25"}, -32022),
    ],
)
def test_a_defective_envelope_is_refused_whether_or_not_it_comes_first(meta: dict[str, Any], code: int) -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(modern_call(1, meta=meta))
        a.hears(error(1, code))
        assert era(talk, a) == "modern"
        a.says(modern_call(2, meta=meta))
        a.hears(error(2, code))


def test_a_request_without_an_envelope_is_refused_once_the_host_is_modern() -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(modern(1, "x/y", meta={f"{MCP}protocolVersion": "2099-01-01"}))
        a.hears(error(1, -32022, ..., {"supported": [MODERN], "requested": "2099-01-01"}))
        a.says(request(2, "tools/list"), request(3, "tools/list", {"_meta": []}), request(4, "tools/list", [1]))
        a.hears(error(2, -32602), error(3, -32602), error(4, -32602))


def test_a_host_that_is_no_modern_one_is_asked_for_its_handshake() -> None:
    with Talk() as talk:
        a = talk.joins("a")
        a.says(request(1, "tools/list"), request(2, "tools/list", [1]), request(3, "ping"))
        a.hears(error(1, -32600), error(2, -32600), result(3))
        assert era(talk, a) is None


def test_what_a_modern_host_must_not_say_is_dropped() -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(modern_call(1))
        asked = talk.server.hears(call(...))
        a.says(
            notification("notifications/initialized"),
            notification("notifications/progress", {"progressToken": 1, "progress": 1}),
            notification("notifications/roots/list_changed"),
            result(1),
        )
        assert talk.noted("host") == 4
        talk.server.answers(asked)
        a.hears(completed(1))


def test_a_modern_host_goes_on_as_one_after_a_death_of_the_daemon() -> None:
    with Talk() as talk:
        a = talk.joins("a")
        a.says(modern_call(1))
        assert Remember(a.key) not in talk.others  # it was carried out
        kept = talk.mux.state(a.key)
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a", kept)
        a.initializes()
        a.hears(error("hello", -32022))
        a.says(modern_call(2))
        talk.server.answers(talk.server.hears(call(...)))
        a.hears(completed(2))


def test_a_child_of_one_modern_host_is_told_what_that_host_can_do() -> None:
    with Talk(relay=True) as talk:
        a = talk.joins("a")
        a.says(modern_call(1, capabilities={"elicitation": {"form": {}}, "extensions": {"x": {}}}))
        opening = talk.child_starts()
        assert opening["params"] == {
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {"form": {}}},
            "clientInfo": {"name": "host", "version": "1"},
        }
        talk.child_greets(opening)
        talk.server.answers(talk.server.hears(call(...)))
        a.hears(completed(1))


# Requests


def test_lists_are_completed_and_lose_what_the_era_does_not_have() -> None:
    tools = [
        {"name": "a", "execution": {"taskSupport": "optional"}},
        {"name": "b", "execution": {"taskSupport": "required"}},
    ]
    with Talk() as talk:
        talk.child_runs(tools=["a"])
        a = talk.joins("a")
        a.says(modern(1, "tools/list"))
        first = talk.server.hears(request(..., "tools/list"))
        talk.server.answers(first, {"tools": tools, "nextCursor": ""})
        a.says(modern(2, "tools/list", {"cursor": ""}))
        second = talk.server.hears(request(..., "tools/list", {"cursor": ""}))
        talk.server.answers(second, {"tools": []})
        a.hears(
            completed(1, {"tools": [{"name": "a"}], "nextCursor": ""}, **CACHE), completed(2, {"tools": []}, **CACHE)
        )


def test_lists_are_answered_from_the_catalogue_without_a_child() -> None:
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a")
        a.says(modern(1, "tools/list"))
        a.hears(completed(1, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}, **CACHE))
        assert not talk.did(Demand)
        a.says(modern(2, "tools/list", {"cursor": "2"}), modern(3, "prompts/list"))
        assert talk.did(Demand)
        talk.child_runs(tools=["echo"])
        a.hears(error(2, -32602), completed(3, {"prompts": []}, **CACHE))


def test_a_cursor_of_a_child_that_is_gone_is_refused() -> None:
    with Talk() as talk:
        talk.child_runs(tools=["a"])
        a = talk.joins("a")
        a.says(modern(1, "tools/list"))
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": [], "nextCursor": "2"})
        a.hears(completed(1, {"tools": [], "nextCursor": "2"}, **CACHE))
        talk.child_dies()
        talk.child_runs(tools=["a"])
        a.says(modern(2, "tools/list", {"cursor": "2"}))
        a.hears(error(2, -32602))


def test_results_are_completed() -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        for identity, method in enumerate(["resources/read", "prompts/get", "completion/complete", "vendor/x"]):
            a.says(modern(identity, method, {"uri": "u"}))
            talk.server.answers(talk.server.hears(request(..., method, {"uri": "u"})), {"a": 1, "_meta": {"b": 2}})
            told = {"resultType": "complete", "a": 1, "_meta": {"b": 2, f"{MCP}serverInfo": SERVER}}
            a.hears(result(identity, told | (CACHE if method == "resources/read" else {})))


def test_a_call_loses_its_envelope_and_what_a_legacy_child_would_misread() -> None:
    with Talk() as talk:
        talk.child_runs({"tasks": {"requests": {"tools": {"call": {}}}}})
        a = talk.joins("a")
        params = {"name": "x", "task": {"ttl": 1}, "inputResponses": {"k": {}}, "vendor": 1}
        a.says(modern(1, "tools/call", params, meta={f"{MCP}logLevel": "debug", "traceparent": "00-1-2-03"}))
        asked = talk.server.hears(request(..., "tools/call", {"name": "x", "vendor": 1, "_meta": {"traceparent": ...}}))
        talk.server.answers(asked)
        a.hears(completed(1))


@pytest.mark.parametrize(("code", "told"), [(-32002, -32602), (-32602, -32602), (-32050, -32603), (7, 7)])
def test_errors_are_those_of_the_era(code: int, told: int) -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(modern(1, "resources/read", {"uri": "u"}))
        talk.server.fails(talk.server.hears(request(..., "resources/read", ...)), code, "no", {"uri": "u"})
        a.hears(error(1, told, "no", {"uri": "u"}))


def test_an_unknown_result_type_never_passes_for_success() -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(modern_call(1))
        talk.server.answers(talk.server.hears(call(...)), {"resultType": "strange"})
        a.hears(error(1, -32603))
        a.says(modern_call(2))
        talk.server.answers(talk.server.hears(call(...)), {"resultType": "complete"})
        a.hears(completed(2))


def test_an_answer_that_is_none_is_an_error() -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(modern_call(1))
        asked = talk.server.hears(call(...))
        talk.server.says(f'{{"jsonrpc":"2.0","id":{asked["id"]},"error":null}}')
        a.hears(error(1, -32603, "server 's' answered with an error that is none"))


def test_requests_wait_for_a_child_and_fail_with_it() -> None:
    with Talk() as talk:
        a = talk.joins("a")
        a.says(modern_call(1), modern_call(2))
        assert talk.did(Demand)
        a.says(cancelled(2))
        talk.child_runs()
        talk.server.hears(call(...))
        talk.child_dies("it died", {"reason": "server_exited"})
        a.hears(error(1, -32603, "it died", {"reason": "server_exited"}))
        a.says(modern_call(3))
        talk.gives_up("broken")
        a.hears(error(3, -32603, "broken"))
        assert not talk.mux.busy


def test_progress_goes_by_the_token_of_the_host() -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(modern_call(1, meta={"progressToken": "t"}))
        asked = talk.server.hears(request(..., "tools/call", {**call(1)["params"], "_meta": {"progressToken": ...}}))
        talk.server.says(progress(asked["id"], 1))
        talk.server.answers(asked)
        a.hears(progress("t", 1), completed(1))


def test_a_cancelled_request_is_cancelled_at_the_child_and_not_answered() -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(modern_call(1))
        asked = talk.server.hears(call(...))
        a.says(cancelled(1, "why"), cancelled(1), cancelled(99), notification("notifications/cancelled"))
        talk.server.hears(cancelled(asked["id"], "why"))
        talk.server.answers(asked)
        assert not talk.mux.busy
        a.says(modern_call(1))
        talk.server.answers(talk.server.hears(call(...)))
        a.hears(completed(1))


# Log messages (6.4; pitfalls 27, 28)


def test_the_level_of_the_child_follows_the_requests_in_flight() -> None:
    with Talk() as talk:
        talk.child_runs({"logging": {}})
        a, b = talk.joins("a"), talk.joins("b")
        a.says(modern_call(1, meta={f"{MCP}logLevel": "error"}))
        talk.server.hears(request(..., "logging/setLevel", {"level": "error"}))
        first = talk.server.hears(call(...))
        b.says(modern_call(1, meta={f"{MCP}logLevel": "debug"}))
        talk.server.hears(request(..., "logging/setLevel", {"level": "debug"}))
        second = talk.server.hears(call(...))
        a.says(modern_call(2))
        third = talk.server.hears(call(...))
        talk.server.answers(second)
        b.hears(completed(1))
        talk.server.hears(request(..., "logging/setLevel", {"level": "error"}))
        a.says(cancelled(1))
        talk.server.hears(cancelled(first["id"]), request(..., "logging/setLevel", {"level": "info"}))
        talk.server.answers(third)
        a.hears(completed(2))


def test_log_messages_are_shown_to_requests_that_want_them() -> None:
    with Talk() as talk:
        talk.child_runs({"logging": {}})
        a = talk.joins("a")
        talk.server.says(log("error", "nobody calls"))
        a.says(modern_call(1, meta={f"{MCP}logLevel": "warning"}))
        talk.server.hears(request(..., "logging/setLevel", {"level": "warning"}))
        asked = talk.server.hears(call(...))
        talk.server.says(log("info"), log("error", "shown"))
        a.hears(log("error", "shown"))
        talk.server.answers(asked)
        a.hears(completed(1))
        talk.server.hears(request(..., "logging/setLevel", {"level": "info"}))
        talk.server.says(log("error", "too late"))


def test_log_messages_that_may_be_about_another_host_are_shown_to_nobody() -> None:
    with Talk() as talk:
        talk.child_runs({"logging": {}})
        a = talk.joins("a")
        (b,) = talk.hosts("b")
        a.says(modern_call(1, meta={f"{MCP}logLevel": "debug"}))
        talk.server.hears(request(..., "logging/setLevel", {"level": "debug"}), call(...))
        b.says(call(1))
        talk.server.hears(call(...))
        talk.server.says(log("error"))
        assert talk.unshown == 1


# Going


def test_a_host_that_leaves_lets_go_of_everything() -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(modern_call(1))
        asked = talk.server.hears(call(...))
        a.leaves()
        talk.server.hears(cancelled(asked["id"], "the host is gone"))
        assert not talk.mux._modern.parking.calls
        assert not talk.mux.busy


def test_a_host_that_moves_is_told_that_its_requests_failed() -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("a")
        a.says(modern_call(1))
        asked = talk.server.hears(call(...))
        talk._apply(talk.mux.fail_session(a.key, "moved"))
        talk.server.hears(cancelled(asked["id"], "moved"))
        a.hears(error(1, -32603, "moved"))
        assert not talk.mux._modern.parking.calls
