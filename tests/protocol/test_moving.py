"""Hosts whose roots change."""

from __future__ import annotations

from typing import Any

from supervisord_mcp.protocol.callbacks import Shared
from supervisord_mcp.protocol.commands import Moved
from supervisord_mcp.protocol.moving import PAUSE
from supervisord_mcp.protocol.profiles import Profile, Root
from tests.kit.conversation import Host, Talk, notification, request, result
from tests.protocol.test_shared_callbacks import ALL, calls, shared


def works_on(host: Host, *uris: str) -> None:
    """A host says that its roots changed, and to what."""
    host.says(notification("notifications/roots/list_changed"))
    asked = host.hears(request(..., "roots/list"))
    host.says(result(asked["id"], {"roots": [{"uri": uri} for uri in uris]}))


def moves(talk: Talk) -> list[Any]:
    return list(talk.did(Moved))


def test_a_host_with_other_roots_moves() -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        a.says(notification("notifications/roots/list_changed"))
        asked = a.hears(request(..., "roots/list"))
        a.says(result(asked["id"], {"roots": [{"uri": "file:///p"}]}))
        assert not moves(talk)
        a.says(notification("notifications/roots/list_changed"))
        asked = a.hears(request(..., "roots/list"))
        a.says(result(asked["id"], {"roots": [{"uri": "file:///other"}]}))
        assert moves(talk) == [Moved(a.key, (Root("file:///other"),))]
        b.says(notification("notifications/roots/list_changed"))
        b.hears(request(..., "roots/list"))
        b.leaves()
        a.says(notification("notifications/roots/list_changed"))
        asked = a.hears(request(..., "roots/list"))
        a.says({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": 1, "message": "no"}})
        assert len(moves(talk)) == 1


def test_roots_that_the_child_was_not_told_of_do_not_matter() -> None:
    with Talk(relay=Shared(Profile(("sampling",)), serialized=True)) as talk:
        talk.child_runs()
        a = talk.host("a", capabilities=ALL)
        a.says(notification("notifications/roots/list_changed"))
        b = talk.joins("b")
        b.says(notification("notifications/roots/list_changed"))


def test_a_host_moves_when_nothing_of_it_is_open_and_to_what_it_said_last() -> None:
    talk, (a, _) = shared("a", "b")
    with talk:
        asked = calls(talk, a)
        works_on(a, "file:///x")
        works_on(a, "file:///y")
        talk.passes(2 * PAUSE)
        assert not moves(talk)
        talk.server.answers(asked)
        a.hears(result(1))
        talk.passes(PAUSE)
        assert moves(talk) == [Moved(a.key, (Root("file:///y"),))]
        talk.passes(PAUSE)
        assert len(moves(talk)) == 1


def test_a_host_that_thinks_better_of_it_stays_and_one_that_leaves_is_forgotten() -> None:
    talk, (a, b) = shared("a", "b")
    with talk:
        for host in (a, b):
            calls(talk, host)
            works_on(host, "file:///x")
        works_on(a, "file:///p")
        b.leaves()
        talk.server.hears(notification("notifications/cancelled", ...))
        talk.passes(2 * PAUSE)
        assert not moves(talk)
