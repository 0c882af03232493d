"""Whatever hosts and a child do in whatever order: the properties of the multiplexer as a whole."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.callbacks import Rules, Shared
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.multiplexer import Multiplexer
from supervisord_mcp.protocol.profiles import Profile, Root
from tests.kit.conversation import Talk, call, cancelled, changed, error, notification, request, result
from tests.protocol.crowd import Crowd

PROFILE = Profile(("elicitation.form", "sampling"), (Root("file:///p"),))
RULES: tuple[Rules, ...] = (False, True, Shared(PROFILE, serialized=True), Shared(PROFILE, serialized=False))


@given(st.data(), st.sampled_from(RULES))
def test_every_request_is_answered_once_and_nothing_is_left(data: st.DataObject, relay: Rules) -> None:
    crowd = Crowd(relay=relay)
    for _ in range(data.draw(st.integers(0, 60))):
        moves = crowd.moves()
        name = data.draw(st.sampled_from(sorted(moves)))
        moves[name](data.draw)
    crowd.settle()
    crowd.go()


# What the crowd does not do


def test_what_can_be_seen_from_outside() -> None:
    with Talk() as talk:
        mux = talk.mux
        assert (mux.ready, mux.catalogue, mux.sessions, mux.busy, mux.waiting) == (False, None, 0, False, False)
        talk.child_runs(tools=["x"])
        assert mux.ready
        assert mux.catalogue is not None
        (a,) = talk.hosts("a")
        assert mux.sessions == 1
        a.says(call(1))
        assert mux.busy
        talk.server.answers(talk.server.hears(call(...)))
        a.hears(result(1))
        assert not mux.busy


def test_a_host_that_is_not_there_leaves_without_a_word() -> None:
    assert Talk().mux.detach(5) == []


def test_a_session_is_failed_before_it_moves() -> None:
    with Talk() as talk:
        talk.child_runs({"resources": {"subscribe": True}})
        a, b = talk.hosts("a", "b")
        a.says(call(1), request(2, "resources/subscribe", {"uri": "u"}))
        b.says(call(1))
        first = talk.server.hears(call(...))
        subscription = talk.server.hears(request(..., "resources/subscribe", ...))
        talk.server.hears(call(...))
        commands = talk.mux.fail_session(a.key, "it was changed", {"reason": "server_changed"})
        talk._apply(commands)
        talk.server.hears(cancelled(first["id"], "it was changed"))
        a.hears(error(1, -32603, "it was changed", {"reason": "server_changed"}), error(2, -32603))
        talk.server.answers(subscription)
        talk.server.hears(request(..., "resources/unsubscribe", ...))
        assert talk.mux.state(a.key).version == "2025-11-25"
        assert talk.waiting(a) == []
        assert talk.waiting(b) == [b"1"]


def test_a_session_that_was_not_answered_its_handshake_begins_anew() -> None:
    with Talk() as talk:
        a = talk.host_first("a")
        a.says(call(1))
        talk._apply(talk.mux.fail_session(a.key, "it was changed"))
        a.hears(error("hello", -32603), error(1, -32603))
        assert talk.mux.state(a.key) == State()
        talk.child_runs()
        a.greets()


def test_hosts_that_saw_other_lists_are_told_the_difference() -> None:
    def offering(*tools: bytes) -> Catalogue:
        told = b'"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}'
        return Catalogue(b'{"protocolVersion":"2025-11-25",%b}' % told, {"tools/list": tools})

    with Talk(known=offering(b"1")) as talk:
        (a,) = talk.hosts("a")
        talk._apply(talk.mux.assume(offering(b"1")))
        a.hears_nothing()
        talk._apply(talk.mux.assume(offering(b"2")))
        a.hears(changed("tools"))
    with Talk() as talk:
        a = talk.joins("a", State(version="2025-06-18", initialized=True))
        assert talk.mux.assume(offering(b'{"name": "x"}')) == []
        talk.child_runs(tools=["y"])
        a.hears(changed("tools"))


def test_a_child_of_one_host_is_greeted_in_its_name() -> None:
    with Talk(relay=True) as talk:
        talk.joins("probe")
        params = talk.child_starts()["params"]
        assert (params["protocolVersion"], params["clientInfo"]["name"]) == ("2025-11-25", "smcp")
    with Talk(relay=True) as talk:
        a = talk.joins("a")
        a.initializes("2024-11-05", {"roots": {}, "tasks": {}}, client="editor")
        params = talk.child_starts()["params"]
        assert params["protocolVersion"] == "2024-11-05"
        assert params["capabilities"] == {"roots": {}}
        assert params["clientInfo"] == {"name": "editor", "version": "1"}


def test_what_a_child_said_of_itself_is_known_before_its_lists_are() -> None:
    with Talk() as talk:
        talk.child_greets(talk.child_starts(), {"tools": {}})
        assert talk.mux.ready
        assert talk.mux.catalogue is not None
        assert talk.mux.catalogue.lists == {}
        talk.child_lists(tools=["x"])
        assert set(talk.mux.catalogue.lists) == {"tools/list"}


def test_a_server_that_does_not_say_who_it_is_is_passed_on_like_that() -> None:
    with Talk() as talk:
        opening = talk.child_starts()
        talk.server.answers(opening, {"protocolVersion": "2025-11-25", "capabilities": {}})
        talk.server.hears(notification("notifications/initialized"))
        host = talk.joins("a")
        host.initializes()
        host.hears(result("hello", {"protocolVersion": "2025-11-25", "capabilities": {}}))


def test_how_a_host_names_itself() -> None:
    mux = Multiplexer("s", entropy=bytes)
    clients: tuple[dict[str, Any], ...] = ({"name": "editor", "version": "1"}, {"name": 5}, {})
    for key, client in enumerate(clients):
        mux.attach(key, State(version="2025-06-18", client=client))
    assert [mux.host(key) for key in range(4)] == ["editor", "", "", ""]
