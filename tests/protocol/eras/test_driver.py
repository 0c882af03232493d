"""Calls with rounds: what a host is asked, what the server gets back, and every way in which a call may end (6.5)."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.protocol.eras.driver import MAX_ROUNDS
from tests.kit.conversation import (
    Host,
    Talk,
    call,
    cancelled,
    complete,
    error,
    needs,
    notification,
    progress,
    request,
    result,
)
from tests.protocol.eras.talking import FORM, PAGE, SAMPLING, elicits, meta, modern

ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {"listChanged": True}}
ACCEPTED = {"action": "accept", "content": {"name": "x"}}
ROOTS = {"method": "roots/list"}
FAILED = {"content": [{"type": "text", "text": ...}], "isError": True}


def asks(talk: Talk, round_of: Any, requests: Any = None, state: Any = None) -> None:
    """The server wants more input."""
    talk.server.answers(round_of, needs(requests, state))


def hears_call(talk: Talk, **extra: Any) -> Any:
    """The server hears a round of the call; return it."""
    return talk.server.hears(request(..., "tools/call", {"name": "echo", "arguments": {}, "_meta": ..., **extra}))


def calling(talk: Talk, capabilities: Any = None, version: str = "2025-11-25", **arguments: Any) -> tuple[Host, Any]:
    """A host calls a tool; return it and the first round."""
    a = talk.host("a", version, ALL if capabilities is None else capabilities)
    a.says(call(1, **arguments))
    return a, talk.server.hears(request(..., "tools/call", ...))


def test_a_call_says_who_makes_it() -> None:
    with modern() as talk:
        _, one = calling(talk, {**ALL, "tasks": {}, "experimental": {"x": {}}, "elicitation": {}})
        told: dict[str, Any] = {"elicitation": {}, "sampling": {"tools": {}}, "roots": {}}
        assert one["params"]["_meta"] == meta({"name": "a", "version": "1"}, told)
    with modern() as talk:
        # What came later than the revision of the host is not promised for it (pitfall 66).
        _, one = calling(talk, ALL, "2025-06-18")
        told = {"elicitation": {}, "sampling": {}, "roots": {}}
        assert one["params"]["_meta"] == meta({"name": "a", "version": "1"}, told)
    with modern() as talk:
        _, one = calling(talk, {"roots": True, "elicitation": {}}, "2025-03-26")
        assert one["params"]["_meta"] == meta({"name": "a", "version": "1"}, {"roots": {}})


def test_all_kinds_of_questions_are_asked_at_once() -> None:
    with modern() as talk:
        a, one = calling(talk)
        wanted = {
            "form": elicits(),
            "page": elicits(PAGE),
            "model": {"method": "sampling/createMessage", "params": SAMPLING},
            "roots": ROOTS,
        }
        asks(talk, one, wanted)
        form = a.hears(request(..., "elicitation/create", FORM))
        page = a.hears(request(..., "elicitation/create", {**PAGE, "elicitationId": ...}))
        model = a.hears(request(..., "sampling/createMessage", SAMPLING))
        roots = a.hears(request(..., "roots/list"))
        message = {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}
        a.says(
            result(roots["id"], {"roots": []}), result(model["id"], message), result(page["id"], {"action": "accept"})
        )
        talk.server.hears_nothing()
        a.says(result(form["id"], {"action": "decline"}))
        answers = {
            "roots": {"roots": []},
            "model": message,
            "page": {"action": "accept"},
            "form": {"action": "decline"},
        }
        talk.server.answers(hears_call(talk, inputResponses=answers), complete({"content": []}))
        a.hears(result(1, {"content": []}))


@pytest.mark.parametrize(
    ("version", "capabilities", "wanted"),
    [
        ("2025-11-25", {}, elicits()),
        ("2025-11-25", {"elicitation": {}}, elicits(PAGE)),
        ("2025-11-25", {"elicitation": {"url": {}}}, elicits({**FORM, "mode": "form"})),
        ("2025-11-25", {"elicitation": {}}, elicits({**FORM, "mode": "dance"})),
        ("2025-06-18", ALL, elicits(PAGE)),
        ("2025-03-26", ALL, elicits()),
        ("2025-11-25", {"sampling": {}}, {"method": "sampling/createMessage", "params": {**SAMPLING, "tools": []}}),
        ("2025-11-25", {"elicitation": {}}, ROOTS),
        ("2025-11-25", ALL, {"method": "ping"}),
        ("2025-11-25", ALL, {"method": 5}),
        ("2025-11-25", ALL, "nothing"),
    ],
)
def test_33_what_a_host_did_not_declare_is_not_surfaced(version: str, capabilities: Any, wanted: Any) -> None:
    with modern() as talk:
        a, one = calling(talk, capabilities, version)
        asks(talk, one, {"fine": ROOTS, "k": wanted} if "roots" in capabilities else {"k": wanted})
        a.hears(result(1, FAILED))


@pytest.mark.parametrize(
    ("version", "sampling", "kept"),
    [("2025-11-25", {}, False), ("2025-11-25", {"context": {}}, True), ("2025-06-18", {}, True)],
)
def test_a_context_is_asked_for_where_the_host_declared_it(version: str, sampling: Any, kept: bool) -> None:
    params = {**SAMPLING, "includeContext": "allServers"}
    with modern() as talk:
        a, one = calling(talk, {"sampling": sampling}, version)
        asks(talk, one, {"k": {"method": "sampling/createMessage", "params": params}})
        a.hears(request(..., "sampling/createMessage", params if kept else SAMPLING))


def test_a_host_may_be_asked_by_what_is_no_tool() -> None:
    with modern() as talk:
        a = talk.host("a", capabilities=ALL)
        for number, (method, params) in enumerate(
            [("prompts/get", {"name": "p"}), ("resources/read", {"uri": "u:1"})], start=1
        ):
            a.says(request(number, method, params))
            one = talk.server.hears(request(..., method, {**params, "_meta": ...}))
            asks(talk, one, {"k": elicits()})
            asked = a.hears(request(..., "elicitation/create", FORM))
            a.says(result(asked["id"], ACCEPTED))
            two = talk.server.hears(request(..., method, {**params, "inputResponses": {"k": ACCEPTED}, "_meta": ...}))
            asks(talk, two, {"k": {"method": "ping"}})
            a.hears(error(number, -32603))


def test_an_error_of_the_host_ends_the_call_and_what_else_it_was_asked() -> None:
    with modern() as talk:
        a, one = calling(talk)
        asks(talk, one, {"k": elicits(), "r": ROOTS})
        form = a.hears(request(..., "elicitation/create", FORM))
        roots = a.hears(request(..., "roots/list"))
        a.says({"jsonrpc": "2.0", "id": form["id"], "error": {"code": -1, "message": "not today"}})
        a.hears(cancelled(roots["id"]), result(1, {"content": [{"type": "text", "text": ...}], "isError": True}))
        a.says(result(roots["id"], {"roots": []}))
        assert talk.noted("host") == 1


def test_a_server_that_never_has_enough_is_given_up() -> None:
    with modern() as talk:
        a, one = calling(talk)
        for _ in range(MAX_ROUNDS):
            asks(talk, one, {"k": elicits()})
            asked = a.hears(request(..., "elicitation/create", FORM))
            a.says(result(asked["id"], ACCEPTED))
            one = hears_call(talk, inputResponses={"k": ACCEPTED})
        asks(talk, one, {"k": elicits()})
        a.hears(result(1, FAILED))


def test_a_state_alone_is_given_back_after_a_wait_that_grows() -> None:
    with modern() as talk:
        a, one = calling(talk)
        for wait in (0.05, 0.1, 0.2, 0.25, 0.25):
            asks(talk, one, state="s")
            talk.passes(wait - 0.01)
            talk.server.hears_nothing()
            assert talk.mux.busy
            talk.passes(0.01)
            one = hears_call(talk, requestState="s")
        asks(talk, one, {}, "t")
        talk.passes(0.25)
        talk.server.answers(hears_call(talk, requestState="t"), complete())
        a.hears(result(1, {}))
        assert not talk.mux.busy


@pytest.mark.parametrize("wrong", [[], [elicits()], "k", 7, True])
def test_requests_of_the_wrong_type_are_not_a_state_alone(wrong: Any) -> None:
    with modern() as talk:
        a, one = calling(talk)
        asks(talk, one, wrong, "s")
        a.hears(error(1, -32603, ...))
        talk.passes(10)
        talk.server.hears_nothing()
        assert not talk.mux.busy


def test_30_a_state_is_given_back_byte_for_byte_and_only_once() -> None:
    with modern() as talk:
        a, one = calling(talk)
        state = rb'"v1.\u00e9\/\ud83d \"x\""'
        line = (
            b'{"jsonrpc":"2.0","id":%d,"result":{"resultType":"input_required","inputRequests":%b,"requestState":%b}}'
        )
        talk.server.says(line % (one["id"], json.dumps({"k": ROOTS}).encode(), state))
        asked = a.hears(request(..., "roots/list"))
        a.says(result(asked["id"], {"roots": []}))
        raw = talk.server.inbox[0]
        assert b'"requestState":' + state in raw
        two = talk.server.hears(request(..., "tools/call", ...))
        asks(talk, two, {"k": ROOTS})
        asked = a.hears(request(..., "roots/list"))
        a.says(result(asked["id"], {"roots": []}))
        hears_call(talk, inputResponses={"k": {"roots": []}})


def test_a_result_that_wants_nothing_is_an_error() -> None:
    with modern() as talk:
        shapes: list[Any] = [None, {}, []]
        for number, wanted in enumerate(shapes, start=1):
            a = talk.host(f"h{number}", capabilities=ALL)
            a.says(call(1))
            asks(talk, talk.server.hears(request(..., "tools/call", ...)), wanted)
            a.hears(error(1, -32603))


@pytest.mark.parametrize("when", ["in flight", "asked", "waiting"])
def test_a_host_gives_up_its_call(when: str) -> None:
    with modern() as talk:
        a, one = calling(talk)
        if when == "in flight":
            a.says(cancelled(1, "changed my mind"))
            talk.server.hears(cancelled(one["id"], "changed my mind"))
        elif when == "asked":
            asks(talk, one, {"k": elicits()})
            asked = a.hears(request(..., "elicitation/create", FORM))
            a.says(cancelled(1))
            a.hears(cancelled(asked["id"]))
            a.says(result(asked["id"], ACCEPTED))
        else:
            asks(talk, one, state="s")
            a.says(cancelled(1))
            talk.passes(1)
        talk.server.hears_nothing()
        assert talk.waiting(a) == []
        assert not talk.mux.busy


def test_a_later_round_is_cancelled_under_its_own_id() -> None:
    with modern() as talk:
        a, one = calling(talk)
        asks(talk, one, state="s")
        talk.passes(0.05)
        two = hears_call(talk, requestState="s")
        assert two["id"] != one["id"]
        a.says(cancelled(1))
        talk.server.hears(cancelled(two["id"]))
        talk.server.answers(two, complete())


@pytest.mark.parametrize("when", ["in flight", "asked", "waiting"])
def test_a_host_leaves_or_moves_on(when: str) -> None:
    for leaves in (True, False):
        with modern() as talk:
            a, one = calling(talk)
            asked = None
            if when == "asked":
                asks(talk, one, {"k": elicits()})
                asked = a.hears(request(..., "elicitation/create", FORM))
            elif when == "waiting":
                asks(talk, one, state="s")
            if leaves:
                a.leaves()
            else:
                talk._apply(talk.mux.fail_session(a.key, "moved"))
                if asked is not None:
                    a.hears(cancelled(asked["id"]))
                a.hears(error(1, -32603, "moved"))
            if when == "in flight":
                talk.server.hears(cancelled(one["id"], ...))
            talk.passes(1)
            talk.server.hears_nothing()
            assert not talk.mux.busy


@pytest.mark.parametrize("when", ["in flight", "asked", "waiting"])
def test_the_child_dies_in_the_middle_of_a_call(when: str) -> None:
    with modern() as talk:
        a, one = calling(talk)
        asked = None
        if when == "asked":
            asks(talk, one, {"k": elicits()})
            asked = a.hears(request(..., "elicitation/create", FORM))
        elif when == "waiting":
            asks(talk, one, state="s")
        talk.child_dies("it died")
        a.hears(error(1, -32603, "it died"))
        if asked is not None:
            a.hears(cancelled(asked["id"]))
            a.says(result(asked["id"], ACCEPTED))
        talk.passes(1)
        assert not talk.mux.busy
        talk.modern_child_runs()


def test_a_child_that_is_stopped_asks_nobody_any_more() -> None:
    with modern() as talk:
        a, one = calling(talk)
        asks(talk, one, {"k": elicits()})
        asked = a.hears(request(..., "elicitation/create", FORM))
        talk.child_stops()
        a.hears(cancelled(asked["id"]))
        talk.child_dies("it was stopped")
        a.hears(error(1, -32603, "it was stopped"))


def test_an_error_for_the_revision_is_answered_with_another_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisord_mcp.protocol.mcp.MODERN_VERSIONS", ("2026-07-28", "2027-01-01"))
    data = {"supported": ["2027-01-01", "2025-11-25"], "requested": "2026-07-28"}
    with modern() as talk:
        a, one = calling(talk)
        refusal = {"code": -32022, "message": "no", "data": data}
        talk.server.says({"jsonrpc": "2.0", "id": one["id"], "error": refusal})
        two = hears_call(talk)
        assert two["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2027-01-01"
        data["supported"] = ["2026-07-28"]
        talk.server.says({"jsonrpc": "2.0", "id": two["id"], "error": refusal})
        a.hears(error(1, -32022, "no", data))  # once is enough


def test_an_error_that_nobody_here_understands_is_passed_on() -> None:
    with modern() as talk:
        a, one = calling(talk)
        body = {"code": -32021, "message": "needs sampling", "data": {"requiredCapabilities": {"sampling": {}}}}
        talk.server.says({"jsonrpc": "2.0", "id": one["id"], "error": body})
        a.hears(error(1, -32021, "needs sampling", body["data"]))
        a.says(call(2))
        two = hears_call(talk)
        talk.server.says({"jsonrpc": "2.0", "id": two["id"], "error": {"code": -32022, "message": "no"}})
        a.hears(error(2, -32022))


@given(st.lists(st.lists(st.integers(0, 5) | st.floats(0, 5), max_size=4), min_size=1, max_size=4))
def test_09_progress_increases_over_all_rounds(rounds: list[list[float]]) -> None:
    with modern() as talk:
        a = talk.host("a", capabilities=ALL)
        a.says(call(1, token="t"))
        seen: list[float] = []
        for number, values in enumerate(rounds):
            one = talk.server.hears(request(..., "tools/call", ...))
            assert one["params"]["_meta"]["progressToken"] == one["id"]
            for value in values:
                talk.server.says(progress(one["id"], value))
                while a.inbox:
                    told = a.hears(notification("notifications/progress", {"progressToken": "t", "progress": ...}))
                    seen.append(told["params"]["progress"])
            if number + 1 < len(rounds):
                asks(talk, one, state="s")
                talk.passes(1)
            else:
                talk.server.answers(one, complete())
        a.hears(result(1, {}))
        assert all(one < other for one, other in itertools.pairwise(seen))
        if rounds[-1]:
            assert len(seen) >= 1


def test_09_the_whole_grows_with_the_progress() -> None:
    with modern() as talk:
        a = talk.host("a")
        a.says(call(1, token=7))
        one = talk.server.hears(request(..., "tools/call", ...))
        talk.server.says(
            notification("notifications/progress", {"progressToken": one["id"], "progress": 2, "total": 4})
        )
        a.hears(notification("notifications/progress", {"progressToken": 7, "progress": 2, "total": 4}))
        asks(talk, one, state="s")
        talk.passes(1)
        two = talk.server.hears(request(..., "tools/call", ...))
        report = {"progressToken": two["id"], "progress": 1, "total": 4, "message": "m"}
        talk.server.says(notification("notifications/progress", report))
        told = {"progressToken": 7, "progress": 3, "total": 6, "message": "m"}
        a.hears(notification("notifications/progress", told))
        talk.server.says(progress(two["id"], 2), progress(one["id"], 9))
        a.hears(progress(7, 4))
        talk.server.answers(two, complete())
        a.hears(result(1, {}))
