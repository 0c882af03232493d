"""Listens of modern hosts at a modern child: one upstream for each, retagged (protocol.md 6.4, 6.8)."""

from __future__ import annotations

from typing import Any

import pytest

from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import Demand
from supervisord_mcp.protocol.eras.listening import MAX_LISTENS, TASKS
from supervisord_mcp.protocol.eras.probe import Terms
from tests.kit.conversation import (
    MCP,
    SERVER,
    Host,
    Json,
    Talk,
    cancelled,
    changed,
    complete,
    error,
    modern,
    notification,
    request,
    result,
)

TERMS = Terms("modern")
WITH_TASKS: Json = {"extensions": {TASKS: {}}}
OFFERED: Json = {"tools": {"listChanged": True}, "prompts": {}}
KNOWN = Catalogue(
    b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{}},'
    b'"serverInfo":{"name":"fake","version":"1"}}',
    {"tools/list": (b'{"name":"old","inputSchema":{"type":"object"}}',)},
    b'{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}',
)


def listen(identity: Any, wanted: Json = None, **envelope: Any) -> dict[str, Any]:
    return modern(identity, "subscriptions/listen", {"notifications": wanted or {}}, **envelope)


def tag(identity: Any, message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "params": {**message.get("params", {}), "_meta": {f"{MCP}subscriptionId": identity}}}


def acknowledged(identity: Any, honoured: Json = None) -> dict[str, Any]:
    return tag(identity, notification("notifications/subscriptions/acknowledged", {"notifications": honoured or {}}))


def updated(uri: str = "u:1") -> dict[str, Any]:
    return notification("notifications/resources/updated", {"uri": uri})


def final(identity: Any) -> dict[str, Any]:
    told = {f"{MCP}subscriptionId": identity, f"{MCP}serverInfo": SERVER}
    return result(identity, {"resultType": "complete", "_meta": told})


def served(talk: Talk, offered: Json = None) -> None:
    """A modern child runs; what the daemon asked for itself is answered or heard."""
    talk.modern_child_runs(OFFERED if offered is None else offered)
    talk.child_lists()
    while talk.server.inbox:
        talk.server.hears(...)


def listens(talk: Talk, host: Host, identity: Any, wanted: Json, **envelope: Any) -> Any:
    """A host listens, and the child acknowledges all of it; return the upstream id."""
    host.says(listen(identity, wanted, **envelope))
    upstream = talk.server.hears(listen(..., wanted, **envelope))["id"]
    talk.server.says(acknowledged(upstream, wanted))
    host.hears(acknowledged(identity, wanted))
    return upstream


@pytest.mark.parametrize("identity", [0, "", "0", -3, "listen-1"])
def test_the_tag_is_exchanged_in_everything(identity: Any) -> None:
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["u:1"]}
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        upstream = listens(talk, a, identity, wanted)
        talk.server.says(tag(upstream, updated("u:1/part")), tag(upstream, changed("tools")))
        a.hears(tag(identity, updated("u:1/part")), tag(identity, changed("tools")))
        talk.server.says(final(upstream), cancelled(upstream))
        a.hears(final(identity), cancelled(identity))
        assert not len(talk.mux._modern.tunnels)
        assert not talk.waiting(a)


def test_each_host_has_its_own() -> None:
    wanted = {"toolsListChanged": True}
    with Talk(terms=TERMS) as talk:
        served(talk)
        a, b = talk.joins("a"), talk.joins("b")
        first, second = listens(talk, a, 1, wanted), listens(talk, b, 1, wanted)
        assert first != second
        talk.server.says(tag(second, changed("tools")))
        b.hears(tag(1, changed("tools")))
        a.says(cancelled(1))
        talk.server.hears(cancelled(first))
        talk.server.says(tag(first, changed("tools")), tag(second, changed("tools")))
        b.hears(tag(1, changed("tools")))
        assert not talk.waiting(a)
        b.leaves()
        talk.server.hears(cancelled(second))
        assert not len(talk.mux._modern.tunnels)


def test_the_child_may_end_it_by_a_notification_too() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        upstream = listens(talk, a, 1, {"toolsListChanged": True})
        talk.server.says(cancelled(upstream), final(upstream))
        a.hears(final(1), cancelled(1))
        a.says(cancelled(1))


def test_a_refusal_is_passed_on() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        a.says(listen("x", {"toolsListChanged": True}))
        talk.server.fails(talk.server.hears(listen(..., ...) | {"params": ...}), -32603, "no", {"why": 1})
        a.hears(error("x", -32603, "no", {"why": 1}))
        upstream = listens(talk, a, 1, {"toolsListChanged": True})
        talk.server.fails({"id": upstream}, -32000, "Connection closed")
        a.hears(error(1, -32000, "Connection closed"))
        assert not len(talk.mux._modern.tunnels)


def test_nothing_comes_before_the_acknowledgement_and_nothing_that_was_not_asked_for() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        a.says(listen(1, {"promptsListChanged": True}))
        upstream = talk.server.hears(...)["id"]
        talk.server.says(tag(upstream, changed("prompts")))
        talk.server.says(acknowledged(upstream, {"promptsListChanged": True}), acknowledged(upstream))
        a.hears(acknowledged(1, {"promptsListChanged": True}))
        vendor = notification("notifications/vendor", {"x": 1})
        talk.server.says(tag(upstream, changed("tools")), tag(upstream, updated()), tag(upstream, vendor))
        a.hears(tag(1, vendor))
        talk.server.says(tag(99, changed("prompts")), changed("prompts"), cancelled(99), cancelled("x"))
        assert talk.noted("unrouted") == 5


def test_a_change_makes_what_was_kept_old() -> None:
    page: Json = complete({"tools": [], "ttlMs": 5000})
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        upstream = listens(talk, a, "l", {"toolsListChanged": True, "resourceSubscriptions": ["u:1"]})
        for identity, method, params, change in (
            (1, "tools/list", {}, changed("tools")),
            (2, "resources/read", {"uri": "u:1"}, updated()),
        ):
            for _ in range(2):
                a.says(modern(identity, method, params))
                talk.server.answers(talk.server.hears(modern(..., method, params)), page)
                a.hears(result(identity, page))
                talk.server.says(tag(upstream, change))
                a.hears(tag("l", change))


def test_tasks_of_others_are_left_out() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        a.says(modern(1, "tools/call", {"name": "x"}, capabilities=WITH_TASKS))
        talk.server.answers(talk.server.hears(...), {"resultType": "task", "taskId": "mine", "status": "working"})
        a.hears(result(1, ...))
        a.says(listen(2, {"taskIds": ["mine", "other"]}, capabilities=WITH_TASKS))
        upstream = talk.server.hears(listen(..., {"taskIds": ["mine"]}, capabilities=WITH_TASKS))["id"]
        told = notification("notifications/tasks", {"taskId": "mine", "status": "completed"})
        talk.server.says(acknowledged(upstream, {"taskIds": ["mine"]}), tag(upstream, told))
        a.hears(acknowledged(2, {"taskIds": ["mine"]}), tag(2, told))
        assert talk.mux.busy
        a.says(cancelled(2))
        talk.server.hears(cancelled(upstream))
        assert not talk.mux.busy


@pytest.mark.parametrize("tasks", ["t", [1], {}])
def test_tasks_are_a_list_of_names(tasks: Any) -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        a.says(listen(1, {"taskIds": tasks}, capabilities=WITH_TASKS))
        a.hears(error(1, -32602))


def test_a_listen_for_resources_keeps_the_child_and_one_for_lists_does_not() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        listens(talk, a, 1, {"toolsListChanged": True})
        assert not talk.mux.busy
        listens(talk, a, 2, {"resourceSubscriptions": ["u:1"]})
        assert talk.mux.busy


def test_listens_outlive_the_child_and_its_orderly_end() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        first = listens(talk, a, 1, {"toolsListChanged": True})
        second = listens(talk, a, 2, {"resourceSubscriptions": ["u:1"]})
        third = listens(talk, a, 3, {})
        a.says(listen(4))
        talk.server.hears(...)
        talk.child_stops()
        talk.server.says(final(first), cancelled(second))
        talk.server.fails({"id": third}, -32000, "Connection closed")
        talk.child_dies("it ended")
        a.hears(error(4, -32603, "it ended"))
        assert len(talk.mux._modern.tunnels) == 3
        talk.child_begins()
        talk.server.answers(talk.server.hears(request(..., "server/discover", ...)), _discovered(talk))
        talk.child_lists()
        asked = [talk.server.hears(...) for _ in range(len(talk.server.inbox))]
        again = {str(one["params"]["notifications"]): one["id"] for one in asked[1:]}
        # A change may have been missed.
        a.hears(tag(2, updated()))
        for upstream in again.values():
            talk.server.says(acknowledged(upstream))
        talk.server.says(tag(again["{'toolsListChanged': True}"], changed("tools")))
        a.hears(tag(1, changed("tools")))


def _discovered(talk: Talk) -> Json:
    return {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": OFFERED}


def test_lists_are_listened_for_without_a_child() -> None:
    wanted = {"toolsListChanged": True, "promptsListChanged": True}
    with Talk(terms=TERMS, known=KNOWN) as talk:
        a = talk.joins("a")
        a.says(listen(1, wanted))
        a.hears(acknowledged(1, {"toolsListChanged": True}))
        assert not talk.did(Demand)
        a.says(listen(2, {"resourceSubscriptions": ["u:1"]}))
        assert talk.did(Demand)
        talk.child_begins()
        talk.server.answers(talk.server.hears(request(..., "server/discover", ...)), _discovered(talk))
        talk.child_lists(tools=["new"])
        # The tools are not those of before; the child cannot know that.
        a.hears(tag(1, changed("tools")))
        upstreams = [one["id"] for one in (talk.server.hears(...) for _ in range(len(talk.server.inbox)))]
        talk.server.says(acknowledged(upstreams[-1], {"resourceSubscriptions": ["u:1"]}))
        a.hears(acknowledged(2, {"resourceSubscriptions": ["u:1"]}))


def test_a_child_of_the_other_era_ends_the_listens_of_the_old_one() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        listens(talk, a, 1, {"toolsListChanged": True})
        talk.child_dies()
        talk.terms = Terms("legacy")
        talk.child_runs()
        a.hears(final(1), cancelled(1))
        a.says(listen(1, {"toolsListChanged": True}))
        a.hears(acknowledged(1))
        talk.child_dies()
        talk.terms = TERMS
        served(talk)
        assert talk.waiting(a) == [b"1"]


def test_a_host_that_moves_is_told_the_end() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        upstream = listens(talk, a, 1, {"toolsListChanged": True})
        talk._apply(talk.mux.fail_session(a.key, "moved"))
        talk.server.hears(cancelled(upstream))
        a.hears(final(1), cancelled(1))


def test_a_legacy_host_shares_the_child() -> None:
    with Talk(terms=TERMS) as talk:
        served(talk)
        a, b = talk.joins("a"), talk.host("b")
        upstream = listens(talk, a, 1, {"toolsListChanged": True})
        talk.server.says(tag(upstream, changed("tools")))
        a.hears(tag(1, changed("tools")))
        b.says(request(2, "tools/call", {"name": "x"}))
        talk.server.answers(talk.server.hears(...), complete({"content": []}))
        b.hears(result(2, {"content": []}))
        a.says(modern(2, "tools/call", {"name": "x"}))
        talk.server.answers(talk.server.hears(...), complete({"content": []}))
        a.hears(result(2, complete({"content": []})))


def test_there_is_one_limit_for_all_listens_of_a_host() -> None:
    with Talk(terms=TERMS, known=KNOWN) as talk:
        a = talk.joins("a")
        for identity in range(MAX_LISTENS):
            a.says(listen(identity))
            a.hears(acknowledged(identity))
        a.says(listen("more"))
        a.hears(error("more", -32603, "Subscription limit reached"))


# Over a death of the daemon (D11, 6.8 step 3)


@pytest.mark.parametrize("ready", [True, False])
def test_a_listen_goes_on_at_the_next_daemon(ready: bool) -> None:
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["u:1"], "vendor": {"x": 1}}
    with Talk(terms=TERMS) as talk:
        served(talk)
        a = talk.joins("a")
        listens(talk, a, "l", {**wanted, "taskIds": []}, capabilities=WITH_TASKS)
        a.says(listen("open", {"toolsListChanged": True}))
        talk.server.hears(listen(..., {"toolsListChanged": True}))
        state = talk.mux.state(a.key)
    kept = state.listens['"l"']
    assert kept["notifications"] == wanted  # its tasks are gone with the child
    with Talk(terms=TERMS, known=KNOWN) as talk:
        if ready:
            served(talk)
        a = talk.joins("a", state)
        assert bool(talk.did(Demand)) is not ready
        if not ready:
            talk.modern_child_runs(OFFERED)
            talk.server.hears(request(..., "subscriptions/listen", ...))  # the daemon's own
        upstream = talk.server.hears(listen(..., wanted, capabilities=WITH_TASKS))["id"]
        talk.server.inbox.clear()
        a.hears(tag("l", updated()))
        talk.server.says(acknowledged(upstream, wanted), tag(upstream, changed("tools")))
        while a.inbox:
            a.hears(tag("l", changed("tools")))
        assert talk.mux.state(a.key) == state
        talk.server.fails({"id": upstream}, -32603, "full")
        a.hears(error("l", -32603, "full"))
        assert not talk.mux.state(a.key).listens


def test_a_listen_that_was_acknowledged_without_a_child_is_kept_as_it_was_honoured() -> None:
    with Talk(terms=TERMS, known=KNOWN) as talk:
        a = talk.joins("a")
        a.says(listen(1, {"toolsListChanged": True, "promptsListChanged": True}))
        a.hears(acknowledged(1, {"toolsListChanged": True}))
        state = talk.mux.state(a.key)
    assert state.listens["1"]["notifications"] == {"toolsListChanged": True}
    with Talk(terms=TERMS, known=KNOWN) as talk:
        a = talk.joins("a", state)
        assert not talk.did(Demand)
        talk.child_begins()
        talk.server.hears(request(..., "server/discover", ...))
        a.says(cancelled(1))
        assert not talk.waiting(a)


def test_a_listen_from_before_ends_at_a_child_of_the_other_era() -> None:
    state = State(version="2026-07-28", era="modern", listens={"1": {"notifications": {"toolsListChanged": True}}})
    with Talk(known=KNOWN) as talk:
        a = talk.joins("a", state)
        talk.child_runs({"tools": {}})
        a.hears(final(1), cancelled(1))
        assert not talk.waiting(a)
