"""Calls of modern hosts at a legacy child that asks back (protocol.md 6.5, second bridge)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from msgspec import Raw

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.callbacks import Shared
from supervisord_mcp.protocol.eras import parking
from supervisord_mcp.protocol.profiles import Profile
from tests.kit.conversation import (
    MCP,
    SERVER,
    Host,
    Json,
    Talk,
    cancelled,
    completed,
    error,
    modern,
    notification,
    progress,
    request,
    result,
)
from tests.protocol.texts import OBJECTS

ALL: dict[str, Any] = {"roots": {}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}}
FORM = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
ACCEPTED = {"action": "accept", "content": {"name": "x"}}
SOON = parking.GATHERING
PROFILE = Profile(("elicitation.form",))
CALL = {"name": "ask", "arguments": {"a": [1, {"b": None}]}}


def tool(identity: Any, params: Json = None, *, capabilities: Json = None, **meta: Any) -> dict[str, Any]:
    """A call of a modern host; ``meta`` are members of the envelope without their prefix, or the progress token."""
    keys = {key if key == "progressToken" else MCP + key: value for key, value in meta.items()}
    return modern(identity, "tools/call", params or CALL, capabilities=capabilities or ALL, meta=keys)


def retry(identity: Any, state: str, answers: Json = None, params: Json = None, **more: Any) -> dict[str, Any]:
    """The retry of a call."""
    told = {**(params or CALL), "requestState": state}
    return tool(identity, told if answers is None else {**told, "inputResponses": answers}, **more)


class Bench:
    """One modern host with a call at a legacy child of its own."""

    def __init__(self, talk: Talk, *, capabilities: Json = None, **meta: Any) -> None:
        self.talk = talk
        self.host = talk.joins("a")
        self.host.says(tool(1, capabilities=capabilities, **meta))
        opening = talk.child_starts()
        talk.child_greets(opening, {"logging": {}})
        if "logLevel" in meta:
            talk.server.hears(request(..., "logging/setLevel", ...))
        self.asked = talk.server.hears(request(..., "tools/call", ...))

    def asks(self, identity: Any = "q", method: str = "elicitation/create", params: Json = FORM) -> None:
        """The child asks something."""
        self.talk.server.says(request(identity, method, params))

    def is_told(self, identity: Any, entries: Json) -> str:
        """The host hears what it is asked; return the state."""
        self.talk.passes(SOON)
        told = self.host.hears(
            result(
                identity,
                {
                    "resultType": "input_required",
                    "inputRequests": entries,
                    "requestState": ...,
                    "_meta": {f"{MCP}serverInfo": SERVER},
                },
            )
        )
        return str(told["result"]["requestState"])

    def parked(self) -> str:
        """The child asks for a form and the call is parked; return the state."""
        self.asks()
        return self.is_told(1, {"r1": {"method": "elicitation/create", "params": FORM}})

    def nothing_left(self) -> None:
        """Nothing is parked, waits or keeps the child busy."""
        mux = self.talk.mux
        assert not mux._modern.parking.calls
        assert not len(mux._modern.parking)
        assert not len(mux._talk.alarms)
        assert not mux.busy


def test_a_question_becomes_an_answer_and_its_retry_the_call() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        state = bench.parked()
        assert bench.talk.mux.busy
        bench.host.says(retry(2, state, {"r1": ACCEPTED}))
        talk.server.hears(result("q", ACCEPTED))
        talk.server.answers(bench.asked, {"content": []})
        bench.host.hears(completed(2, {"content": []}))
        bench.nothing_left()


def test_the_state_cannot_be_told_from_another() -> None:
    with Talk(relay=True) as talk:
        talk.mux._talk.entropy = lambda size: bytes(range(size))
        state = Bench(talk).parked()
        assert bytes.fromhex(state) == bytes(range(24))


def test_questions_of_one_round_are_told_together() -> None:
    page = {"mode": "url", "message": "m", "url": "https://x", "elicitationId": "e", "task": {}, "_meta": {"a": 1}}
    sampling = {"messages": [], "maxTokens": 1}
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        bench.asks(0)
        bench.asks("0", params=page)
        bench.asks(1, "roots/list", None)
        bench.asks(2, "sampling/createMessage", sampling)
        state = bench.is_told(
            1,
            {
                "r1": {"method": "elicitation/create", "params": FORM},
                "r2": {"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://x"}},
                "r3": {"method": "roots/list"},
                "r4": {"method": "sampling/createMessage", "params": sampling},
            },
        )
        message = {"role": "assistant", "content": {"type": "text", "text": "t"}, "model": "m"}
        answers = {"r4": message, "r3": {"roots": []}, "r2": {"action": "cancel"}, "r1": ACCEPTED, "r9": 1}
        bench.host.says(retry("again", state, answers))
        talk.server.hears(
            result(0, ACCEPTED), result("0", {"action": "cancel"}), result(1, {"roots": []}), result(2, message)
        )
        talk.server.answers(bench.asked)
        bench.host.hears(completed("again"))
        bench.nothing_left()


def test_what_a_retry_leaves_out_is_asked_again_under_the_same_key() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        bench.asks("p")
        bench.asks("q")
        entry = {"method": "elicitation/create", "params": FORM}
        first = bench.is_told(1, {"r1": entry, "r2": entry})
        bench.host.says(retry(2, first, {"r2": {"action": "decline"}}))
        talk.server.hears(result("q", {"action": "decline"}))
        second = bench.is_told(2, {"r1": entry})
        assert first != second
        bench.host.says(retry(3, first, {"r1": ACCEPTED}))
        bench.host.hears(error(3, -32602, parking.STALE))
        bench.host.says(retry(4, second))
        third = bench.is_told(4, {"r1": entry})
        bench.host.says(retry(5, third, {"r1": ACCEPTED}))
        talk.server.hears(result("p", ACCEPTED))
        talk.server.answers(bench.asked)
        bench.host.hears(completed(5))
        bench.nothing_left()


def test_what_a_retry_cannot_be_asked_any_more_is_refused() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        bench.asks("p")
        bench.asks("q", "roots/list", None)
        bench.asks("r")
        talk.passes(SOON)
        state = bench.host.hears(result(1, ...))["result"]["requestState"]
        bench.host.says(retry(2, state, {"r1": ACCEPTED}, capabilities={"roots": {}}))
        talk.server.hears(result("p", ACCEPTED), error("r", -32601))
        bench.is_told(2, {"r2": {"method": "roots/list"}})


def test_a_child_may_ask_again_in_another_round() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        state = bench.parked()
        bench.host.says(retry(2, state, {"r1": ACCEPTED}))
        talk.server.hears(result("q", ACCEPTED))
        bench.asks("q2")
        state = bench.is_told(2, {"r2": {"method": "elicitation/create", "params": FORM}})
        bench.asks("q3")  # its host hears of it when it comes back
        bench.host.says(retry(3, state, {"r2": ACCEPTED}))
        talk.server.hears(result("q2", ACCEPTED))
        state = bench.is_told(3, {"r3": {"method": "elicitation/create", "params": FORM}})
        bench.host.says(retry(4, state, {"r3": ACCEPTED}))
        talk.server.hears(result("q3", ACCEPTED))
        talk.server.answers(bench.asked)
        bench.host.hears(completed(4))
        bench.nothing_left()


def test_two_retries_with_one_state_resume_one_call() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        state = bench.parked()
        bench.host.says(retry(2, state, {"r1": ACCEPTED}), retry(3, state, {"r1": ACCEPTED}))
        talk.server.hears(result("q", ACCEPTED))
        bench.host.hears(error(3, -32602, parking.STALE))
        talk.server.answers(bench.asked)
        bench.host.hears(completed(2))
        bench.nothing_left()


@pytest.mark.parametrize(
    "wrong",
    [
        retry(2, "{}", {"r1": ACCEPTED}, {"name": "ask", "arguments": {}}),
        retry(2, "{}", {"r1": ACCEPTED}, {"name": "other", "arguments": CALL["arguments"]}),
        retry(2, "{}", {"r1": ACCEPTED}, {**CALL, "more": 1}),
        modern(2, "prompts/get", {**CALL, "requestState": "{}", "inputResponses": {"r1": ACCEPTED}}),
        retry(2, "{}", {"r1": {"action": "maybe"}}),
        retry(2, "{}", {"r1": 7}),
        retry(2, "{}", [ACCEPTED]),
        retry(2, "{}", {"r1": ACCEPTED}, progressToken=[1]),
        retry(2, "unknown", {"r1": ACCEPTED}),
        retry(2, "", {"r1": ACCEPTED}),
        tool(2, {**CALL, "requestState": 7}),
    ],
)
def test_a_retry_that_is_none_leaves_the_call_as_it_was(wrong: dict[str, Any]) -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        state = bench.parked()
        bench.host.says(json.dumps(wrong).replace('"{}"', json.dumps(state)))
        bench.host.hears(error(2, -32602))
        bench.host.says(retry(3, state, {"r1": ACCEPTED}))
        talk.server.hears(result("q", ACCEPTED))
        talk.server.answers(bench.asked)
        bench.host.hears(completed(3))
        bench.nothing_left()


def test_a_state_holds_for_its_principal_on_whichever_connection() -> None:
    with Talk() as talk:
        talk.child_runs()
        a, b = talk.joins("a", principal="uid 1"), talk.joins("b", principal="uid 2")
        a.says(tool(1))
        asked = talk.server.hears(request(..., "tools/call", CALL))
        talk._apply(talk.mux._modern.parking.park(a.key, (asked["id"],), _asked("q")))
        talk.passes(SOON)
        state = a.hears(result(1, ...))["result"]["requestState"]
        b.says(retry(1, state, {"r1": ACCEPTED}))
        b.hears(error(1, -32602, parking.STALE))
        c = talk.joins("c", principal="uid 1")
        c.says(retry(1, state, {"r1": ACCEPTED}, progressToken="of c"))
        talk.server.hears(result("q", ACCEPTED))
        a.says(cancelled(1))  # it is not on this connection any more
        talk.server.says(progress(asked["id"], 1))
        c.hears(progress("of c", 1))
        talk.server.answers(asked)
        c.hears(completed(1))
        assert not talk.mux.busy


def test_parameters_are_compared_by_value() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        state = bench.parked()
        text = json.dumps(retry(2, state, {"r1": ACCEPTED}))
        assert '"ask"' in text
        other = text.replace('"ask"', '"\\u0061sk"').replace('{"a": [1, {"b": null}]}', '{"a":[1,{"b":null}]}')
        assert other != text
        bench.host.says(other)
        talk.server.hears(result("q", ACCEPTED))
        talk.server.answers(bench.asked)
        bench.host.hears(completed(2))


@given(OBJECTS, OBJECTS)
def test_what_is_the_same_does_not_depend_on_order_or_form(first: bytes, second: bytes) -> None:
    one, other = jsonrpc.members_of(first), jsonrpc.members_of(second)
    volatile = {"_meta": Raw(b"1"), "requestState": Raw(b"2"), "inputResponses": Raw(b"3")}
    turned = {**volatile, **dict(reversed(one.items()))}
    assert parking.same(one, {**turned, **{key: Raw(b" ".join((b"", bytes(text), b""))) for key, text in one.items()}})
    assert parking.same(one, other) == parking.same(other, one)
    plain = {key: jsonrpc.value_of(text) for key, text in one.items() if key not in volatile}
    if None not in plain.values():
        assert parking.same(one, {key: Raw(json.dumps(value).encode()) for key, value in plain.items()})


@pytest.mark.parametrize(("first", "second"), [(b"1", b"1.0"), (b"1", b"true"), (b"1e400", b"1e401"), (b"0", b'"0"')])
def test_numbers_of_another_type_are_another_value(first: bytes, second: bytes) -> None:
    assert not parking.same({"a": Raw(first)}, {"a": Raw(second)})
    assert parking.same({"a": Raw(first)}, {"a": Raw(first)})


# Who may be asked what (pitfalls 32, 33, 42)


@pytest.mark.parametrize(
    ("capabilities", "method", "params", "code"),
    [
        ({"sampling": {}}, "elicitation/create", FORM, -32601),
        ({"elicitation": {}}, "elicitation/create", {"mode": "url", "url": "u"}, -32602),
        ({"elicitation": {"url": {}}}, "elicitation/create", FORM, -32602),
        ({"elicitation": 7}, "elicitation/create", {"mode": "url", "url": "u"}, -32602),
        ({"elicitation": {}}, "sampling/createMessage", {}, -32601),
        ({"elicitation": {}}, "roots/list", None, -32601),
        (ALL, "vendor/ask", {}, -32601),
    ],
)
def test_what_the_request_cannot_do_is_refused(capabilities: Json, method: str, params: Json, code: int) -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk, capabilities=capabilities)
        bench.asks("q", method, params)
        talk.server.hears(error("q", code))
        talk.passes(SOON)
        talk.server.answers(bench.asked)
        bench.host.hears(completed(1))
        bench.nothing_left()


def test_an_empty_elicitation_means_forms() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk, capabilities={"elicitation": {}})
        bench.asks("q", params={**FORM, "mode": "form"})
        bench.is_told(1, {"r1": {"method": "elicitation/create", "params": {**FORM, "mode": "form"}}})


def test_only_three_methods_may_ask() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        talk.server.answers(bench.asked)
        bench.host.hears(completed(1))
        bench.host.says(modern(2, "completion/complete", {"ref": 1}, capabilities=ALL))
        asked = talk.server.hears(request(..., "completion/complete", ...))
        bench.asks("q")
        talk.server.hears(error("q", -32601))
        talk.server.answers(asked)
        bench.host.hears(completed(2))


# While it is parked


def test_nothing_of_a_parked_call_reaches_the_host() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk, progressToken="t", logLevel="debug")
        talk.server.says(progress(bench.asked["id"], 1))
        bench.host.hears(progress("t", 1))
        state = bench.parked()
        talk.server.hears(request(..., "logging/setLevel", {"level": "info"}))
        talk.server.says(progress(bench.asked["id"], 2))
        talk.server.says(notification("notifications/message", {"level": "error", "data": 1}))
        bench.host.says(retry(2, state, {"r1": ACCEPTED}, progressToken=7, logLevel="debug"))
        talk.server.hears(request(..., "logging/setLevel", {"level": "debug"}), result("q", ACCEPTED))
        talk.server.says(progress(bench.asked["id"], 2), progress(bench.asked["id"], 3))
        talk.server.says(notification("notifications/message", {"level": "debug", "data": 2}))
        bench.host.hears(progress(7, 2), progress(7, 3), notification("notifications/message", ...))
        talk.server.answers(bench.asked)
        bench.host.hears(completed(2))
        talk.server.hears(request(..., "logging/setLevel", {"level": "info"}))


def test_a_retry_without_a_token_gets_no_progress() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk, progressToken="t")
        state = bench.parked()
        bench.host.says(retry(2, state, {"r1": ACCEPTED}))
        talk.server.hears(result("q", ACCEPTED))
        talk.server.says(progress(bench.asked["id"], 1))
        talk.server.answers(bench.asked)
        bench.host.hears(completed(2))


@pytest.mark.parametrize("fails", [False, True])
def test_an_outcome_that_comes_while_parked_is_kept_for_the_retry(fails: bool) -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        state = bench.parked()
        if fails:
            talk.server.fails(bench.asked, 7, "too slow")
        else:
            talk.server.answers(bench.asked, {"content": [1]})
        talk.server.hears(result("q", {"action": "cancel"}))
        assert talk.mux.busy  # with the child goes what it said
        bench.host.says(retry(2, state, {"r1": ACCEPTED}))
        bench.host.hears(error(2, 7, "too slow") if fails else completed(2, {"content": [1]}))
        bench.nothing_left()


def test_a_call_that_ends_before_its_host_is_told_is_answered_as_ever() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        bench.asks()
        talk.server.answers(bench.asked)
        talk.server.hears(result("q", {"action": "cancel"}))
        bench.host.hears(completed(1))
        talk.passes(SOON)
        bench.nothing_left()


def test_a_question_is_taken_back_from_the_call_that_it_belongs_to() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        bench.asks("p")
        bench.host.says(tool(2))
        other = talk.server.hears(request(..., "tools/call", ...))
        bench.asks("q")
        bench.asks("r")
        talk.server.says(cancelled("r"), cancelled("q"))
        state = bench.is_told(1, {"r1": {"method": "elicitation/create", "params": FORM}})
        bench.host.says(retry(3, state, {"r1": ACCEPTED}))
        talk.server.hears(result("p", ACCEPTED))
        talk.server.answers(other)
        talk.server.answers(bench.asked)
        bench.host.hears(completed(2), completed(3))
        bench.nothing_left()


def test_a_server_without_a_name_is_not_named() -> None:
    with Talk(relay=True) as talk:
        a = talk.joins("a")
        a.says(tool(1))
        talk.server.answers(talk.child_starts(), {"protocolVersion": "2025-11-25"})
        talk.server.hears(notification("notifications/initialized"), request(..., "tools/call", CALL))
        talk.server.says(request("q", "roots/list"))
        talk.passes(SOON)
        a.hears(result(1, {"resultType": ..., "inputRequests": ..., "requestState": ...}))


def test_a_question_that_is_taken_back_is_not_told_or_not_answered() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        bench.asks("p")
        talk.server.says(cancelled("p"), cancelled("unknown"))
        talk.passes(SOON)
        bench.asks("q")
        state = bench.is_told(1, {"r2": {"method": "elicitation/create", "params": FORM}})
        talk.server.says(cancelled("q"))
        bench.host.says(retry(2, state, {"r2": ACCEPTED}))
        talk.server.answers(bench.asked)
        bench.host.hears(completed(2))
        bench.nothing_left()


# Its end (step 6)


def test_a_call_that_nobody_comes_back_for_is_given_up() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        bench.asks("p", "roots/list", None)
        bench.asks("s", "sampling/createMessage", {})
        bench.asks("q")
        talk.passes(SOON)
        state = bench.host.hears(result(1, ...))["result"]["requestState"]
        talk.passes(parking.PATIENCE)
        talk.server.hears(
            error("p", -32603),
            error("s", -1),
            result("q", {"action": "cancel"}),
            cancelled(bench.asked["id"], "nobody answered what was asked for this call"),
        )
        bench.host.says(retry(2, state, {"r1": {"roots": []}}))
        bench.host.hears(error(2, -32602, parking.STALE))
        bench.nothing_left()


def test_time_begins_anew_with_every_round() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        state = bench.parked()
        talk.passes(parking.PATIENCE - 1)
        bench.host.says(retry(2, state))
        state = bench.is_told(2, {"r1": {"method": "elicitation/create", "params": FORM}})
        talk.passes(parking.PATIENCE - 1)
        bench.host.says(retry(3, state, {"r1": ACCEPTED}))
        talk.server.hears(result("q", ACCEPTED))
        talk.passes(parking.PATIENCE)
        talk.server.answers(bench.asked)
        bench.host.hears(completed(3))
        bench.nothing_left()


def test_a_host_that_leaves_gives_its_parked_call_up() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        bench.parked()
        bench.host.leaves()
        talk.server.hears(result("q", {"action": "cancel"}), cancelled(bench.asked["id"], "the host is gone"))
        bench.nothing_left()


def test_a_host_that_leaves_before_it_is_told_answers_nothing_more() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        bench.asks()
        bench.host.leaves()
        talk.server.hears(result("q", {"action": "cancel"}), cancelled(bench.asked["id"], "the host is gone"))
        talk.passes(SOON)
        bench.nothing_left()


def test_a_call_can_be_cancelled_before_and_while_it_is_parked() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        bench.asks()
        bench.host.says(cancelled(1, "no"))
        talk.server.hears(result("q", {"action": "cancel"}), cancelled(bench.asked["id"], "no"))
        talk.passes(SOON)
        bench.nothing_left()
        bench.host.says(tool(1))
        bench.asked = talk.server.hears(request(..., "tools/call", ...))
        state = bench.parked()
        bench.host.says(cancelled(2), cancelled(1))
        talk.server.hears(result("q", {"action": "cancel"}), cancelled(bench.asked["id"], ...))
        bench.host.says(retry(2, state, {"r1": ACCEPTED}))
        bench.host.hears(error(2, -32602, parking.STALE))
        bench.nothing_left()


def test_an_outcome_that_waits_for_its_retry_is_gone_with_the_child() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        state = bench.parked()
        talk.server.answers(bench.asked, {"content": [1]})
        talk.server.hears(result("q", {"action": "cancel"}))
        talk.child_dies()
        bench.nothing_left()
        talk.child_runs()
        bench.host.says(retry(2, state, {"r1": ACCEPTED}))
        bench.host.hears(error(2, -32602, parking.STALE))


@pytest.mark.parametrize("told", [False, True])
def test_a_child_that_dies_takes_its_parked_calls_along(told: bool) -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        state = "never told"
        if told:
            state = bench.parked()
        else:
            bench.asks()
        talk.child_dies("it died")
        if not told:
            bench.host.hears(error(1, -32603, "it died"))
        talk.passes(SOON)
        bench.nothing_left()
        talk.child_greets(talk.child_starts())
        bench.host.says(retry(2, state, {"r1": ACCEPTED}))
        bench.host.hears(error(2, -32602, parking.STALE))


def test_a_retry_that_finds_no_child_waits_for_one_to_say_what_it_is() -> None:
    with Talk() as talk:
        a = talk.joins("a")
        a.says(retry(1, "of another daemon", {"r1": ACCEPTED}))
        talk.child_runs()
        a.hears(error(1, -32602, parking.STALE))


def test_a_child_that_is_stopped_does_not_wait_for_people() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        state = bench.parked()
        bench.asks("q2")
        talk.child_stops()
        talk.server.hears(result("q", {"action": "cancel"}), result("q2", {"action": "cancel"}))
        bench.host.says(retry(2, state, {"r1": ACCEPTED}))
        talk.server.answers(bench.asked)
        bench.host.hears(completed(2))
        bench.nothing_left()


# Pages to visit first (step 7)


PAGES = {"elicitations": [{"mode": "url", "url": "https://x", "message": "log in", "elicitationId": "e"}]}
PAGE = {"method": "elicitation/create", "params": {"mode": "url", "url": "https://x", "message": "log in"}}


def test_an_error_that_sends_to_a_page_becomes_a_round_and_its_retry_a_new_call() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        talk.server.fails(bench.asked, -32042, "log in first", PAGES)
        state = bench.is_told(1, {"r1": PAGE})
        assert talk.mux.busy
        bench.host.says(retry(2, state))
        state = bench.is_told(2, {"r1": PAGE})
        bench.host.says(retry(3, state, {"r1": {"action": "accept"}}))
        asked = talk.server.hears(request(..., "tools/call", CALL))
        assert asked["id"] != bench.asked["id"]
        talk.server.answers(asked)
        bench.host.hears(completed(3))
        bench.nothing_left()


def test_a_page_of_a_child_that_died_is_none_of_the_next() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        talk.server.fails(bench.asked, -32042, "log in first", PAGES)
        state = bench.is_told(1, {"r1": PAGE})
        talk.child_dies()
        bench.nothing_left()
        bench.host.says(retry(2, state, {"r1": {"action": "accept"}}))
        talk.child_greets(talk.child_starts())
        bench.host.hears(error(2, -32602, parking.STALE))


def test_a_new_call_after_a_page_waits_for_the_child_that_follows_a_stopped_one() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        talk.server.fails(bench.asked, -32042, "log in first", PAGES)
        state = bench.is_told(1, {"r1": PAGE})
        talk.child_stops()
        bench.host.says(retry(2, state, {"r1": {"action": "accept"}}))
        talk.child_dies()
        talk.child_greets(talk.child_starts())
        talk.server.answers(talk.server.hears(request(..., "tools/call", CALL)))
        bench.host.hears(completed(2))


def test_a_page_is_visited_though_the_connection_is_another_by_then() -> None:
    with Talk() as talk:
        bench = Bench(talk)
        talk.server.fails(bench.asked, -32042, "log in first", PAGES)
        state = bench.is_told(1, {"r1": PAGE})
        bench.host.leaves()
        talk.passes(parking.RETURNING)
        bench.host = talk.joins("a")
        bench.host.says(retry(1, state, {"r1": {"action": "accept"}}))
        talk.server.answers(talk.server.hears(request(..., "tools/call", CALL)))
        bench.host.hears(completed(1))
        bench.nothing_left()


def test_a_page_that_nobody_visits_is_forgotten() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        talk.server.fails(bench.asked, -32042, "log in first", PAGES)
        bench.is_told(1, {"r1": PAGE})
        talk.passes(parking.PATIENCE)
        bench.nothing_left()


def test_a_host_that_opens_no_pages_is_told_what_it_lacks() -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk, capabilities={"elicitation": {}})
        talk.server.fails(bench.asked, -32042, "log in first", PAGES)
        needed: Json = {"requiredCapabilities": {"elicitation": {"url": {}}}}
        bench.host.hears(error(1, -32021, "log in first", needed))
        bench.nothing_left()


@pytest.mark.parametrize("data", [None, {"elicitations": []}, {"elicitations": [{"message": "no page"}]}])
def test_an_error_that_names_no_page_is_the_fault_of_the_server(data: Json) -> None:
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        talk.server.fails(bench.asked, -32042, "log in first", data)
        bench.host.hears(error(1, -32603, "log in first", data))  # it did declare the capability
        bench.nothing_left()


def test_a_context_is_asked_for_where_the_request_declared_it() -> None:
    asked = {"messages": [], "maxTokens": 1, "includeContext": "thisServer"}
    plain = {"messages": [], "maxTokens": 1}
    with Talk(relay=True) as talk:
        bench = Bench(talk)
        bench.asks(method="sampling/createMessage", params=asked)
        state = bench.is_told(1, {"r1": {"method": "sampling/createMessage", "params": plain}})
        able: Json = {"sampling": {"context": {}}}
        bench.host.says(retry(2, state, capabilities=able))
        bench.is_told(2, {"r1": {"method": "sampling/createMessage", "params": asked}})


def test_a_question_for_a_call_that_is_not_there_is_refused() -> None:
    with Talk() as talk:
        talk.child_runs()
        a, b = talk.joins("a"), talk.joins("b")
        a.says(tool(1))
        asked = talk.server.hears(request(..., "tools/call", ...))
        for session, upstream in ((a.key, 99), (b.key, asked["id"])):
            talk._apply(talk.mux._modern.parking.park(session, (upstream,), _asked("q")))
            talk.server.hears(error("q", -32601))


def _asked(identity: str) -> jsonrpc.Message:
    return jsonrpc.parse(json.dumps(request(identity, "elicitation/create", FORM)).encode())


# Children that several hosts share (6.1 D7, 6.3)


def shared(talk: Talk) -> tuple[Host, Host]:
    """Two modern hosts at one child."""
    talk.child_runs()
    return talk.joins("a"), talk.joins("b")


def heard_call(talk: Talk) -> Any:
    """The child hears a call."""
    return talk.server.hears(request(..., "tools/call", {**CALL, "_meta": {"traceparent": ...}}))


def test_calls_of_modern_hosts_wait_for_their_turn() -> None:
    with Talk(relay=Shared(PROFILE, serialized=True)) as talk:
        a, b = shared(talk)
        a.says(tool(1))
        first = heard_call(talk)
        b.says(tool(1), tool(2), tool(3))
        talk.server.says(request("q", "elicitation/create", FORM))
        talk.passes(SOON)
        state = a.hears(result(1, ...))["result"]["requestState"]
        b.says(cancelled(2))
        a.says(retry(2, state, {"r1": ACCEPTED}))
        talk.server.hears(result("q", ACCEPTED))
        talk.server.answers(first)
        a.hears(completed(2))
        second, third = heard_call(talk), heard_call(talk)
        talk.server.answers(third)
        talk.server.answers(second)
        b.hears(completed(3), completed(1))
        assert not talk.mux.busy


def test_an_outcome_that_is_kept_lets_the_next_one_go() -> None:
    with Talk(relay=Shared(PROFILE, serialized=True)) as talk:
        a, b = shared(talk)
        a.says(tool(1))
        first = heard_call(talk)
        talk.server.says(request("q", "elicitation/create", FORM))
        talk.passes(SOON)
        a.hears(result(1, ...))
        b.says(tool(1))
        talk.server.answers(first)
        talk.server.hears(result("q", {"action": "cancel"}))
        talk.server.answers(heard_call(talk))
        b.hears(completed(1))


def test_a_call_that_no_longer_waits_lets_the_next_one_go() -> None:
    with Talk(relay=Shared(PROFILE, serialized=True)) as talk:
        a, b = shared(talk)
        c = talk.joins("c")
        a.says(tool(1))
        first = heard_call(talk)
        b.says(tool(1))
        a.says(tool(2))
        b.says(cancelled(1))
        second = heard_call(talk)
        c.says(tool(1))
        a.says(cancelled(1), cancelled(2))
        talk.server.hears(cancelled(first["id"]), cancelled(second["id"]))
        third = heard_call(talk)
        talk.server.answers(third)
        c.hears(completed(1))
        assert not talk.mux.busy


def test_a_trace_tells_whose_call_is_parked() -> None:
    with Talk(relay=Shared(PROFILE, serialized=False)) as talk:
        a, b = shared(talk)
        a.says(tool(1))
        b.says(tool(1))
        first, second = heard_call(talk), heard_call(talk)
        talk.server.says(request("q", "elicitation/create", {**FORM, "_meta": second["params"]["_meta"]}))
        talk.passes(SOON)
        state = b.hears(result(1, ...))["result"]["requestState"]
        talk.server.answers(first)
        a.hears(completed(1))
        b.says(retry(2, state, {"r1": ACCEPTED}))
        talk.server.hears(result("q", ACCEPTED))
        talk.server.answers(second)
        b.hears(completed(2))
        assert not talk.mux.busy


def test_a_child_that_is_stopped_keeps_who_waits_for_the_next_one() -> None:
    with Talk(relay=Shared(PROFILE, serialized=True)) as talk:
        a, b = shared(talk)
        a.says(tool(1))
        first = heard_call(talk)
        b.says(tool(1))
        talk.child_stops()
        talk.server.answers(first)
        a.hears(completed(1))
        talk.child_dies()
        talk.child_runs()
        talk.server.answers(heard_call(talk))
        b.hears(completed(1))


# The host is gone, and comes back on another connection (steps 4 and 6)


def parked_alone(talk: Talk) -> tuple[Host, Any, str]:
    """A host whose call is parked at a child that others share; return it, the call at the child, and the state."""
    talk.child_runs()
    a = talk.joins("a")
    a.says(tool(1))
    asked = heard_call(talk)
    talk.server.says(request("q", "elicitation/create", FORM))
    talk.passes(SOON)
    return a, asked, a.hears(result(1, ...))["result"]["requestState"]


@pytest.mark.parametrize("serialized", [True, False])
def test_a_host_that_comes_back_in_time_goes_on(serialized: bool) -> None:
    with Talk(relay=Shared(PROFILE, serialized=serialized)) as talk:
        a, asked, state = parked_alone(talk)
        a.says(tool(2))
        other = heard_call(talk)
        a.leaves()
        talk.server.hears(cancelled(other["id"], "the host is gone"))
        talk.passes(parking.RETURNING / 2)
        talk.server.says(progress(asked["id"], 1), request("q2", "elicitation/create", FORM))
        talk.server.hears(result("q2", {"action": "cancel"}))  # there is nobody to tell, and nobody else is told
        a = talk.joins("a")
        a.says(cancelled(1), retry(1, state, {"r1": ACCEPTED}))
        talk.server.hears(result("q", ACCEPTED))
        talk.passes(parking.PATIENCE)
        talk.server.answers(asked)
        a.hears(completed(1))
        assert not talk.mux.busy


def test_a_host_that_does_not_come_back_in_time_is_gone() -> None:
    with Talk(relay=Shared(PROFILE, serialized=True)) as talk:
        a, asked, state = parked_alone(talk)
        a.leaves()
        b = talk.joins("b")
        b.says(tool(1))
        assert talk.mux.busy
        talk.passes(parking.RETURNING)
        talk.server.hears(result("q", {"action": "cancel"}), cancelled(asked["id"], "the host is gone"))
        talk.server.answers(heard_call(talk))
        b.hears(completed(1))
        a = talk.joins("a")
        a.says(retry(1, state, {"r1": ACCEPTED}))
        a.hears(error(1, -32602, parking.STALE))
        assert not talk.mux.busy


def test_an_outcome_that_comes_before_its_host_is_back_is_told_then() -> None:
    with Talk(relay=Shared(PROFILE, serialized=True)) as talk:
        a, asked, state = parked_alone(talk)
        a.leaves()
        talk.server.answers(asked, {"content": [1]})
        talk.server.hears(result("q", {"action": "cancel"}))
        a = talk.joins("a")
        a.says(retry(1, state, {"r1": ACCEPTED}))
        a.hears(completed(1, {"content": [1]}))
        assert not talk.mux.busy
