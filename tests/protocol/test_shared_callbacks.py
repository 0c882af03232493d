"""Callbacks of children that several hosts share: who is asked, who waits, and what is refused (6.1 D5 to D7, 6.3)."""

from __future__ import annotations

from typing import Any

import pytest

from supervisord_mcp.protocol.callbacks import Shared
from supervisord_mcp.protocol.conversation import LINGERING
from supervisord_mcp.protocol.profiles import Profile, Root
from tests.kit.conversation import (
    Host,
    Talk,
    cancelled,
    error,
    notification,
    progress,
    request,
    result,
)

ALL: dict[str, Any] = {"roots": {}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}}
WORDS = ("elicitation.form", "elicitation.url", "sampling", "sampling.tools")
ROOTS = (Root("file:///p", "P"),)
TASKS: dict[str, Any] = {"tasks": {"requests": {"tools": {"call": {}}}}}
RELATED = "io.modelcontextprotocol/related-task"
URL = {"mode": "url", "url": "https://x", "message": "?", "elicitationId": "e1"}


def shared(*names: str, serialized: bool = False, version: str = "2025-11-25") -> tuple[Talk, list[Host]]:
    talk = Talk(relay=Shared(Profile(WORDS, ROOTS), serialized))
    talk.child_runs(TASKS)
    return talk, [talk.host(name, version, ALL) for name in names]


def calls(talk: Talk, host: Host, identity: Any = 1, trace: str | None = None) -> Any:
    """A host calls a tool; return what the child heard."""
    params: dict[str, Any] = {"name": "x"}
    if trace is not None:
        params["_meta"] = {"traceparent": trace}
    host.says(request(identity, "tools/call", params))
    return talk.server.hears(request(..., "tools/call", ...))


def asks(talk: Talk, identity: Any = "q", method: str = "elicitation/create", related: Any = None, **meta: Any) -> None:
    """The child asks something, perhaps for a task."""
    if related is not None:
        meta[RELATED] = related
    talk.server.says(request(identity, method, {"message": "?", "_meta": meta}))


def trace_of(asked: Any) -> str:
    return str(asked["params"]["_meta"]["traceparent"])


# What the child is told


def test_the_child_is_told_the_profile_of_its_hosts() -> None:
    with Talk(relay=Shared(Profile(("elicitation.form",), None), serialized=True)) as talk:
        assert talk.child_starts()["params"]["capabilities"] == {"elicitation": {}}


def test_roots_are_answered_from_the_profile_whoever_is_meant() -> None:
    talk, _ = shared("a", "b")
    with talk:
        talk.server.says(request(0, "roots/list"))
        talk.server.hears(result(0, {"roots": [{"uri": "file:///p", "name": "P"}]}))


def test_roots_that_were_not_declared_are_refused() -> None:
    with Talk(relay=Shared(Profile(("sampling",)), serialized=True)) as talk:
        talk.child_runs()
        talk.server.says(request(0, "roots/list"))
        talk.server.hears(error(0, -32601))


# The ladder


@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage", "vendor/ask"])
def test_the_only_host_with_a_call_in_flight_is_asked(method: str) -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        asked = calls(talk, b)
        asks(talk, method=method)
        question = b.hears(request(1, method, ...))
        b.says(result(question["id"], {"action": "accept"}))
        talk.server.hears(result("q", {"action": "accept"}))
        talk.server.answers(asked)
        b.hears(result(1))
        a.hears_nothing()


def test_the_only_host_is_asked_even_with_nothing_in_flight() -> None:
    talk, (a,) = shared("a")
    with talk:
        asks(talk)
        a.hears(request(1, "elicitation/create", ...))


def test_nobody_is_asked_with_nothing_in_flight_at_several_hosts() -> None:
    talk, _ = shared("a", "b")
    with talk:
        asks(talk)
        talk.server.hears(result("q", {"action": "cancel"}))


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("elicitation/create", result("q", {"action": "cancel"})),
        ("sampling/createMessage", error("q", -32603, "cannot attribute request to a client")),
        ("vendor/ask", error("q", -32601)),
    ],
)
def test_what_may_be_for_either_of_two_hosts_is_refused(method: str, answer: Any) -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        calls(talk, a)
        calls(talk, b)
        asks(talk, method=method)
        talk.server.hears(answer)


def test_a_trace_that_the_server_passes_on_proves_the_call() -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        first, second = calls(talk, a), calls(talk, b)
        asks(talk, "q1", traceparent=trace_of(second))
        asks(talk, "q2", traceparent=trace_of(first))
        b.hears(request(1, ..., ...))
        a.hears(request(1, ..., ...))
        a.says(result(1), cancelled(1))
        talk.server.hears(result("q2"), cancelled(first["id"]))
        b.says(cancelled(1))
        talk.server.hears(result("q1", {"action": "cancel"}), cancelled(second["id"]))
        b.hears(cancelled(1))


def test_a_span_below_the_call_proves_its_host_by_the_trace() -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        calls(talk, a, trace=theirs)
        calls(talk, b)
        asks(talk, traceparent=theirs)
        a.hears(request(1, ..., ...))


def test_a_trace_of_two_hosts_proves_nothing_and_an_unknown_one_does_no_harm() -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        calls(talk, a, trace=theirs)
        asks(talk, "q1", traceparent="00-11111111111111111111111111111111-b7ad6b7169203331-01")
        a.hears(request(1, ..., ...))
        calls(talk, b, trace=theirs)
        asks(talk, "q2", traceparent=theirs)
        talk.server.hears(result("q2", {"action": "cancel"}))


def task_of(talk: Talk, host: Host, name: str) -> None:
    host.says(request(9, "tools/call", {"name": "x", "task": {}}))
    asked = talk.server.hears(request(..., "tools/call", ...))
    talk.server.answers(asked, {"task": {"taskId": name, "status": "working"}})
    host.hears(result(9, ...))


def test_what_belongs_to_a_task_is_asked_of_its_owner_and_ends_with_it() -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        task_of(talk, a, "ta")
        calls(talk, b)
        asks(talk, "q1", related={"taskId": "ta"})
        asks(talk, "q2", related={"taskId": "ta"})
        a.hears(request(1, ..., ...), request(2, ..., ...))
        a.says(result(1))
        talk.server.hears(result("q1"))
        a.says(request(3, "tasks/cancel", {"taskId": "ta"}))
        asked = talk.server.hears(request(..., "tasks/cancel", ...))
        talk.server.answers(asked, {"taskId": "ta", "status": "cancelled"})
        talk.server.hears(result("q2", {"action": "cancel"}))
        a.hears(cancelled(2), result(3, ...))


def test_a_status_ends_what_was_asked_for_a_task() -> None:
    talk, (a,) = shared("a")
    with talk:
        task_of(talk, a, "ta")
        asks(talk, related={"taskId": "ta"})
        a.hears(request(1, ..., ...))
        status = notification("notifications/tasks/status", {"taskId": "ta", "status": "failed"})
        talk.server.says(status)
        talk.server.hears(result("q", {"action": "cancel"}))
        a.hears(cancelled(1), status)


@pytest.mark.parametrize("related", [{"taskId": "unknown"}, {}, 7])
def test_what_belongs_to_an_unknown_task_is_refused_whoever_calls(related: Any) -> None:
    talk, (a,) = shared("a")
    with talk:
        calls(talk, a)
        asks(talk, related=related)
        talk.server.hears(result("q", {"action": "cancel"}))


def test_a_task_whose_host_left_asks_nobody() -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        task_of(talk, a, "ta")
        a.leaves()
        calls(talk, b)
        asks(talk, related={"taskId": "ta"})
        talk.server.hears(result("q", {"action": "cancel"}))


# Calls that were given up


def test_a_call_that_was_given_up_still_counts_until_it_is_answered() -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        gone = calls(talk, a)
        a.says(cancelled(1))
        talk.server.hears(cancelled(gone["id"]))
        calls(talk, b)
        asks(talk, "q1")
        talk.server.hears(result("q1", {"action": "cancel"}))
        asks(talk, "q2", traceparent=trace_of(gone))
        talk.server.hears(result("q2", {"action": "cancel"}))
        talk.server.fails(gone, 0, "Request cancelled")
        asks(talk, "q3")
        b.hears(request(1, ..., ...))


def test_a_call_that_is_never_answered_counts_for_a_while() -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        gone = calls(talk, a)
        a.leaves()
        talk.server.hears(cancelled(gone["id"], ...))
        asks(talk, "q1")
        talk.server.hears(result("q1", {"action": "cancel"}))
        talk.passes(LINGERING)
        asks(talk, "q2")
        b.hears(request(1, ..., ...))


def test_a_server_that_never_answers_a_cancelled_call_asks_other_hosts_soon_again() -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        gone = calls(talk, a)
        a.says(cancelled(1))
        talk.server.hears(cancelled(gone["id"]))
        calls(talk, b)
        talk.passes(4)
        asks(talk, "q1")
        talk.server.hears(result("q1", {"action": "cancel"}))
        talk.passes(1)
        asks(talk, "q2")
        b.hears(request(1, ..., ...))


# Capabilities of the one host, ids, tokens


@pytest.mark.parametrize(
    ("capabilities", "method", "params", "code"),
    [
        ({}, "elicitation/create", {"message": "?"}, -32601),
        ({}, "sampling/createMessage", {"messages": []}, -32601),
        ({"elicitation": {}}, "elicitation/create", URL, -32602),
        ({"elicitation": {"url": {}}}, "elicitation/create", {"message": "?"}, -32602),
        ({"sampling": {}}, "sampling/createMessage", {"tools": []}, -32602),
        ({"sampling": True}, "sampling/createMessage", {"toolChoice": {}}, -32602),
    ],
)
def test_a_host_is_asked_only_what_it_declared(capabilities: Any, method: str, params: Any, code: int) -> None:
    with Talk(relay=Shared(Profile(WORDS, ROOTS), serialized=True)) as talk:
        talk.child_runs()
        talk.host("a", capabilities=capabilities)
        talk.server.says(request("q", method, params))
        talk.server.hears(error("q", code))


def test_a_host_is_asked_what_it_declared_in_words_of_its_revision() -> None:
    talk, (a,) = shared("a", version="2025-06-18")
    a.wire.revision = "2025-11-25"  # it declared a mode that is newer than its revision, and is believed
    with talk:
        talk.server.says(request("q", "elicitation/create", URL), request("r", "sampling/createMessage", {"tools": []}))
        a.hears(request(1, "elicitation/create", URL), request(2, "sampling/createMessage", {"tools": []}))


def test_ids_and_tokens_of_two_hosts_do_not_cross() -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        first, second = calls(talk, a), calls(talk, b)
        asks(talk, "qa", traceparent=trace_of(first), progressToken="t")
        asks(talk, "qb", traceparent=trace_of(second), progressToken="t2")
        for host in (a, b):
            meta = {"traceparent": ..., "progressToken": 1}
            host.hears(request(1, "elicitation/create", {"message": "?", "_meta": meta}))
        b.says(progress(1, 5), result(1, {"of": "b"}))
        talk.server.hears(progress("t2", 5), result("qb", {"of": "b"}))
        b.says(progress(1, 6), result(1))
        a.says(progress(1, 7), result(1, {"of": "a"}))
        talk.server.hears(progress("t", 7), result("qa", {"of": "a"}))


def test_a_host_that_dies_while_it_is_asked_is_answered_for() -> None:
    talk, (a, _) = shared("a", "b")
    with talk:
        asked = calls(talk, a)
        asks(talk, "q1")
        asks(talk, "q2", "sampling/createMessage")
        asks(talk, "q3", "vendor/x")
        a.leaves()
        talk.server.hears(
            result("q1", {"action": "cancel"}), error("q2", -1), error("q3", -32603), cancelled(asked["id"], ...)
        )


def test_the_child_gives_up_what_it_asked_one_of_its_hosts() -> None:
    talk, (_, b) = shared("a", "b")
    with talk:
        calls(talk, b)
        asks(talk)
        b.hears(request(1, ..., ...))
        talk.server.says(cancelled("q", "caller cancelled"))
        b.hears(cancelled(1, "caller cancelled"))


def test_a_host_that_is_not_ready_is_asked_when_it_is() -> None:
    with Talk(relay=Shared(Profile(WORDS, ROOTS), serialized=True)) as talk:
        talk.child_runs()
        a, b = talk.joins("a"), talk.host("b", capabilities=ALL)
        a.initializes(capabilities=ALL)
        a.hears(result("hello", ...))
        asked = calls(talk, a)
        asks(talk, "q1")
        a.hears_nothing()
        a.initialized()
        a.hears(request(1, "elicitation/create", ...))
        a.leaves()
        talk.server.hears(result("q1", {"action": "cancel"}), cancelled(asked["id"], ...))
        c = talk.joins("c")
        c.initializes(capabilities=ALL)
        c.hears(result("hello", ...))
        talk.passes(LINGERING)
        gone = calls(talk, c)
        asks(talk, "q2")
        c.leaves()
        talk.server.hears(cancelled(gone["id"], ...), result("q2", {"action": "cancel"}))
        b.hears_nothing()


# Dialogues on web pages


def test_the_end_of_a_dialogue_is_told_to_its_host() -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        calls(talk, b)
        talk.server.says(request("q", "elicitation/create", URL))
        b.hears(request(1, ..., URL))
        done = notification("notifications/elicitation/complete", {"elicitationId": "e1"})
        talk.server.says(done)
        b.hears(done)
        unknown = notification("notifications/elicitation/complete", {"elicitationId": 7})
        talk.server.says(unknown, notification("notifications/vendor"))
        assert talk.noted("unrouted") == 1
        b.leaves()
        talk.server.hears(result("q", {"action": "cancel"}), cancelled(..., ...))
        talk.server.says(done)
        a.hears_nothing()


def test_dialogues_of_a_refused_call_belong_to_its_host() -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        talk.server.fails(calls(talk, a, 1), -32603)
        asked = calls(talk, b)
        talk.server.fails(asked, -32042, "urls", {"elicitations": [{"elicitationId": "e2", "url": "u"}, {}]})
        a.hears(error(1, -32603))
        b.hears(error(1, -32042, "urls", ...))
        done = notification("notifications/elicitation/complete", {"elicitationId": "e2"})
        talk.server.says(done)
        b.hears(done)


def test_only_so_many_dialogues_are_remembered() -> None:
    talk, (a,) = shared("a")
    with talk:
        asked = calls(talk, a)
        many = [{"elicitationId": f"e{number}"} for number in range(1025)]
        talk.server.fails(asked, -32042, "urls", {"elicitations": many})
        a.hears(error(1, -32042, "urls", ...))
        for name in ("e0", "e1"):
            talk.server.says(notification("notifications/elicitation/complete", {"elicitationId": name}))
        a.hears(notification("notifications/elicitation/complete", {"elicitationId": "e1"}))


def test_the_rules_are_told_apart_in_the_key_of_an_instance() -> None:
    profiles = (Profile(), Profile(WORDS), Profile(WORDS, ROOTS))
    texts = {Shared(profile, serialized).text for profile in profiles for serialized in (False, True)}
    assert len(texts) == 6
