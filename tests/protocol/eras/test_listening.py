"""`subscriptions/listen` of modern hosts, served from a legacy child (protocol.md 3.7, 6.4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import Demand, Remember
from supervisord_mcp.protocol.eras import listening
from tests.kit.conversation import (
    MCP,
    MODERN,
    SERVER,
    Host,
    Json,
    Talk,
    cancelled,
    changed,
    error,
    modern,
    notification,
    request,
    result,
)

OFFERED = {"tools": {}, "resources": {"subscribe": True}}
KNOWN = Catalogue(b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true}}}')


def listen(identity: Any, wanted: Json = None, **envelope: Any) -> dict[str, Any]:
    return modern(identity, "subscriptions/listen", {"notifications": wanted or {}}, **envelope)


def tagged(identity: Any, message: dict[str, Any], **meta: Any) -> dict[str, Any]:
    params = {**message.get("params", {}), "_meta": {**meta, f"{MCP}subscriptionId": identity}}
    return {**message, "params": params}


def acknowledged(identity: Any, honoured: Json = None) -> dict[str, Any]:
    return tagged(identity, notification("notifications/subscriptions/acknowledged", {"notifications": honoured or {}}))


def updated(uri: str = "u:1") -> dict[str, Any]:
    return notification("notifications/resources/updated", {"uri": uri})


def served(talk: Talk) -> Host:
    """A child that offers tools and resources, and a host."""
    talk.child_runs(OFFERED)
    return talk.joins("a")


def subscribed(talk: Talk, uri: str = "u:1") -> None:
    """The child accepts the next subscription."""
    talk.server.answers(talk.server.hears(request(..., "resources/subscribe", {"uri": uri})))


@pytest.mark.parametrize("identity", [0, "", "0", -3, "listen-1"])
def test_everything_of_a_listen_has_its_very_id(identity: Any) -> None:
    with Talk() as talk:
        a = served(talk)
        a.says(listen(identity, {"toolsListChanged": True, "resourceSubscriptions": ["u:1"]}))
        subscribed(talk)
        a.hears(acknowledged(identity, {"toolsListChanged": True, "resourceSubscriptions": ["u:1"]}))
        talk.server.says(updated(), {**changed("tools"), "params": {"_meta": {"x": 1}}})
        talk.child_lists()
        a.hears(tagged(identity, updated()), tagged(identity, changed("tools")))
        talk._apply(talk.mux.fail_session(a.key, "over"))
        final = {"resultType": "complete", "_meta": {f"{MCP}subscriptionId": identity, f"{MCP}serverInfo": SERVER}}
        a.hears(result(identity, final), cancelled(identity))
        talk.server.hears(request(..., "resources/unsubscribe", {"uri": "u:1"}))


def test_only_what_is_offered_is_honoured() -> None:
    with Talk() as talk:
        a = served(talk)
        everything = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
        a.says(listen(1, everything), listen(2), listen(3, {"toolsListChanged": False, "unknown": 1}))
        a.hears(acknowledged(1, {"toolsListChanged": True, "resourcesListChanged": True}))
        a.hears(acknowledged(2), acknowledged(3))


def test_a_child_without_subscriptions_gets_none() -> None:
    with Talk() as talk:
        talk.child_runs({"resources": {}})
        a = talk.joins("a")
        a.says(listen(1, {"resourceSubscriptions": ["u:1"]}))
        a.hears(acknowledged(1))


def test_only_asked_kinds_go_out() -> None:
    with Talk() as talk:
        a = served(talk)
        a.says(listen(1, {"toolsListChanged": True}), listen(2, {"resourcesListChanged": True}))
        a.hears(acknowledged(1, {"toolsListChanged": True}), acknowledged(2, {"resourcesListChanged": True}))
        talk.server.says(changed("resources"))
        talk.child_lists()
        talk.server.says(changed("prompts"))
        talk.child_lists()
        a.hears(tagged(2, changed("resources")))


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"notifications": []},
        {"notifications": None},
        {"notifications": {"toolsListChanged": 1}},
        {"notifications": {"toolsListChanged": "true"}},
        {"notifications": {"resourceSubscriptions": "u:1"}},
        {"notifications": {"resourceSubscriptions": [1]}},
        {"notifications": {"resourceSubscriptions": {}}},
    ],
)
def test_a_filter_that_is_none_is_refused(params: dict[str, Any]) -> None:
    with Talk() as talk:
        a = served(talk)
        a.says(modern(1, "subscriptions/listen", params))
        a.hears(error(1, -32602))
        assert not len(talk.mux._modern.listening)


def test_a_filter_by_tasks_needs_the_extension() -> None:
    with Talk() as talk:
        a = served(talk)
        a.says(listen(1, {"taskIds": ["t"]}))
        needed: Json = {"requiredCapabilities": {"extensions": {listening.TASKS: {}}}}
        a.hears(error(1, -32021, ..., needed))
        a.says(listen(2, {"taskIds": ["t"]}, capabilities={"extensions": {listening.TASKS: {}}}))
        a.hears(acknowledged(2))


def test_lists_are_listened_for_without_a_child() -> None:
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a")
        a.says(listen(1, {"toolsListChanged": True}))
        a.hears(acknowledged(1, {"toolsListChanged": True}))
        assert not talk.did(Demand)
        assert not talk.mux.busy
        talk.child_runs({"resources": {"subscribe": True}}, tools=["new"])
        a.hears(tagged(1, changed("tools")))
        talk.child_dies()
        talk.child_runs({"resources": {"subscribe": True}}, tools=["newer"])
        a.hears(tagged(1, changed("tools")))


def test_resources_are_listened_for_with_a_child() -> None:
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a")
        a.says(listen(1, {"resourceSubscriptions": ["u:1", "u:2", "u:1"]}), listen(2, {"toolsListChanged": True}))
        a.hears(acknowledged(2, {"toolsListChanged": True}))
        assert talk.did(Demand)
        talk.child_runs(OFFERED)
        first = talk.server.hears(request(..., "resources/subscribe", {"uri": "u:1"}))
        second = talk.server.hears(request(..., "resources/subscribe", {"uri": "u:2"}))
        talk.server.answers(second)
        a.hears_nothing()
        talk.server.fails(first, -32002)
        a.hears(acknowledged(1, {"resourceSubscriptions": ["u:2"]}))
        assert talk.mux.busy


def test_nothing_comes_before_the_acknowledgement() -> None:
    with Talk() as talk:
        a = served(talk)
        (b,) = talk.hosts("b")
        b.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        subscribed(talk)
        b.hears(result(1))
        a.says(listen(1, {"toolsListChanged": True, "resourceSubscriptions": ["u:1", "u:2"]}))
        talk.server.says(updated("u:1"), changed("tools"))
        talk.child_lists()
        b.hears(updated("u:1"), changed("tools"))
        a.hears_nothing()
        subscribed(talk, "u:2")
        a.hears(
            acknowledged(1, {"toolsListChanged": True, "resourceSubscriptions": ["u:1", "u:2"]}),
            tagged(1, updated("u:1")),
            tagged(1, changed("tools")),
        )


def test_listens_and_hosts_share_one_subscription() -> None:
    with Talk() as talk:
        a = served(talk)
        (b,) = talk.hosts("b")
        a.says(listen(1, {"resourceSubscriptions": ["u:1"]}), listen(2, {"resourceSubscriptions": ["u:1"]}))
        b.says(request(3, "resources/subscribe", {"uri": "u:1"}))
        subscribed(talk)
        a.hears(
            acknowledged(1, {"resourceSubscriptions": ["u:1"]}), acknowledged(2, {"resourceSubscriptions": ["u:1"]})
        )
        b.hears(result(3))
        talk.server.says(updated("u:1/part"))
        a.hears(tagged(1, updated("u:1/part")), tagged(2, updated("u:1/part")))
        b.hears(updated("u:1/part"))
        a.says(cancelled(1))
        b.says(request(4, "resources/unsubscribe", {"uri": "u:1"}))
        b.hears(result(4))
        talk.server.says(updated("u:1"))
        a.hears(tagged(2, updated("u:1")))
        a.says(cancelled(2))
        talk.server.hears(request(..., "resources/unsubscribe", {"uri": "u:1"}))
        assert not talk.mux.busy


def test_a_refusal_is_one_listen_s_alone() -> None:
    with Talk() as talk:
        a = served(talk)
        a.says(listen(1, {"resourceSubscriptions": ["u:1"]}), listen(2, {"resourceSubscriptions": ["u:1"]}))
        talk.server.fails(talk.server.hears(request(..., "resources/subscribe", {"uri": "u:1"})), -32002)
        a.hears(acknowledged(1))
        subscribed(talk)
        a.hears(acknowledged(2, {"resourceSubscriptions": ["u:1"]}))


def test_a_cancelled_listen_gets_nothing_more_and_no_answer() -> None:
    with Talk() as talk:
        a = served(talk)
        a.says(listen(1, {"resourceSubscriptions": ["u:1"], "toolsListChanged": True}))
        asked = talk.server.hears(request(..., "resources/subscribe", {"uri": "u:1"}))
        a.says(cancelled(1))
        talk.server.answers(asked)
        talk.server.hears(request(..., "resources/unsubscribe", {"uri": "u:1"}))
        talk.server.says(changed("tools"), updated())
        talk.child_lists()
        assert not talk.waiting(a)
        a.says(listen(1, {"toolsListChanged": True}))
        a.hears(acknowledged(1, {"toolsListChanged": True}))


def test_the_id_of_an_open_listen_is_in_use() -> None:
    with Talk() as talk:
        a = served(talk)
        a.says(listen(1), listen(1))
        a.hears(acknowledged(1), error(None, -32600))


def test_a_host_that_leaves_lets_go() -> None:
    with Talk() as talk:
        a = served(talk)
        a.says(listen(1, {"resourceSubscriptions": ["u:1"]}), listen(2, {"resourceSubscriptions": ["u:2"]}))
        subscribed(talk)
        a.hears(acknowledged(1, {"resourceSubscriptions": ["u:1"]}))
        asked = talk.server.hears(request(..., "resources/subscribe", {"uri": "u:2"}))
        a.leaves()
        talk.server.hears(request(..., "resources/unsubscribe", {"uri": "u:1"}))
        talk.server.answers(asked)
        talk.server.hears(request(..., "resources/unsubscribe", {"uri": "u:2"}))
        assert not len(talk.mux._modern.listening)
        assert not talk.mux.busy


def test_listens_outlive_the_child() -> None:
    with Talk() as talk:
        a = served(talk)
        a.says(listen(1, {"resourceSubscriptions": ["u:1"]}), listen(2, {"resourceSubscriptions": ["u:2"]}))
        subscribed(talk)
        a.hears(acknowledged(1, {"resourceSubscriptions": ["u:1"]}))
        talk.server.hears(request(..., "resources/subscribe", {"uri": "u:2"}))
        talk.child_dies("it died")
        a.hears(error(2, -32603, "it died"))
        talk.child_runs(OFFERED)
        subscribed(talk)
        # It may have missed a change.
        a.hears(tagged(1, updated()))


def test_a_change_that_a_child_announces_at_its_start_is_told_to_who_asked_it() -> None:
    with Talk(known=KNOWN) as talk:
        a, b = talk.joins("a"), talk.joins("b")
        for host in (a, b):
            host.says(listen(1, {"toolsListChanged": True}))
            host.hears(acknowledged(1, {"toolsListChanged": True}))
        a.says(modern(2, "prompts/list"), modern(3, "tools/call", {"name": "x"}))
        talk.child_greets(talk.child_starts(), OFFERED)
        talk.server.says(changed("tools"))
        lists = [talk.server.hears(...) for _ in range(len(talk.server.inbox))]
        assert [message["method"] for message in lists].count("tools/list") == 1
        talk.child_dies()
        a.hears(error(2, -32603), error(3, -32603))


def test_a_server_without_a_name_is_not_named() -> None:
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a")
        a.says(listen(1))
        a.hears(acknowledged(1))
        talk._apply(talk.mux.fail_session(a.key, "over"))
        a.hears(result(1, {"resultType": "complete", "_meta": {f"{MCP}subscriptionId": 1}}), cancelled(1))


def test_there_is_a_limit() -> None:
    with Talk() as talk:
        a = served(talk)
        for identity in range(listening.MAX_LISTENS):
            a.says(listen(identity))
            a.hears(acknowledged(identity))
        a.says(listen("more"))
        a.hears(error("more", -32603, "Subscription limit reached"))
        b = talk.joins("b")
        b.says(listen(1))
        b.hears(acknowledged(1))


# Over a death of the daemon (D11, 6.8 step 3)


@pytest.mark.parametrize("identity", [0, "", "0", -3, "lis\\ten-é"])
@pytest.mark.parametrize("ready", [True, False])
def test_a_listen_goes_on_at_the_next_daemon(identity: Any, ready: bool) -> None:
    wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["u:1", "u:2"]}
    with Talk() as talk:
        a = served(talk)
        a.says(listen(identity, wanted), listen("open", {"resourceSubscriptions": ["u:3"]}))
        subscribed(talk)
        refused = talk.server.hears(request(..., "resources/subscribe", {"uri": "u:2"}))
        talk.server.fails(refused, -32602)
        honoured = {"toolsListChanged": True, "resourceSubscriptions": ["u:1"]}
        a.hears(acknowledged(identity, honoured))
        talk.server.hears(request(..., "resources/subscribe", {"uri": "u:3"}))
        state = talk.mux.state(a.key)
    assert state.listens == {json.dumps(identity): {"notifications": honoured}}  # what was not acknowledged is not kept
    with Talk(known=KNOWN) as talk:
        if ready:
            talk.child_runs(OFFERED)
        a = talk.joins("a", state)
        assert bool(talk.did(Demand)) is not ready
        if not ready:
            talk.child_runs(OFFERED)
        subscribed(talk)
        a.hears(tagged(identity, updated()))  # what it may have missed
        talk.server.says(updated(), changed("tools"), changed("prompts"))
        talk.child_lists()
        a.hears(tagged(identity, updated()), tagged(identity, changed("tools")))
        assert talk.mux.state(a.key) == state
        talk.child_lists()  # for the second change
        a.says(cancelled(identity))
        talk.server.hears(request(..., "resources/unsubscribe", {"uri": "u:1"}))
        assert talk.mux.state(a.key).listens == {}
        assert not talk.waiting(a)


def test_no_child_is_started_for_a_listen_that_a_catalogue_serves() -> None:
    state = State(version=MODERN, era="modern", listens={"1": {"notifications": {"toolsListChanged": True}}})
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a", state)
        assert not talk.did(Demand)
        talk.child_runs(OFFERED, tools=["new"])
        a.hears(tagged(1, changed("tools")))


def test_a_listen_whose_record_is_damaged_is_refused() -> None:
    damaged: dict[str, Any] = {"1": {"notifications": {"toolsListChanged": 7}}, "3": {"notifications": {}, "_meta": {}}}
    state = State(version=MODERN, era="modern", listens={**damaged, "2": {"notifications": {}}})
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a", state)
        a.hears(error(1, -32602), error(3, -32602))
        assert talk.waiting(a) == [b"2"]


def test_an_ended_listen_is_not_kept() -> None:
    with Talk() as talk:
        a = served(talk)
        a.says(listen(1, {"toolsListChanged": True}))
        a.hears(acknowledged(1, {"toolsListChanged": True}))
        assert talk.mux.state(a.key).listens
        commands = talk.mux.fail_session(a.key, "over")
        assert commands[-1] == Remember(a.key)
        assert not talk.mux.state(a.key).listens
