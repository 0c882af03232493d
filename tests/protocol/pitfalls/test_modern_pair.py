"""The pitfalls of protocol.md 7 that are about what modern hosts are told of a modern child; each is one test."""

from __future__ import annotations

from typing import Any

from supervisord_mcp.protocol.eras.probe import Terms
from tests.kit.conversation import Talk, modern, request, result
from tests.protocol.eras.talking import acknowledged, listens, tagged

LIST = request(..., "tools/list", ...)


def tools(*names: str, ttl: Any = 60_000, **more: Any) -> dict[str, Any]:
    told = {
        "resultType": "complete",
        "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names],
        "cacheScope": "private",
        **more,
    }
    return told if ttl is None else {**told, "ttlMs": ttl}


def served(talk: Talk) -> Any:
    """A modern child runs and was asked for its lists; return the id under which it tells what changed."""
    talk.modern_child_runs({"tools": {"listChanged": True}})
    listen = talk.server.hears(listens(toolsListChanged=True))
    talk.server.says(acknowledged(listen["id"], toolsListChanged=True))
    while talk.server.inbox:
        talk.server.answers(talk.server.hears(LIST), tools())
    return listen["id"]


def changes(talk: Talk, tag: Any) -> list[Any]:
    """The list changes; return what the daemon asks for itself then."""
    talk.server.says(tagged("notifications/tools/list_changed", tag))
    asked = []
    while talk.server.inbox:
        asked.append(talk.server.hears(LIST))
    return asked


def test_pitfall_36_what_is_kept_is_neither_older_than_it_may_be_nor_than_a_change() -> None:
    with Talk(terms=Terms("modern")) as talk:
        tag = served(talk)
        a = talk.joins("a")
        # No time, and less than none, is no time.
        for identity, ttl in enumerate((None, -5, 0, "60000")):
            a.says(modern(identity, "tools/list"))
            talk.server.answers(talk.server.hears(LIST), tools("old", ttl=ttl))
            a.hears(result(identity, ...))
        a.says(modern(10, "tools/list"))
        talk.server.answers(talk.server.hears(LIST), tools("old"))
        a.says(modern(11, "tools/list"))
        a.hears(result(10, ...), result(11, ...))
        # A change ends what is fresh.
        for own in changes(talk, tag):
            talk.server.answers(own, tools("new"))
        a.says(modern(12, "tools/list"))
        before = talk.server.hears(LIST)
        # What was asked before a change is not kept when it comes after it.
        for own in changes(talk, tag):
            talk.server.answers(own, tools("newer"))
        talk.server.answers(before, tools("new"))
        a.says(modern(13, "tools/list"))
        talk.server.answers(talk.server.hears(LIST), tools("newer"))
        a.says(modern(14, "tools/list"))
        names = [a.hears(result(identity, ...))["result"]["tools"][0]["name"] for identity in (12, 13, 14)]
        assert names == ["new", "newer", "newer"]


def test_pitfall_38_pages_keep_their_order_and_are_never_of_two_times() -> None:
    with Talk(terms=Terms("modern")) as talk:
        tag = served(talk)
        a = talk.joins("a")

        def page(identity: int, cursor: str | None) -> Any:
            a.says(modern(identity, "tools/list", {} if cursor is None else {"cursor": cursor}))
            return talk.server.hears(LIST)

        first, second = tools("z", "a", "m", nextCursor="2"), tools("y", "b")
        talk.server.answers(page(1, None), first)
        talk.server.answers(page(2, "2"), second)
        a.says(modern(3, "tools/list"), modern(4, "tools/list", {"cursor": "2"}))
        told = [a.hears(result(identity, ...))["result"]["tools"] for identity in (1, 2, 3, 4)]
        assert [[one["name"] for one in some] for some in told] == [["z", "a", "m"], ["y", "b"]] * 2
        for own in changes(talk, tag):
            talk.server.answers(own, tools("new"))
        # After a change no page is told from memory beside a new one.
        talk.server.answers(page(5, None), tools("new", nextCursor="2"))
        talk.server.answers(page(6, "2"), tools("last"))
        a.hears(result(5, ...))
        assert a.hears(result(6, ...))["result"]["tools"][0]["name"] == "last"
