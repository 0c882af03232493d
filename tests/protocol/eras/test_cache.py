"""What may be given again, for how long, and what ends that (protocol.md 3.11)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.alarms import Alarms
from supervisord_mcp.protocol.commands import Alarm
from supervisord_mcp.protocol.eras.cache import LONGEST, Cache, Question, question_of
from tests.kit.conversation import Host, Talk, changed, complete, discovered, request, result
from tests.protocol.eras.talking import acknowledged, listens, modern, tagged

WATCHES = {kind: {"listChanged": True} for kind in ("tools", "resources")}


def page(*names: str, ttl: Any = 1000, **more: Any) -> dict[str, Any]:
    """Return a page of tools."""
    hints = {} if ttl is None else {"ttlMs": ttl, "cacheScope": "public"}
    return {**complete({"tools": [{"name": name} for name in names]}), **hints, **more}


def lists(talk: Talk, host: Host, identity: Any, cursor: str | None = None) -> None:
    """A host asks for a page."""
    host.says(request(identity, "tools/list", None if cursor is None else {"cursor": cursor}))


def asked(talk: Talk, cursor: str | None = None) -> Any:
    """The server is asked for a page."""
    params = {"_meta": ...} if cursor is None else {"cursor": cursor, "_meta": ...}
    return talk.server.hears(request(..., "tools/list", params))


def names(host: Host, identity: Any, *expected: str) -> None:
    """The host hears a page with these tools, in this order (pitfall 38)."""
    heard = host.hears(result(identity, {"tools": ..., ...: ...}))["result"]
    assert [tool["name"] for tool in heard["tools"]] == list(expected)
    assert "ttlMs" not in heard


def test_a_fresh_list_is_given_to_all_hosts_until_its_time_is_over() -> None:
    with modern() as talk:
        a, b = talk.hosts("a", "b")
        lists(talk, a, 1)
        talk.server.answers(asked(talk), page("z", "y"))
        names(a, 1, "z", "y")
        talk.passes(0.9)
        lists(talk, b, 1)
        names(b, 1, "z", "y")
        talk.passes(0.1)
        lists(talk, b, 2)
        talk.server.answers(asked(talk), page("x"))
        names(b, 2, "x")


def test_another_principal_has_answers_of_its_own() -> None:
    with modern() as talk:
        a, b = talk.host("a"), talk.joins("b", principal="another")
        b.greets()
        for host, tool in ((a, "x"), (b, "y")):
            lists(talk, host, 1)
            talk.server.answers(asked(talk), page(tool, cacheScope="private"))
            names(host, 1, tool)
        for host, tool in ((a, "x"), (b, "y")):
            lists(talk, host, 2)
            names(host, 2, tool)


def test_hosts_of_other_capabilities_have_answers_of_their_own() -> None:
    with modern() as talk:
        a, b = talk.host("a"), talk.host("b", capabilities={"roots": {}})
        lists(talk, a, 1)
        talk.server.answers(asked(talk), page("x"))
        names(a, 1, "x")
        lists(talk, b, 1)
        talk.server.answers(asked(talk), page("y"))
        names(b, 1, "y")


@pytest.mark.parametrize("ttl", [None, 0, -5, "1000", [1]])
def test_36_no_time_or_a_negative_one_is_none(ttl: Any) -> None:
    with modern() as talk:
        a = talk.host("a")
        for number in (1, 2):
            lists(talk, a, number)
            talk.server.answers(asked(talk), page("x", ttl=ttl))
            names(a, number, "x")


def test_36_a_change_drops_what_is_fresh_and_what_is_on_its_way() -> None:
    with modern(WATCHES, tools=[], resources=[]) as talk:
        watch = talk.server.hears(listens(toolsListChanged=True, resourcesListChanged=True))
        talk.server.says(acknowledged(watch["id"], toolsListChanged=True))
        a = talk.host("a")
        lists(talk, a, 1)
        talk.server.answers(asked(talk), page("old"))
        names(a, 1, "old")
        lists(talk, a, 2)
        names(a, 2, "old")
        talk.server.says(tagged("notifications/tools/list_changed", watch["id"]))
        a.hears(changed("tools"))
        talk.child_lists(tools=["new"])
        lists(talk, a, 3)
        slow = asked(talk)
        talk.server.says(tagged("notifications/tools/list_changed", watch["id"]))
        a.hears(changed("tools"))
        talk.child_lists(tools=["newer"])
        talk.server.answers(slow, page("new"))
        names(a, 3, "new")
        lists(talk, a, 4)  # what was asked for before the change is not what is given after it
        talk.server.answers(asked(talk), page("newer"))
        names(a, 4, "newer")


def test_36_the_catalogue_is_not_filled_by_a_fetch_older_than_the_change() -> None:
    with modern({"tools": {"listChanged": True}}) as talk:
        watch = talk.server.hears(listens(toolsListChanged=True))
        talk.server.says(acknowledged(watch["id"], toolsListChanged=True))
        talk.server.says(tagged("notifications/tools/list_changed", watch["id"]))
        old = asked(talk)
        talk.server.says(tagged("notifications/tools/list_changed", watch["id"]))
        talk.server.answers(old, page("old"))
        talk.server.answers(asked(talk), page("new"))
        assert talk.mux.catalogue is not None
        assert talk.mux.catalogue.lists["tools/list"] == (b'{"name": "new"}',)


def test_37_38_pages_are_kept_by_their_cursors_the_empty_one_too() -> None:
    with modern() as talk:
        a = talk.host("a")
        lists(talk, a, 1)
        talk.server.answers(asked(talk), page("x", nextCursor=""))
        names(a, 1, "x")
        lists(talk, a, 2, "")
        talk.server.answers(asked(talk, ""), page("y", ttl=60000))
        names(a, 2, "y")
        lists(talk, a, 3, "")
        names(a, 3, "y")
        talk.passes(1)
        # A newer first page has newer pages after it.
        lists(talk, a, 4)
        talk.server.answers(asked(talk), page("z", nextCursor=""))
        names(a, 4, "z")
        lists(talk, a, 5, "")
        talk.server.answers(asked(talk, ""), page("w"))
        names(a, 5, "w")


def test_37_the_catalogue_follows_the_empty_cursor() -> None:
    with modern() as talk:
        talk.child_dies()
        talk.child_begins()
        asked_first = talk.server.hears(request(..., "server/discover", ...))
        talk.server.answers(asked_first, discovered({"tools": {}}))
        talk.server.answers(asked(talk), page("x", nextCursor=""))
        talk.server.answers(asked(talk, ""), page("y"))
        assert talk.mux.catalogue is not None
        assert talk.mux.catalogue.offers == 2


def test_a_resource_is_given_again_until_it_changes() -> None:
    with modern(WATCHES, tools=[], resources=[]) as talk:
        talk.server.hears(listens(toolsListChanged=True, resourcesListChanged=True))
        a = talk.host("a")
        a.says(request(1, "resources/subscribe", {"uri": "u:1"}))
        listen = talk.server.hears(listens(resourceSubscriptions=["u:1"]))
        talk.server.says(acknowledged(listen["id"], resourceSubscriptions=["u:1"]))
        a.hears(result(1))
        content = {"contents": [{"uri": "u:1", "text": "t"}]}
        for _ in range(2):
            a.says(request(2, "resources/read", {"uri": "u:1"}))
            read = talk.server.hears(request(..., "resources/read", ...))
            talk.server.answers(read, {**complete(content), "ttlMs": 9000, "cacheScope": "private"})
            a.hears(result(2, content))
            a.says(request(3, "resources/read", {"uri": "u:1"}))
            a.hears(result(3, content))
            talk.server.says(tagged("notifications/resources/updated", listen["id"], {"uri": "u:1/part"}))
            a.hears(...)


def test_what_a_person_was_asked_for_is_not_given_again() -> None:
    with modern() as talk:
        a = talk.host("a")
        for number in (1, 2):
            a.says(request(number, "resources/read", {"uri": "u:1"}))
            read = talk.server.hears(request(..., "resources/read", ...))
            talk.server.answers(read, {"resultType": "input_required", "requestState": "s"})
            talk.passes(1)
            read = talk.server.hears(request(..., "resources/read", ...))
            talk.server.answers(read, {**complete({"contents": []}), "ttlMs": 9000})
            a.hears(result(number, {"contents": []}))


def test_nothing_outlives_the_child() -> None:
    with modern() as talk:
        a = talk.host("a")
        lists(talk, a, 1)
        talk.server.answers(asked(talk), page("x"))
        names(a, 1, "x")
        talk.child_dies()
        talk.modern_child_runs()
        lists(talk, a, 2)
        talk.server.answers(asked(talk), page("y"))
        names(a, 2, "y")


def test_what_is_a_question() -> None:
    assert question_of("tools/list", {}, b"{}") == Question("tools/list", b"", b"{}")
    assert question_of("tools/call", {}, b"{}") is None
    retry = jsonrpc.members_of(b'{"uri":"u:1","requestState":"s"}')
    assert question_of("resources/read", retry, b"{}") is None


METHODS = st.sampled_from(["tools/list", "prompts/list", "resources/list", "resources/read"])
QUESTIONS = st.builds(Question, METHODS, st.sampled_from([b"", b'"u:1"', b'"u:2"']), st.just(b"{}"))
STEPS = st.lists(
    st.tuples(st.just("answer"), QUESTIONS, st.integers(-1, 3), st.booleans())
    | st.tuples(st.just("change"), st.sampled_from(["tools", "prompts", "resources"]))
    | st.tuples(st.just("update"), st.sampled_from(["u:1", "u:2/x"]))
    | st.tuples(st.just("pass"), st.integers(0, 3))
    | st.tuples(st.just("clear")),
    max_size=20,
)


@given(STEPS)
def test_no_answer_is_given_that_is_old_or_was_called_wrong(steps: list[tuple[Any, ...]]) -> None:
    cache = Cache(Alarms())
    alarms: dict[int, float] = {}
    now = 0.0
    fresh: dict[Question, float] = {}
    for step in steps:
        match step:
            case ("answer", question, seconds, late):
                ticket = cache.asked(question)
                if late:
                    cache.changed("prompts")
                    fresh = {one: until for one, until in fresh.items() if one.method != "prompts/list"}
                else:
                    fresh[question] = now + max(seconds, 0)
                for alarm in cache.answered(ticket, b'{"ttlMs":%d}' % (seconds * 1000)):
                    assert isinstance(alarm, Alarm)
                    alarms[alarm.serial] = now + alarm.seconds
            case ("change", kind):
                cache.changed(kind)
                fresh = {one: until for one, until in fresh.items() if not one.method.startswith(kind)}
            case ("update", uri):
                cache.updated(uri)
            case ("pass", seconds):
                now += seconds
                for serial in [serial for serial, due in alarms.items() if due <= now]:
                    del alarms[serial]
                    cache.alarms.rang(serial)
            case _:
                cache.clear()
                fresh.clear()
        for question in [Question(m, a, b"{}") for m in ("tools/list", "prompts/list") for a in (b"", b'"u:1"')]:
            if cache.find(question) is not None:
                assert fresh.get(question, -1.0) > now
    cache.clear()
    assert len(cache.alarms) == 0


def test_a_time_without_end_has_one() -> None:
    cache = Cache(Alarms())
    question = Question("tools/list", b"", b"")
    (alarm,) = cache.answered(cache.asked(question), b'{"ttlMs":99999999999999}')
    assert isinstance(alarm, Alarm)
    assert alarm.seconds == LONGEST


def test_an_update_concerns_what_contains_it_and_what_it_contains() -> None:
    cache = Cache(Alarms())
    whole, part, odd = (Question("resources/read", about, b"") for about in (b'"u:1"', b'"u:1/a/b"', b"7"))
    for question in (whole, part, odd):
        cache.answered(cache.asked(question), b'{"ttlMs":1000}')
    cache.updated("u:1/a")
    assert [cache.find(question) for question in (whole, part, odd)] == [None, None, None]
    cache.answered(cache.asked(whole), b'{"ttlMs":1000}')
    cache.updated("u:2")
    assert cache.find(whole) is not None
