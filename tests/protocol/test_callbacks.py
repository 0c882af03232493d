"""Requests of the child to its one host, and the way back."""

from __future__ import annotations

from typing import Any

import pytest

from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.commands import Command, Remember
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.jsonrpc import Members, Message
from tests.kit.conversation import (
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

ALL: dict[str, Any] = {"roots": {}, "sampling": {}, "elicitation": {}}


def relayed(capabilities: Any = None) -> tuple[Talk, Host]:
    talk = Talk(relay=True)
    talk.child_runs()
    return talk, talk.host("a", capabilities=ALL if capabilities is None else capabilities)


@pytest.mark.parametrize("identity", [0, "0", 7, "x"])
@pytest.mark.parametrize("method", ["roots/list", "sampling/createMessage", "elicitation/create", "vendor/ask"])
def test_a_question_reaches_the_host_and_its_answer_the_child(identity: int | str, method: str) -> None:
    talk, a = relayed()
    with talk:
        talk.server.says(request(identity, method, {"n": 1, "_meta": {"x": 1}}))
        asked = a.hears(request(..., method, {"n": 1, "_meta": {"x": 1}}))
        assert isinstance(asked["id"], int)
        assert talk.mux.busy
        a.says(result(asked["id"], {"big": 2**70}))
        talk.server.hears(result(identity, {"big": 2**70}))
        a.says(result(asked["id"]))
        assert talk.noted("host") == 1


def test_an_error_of_the_host_reaches_the_child() -> None:
    talk, a = relayed()
    with talk:
        talk.server.says(request("q", "sampling/createMessage", {}))
        asked = a.hears(request(..., "sampling/createMessage", {}))
        a.says({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "User rejected", "data": [0]}})
        talk.server.hears(error("q", -1, "User rejected", [0]))


@pytest.mark.parametrize("method", ["roots/list", "sampling/createMessage", "elicitation/create"])
def test_a_host_without_the_capability_is_not_asked(method: str) -> None:
    talk, _ = relayed({})
    with talk:
        talk.server.says(request("q", method))
        talk.server.hears(error("q", -32601))


@pytest.mark.parametrize("modes", [{}, {"form": {}}, "url", True])
def test_a_host_that_takes_no_urls_gets_none(modes: Any) -> None:
    talk, _ = relayed({"elicitation": modes})
    with talk:
        talk.server.says(request("q", "elicitation/create", {"mode": "url"}))
        talk.server.hears(error("q", -32602))


@pytest.mark.parametrize("method", ["roots/list", "sampling/createMessage", "elicitation/create", "vendor/ask"])
def test_a_shared_child_is_refused_at_once(method: str) -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.host("a", capabilities=ALL)
        talk.server.says(request("q", method), notification("notifications/vendor"))
        talk.server.hears(error("q", -32601))
        a.hears_nothing()
        assert (talk.noted("callback"), talk.noted("unrouted")) == (1, 1)


def test_a_ping_is_answered_at_once_with_its_id() -> None:
    with Talk() as talk:
        talk.child_runs()
        for identity in (1, "1", 0):
            talk.server.says(request(identity, "ping"))
            talk.server.hears(result(identity))


def test_progress_of_a_host_goes_by_the_token_of_the_child() -> None:
    talk, a = relayed()
    with talk:
        talk.server.says(request("q", "sampling/createMessage", {"_meta": {"progressToken": "t", "v": 1}}))
        asked = a.hears(request(..., "sampling/createMessage", {"_meta": {"progressToken": ..., "v": 1}}))
        token = asked["params"]["_meta"]["progressToken"]
        assert token == asked["id"]
        a.says(progress(token, 1), progress(str(token), 1), progress(99, 1), notification("notifications/progress"))
        talk.server.hears(progress("t", 1))
        a.says(result(asked["id"]))
        talk.server.hears(result("q"))
        a.says(progress(token, 2))
        talk.server.says(request("q", "sampling/createMessage", {}))
        a.says(progress(a.hears(request(..., ..., {}))["id"], 1))


def test_the_child_gives_up_a_question() -> None:
    talk, a = relayed()
    with talk:
        talk.server.says(request("q", "elicitation/create", {}), request("r", "elicitation/create", {}))
        asked = a.hears(request(..., ..., {}))
        a.hears(request(..., ..., {}))
        talk.server.says(cancelled("q", "caller cancelled"), cancelled("q"), notification("notifications/cancelled"))
        a.hears(cancelled(asked["id"], "caller cancelled"))
        a.says(result(asked["id"]))


def test_what_the_child_says_too_early_waits_for_the_end_of_the_handshake() -> None:
    with Talk(relay=True) as talk:
        a = talk.joins("a")
        a.initializes(capabilities=ALL)
        talk.child_greets(talk.child_starts())
        a.hears(result("hello", ...))
        talk.server.says(
            request(0, "roots/list"),
            request(1, "elicitation/create", {}),
            notification("notifications/vendor"),
            cancelled(1),
        )
        a.hears_nothing()
        a.initialized()
        asked = a.hears(request(..., "roots/list"))
        a.hears(notification("notifications/vendor"))
        a.says(result(asked["id"], {"roots": []}))
        talk.server.hears(result(0, {"roots": []}))


def test_a_host_that_never_finishes_its_handshake_cannot_be_flooded() -> None:
    with Talk(relay=True) as talk:
        a = talk.joins("a")
        a.initializes()
        talk.child_greets(talk.child_starts())
        a.hears(result("hello", ...))
        for _ in range(256):
            talk.server.says(notification("notifications/vendor"))
        talk.server.says(notification("notifications/vendor"), request("q", "elicitation/create"))
        talk.server.hears(result("q", {"action": "cancel"}))
        assert talk.noted("early") == 1
        assert talk.mux.busy
        a.leaves()
        assert not talk.mux.busy


def test_what_waits_for_the_host_is_refused_when_it_leaves() -> None:
    with Talk(relay=True) as talk:
        a = talk.joins("a")
        a.initializes()
        talk.child_greets(talk.child_starts())
        a.hears(result("hello", ...))
        talk.server.says(request("q", "sampling/createMessage"), notification("notifications/vendor"))
        a.leaves()
        talk.server.hears(error("q", -1))
        talk.server.says(request("r", "roots/list"), notification("notifications/vendor"))
        talk.server.hears(error("r", -32601))
        assert talk.noted("unrouted") == 1


def test_a_question_ends_with_the_call_it_belongs_to() -> None:
    talk, a = relayed()
    with talk:
        a.says(call(1), request(2, "tools/list"))
        asked = talk.server.hears(call(...))
        listed = talk.server.hears(request(..., "tools/list"))
        talk.server.says(request("q", "elicitation/create", {}))
        question = a.hears(request(..., ..., {}))
        a.says(cancelled(2))
        talk.server.hears(cancelled(listed["id"]))
        a.says(cancelled(1))
        talk.server.hears(result("q", {"action": "cancel"}), cancelled(asked["id"]))
        a.hears(cancelled(question["id"]))


def test_a_question_that_belongs_to_no_call_outlives_other_cancels() -> None:
    talk, a = relayed()
    with talk:
        talk.server.says(request("q", "roots/list"))
        question = a.hears(request(..., "roots/list"))
        a.says(request(1, "tools/list"), cancelled(1))
        talk.server.hears(cancelled(talk.server.hears(request(..., "tools/list"))["id"]))
        a.says(result(question["id"]))
        talk.server.hears(result("q"))


def test_a_question_dies_with_its_child() -> None:
    talk, a = relayed()
    with talk:
        talk.server.says(request("q", "elicitation/create", {}))
        question = a.hears(request(..., ..., {}))
        talk.child_dies()
        a.hears(cancelled(question["id"]))
        a.says(result(question["id"]))
        talk.server.hears_nothing()


@pytest.mark.parametrize(
    "lost",
    [
        Oversized(b'{"jsonrpc":"2.0","id":1,"result":{"text":"', b'"}}', 999),
        b'{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}',
    ],
)
def test_an_answer_that_cannot_be_passed_on_is_an_error_for_the_child(lost: bytes | Oversized) -> None:
    talk, a = relayed()
    with talk:
        talk.server.says(request("q", "sampling/createMessage", {}))
        a.hears(request(1, ..., {}))
        a.says(lost)
        talk.server.hears(error("q", -32603))
        a.hears(error(None, ...))
        a.says(lost)
        a.hears(error(None, ...))


def test_ids_of_questions_go_on_after_a_death_of_the_daemon() -> None:
    talk, a = relayed()
    with talk:
        talk.server.says(request("q", "roots/list"), request("q", "roots/list"))
        a.hears(request(1, "roots/list"), request(2, "roots/list"))
        kept = talk.mux.state(a.key)
    with Talk(relay=True) as talk:
        a = talk.joins("a", kept)
        assert talk.child_starts()["params"]["capabilities"] == ALL
        talk.child_greets({"id": 1})
        talk.server.says(request("q", "roots/list"))
        a.says(result(1, {"roots": ["of the old question"]}))
        a.hears(request(3, "roots/list"))


def test_a_host_is_remembered_before_it_gets_a_question() -> None:
    talk, a = relayed()
    with talk:
        commands = talk.mux.from_server(b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}')
        assert commands[0] == Remember(a.key)
        client = {"name": "a", "version": "1"}
        told = State(version="2025-11-25", capabilities=ALL, client=client, initialized=True, asked=1, told={})
        assert talk.mux.state(a.key) == told


@pytest.mark.parametrize(
    ("version", "sampling", "kept"),
    [("2025-11-25", {}, False), ("2025-11-25", {"context": {}}, True), ("2025-06-18", {}, True)],
)
def test_a_context_is_asked_for_where_the_host_declared_it(version: str, sampling: Any, kept: bool) -> None:
    asked = {"messages": [], "maxTokens": 1, "includeContext": "thisServer"}
    with Talk(relay=True) as talk:
        talk.child_runs()
        a = talk.host("a", version, {"sampling": sampling})
        talk.server.says(request("q", "sampling/createMessage", asked))
        told = a.hears(request(..., "sampling/createMessage", {"messages": [], "maxTokens": 1, ...: ...}))
        assert ("includeContext" in told["params"]) is kept


def test_a_question_that_is_malformed_is_answered() -> None:
    talk, _ = relayed()
    with talk:
        talk.server.says(request("q", "elicitation/create", [1]), notification("notifications/message", [1]))
        talk.server.hears(error("q", -32602))
        assert talk.noted("noise") == 2


def modern_call() -> tuple[Talk, Host, Any]:
    """A child of one host of the modern era, and the call of that host which it has."""
    talk = Talk(relay=True)
    a = talk.joins("a")
    a.says(modern(1, "tools/call", {"name": "x"}, capabilities=ALL))
    opening = talk.child_starts()
    assert opening["params"]["capabilities"] == ALL
    talk.child_greets(opening)
    return talk, a, talk.server.hears(request(..., "tools/call", {"name": "x"}))


def test_a_question_for_a_modern_host_is_parked_with_its_call() -> None:
    talk, a, asked = modern_call()
    parked: list[tuple[int, tuple[int, ...], bytes | None]] = []

    def park(session: int, parents: tuple[int, ...], message: Message) -> list[Command]:
        parked.append((session, parents, message.id))
        return []

    def withdrawn(identity: bytes, params: Members) -> list[Command]:
        parked.append((0, (), identity))
        return []

    with talk:
        talk.mux._talk.callbacks.park = park
        talk.mux._talk.callbacks.withdrawn = None
        talk.server.says(request("q", "elicitation/create", {}), notification("notifications/vendor"))
        talk.server.says(cancelled("q"))
        talk.mux._talk.callbacks.withdrawn = withdrawn
        talk.server.says(cancelled("q"))
        assert parked == [(a.key, (asked["id"],), b'"q"'), (0, (), b'"q"')]
        assert talk.noted("unrouted") == 1
        talk.server.answers(asked)
        a.hears(completed(1))


def test_a_question_for_a_modern_host_without_a_call_is_refused() -> None:
    talk, a, asked = modern_call()
    with talk:
        talk.mux._talk.callbacks.park = None
        talk.server.says(request("q", "roots/list"))
        talk.server.hears(error("q", -32601))
        talk.server.answers(asked)
        a.hears(completed(1))
        talk.server.says(request("q", "roots/list"))
        talk.server.hears(error("q", -32601))
