"""What hosts send: which requests are answered here, which are refused, which go on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import Demand, Remember
from supervisord_mcp.protocol.framing import Oversized
from tests.kit.conversation import (
    Talk,
    call,
    cancelled,
    changed,
    error,
    notification,
    progress,
    request,
    result,
)
from tests.protocol.texts import OBJECTS, VALUES

KNOWN = Catalogue(
    b'{"protocolVersion":"2024-11-05","capabilities":{"tools":{},"logging":{}},'
    b'"serverInfo":{"name":"old","version":"1"},"x":1e400}',
    {"tools/list": (b'{"name":"a","inputSchema":{"type":"object"},"n":1e400}',)},
)


# The handshake


def test_a_handshake_that_waits_for_the_child_is_kept_until_it_is_answered_or_refused() -> None:
    with Talk() as talk:
        a = talk.joins("a")
        params = '{"protocolVersion":"2025-06-18","capabilities":{"roots":{}}}'
        line = f'{{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{params}}}'
        commands = talk.mux.from_session(a.key, line.encode())
        assert commands[0] == Remember(a.key)
        state = talk.mux.state(a.key)
        assert (state.version, state.capabilities, state.asking) == ("2025-06-18", {"roots": {}}, '"hello"')
        commands = talk.mux.from_session(a.key, b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        assert commands == [Remember(a.key)]
        assert talk.mux.state(a.key).initialized
        refused = talk.mux.fail_held("no child")
        assert refused[0] == Remember(a.key)
        talk._apply(refused)
        a.hears(error("hello", -32603))
        assert talk.mux.state(a.key) == State()


def test_a_host_is_not_said_to_be_ready_before_its_handshake() -> None:
    with Talk() as talk:
        a = talk.joins("a")
        assert talk.mux.from_session(a.key, b'{"jsonrpc":"2.0","method":"notifications/initialized"}') == []


# A child that does not read


def test_where_too_much_waits_only_what_the_child_would_get_is_refused() -> None:
    with Talk(known=KNOWN) as talk:
        talk.child_runs({"logging": {}})
        (a,) = talk.hosts("a")
        talk.mux.crowded = True
        assert talk.mux.crowded
        a.says(call(1), request(2, "ping"), request(3, "logging/setLevel", {"level": "info"}))
        refused = a.hears(error(1, -32603))["error"]
        assert "is not reading" in refused["message"]
        assert refused["data"] == {"reason": "server_not_reading"}
        a.hears(result(2), result(3))
        talk.server.hears(request(..., "logging/setLevel", ...))
        b = talk.joins("b")
        b.greets()
        talk.mux.crowded = False
        a.says(call(4))
        talk.server.answers(talk.server.hears(call(...)))
        a.hears(result(4, ...))


def test_where_too_much_waits_for_a_start_the_refusal_says_so() -> None:
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a")
        a.greets()
        talk.mux.crowded = True
        a.says(call(1), request(2, "tools/list"))
        assert "is not ready" in a.hears(error(1, -32603))["error"]["message"]
        a.hears(result(2, ...))


@pytest.mark.parametrize(
    ("version", "newer"),
    [("2025-11-25", {"icons", "title"}), ("2025-06-18", {"title"}), ("2025-03-26", set())],
)
def test_what_is_known_of_a_newer_server_is_told_in_words_of_the_hosts_revision(version: str, newer: set[str]) -> None:
    known = Catalogue(
        b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},'
        b'"serverInfo":{"name":"s","version":"1","title":"S","icons":[]}}',
        {"tools/list": (b'{"name":"a","inputSchema":{"type":"object"},"title":"A","icons":[]}',)},
    )
    with Talk(known=known) as talk:
        a = talk.joins("a")
        assert a.greets(version)["serverInfo"].keys() == {"name", "version", *newer}
        a.says(request(1, "tools/list"))
        (tool,) = a.hears(result(1, ...))["result"]["tools"]
        assert tool.keys() == {"name", "inputSchema", *newer}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_host_gets_its_version_and_the_rest_as_the_server_said_it(version: str) -> None:
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a")
        a.initializes(version)
        line = a.inbox[0].decode()
        assert f'"protocolVersion":"{version}"' in line
        assert '"serverInfo":{"name":"old","version":"1"},"x":1e400' in line
        a.hears(result("hello", ...))


def test_a_host_with_a_version_of_another_era_gets_the_newest_of_this_one() -> None:
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a")
        assert a.greets("2026-07-28")["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("params", [None, [], {"protocolVersion": "newest"}, {"protocolVersion": 5}])
def test_a_malformed_handshake_can_be_tried_again(params: Any) -> None:
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a")
        a.says(request(1, "initialize", params))
        a.hears(error(1, -32602))
        a.greets()


def test_nothing_goes_on_before_the_handshake() -> None:
    with Talk(known=KNOWN) as talk:
        talk.child_runs({"logging": {}})
        a = talk.joins("a")
        a.says(notification("notifications/initialized"), notification("notifications/vendor"))
        for method in ("tools/list", "tools/call", "logging/setLevel", "vendor/x"):
            a.says(request(1, method))
            a.hears(error(1, -32600, "initialize comes first"))
        a.says(request(2, "ping"))
        a.hears(result(2))
        assert talk.noted("host") == 1


def test_the_catalogue_is_for_hosts_that_made_their_handshake() -> None:
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a")
        a.says(request(1, "tools/list"))
        a.hears(error(1, -32600, "initialize comes first"))


def test_the_probe_is_refused_after_the_handshake_too() -> None:
    with Talk(known=KNOWN) as talk:
        (a,) = talk.hosts("a")
        a.says(request(1, "server/discover"))
        a.hears(error(1, -32601))


# The catalogue


def test_lists_are_answered_without_a_child() -> None:
    with Talk(known=KNOWN) as talk:
        (a,) = talk.hosts("a")
        a.says('{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
        tool = b'{"name":"a","inputSchema":{"type":"object"},"n":1e400}'
        a.hears_text(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[%b]}}' % tool)
        a.says(request(2, "tools/list", [1]), request(3, "tools/list", {"cursor": None}))
        a.hears(error(2, -32602), result(3, ...))
        assert not talk.did(Demand)
        a.says(request(3, "prompts/list"), request(4, "tools/list", {"cursor": "2"}))
        assert len(talk.did(Demand)) == 2
        talk.child_greets(talk.child_starts(), {"tools": {}, "logging": {}})
        talk.server.hears(request(..., "prompts/list"))
        a.hears(error(4, -32602))
        talk.child_lists(tools=["b"])
        a.hears(changed("tools"))


def test_a_host_that_asked_the_catalogue_is_told_of_the_next_change() -> None:
    with Talk(known=KNOWN) as talk:
        (a,) = talk.hosts("a")
        talk.child_runs({"logging": {}}, tools=["b"])
        a.hears(changed("tools"))
        talk.child_dies()
        a.says(request(1, "tools/list"))
        a.hears(result(1, {"tools": [{"name": "b"}]}))
        talk.child_runs({"logging": {}}, tools=["c"])
        a.hears(changed("tools"))


def test_a_host_is_asked_about_a_list_by_the_child_once_it_runs() -> None:
    with Talk(known=KNOWN) as talk:
        talk.child_runs(tools=["a"])
        (a,) = talk.hosts("a")
        a.says(request(1, "tools/list", {"x": 1}))
        talk.server.answers(talk.server.hears(request(..., "tools/list", {"x": 1})), {"tools": []})
        a.hears(result(1, {"tools": []}))


# Requests


@given(OBJECTS, VALUES)
def test_bytes_arrive_untouched(params: str, value: str) -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(f'{{"jsonrpc":"2.0","id":"é","method":"vendor/x","params":{params}}}')
        upstream = json.loads(talk.server.inbox[0])["id"]
        talk.server.hears_text(f'{{"jsonrpc":"2.0","id":{upstream},"method":"vendor/x","params":{params}}}'.encode())
        talk.server.says(f'{{"jsonrpc":"2.0","id":{upstream},"result":{value}}}')
        a.hears_text(f'{{"jsonrpc":"2.0","id":"é","result":{value}}}'.encode())


def test_a_duplicate_is_refused_and_the_first_one_is_answered_once() -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(call(1), call(1), call("1"), request(1, "ping"))
        first, second = talk.server.hears(call(...)), talk.server.hears(call(...))
        a.hears(error(None, -32600), error(None, -32600))
        talk.server.answers(second)
        talk.server.answers(first)
        a.hears(result("1"), result(1))
        a.says(call(1))
        talk.server.answers(talk.server.hears(call(...)))
        a.hears(result(1))


def test_a_progress_token_that_is_none_is_refused() -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(call(1, token=[1]))
        a.hears(error(1, -32602))
        assert not talk.mux.busy


def test_the_reason_of_a_cancel_is_passed_on() -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(call(1))
        asked = talk.server.hears(call(...))
        params = {"requestId": 1, "reason": "é", "_meta": {"x": 1}}
        a.says(notification("notifications/cancelled", params))
        talk.server.hears(notification("notifications/cancelled", {**params, "requestId": asked["id"]}))


# Notifications


def test_unknown_notifications_are_passed_on_while_the_child_runs() -> None:
    vendor = notification("notifications/vendor", {"x": 1})
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(vendor, notification("notifications/vendor", [1]), notification("notifications/roots/list_changed"))
        talk.server.hears(vendor)
        talk.child_dies()
        a.says(vendor)
        assert talk.noted("host") == 2


def test_a_notification_does_not_overtake_what_waits_for_a_child() -> None:
    vendor = notification("notifications/vendor", {"x": 1})
    with Talk(known=KNOWN) as talk:
        (a,) = talk.hosts("a")
        a.says(vendor, call(1), vendor, call(2))
        assert talk.noted("host") == 1  # the first one: nothing was to come then
        talk.child_greets(talk.child_starts(), {"logging": {}, "tools": {}})
        talk.server.hears(call(...), vendor, call(...), request(..., "tools/list"))


def test_roots_that_change_are_told_to_a_child_of_ones_own() -> None:
    with Talk(relay=True) as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(notification("notifications/roots/list_changed"))
        talk.server.hears(notification("notifications/roots/list_changed"))


def test_progress_of_nothing_is_dropped() -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(progress(1, 1), notification("notifications/progress", [1]), result(1))
        assert talk.noted("host") == 2


# What is no message


@pytest.mark.parametrize(
    ("head", "tail", "identity"),
    [
        (b'{"jsonrpc":"2.0","id":"x","method":"y","params":{"z":"', b'"}}', "x"),
        (b'{"method":"y","params":{"z":"', b'"},"id":0}', 0),
        (b'{"method":"y","params":{"id":5,"z":"', b'"}}', None),
        (b'[{"id":1}', b'{"id":2}]', None),
    ],
)
def test_an_over_long_message_is_answered_by_its_id(head: bytes, tail: bytes, identity: Any) -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(Oversized(head, tail, 5000))
        a.hears(error(identity, -32600, "message of 5000 bytes is longer than max_message"))


def test_what_is_broken_does_not_settle_what_is_open() -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(call(1), '{"jsonrpc":"2.0","id":1,"method":"x"', Oversized(b'{"id":1,"method":"x"', b"}", 5000))
        a.hears(error(None, -32700), error(None, -32600))
        talk.server.answers(talk.server.hears(call(...)))
        a.hears(result(1))


# Batches


def batching(*, relay: bool = False) -> tuple[Talk, Any]:
    talk = Talk(relay=relay)
    talk.child_runs()
    return talk, talk.host("a", "2025-03-26", {"roots": {}})


def test_a_batch_is_answered_when_all_of_it_is() -> None:
    talk, a = batching()
    with talk:
        a.says([call(1), call(2), request(3, "ping")])
        first, second = talk.server.hears(call(...)), talk.server.hears(call(...))
        talk.server.answers(second)
        a.says(call(2), call(3))
        a.hears(error(None, -32600), error(None, -32600))  # for the host, they are not answered yet
        talk.server.answers(first)
        a.hears([result(3), result(2), result(1)])
        a.says(call(2))
        talk.server.hears(call(...))


def test_what_is_answered_of_a_batch_waits_like_the_rest_of_it() -> None:
    talk, a = batching()
    with talk:
        a.says([call(1), request(2, "ping"), {**request(3, "ping"), "jsonrpc": "1.0"}])
        # Written down, each once, so that a daemon that takes over knows that the host has none of the answers.
        assert sorted(talk.waiting(a)) == [b"1", b"2", b"3"]
        a.says(request(3, "ping"))
        a.hears(error(None, -32600))
        talk.server.answers(talk.server.hears(call(...)))
        a.hears([result(2), error(3, -32600), result(1)])
        assert talk.waiting(a) == []
        a.says([call(1), cancelled(1), request(3, "ping")])
        asked = talk.server.hears(call(...))
        talk.server.hears(cancelled(asked["id"]))
        a.hears([result(3)])
        assert talk.waiting(a) == []


def test_what_is_cancelled_is_no_part_of_the_answer() -> None:
    talk, a = batching()
    with talk:
        a.says([call(1), request(2, "ping")], cancelled(1))
        asked = talk.server.hears(call(...))
        talk.server.hears(cancelled(asked["id"]))
        a.hears([result(2)])
        a.says([call(1), cancelled(1)])
        asked = talk.server.hears(call(...))
        talk.server.hears(cancelled(asked["id"]))
        a.hears_nothing()


def test_a_batch_whose_child_dies_is_answered_with_errors() -> None:
    talk, a = batching()
    with talk:
        a.says([call(1), call(2)])
        talk.server.hears(call(...), call(...))
        talk.child_dies()
        a.hears([error(1, -32603), error(2, -32603)])


def test_answers_may_come_in_a_batch() -> None:
    talk, a = batching(relay=True)
    with talk:
        a.says(call(1))
        asked = talk.server.hears(call(...))
        talk.server.says(request("q", "roots/list"))
        question = a.hears(request(1, "roots/list"))  # the same id as the host's own open request
        a.says([result(question["id"], {"roots": []})])
        talk.server.hears(result("q", {"roots": []}))
        talk.server.answers(asked)
        a.hears(result(1))


@pytest.mark.parametrize("batch", ["[]", "[1", "[]x", " [] "])
def test_an_array_without_messages_is_one_error(batch: str) -> None:
    talk, a = batching()
    with talk:
        a.says(batch)
        a.hears(error(None, -32600))


def test_what_is_no_array_is_no_batch() -> None:
    talk, a = batching()
    with talk:
        a.says('{"jsonrpc":"2.0","id":1,"method":"x"')
        a.hears(error(1, -32700))


def test_items_that_are_no_messages_are_answered_one_by_one() -> None:
    talk, a = batching()
    with talk:
        a.says(["no", {"jsonrpc": "1.0", "id": 5, "method": "x"}, {"jsonrpc": "2.0", "id": {}, "method": "x"}])
        a.hears([error(None, -32600), error(5, -32600), error(None, -32600)])
