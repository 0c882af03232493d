"""What a host was told and a later child does not offer ends its session (protocol.md 6.8 step 4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import Learned, Parted
from supervisord_mcp.protocol.eras.probe import Terms
from supervisord_mcp.protocol.promises import lacking
from tests.kit.conversation import Host, Talk, call, changed, completed, error, modern, notification, request, result

FULL: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}, "logging": {}, "completions": {}}
LESS: dict[str, Any] = {"tools": {}, "resources": {}}
CAPABILITIES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, False, True, 1, "x", {}]),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


def known(capabilities: bytes) -> Catalogue:
    return Catalogue(
        b'{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"capabilities":%b}' % capabilities
    )


def parted(talk: Talk, *hosts: Host) -> None:
    """These hosts were let go, and no other one; their sessions end."""
    assert [command.session for command in talk.did(Parted) if isinstance(command, Parted)] == [h.key for h in hosts]
    for host in hosts:
        host.leaves()
    assert talk.mux.sessions == len(talk._by_key)


@pytest.mark.parametrize(
    ("told", "offered", "missing"),
    [
        ({}, {"tools": {}}, ()),
        ({"tools": {}}, {}, ("tools",)),
        ({"tools": {}}, {"tools": None}, ("tools",)),
        ({"tools": {}}, {"tools": False}, ("tools",)),
        ({"tools": None, "x": False}, {}, ()),
        ({"resources": {"subscribe": True}}, {"resources": {"listChanged": True}}, ("resources.subscribe",)),
        ({"resources": {"subscribe": True}}, {"resources": {"subscribe": False}}, ("resources.subscribe",)),
        ({"resources": {"subscribe": False}}, {"resources": {}}, ()),
        ({"tasks": {"requests": {"tools": {"call": {}}}}}, {"tasks": {"requests": {}}}, ("tasks.requests.tools",)),
        ({"a": {"b": {}}, "c": {}}, {"a": 1}, ("a.b", "c")),
        ({"experimental": {"x": {"version": 2}}}, {"experimental": {"x": {"version": 1}}}, ()),
    ],
)
def test_what_is_missing_is_named(told: dict[str, Any], offered: dict[str, Any], missing: tuple[str, ...]) -> None:
    assert lacking(told, offered) == missing


@given(st.dictionaries(st.sampled_from("abc"), CAPABILITIES), st.dictionaries(st.sampled_from("abc"), CAPABILITIES))
def test_more_is_never_less(told: dict[str, Any], other: dict[str, Any]) -> None:
    assert lacking(told, told) == ()
    assert lacking(told, {**other, **told}) == ()
    for name in lacking(told, other):
        first = name.split(".")[0]
        assert told[first] not in (None, False)
        assert lacking(told, {**other, first: told[first]}) == tuple(
            one for one in lacking(told, other) if one.split(".")[0] != first
        )


def test_a_host_of_which_more_was_promised_is_let_go_with_a_reason() -> None:
    with Talk() as talk:
        talk.child_runs(FULL)
        a, b = talk.hosts("a", "b")
        m = talk.joins("m")
        m.says(modern(1, "tools/list"))
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": []})
        m.hears(completed(1, {"tools": []}, ttlMs=0, cacheScope="private"))
        a.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        talk.server.answers(talk.server.hears(request(..., "resources/subscribe", ...)))
        a.hears(result(1))
        talk.child_dies()
        talk.child_begins()
        a.says(call(2))  # it waits for the child
        opening = talk.server.hears(request(..., "initialize", ...))
        talk.child_greets(opening, LESS)
        told = a.hears(error(2, -32603))["error"]
        assert told["data"] == {"reason": "server_changed"}
        assert "does not offer prompts, resources.subscribe, logging, completions any more" in told["message"]
        talk.child_lists()  # and nothing else: neither the call nor the subscription
        parted(talk, a, b)
        m.says(modern(2, "tools/call", {"name": "x"}))
        talk.server.answers(talk.server.hears(call(..., "x") | {"params": {"name": "x"}}), {"content": []})
        m.hears(completed(2, {"content": []}))
        c = talk.joins("c")
        offered = c.greets()["capabilities"]
        assert offered == {"tools": {"listChanged": True}, "resources": {"listChanged": True}}


def test_who_was_told_no_more_than_is_offered_goes_on() -> None:
    with Talk() as talk:
        talk.child_runs(LESS)
        (a,) = talk.hosts("a")
        talk.child_dies()
        talk.child_runs({**FULL, "tasks": {}})
        b = talk.host("b")
        old = talk.host("old", "2024-11-05")
        talk.child_dies()
        talk.child_runs(FULL)  # of completions and tasks the oldest one was not told
        parted(talk, b)
        a.says(call(1))
        talk.server.answers(talk.server.hears(call(...)), {"content": []})
        a.hears(result(1, ...))
        old.says(request(1, "ping"))
        old.hears(result(1))


def test_the_revision_and_the_era_of_a_child_are_none_of_a_hosts_business() -> None:
    with Talk() as talk:
        talk.child_runs(LESS)
        (a,) = talk.hosts("a")
        talk.child_dies()
        talk.child_runs(LESS, version="2024-11-05")
        talk.child_dies()
        talk.terms = Terms("modern")
        talk.modern_child_runs(LESS)
        parted(talk)
        a.says(call(1))
        talk.server.answers(talk.server.hears(call(...) | {"params": ...}), {"resultType": "complete", "content": []})
        a.hears(result(1, {"content": []}))
        talk.child_dies()
        talk.modern_child_runs({"tools": {}})
        parted(talk, a)


def test_what_the_catalogue_promised_is_compared_with_the_first_child() -> None:
    with Talk(known=known(b'{"tools":{},"prompts":{}}')) as talk:
        (a,) = talk.hosts("a")
        late = talk.joins("late")
        a.says(call(1))
        opening = talk.child_starts()
        late.initializes()
        late.hears(result("hello", ...))
        talk.child_greets(opening, {"tools": {}})
        a.hears(error(1, -32603))
        talk.child_lists()
        parted(talk, a, late)


def test_what_a_child_offers_is_kept_though_it_may_end_with_its_host() -> None:
    listed: dict[str, tuple[bytes, ...]] = {"tools/list": (b'{"name":"t"}',), "prompts/list": (b'{"name":"p"}',)}
    before = Catalogue(known(b'{"tools":{},"prompts":{}}').handshake, listed)
    with Talk(known=before) as talk:
        a, b = talk.hosts("a", "b")
        talk.child_greets(talk.child_starts(), {"tools": {}})
        # Kept once, before the hosts are let go; of the lists what is known of those that are still offered.
        (learnt,) = [one for one in talk.did(Learned) if isinstance(one, Learned)]
        assert learnt.catalogue.capabilities == {"tools": {}}
        assert learnt.catalogue.lists == {"tools/list": (b'{"name":"t"}',)}
        assert talk.others.index(learnt) < min(talk.others.index(one) for one in talk.did(Parted))
        talk.child_lists(tools=["t"])
        parted(talk, a, b)


def test_a_host_that_was_not_answered_yet_is_told_what_there_is() -> None:
    with Talk() as talk:
        talk.child_runs(FULL)
        talk.child_dies()
        asks = talk.joins("asks")
        asks.initializes()
        asks.hears(result("hello", ...))
        talk.child_runs(FULL)
        hasty = talk.joins("hasty")
        hasty.initialized()
        parted(talk)


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("told", [None, {"tools": {}}, {"prompts": {}}])
def test_what_was_told_is_known_over_a_death_of_the_daemon(ready: bool, told: Any) -> None:
    state = State(version="2025-11-25", client={"name": "a"}, initialized=True, told=told, uris=["u:1"])
    with Talk() as talk:
        if ready:
            talk.child_runs(LESS)
        a = talk.joins("a", state)
        if not ready:
            talk.child_runs(LESS)
        if told == {"prompts": {}}:
            parted(talk, a)
            return
        talk.server.answers(talk.server.hears(request(..., "resources/subscribe", {"uri": "u:1"})))
        a.hears(notification("notifications/resources/updated", {"uri": "u:1"}))
        parted(talk)
        kept = talk.mux.state(a.key).told
        if told is not None:
            assert kept == told
            return
        # Nobody had promised anything: what the first child offers is what counts.
        assert kept is not None
        assert kept.keys() == LESS.keys()
        talk.child_dies()
        talk.child_runs({"tools": {}})
        parted(talk, a)


def test_of_a_list_that_is_new_only_those_are_told_who_were_told_of_it() -> None:
    with Talk() as talk:
        talk.child_runs(tools=["a"])
        (a,) = talk.hosts("a")
        talk.child_dies()
        talk.child_runs(tools=["b"], prompts=["p"])
        a.hears(changed("tools"))
        b = talk.host("b")
        talk.server.says(changed("prompts"))
        talk.child_lists(tools=["b"], prompts=["p"])
        b.hears(changed("prompts"))


def test_lists_that_changed_are_announced_where_the_rest_is_the_same() -> None:
    with Talk() as talk:
        talk.child_runs({"logging": {}}, tools=["a"])
        (a,) = talk.hosts("a")
        talk.child_dies()
        talk.child_runs({"logging": {}}, tools=["b"])
        a.hears(changed("tools"))
        parted(talk)
