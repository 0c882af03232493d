"""What both directions share: forwarding and holding, subscriptions, log levels, announcements."""

from __future__ import annotations

from typing import Any

import pytest

from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import Demand, Remember
from tests.kit.conversation import (
    Talk,
    call,
    cancelled,
    changed,
    error,
    notification,
    request,
    result,
)

RESOURCES = {"resources": {"subscribe": True}}
UPDATED = "notifications/resources/updated"


def subscribe(identity: Any, uri: str = "u:1") -> dict[str, Any]:
    return request(identity, "resources/subscribe", {"uri": uri})


def unsubscribe(identity: Any, uri: str = "u:1") -> dict[str, Any]:
    return request(identity, "resources/unsubscribe", {"uri": uri})


def level(identity: Any, value: str) -> dict[str, Any]:
    return request(identity, "logging/setLevel", {"level": value})


def updated(uri: str = "u:1") -> dict[str, Any]:
    return notification(UPDATED, {"uri": uri})


# Held and forwarded


def test_what_comes_before_there_is_a_child_waits_in_its_order() -> None:
    with Talk() as talk:
        a, b = talk.joins("a"), talk.joins("b")
        for host in (a, b):
            host.initializes()
            host.initialized()
        for number in range(3):
            a.says(call(number, n=number))
            b.says(call(number, n=number))
        assert talk.mux.waiting
        assert talk.mux.busy
        assert talk.mux.held_bytes > 0
        assert len(talk.did(Demand)) == 8
        opening = talk.child_starts()
        a.says(notification("notifications/vendor", {"n": 3}))
        talk.child_greets(opening)
        a.hears(result("hello", ...))
        b.hears(result("hello", ...))
        for number in range(3):
            for host in (a, b):
                talk.server.answers(talk.server.hears(call(..., n=number)), {"n": number})
                host.hears(result(number, {"n": number}))
        talk.server.hears(notification("notifications/vendor", {"n": 3}))
        assert (talk.mux.waiting, talk.mux.held_bytes) == (False, 0)
        assert talk.waiting(a) == talk.waiting(b) == []


def test_a_held_request_is_opened_once_and_can_be_given_up() -> None:
    with Talk() as talk:
        a = talk.host_first("a")
        a.says(call(1), call(2), cancelled(1), cancelled("hello"))
        assert talk.waiting(a) == [b'"hello"', b"2"]
        talk.child_greets(talk.child_starts())
        a.hears(result("hello", ...))
        talk.server.hears(call(...))
        assert talk.waiting(a) == [b"2"]


def test_a_held_request_that_is_malformed_is_answered_when_its_turn_comes() -> None:
    with Talk() as talk:
        a = talk.host_first("a")
        a.says(
            request(1, "tools/call", [1]), request(2, "resources/subscribe", {}), request(3, "tools/list", [1]), call(4)
        )
        talk.child_greets(talk.child_starts())
        a.hears(result("hello", ...), error(1, -32602), error(2, -32602), error(3, -32602))
        talk.server.hears(call(...))


def test_no_child_will_come() -> None:
    with Talk() as talk:
        a = talk.host_first("a")
        b = talk.joins("b")
        a.says(call(1))
        opening = talk.child_starts()
        a.says(notification("notifications/vendor"))
        assert opening
        talk.gives_up("it is stopped")
        a.hears(error("hello", -32603, "it is stopped"), error(1, -32603, "it is stopped"))
        a.initializes(identity="again")
        assert talk.waiting(a) == [b'"again"']
        assert talk.waiting(b) == []


def test_only_a_failed_handshake_begins_anew() -> None:
    with Talk() as talk:
        a = talk.joins("a")
        a.initializes()
        talk.gives_up()
        a.hears(error("hello", -32603))
        assert not talk.mux._talk.sessions[a.key].greeted
    with Talk(known=Catalogue(b'{"capabilities":{},"serverInfo":{"name":"s","version":"1"}}')) as talk:
        a = talk.host("a")
        a.says(call(1))
        talk.gives_up()
        a.hears(error(1, -32603))
        a.initializes(identity=2)
        a.hears(error(2, -32600, "already initialized"))


def test_a_child_that_dies_while_it_starts_fails_what_waits_for_it() -> None:
    with Talk() as talk:
        a = talk.host_first("a")
        a.says(call(1))
        talk.child_starts()
        talk.child_dies("exit 1", {"reason": "server_exited"})
        a.hears(error("hello", -32603, "exit 1"), error(1, -32603, "exit 1", {"reason": "server_exited"}))
        assert not talk.mux.waiting


def test_what_comes_while_a_child_is_being_stopped_waits_for_the_next() -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(call(1))
        asked = talk.server.hears(call(...))
        talk.child_stops()
        a.says(call(2))
        assert talk.mux.waiting
        talk.server.answers(asked)
        a.hears(result(1))
        talk.child_dies()
        assert talk.mux.waiting
        talk.child_runs()
        talk.server.answers(talk.server.hears(call(...)))
        a.hears(result(2))


def test_a_child_that_is_stopped_while_it_starts_does_not_get_ready() -> None:
    with Talk() as talk:
        a = talk.host_first("a")
        opening = talk.child_starts()
        talk.child_stops()
        talk.server.answers(opening, {"protocolVersion": "2025-11-25"})
        assert not talk.mux.ready
        talk.child_dies()
        assert talk.mux.waiting  # whether another child comes is not decided here
        talk.child_runs()
        a.hears(result("hello", ...))


# Subscriptions


def test_later_subscribers_wait_for_the_answer_to_the_first() -> None:
    with Talk() as talk:
        talk.child_runs(RESOURCES)
        a, b, c = talk.hosts("a", "b", "c")
        a.says(subscribe(1))
        b.says(subscribe(1))
        asked = talk.server.hears(subscribe(...))
        b.hears_nothing()
        talk.server.answers(asked, {"x": 1})
        a.hears(result(1))
        b.hears(result(1))
        c.says(subscribe(1))
        c.hears(result(1))
        assert talk.mux.state(c.key).uris == ["u:1"]
        talk.server.says(updated())
        for host in (a, b, c):
            host.hears(updated())


def test_a_refusal_is_for_the_first_and_the_next_one_tries() -> None:
    with Talk() as talk:
        talk.child_runs(RESOURCES)
        a, b = talk.hosts("a", "b")
        a.says(subscribe(1))
        b.says(subscribe("1"))
        talk.server.fails(talk.server.hears(subscribe(...)), -32002, "no", {"uri": "u:1"})
        a.hears(error(1, -32002, "no", {"uri": "u:1"}))
        talk.server.answers(talk.server.hears(subscribe(...)))
        b.hears(result("1"))
        talk.server.says(updated())
        b.hears(updated())


def test_who_waits_may_give_up_or_leave() -> None:
    with Talk() as talk:
        talk.child_runs(RESOURCES)
        a, b = talk.hosts("a", "b")
        a.says(subscribe(1), cancelled(1))
        b.says(subscribe(1))
        b.leaves()
        talk.server.answers(talk.server.hears(subscribe(...)))
        talk.server.answers(talk.server.hears(unsubscribe(...)))
        assert talk.waiting(a) == []
        assert not talk.mux.busy


def test_subscribing_and_letting_go_in_one_breath() -> None:
    with Talk() as talk:
        talk.child_runs(RESOURCES)
        (a,) = talk.hosts("a")
        a.says(subscribe(1), unsubscribe(2))
        a.hears(result(2))
        talk.server.answers(talk.server.hears(subscribe(...)))
        a.hears(result(1))
        talk.server.hears(unsubscribe(...))
        assert talk.mux.state(a.key).uris == []
        a.says(unsubscribe(3, "unknown"))
        a.hears(result(3))


def test_a_subscription_dies_with_its_child_and_is_made_again() -> None:
    with Talk() as talk:
        talk.child_runs(RESOURCES)
        a, b = talk.hosts("a", "b")
        a.says(subscribe(1, "u:1"), subscribe(2, "u:2"))
        talk.server.answers(talk.server.hears(subscribe(..., "u:1")))
        talk.server.answers(talk.server.hears(subscribe(..., "u:2")))
        a.hears(result(1), result(2))
        b.says(subscribe(1, "u:3"))
        talk.server.hears(subscribe(..., "u:3"))
        talk.child_dies()
        b.hears(error(1, -32603))
        b.leaves()
        talk.child_runs(RESOURCES)
        talk.server.answers(talk.server.hears(subscribe(..., "u:1")))
        talk.server.fails(talk.server.hears(subscribe(..., "u:2")), -32002)
        a.hears(updated("u:1"))
        assert talk.noted("subscription") == 1
        assert talk.mux.state(a.key).uris == ["u:1"]
        talk.child_dies()
        a.leaves()
        talk.child_runs(RESOURCES)


def test_a_host_that_leaves_while_the_child_is_down_is_told_to_nobody() -> None:
    with Talk() as talk:
        talk.child_runs(RESOURCES)
        (a,) = talk.hosts("a")
        a.says(subscribe(1))
        talk.server.answers(talk.server.hears(subscribe(...)))
        a.hears(result(1))
        talk.child_stops()
        a.leaves()
        talk.server.hears_nothing()


def test_a_session_that_comes_back_brings_its_subscriptions() -> None:
    state = State(version="2025-06-18", initialized=True, level="error", uris=["u:1"])
    with Talk() as talk:
        a = talk.joins("a", state)
        assert len(talk.did(Demand)) == 1
        talk.child_runs({**RESOURCES, "logging": {}})
        talk.server.hears(level(..., "error"))
        talk.server.answers(talk.server.hears(subscribe(...)))
        a.hears(updated())
        b = talk.joins("b", State(version="2025-06-18", initialized=True, level="debug", uris=["u:1", "u:2"]))
        talk.server.hears(subscribe(..., "u:2"), level(..., "debug"))
        talk.server.says(updated())
        a.hears(updated())
        b.hears(updated())
        talk.joins("c", State(version="2025-06-18"))
        assert len(talk.did(Demand)) == 1


# Log levels


def test_the_level_is_the_most_verbose_one_and_sent_only_when_it_changes() -> None:
    with Talk() as talk:
        talk.child_runs({"logging": {}})
        (a,) = talk.hosts("a")
        a.says(level(1, "error"), level(2, "error"))
        a.hears(result(1), result(2))
        talk.server.hears(level(..., "error"))
        b = talk.host("b")
        talk.server.hears(level(..., "info"))
        b.says(level(1, "critical"))
        b.hears(result(1))
        talk.server.hears(level(..., "error"))
        assert talk.mux.state(b.key).level == "critical"
        a.leaves()
        talk.server.hears(level(..., "critical"))
        c = talk.joins("c")
        b.says(level(2, "critical"))
        b.hears(result(2))
        talk.server.hears_nothing()  # c may be a probe
        c.leaves()
        b.leaves()


def test_the_usual_level_comes_back_when_nobody_asked_for_another() -> None:
    with Talk() as talk:
        talk.child_runs({"logging": {}})
        a, _ = talk.hosts("a", "b")
        a.says(level(1, "debug"))
        a.hears(result(1))
        talk.server.hears(level(..., "debug"))
        a.leaves()
        talk.server.hears(level(..., "info"))


def test_a_level_is_set_again_at_a_new_child() -> None:
    with Talk() as talk:
        talk.child_runs({"logging": {}})
        (a,) = talk.hosts("a")
        a.says(level(1, "debug"))
        a.hears(result(1))
        talk.server.answers(talk.server.hears(level(..., "debug")))
        talk.child_dies()
        a.says(level(2, "warning"))
        a.hears(result(2))
        talk.child_runs({"logging": {}})
        talk.server.fails(talk.server.hears(level(..., "warning")), -32603)
        assert talk.noted("logging") == 1


def test_a_server_without_logging_has_no_level() -> None:
    with Talk() as talk:
        a = talk.host_first("a")
        a.says(level(1, "debug"))
        a.hears(result(1))
        talk.child_runs()
        a.hears(result("hello", ...))
        a.says(level(2, "debug"))
        a.hears(error(2, -32601, "server 's' does not offer logging"))


# Announcements and attribution


def test_changes_are_told_after_the_handshake() -> None:
    with Talk() as talk:
        talk.child_runs(tools=["x"])
        a, b = talk.joins("a"), talk.joins("b")
        a.initializes()
        a.hears(result("hello", ...))
        talk.server.says(changed("tools"), changed("tools"))
        a.hears_nothing()
        talk.child_lists(tools=["y"])
        talk.child_lists(tools=["y"])
        a.initialized()
        a.hears(changed("tools"))
        b.greets()
        b.hears_nothing()


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read", "completion/complete"])
def test_who_is_eligible(method: str) -> None:
    with Talk() as talk:
        talk.child_runs()
        a, b = talk.hosts("a", "b")
        a.says(request(1, method), request(2, "vendor/x"))
        b.says(request(1, "tools/list"))
        talk.server.hears(request(..., method), request(..., "vendor/x"), request(..., "tools/list"))
        assert talk.mux._talk.eligible() == {a.key}


def test_the_slow_state_is_remembered_when_it_changes() -> None:
    with Talk() as talk:
        talk.child_runs({**RESOURCES, "logging": {}})
        a = talk.joins("a")

        def remembers(message: str) -> int:
            commands = talk.mux.from_session(a.key, message.encode())
            return commands.count(Remember(a.key))

        opening = '{"protocolVersion":"2025-06-18","capabilities":{}}'
        assert remembers(f'{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{opening}}}') == 1
        assert remembers('{"jsonrpc":"2.0","method":"notifications/initialized"}') == 1
        assert remembers('{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}') == 1
        assert remembers('{"jsonrpc":"2.0","id":3,"method":"resources/unsubscribe","params":{"uri":"u"}}') == 1
        assert remembers('{"jsonrpc":"2.0","id":4,"method":"tools/call"}') == 0
