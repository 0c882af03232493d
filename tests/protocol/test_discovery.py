"""The daemon's own conversation with a fresh child: handshake, lists, and who is told of what is different."""

from __future__ import annotations

import json
from typing import Any

import pytest

from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import Health, Learned, Ready, Refused
from supervisord_mcp.protocol.discovery import MAX_FETCHES, MAX_PAGES
from tests.kit.conversation import Talk, changed, error, notification, request, result

LISTS = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]


BOTH = b'{"tools":{},"prompts":{}}'


def known(*tools: str, capabilities: bytes = b'{"tools":{}}') -> Catalogue:
    server = b'{"name":"old","version":"1"}'
    handshake = b'{"protocolVersion":"2025-11-25","capabilities":%b,"serverInfo":%b}' % (capabilities, server)
    return Catalogue(handshake, {"tools/list": tuple(json.dumps({"name": name}).encode() for name in tools)})


def learned(talk: Talk) -> list[tuple[str, ...]]:
    return [command.changed for command in talk.did(Learned) if isinstance(command, Learned)]


def trouble(talk: Talk) -> str:
    last = talk.did(Health)[-1]
    assert isinstance(last, Health)
    return last.trouble


def test_the_handshake_of_a_shared_child() -> None:
    with Talk() as talk:
        opening = talk.child_starts()
        assert opening["params"]["protocolVersion"] == "2025-11-25"
        assert opening["params"]["capabilities"] == {}
        assert opening["params"]["clientInfo"]["name"] == "smcp"
        assert not talk.did(Ready)
        talk.child_greets(opening)
        assert talk.did(Ready)
        assert talk.mux.ready


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"error": {"code": -32602, "message": "bad luck"}}, "answered initialize with an error: bad luck"),
        ({"error": "bad"}, "answered initialize with an error: bad"),
        ({"result": {"protocolVersion": "2026-07-28"}}, "speaks protocol version '2026-07-28'"),
        ({"result": {"protocolVersion": ["x"]}}, "speaks protocol version"),
        ({"result": []}, "speaks protocol version None"),
    ],
)
def test_a_handshake_that_is_none_is_refused(answer: dict[str, Any], reason: str) -> None:
    with Talk() as talk:
        a = talk.joins("a")
        a.initializes()
        opening = talk.child_starts()
        talk.server.says({"jsonrpc": "2.0", "id": opening["id"], **answer})
        (refused,) = talk.did(Refused)
        assert isinstance(refused, Refused)
        assert refused.reason.startswith(reason)
        assert not talk.mux.ready
        talk.child_dies("it was killed")
        a.hears(error("hello", -32603, "it was killed"))


def test_only_what_is_declared_is_listed() -> None:
    with Talk() as talk:
        talk.child_greets(talk.child_starts(), {"resources": {}, "logging": {}})
        talk.server.hears(*(request(..., method) for method in LISTS[2:]))
    with Talk() as talk:
        opening = talk.child_starts()
        talk.server.answers(opening, {"protocolVersion": "2024-11-05", "capabilities": 5})
        talk.server.hears(notification("notifications/initialized"))


def test_all_pages_are_learned() -> None:
    with Talk() as talk:
        talk.child_greets(talk.child_starts(), {"tools": {}})
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": [1], "nextCursor": "é"})
        asked = talk.server.hears(request(..., "tools/list", {"cursor": "é"}))
        talk.server.answers(asked, {"tools": [2], "nextCursor": ""})
        assert talk.mux.catalogue is not None
        assert talk.mux.catalogue.lists == {"tools/list": (b"1", b"2")}


def test_a_list_without_end_is_cut() -> None:
    with Talk() as talk:
        talk.child_greets(talk.child_starts(), {"tools": {}})
        asked = talk.server.hears(request(..., "tools/list"))
        for number in range(MAX_PAGES):
            talk.server.answers(asked, {"tools": [number], "nextCursor": "more"})
            asked = talk.server.hears(request(..., "tools/list", ...)) if number < MAX_PAGES - 1 else None
        assert talk.noted("catalogue") == 1
        assert learned(talk) == [()]


def test_a_list_of_exactly_as_many_pages_is_whole() -> None:
    with Talk() as talk:
        talk.child_greets(talk.child_starts(), {"tools": {}})
        asked = talk.server.hears(request(..., "tools/list"))
        for number in range(MAX_PAGES - 1):
            talk.server.answers(asked, {"tools": [number], "nextCursor": "more"})
            asked = talk.server.hears(request(..., "tools/list", ...))
        talk.server.answers(asked, {"tools": [0]})
        assert talk.noted("catalogue") == 0


def test_what_did_not_change_is_not_announced() -> None:
    with Talk(known=known("x")) as talk:
        a = talk.host("a")
        talk.child_runs(tools=["x"])
        assert learned(talk) == [()]  # the handshake is another one
        talk.child_dies()
        talk.child_runs(tools=["x"])
        assert learned(talk) == [()]
        a.hears_nothing()


def test_what_changed_is_announced() -> None:
    with Talk(known=known("x", capabilities=BOTH)) as talk:
        a = talk.host("a")
        talk.child_runs(tools=["x", "y"], prompts=["p"])
        a.hears(changed("prompts"), changed("tools"))
        assert learned(talk) == [("prompts", "tools")]


def test_who_asked_the_running_child_is_not_told_of_a_difference_to_the_old_one() -> None:
    with Talk(known=known("x")) as talk:
        a, b = talk.hosts("a", "b")
        talk.child_greets(talk.child_starts(), {"tools": {}})
        own = talk.server.hears(request(..., "tools/list"))
        a.says(request(1, "tools/list"))
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": [1]})
        a.hears(result(1, {"tools": [1]}))
        talk.server.answers(own, {"tools": [1]})
        b.hears(changed("tools"))


def test_who_asked_the_running_child_is_told_what_it_says_while_it_starts() -> None:
    with Talk(known=known("x")) as talk:
        a, b = talk.hosts("a", "b")
        talk.child_greets(talk.child_starts(), {"tools": {}})
        own = talk.server.hears(request(..., "tools/list"))
        a.says(request(1, "tools/list"))
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": [1]})
        talk.server.says(changed("tools"))
        a.hears(result(1, {"tools": [1]}), changed("tools"))
        talk.server.answers(own, {"tools": [1]})
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": [{"name": "x"}]})
        b.hears_nothing()  # after all it is what b knows


def test_a_change_is_announced_once_though_it_is_also_found() -> None:
    with Talk() as talk:
        talk.child_runs(tools=["x"])
        (a,) = talk.hosts("a")
        talk.server.says(changed("tools"), changed("tools"))
        a.hears(changed("tools"))
        own = talk.server.hears(request(..., "tools/list"))
        a.says(request(1, "tools/list"))
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": [1]})
        a.hears(result(1, {"tools": [1]}))
        talk.server.answers(own, {"tools": [1]})
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": [1]})
        a.hears_nothing()
        assert learned(talk) == [(), ("tools",)]


def test_a_silent_change_is_found_with_the_next_fetch() -> None:
    with Talk() as talk:
        talk.child_runs(tools=["x"], prompts=["p"])
        (a,) = talk.hosts("a")
        talk.server.says(changed("tools"))
        a.hears(changed("tools"))
        talk.child_lists(tools=["x"], prompts=["q"])
        a.hears(changed("prompts"))


def test_a_server_that_says_changed_after_every_fetch_does_not_keep_us_busy() -> None:
    with Talk() as talk:
        talk.child_runs(tools=["x"])
        (a,) = talk.hosts("a")
        for _ in range(MAX_FETCHES - 1):
            talk.server.says(changed("tools"))
            talk.child_lists(tools=["x"])
        talk.server.says(changed("tools"), changed("tools"))
        talk.server.hears_nothing()
        a.hears(changed("tools"))
        a.says(request(1, "tools/list"))
        talk.server.hears(request(..., "tools/list"), request(..., "tools/list"))
    with Talk() as talk:  # and if it says so during the fetch
        talk.child_greets(talk.child_starts(), {"tools": {}})
        for _ in range(MAX_FETCHES):
            asked = talk.server.hears(request(..., "tools/list"))
            talk.server.says(changed("tools"))
            talk.server.answers(asked, {"tools": []})


def test_a_failure_says_nothing_about_a_list() -> None:
    with Talk(known=known("x", capabilities=BOTH)) as talk:
        a = talk.host("a")
        talk.child_greets(talk.child_starts(), {"tools": {}, "prompts": {}})
        talk.server.fails(talk.server.hears(request(..., "tools/list")), -32603)
        talk.server.answers(talk.server.hears(request(..., "prompts/list")), {"prompts": [1]})
        a.hears(changed("prompts"))
        assert talk.mux.catalogue is not None
        assert talk.mux.catalogue.lists == {"tools/list": (b'{"name": "x"}',), "prompts/list": (b"1",)}
        assert trouble(talk) == ""


@pytest.mark.parametrize("failing", [False, True])
def test_a_child_that_offers_nothing_any_more_is_not_well(failing: bool) -> None:
    with Talk(known=known("x", "y")) as talk:
        talk.child_greets(talk.child_starts(), {"tools": {}})
        asked = talk.server.hears(request(..., "tools/list"))
        if failing:
            talk.server.fails(asked, -32603)
        else:
            talk.server.answers(asked, {"tools": []})
        assert "offers nothing of the 2 things" in trouble(talk)
        assert talk.mux.catalogue == known("x", "y")


def test_a_child_that_never_offered_anything_is_well() -> None:
    with Talk(known=Catalogue(b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}')) as talk:
        talk.child_runs(tools=[])
        assert trouble(talk) == ""


def test_what_the_second_child_says_while_it_starts_is_compared_too() -> None:
    with Talk() as talk:
        talk.child_runs(tools=["x"])
        a = talk.host("a")
        talk.child_dies()
        talk.child_greets(talk.child_starts(), {"tools": {}})
        talk.server.says(changed("tools"))
        talk.child_lists(tools=["x"])
        talk.child_lists(tools=["x"])
        a.hears_nothing()


def test_a_failure_about_what_was_never_known_leaves_it_so() -> None:
    with Talk(known=known("x")) as talk:
        talk.child_greets(talk.child_starts(), {"tools": {}, "prompts": {}})
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": [{"name": "x"}]})
        talk.server.fails(talk.server.hears(request(..., "prompts/list")), -32601)
        assert talk.mux.catalogue is not None
        assert talk.mux.catalogue.lists.keys() == {"tools/list"}


def test_what_is_still_unknown_after_a_failure_stays_unknown() -> None:
    with Talk() as talk:
        talk.child_greets(talk.child_starts(), {"tools": {}})
        talk.server.fails(talk.server.hears(request(..., "tools/list")), -32603)
        assert talk.mux.catalogue is not None
        assert talk.mux.catalogue.lists == {}


def test_changes_of_a_child_that_is_not_ready_are_not_fetched() -> None:
    with Talk() as talk:
        talk.child_starts()
        talk.server.says(changed("tools"))
