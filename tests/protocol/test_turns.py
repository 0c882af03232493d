"""Calls of several hosts at a child that asks back: one host at a time."""

from __future__ import annotations

from supervisord_mcp.protocol.turns import MAX_BYTES, MAX_TURNS
from tests.kit.conversation import call, cancelled, error, request, result
from tests.protocol.test_shared_callbacks import ALL, TASKS, asks, calls, shared, task_of


def test_calls_of_different_hosts_wait_for_their_turn_in_order() -> None:
    talk, (a, b, c) = shared("a", "b", "c", serialized=True)
    with talk:
        first, second = calls(talk, a, 1), calls(talk, a, 2)
        b.says(request(1, "prompts/get", {"name": "p"}), request(2, "tools/list"))
        listed = talk.server.hears(request(..., "tools/list"))
        c.says(call(1))
        a.says(call(3))
        b.says(request(3, "completion/complete", {}))
        talk.server.answers(listed)
        b.hears(result(2))
        asks(talk)
        a.hears(request(1, ..., ...))
        a.says(result(1))
        talk.server.hears(result("q"))
        talk.server.answers(first)
        a.hears(result(1))
        talk.server.hears_nothing()
        talk.server.answers(second)
        a.hears(result(2))
        got = talk.server.hears(request(..., "prompts/get", ...))
        talk.server.answers(got)
        b.hears(result(1))
        got = talk.server.hears(request(..., "tools/call", ...))
        talk.server.answers(got)
        c.hears(result(1))
        got = talk.server.hears(request(..., "tools/call", ...))
        talk.server.answers(got)
        a.hears(result(3))
        talk.server.answers(talk.server.hears(request(..., "completion/complete", ...)))
        b.hears(result(3))
        assert not talk.mux.busy


def test_a_call_that_waits_for_its_turn_can_be_given_up() -> None:
    talk, (a, b) = shared("a", "b", serialized=True)
    with talk:
        first = calls(talk, a)
        b.says(call(1), request(2, "tools/call", 5))
        a.says(call(3))
        b.says(cancelled(1))
        b.says(cancelled(2))
        talk.server.hears(request(..., "tools/call", ...))
        talk.server.answers(first)
        a.hears(result(1))


def test_a_call_that_turns_out_malformed_when_its_turn_comes_is_answered() -> None:
    talk, (a, b) = shared("a", "b", serialized=True)
    with talk:
        first = calls(talk, a)
        b.says(request(2, "tools/call", 5))
        talk.server.answers(first)
        a.hears(result(1))
        b.hears(error(2, -32602))


def test_a_host_that_leaves_or_gives_up_lets_the_next_one_in() -> None:
    talk, (a, b, c) = shared("a", "b", "c", serialized=True)
    with talk:
        first = calls(talk, a)
        c.says(call(1))
        b.says(call(1))
        c.leaves()
        a.says(cancelled(1))
        talk.server.hears(cancelled(first["id"]))
        second = talk.server.hears(request(..., "tools/call", ...))
        asks(talk)  # which call is it: the one that was given up, or the new one?
        talk.server.hears(result("q", {"action": "cancel"}))
        talk.server.answers(second)
        b.hears(result(1))


def test_only_so_many_calls_wait() -> None:
    talk, (a, b) = shared("a", "b", serialized=True)
    with talk:
        first = calls(talk, a)
        for number in range(MAX_TURNS + 1):
            b.says(call(number))
        b.hears(error(MAX_TURNS, -32603))
        b.leaves()
        talk.server.answers(first)
        a.hears(result(1))


def test_only_so_many_bytes_wait() -> None:
    talk, (a, b) = shared("a", "b", serialized=True)
    with talk:
        calls(talk, a)
        b.says(call(1, text="x" * MAX_BYTES), call(2))
        b.hears(error(2, -32603))


def test_what_waits_for_its_turn_dies_with_the_child_and_survives_a_stop() -> None:
    talk, (a, b) = shared("a", "b", serialized=True)
    with talk:
        calls(talk, a)
        b.says(call(1))
        talk.child_dies()
        a.hears(error(1, -32603))
        b.hears(error(1, -32603))
        talk.child_runs(TASKS)
        calls(talk, a, 2)
        b.says(call(2))
        talk.child_stops()
        talk.child_dies()
        a.hears(error(2, -32603))
        talk.child_runs(TASKS)
        talk.server.answers(talk.server.hears(request(..., "tools/call", ...)))
        b.hears(result(2))


def test_a_call_with_a_task_gives_the_turn_away_when_the_task_is_made_or_its_host_leaves() -> None:
    talk, (a, b) = shared("a", "b", serialized=True)
    with talk:
        task_of(talk, a, "ta")
        calls(talk, b)
        a.says(request(1, "tools/call", {"name": "x", "task": {}}))
        b.leaves()
        talk.server.hears(cancelled(..., ...), request(..., "tools/call", ...))
        c = talk.host("c", capabilities=ALL)
        c.says(call(1))
        a.leaves()
        talk.server.hears(request(..., "tools/call", ...))


def test_calls_are_failed_when_a_host_is_moved() -> None:
    talk, (a, b) = shared("a", "b", serialized=True)
    with talk:
        calls(talk, a)
        b.says(call(1))
        talk._apply(talk.mux.fail_session(b.key, "moved"))
        b.hears(error(1, -32603, "moved"))
        assert not talk.mux._talk.turns


def test_a_doubt_about_two_hosts_makes_calls_wait_until_the_child_is_a_new_one() -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        calls(talk, a)
        second = calls(talk, b)
        asks(talk)
        talk.server.hears(result("q", {"action": "cancel"}))
        assert talk.noted("callback") == 2
        b.says(call(2))
        a.says(call(2))
        talk.server.answers(second)
        b.hears(result(1))
        talk.server.hears_nothing()
        talk.child_dies()
        for host in (a, b):
            while host.inbox:
                host.hears(error(..., -32603))
        talk.child_runs(TASKS)
        calls(talk, a)
        calls(talk, b)
