"""Where a session waits for its project."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.anteroom import (
    MAX_HELD,
    Admitted,
    Anteroom,
    Outcome,
    Reply,
    TurnedAway,
    Waits,
    root_paths,
)
from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.profiles import Root
from tests.kit.conversation import call, cancelled, error, matches, notification, request, result

REMEDY = "write --project"
ROOTS = {"roots": [{"uri": "file:///home/me/a%20b"}]}
FOUND = (Root("file:///home/me/a%20b"),)
PATHS = ("/home/me/a b",)
OPENING = {"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, "clientInfo": {"name": "h"}}
INITIALIZED = notification("notifications/initialized")


class Waiting:
    """A session in the anteroom."""

    def __init__(self, known: Catalogue | None = None, state: State | None = None, remedy: str | None = REMEDY) -> None:
        self.room = Anteroom("s", known, remedy, state)

    def says(self, message: Any) -> list[Outcome]:
        line = message if isinstance(message, bytes | Oversized) else json.dumps(message).encode()
        return self.room.from_session(line)

    def hears(self, message: Any) -> Any:
        """Say something that is answered with one message."""
        (reply,) = self.says(message)
        assert isinstance(reply, Reply)
        return json.loads(reply.line)

    def greets(self, **changes: Any) -> Any:
        """Make the handshake up to our question."""
        answer = self.hears(request(0, "initialize", {**OPENING, **changes}))
        assert matches(request("smcp-roots", "roots/list"), self.hears(INITIALIZED))
        return answer


def test_a_host_is_greeted_asked_and_let_through() -> None:
    waiting = Waiting()
    answer = waiting.greets()
    kinds = {kind: {"listChanged": True} for kind in ("tools", "prompts", "resources")}
    expected = {"serverInfo": {"name": "s", "version": ...}, "protocolVersion": "2025-06-18", "capabilities": kinds}
    assert matches(result(0, expected), answer)
    assert waiting.says(call(1)) == [Waits(b"1")]
    assert waiting.says(cancelled(1)) == []
    assert waiting.says(INITIALIZED) == []
    state = State(version="2025-06-18", capabilities={"roots": {}}, client={"name": "h"}, initialized=True)
    assert waiting.room.state == state
    lines = tuple(json.dumps(message).encode() for message in (call(1), cancelled(1), INITIALIZED))
    assert waiting.says(result("smcp-roots", ROOTS)) == [Admitted(PATHS, FOUND, state, lines, (b"1",))]


def test_a_host_is_greeted_as_the_server_would() -> None:
    known = Catalogue(b'{"protocolVersion":"2025-11-25","capabilities":{"tasks":{}},"serverInfo":{"n":1},"x":1e400}')
    reply = Waiting(known).says(request(0, "initialize", OPENING))[0]
    assert isinstance(reply, Reply)
    expected = b'{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"n":1},"x":1e400}'
    assert reply.line == jsonrpc.result_line(b"0", expected)


def test_what_comes_before_the_handshake() -> None:
    waiting = Waiting()
    assert matches(result("p"), waiting.hears(request("p", "ping")))
    assert matches(error(1, -32601), waiting.hears(request(1, "server/discover")))
    assert matches(error(2, -32600, "initialize comes first"), waiting.hears(call(2)))
    assert matches(error(3, -32602), waiting.hears(request(3, "initialize", {"protocolVersion": 5})))
    assert waiting.says(INITIALIZED) == waiting.says(result(1)) == waiting.says(b"") == waiting.says(b"\r") == []
    waiting.greets()


def test_a_ping_is_answered_while_the_host_waits() -> None:
    waiting = Waiting()
    waiting.greets()
    assert matches(result("p"), waiting.hears(request("p", "ping")))


@pytest.mark.parametrize("known", [None, Catalogue(b'{"capabilities":{}}')])
def test_a_host_without_roots_is_turned_away_with_the_remedy(known: Catalogue | None) -> None:
    reply, end = Waiting(known).says(request(0, "initialize", {**OPENING, "capabilities": {}}))
    assert isinstance(reply, Reply)
    assert matches(error(0, -32603, REMEDY), json.loads(reply.line))
    assert end == TurnedAway()


@pytest.mark.parametrize(
    "answer",
    [
        result("smcp-roots", {"roots": []}),
        result("smcp-roots", {"roots": [{"uri": "https://x/"}]}),
        {"jsonrpc": "2.0", "id": "smcp-roots", "error": {"code": -32601, "message": "no"}},
    ],
)
def test_a_host_that_does_not_say_is_turned_away(answer: Any) -> None:
    waiting = Waiting()
    waiting.greets()
    waiting.says(call(1))
    waiting.says(call("2"))
    *replies, end = waiting.says(answer)
    assert [json.loads(reply.line)["id"] for reply in replies if isinstance(reply, Reply)] == [1, "2"]
    assert end == TurnedAway()


def test_a_host_that_says_too_much_or_nothing_is_turned_away() -> None:
    ends: list[Callable[[Waiting], list[Outcome]]] = [
        lambda waiting: waiting.says(call(2, text="x" * MAX_HELD)),
        lambda waiting: waiting.room.give_up(),
    ]
    for end, answered in zip(ends, ([1, 2], [1]), strict=True):
        waiting = Waiting()
        waiting.greets()
        waiting.says(call(1))
        *replies, last = end(waiting)
        assert [json.loads(reply.line)["id"] for reply in replies if isinstance(reply, Reply)] == answered
        assert last == TurnedAway()


def test_a_session_that_waited_when_the_daemon_died_is_asked_again() -> None:
    state = State(version="2025-06-18", capabilities={"roots": {}}, initialized=True)
    waiting = Waiting(state=state)
    (reply,) = waiting.room.begin()
    assert isinstance(reply, Reply)
    assert matches(request("smcp-roots", "roots/list"), json.loads(reply.line))
    assert waiting.says(result("smcp-roots", ROOTS)) == [Admitted(PATHS, FOUND, state, (), ())]
    assert Waiting(state=State(version="2025-06-18")).room.begin() == []


def test_a_batch_waits_as_a_whole() -> None:
    waiting = Waiting()
    waiting.greets(protocolVersion="2025-03-26")
    batch = json.dumps([call(1), INITIALIZED, call("2")]).encode()
    assert waiting.says(batch) == [Waits(b"1"), Waits(b'"2"')]
    assert waiting.says(b"[1]") == []
    (admitted,) = waiting.says(result("smcp-roots", ROOTS))
    assert isinstance(admitted, Admitted)
    assert admitted.lines == (batch, b"[1]")
    other = Waiting()
    other.greets()
    assert matches(error(None, -32600), other.hears(batch))


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        (b"garbage", None),
        (b"[]", None),
        (b'{"jsonrpc":"2.0","id":{},"method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', None),
        (b'{"id":5,"method":"x"}', 5),
        (b'{"jsonrpc":"2.0","result":{}}', None),
        (Oversized(b'{"jsonrpc":"2.0","id":5,"method":"x","params":{', b"}}", 5000), 5),
        (Oversized(b"x", b"x", 5000), None),
    ],
)
def test_what_is_no_message_is_answered(line: bytes | Oversized, identity: int | None) -> None:
    for waiting in (Waiting(), Waiting(state=State(version="2025-06-18", initialized=True))):
        assert matches(error(identity, ...), waiting.hears(line))


@pytest.mark.parametrize(
    ("roots", "paths"),
    [
        ([{"uri": "file:///a"}, {"uri": "file:///b"}], ("/a", "/b")),
        ([{"uri": "https://a/b"}, {"uri": "file://localhost/b%C3%A9"}], ("/bé",)),
        ([{"uri": "file://["}, {"uri": "file:///c"}], ("/c",)),
        ([{"uri": "file://other/a"}, {"uri": "file:a"}, {"uri": "file:///a%00b"}, {"uri": "/a"}], ()),
        ([], ()),
    ],
)
def test_files_of_this_machine_have_a_path(roots: Any, paths: tuple[str, ...]) -> None:
    assert root_paths(tuple(Root(root["uri"]) for root in roots)) == paths


@pytest.mark.parametrize(
    ("answer", "roots"),
    [
        (result("smcp-roots", {"roots": []}), ()),
        (result("smcp-roots", {"roots": [{"uri": "https://x/"}]}), (Root("https://x/"),)),
        ({"jsonrpc": "2.0", "id": "smcp-roots", "error": {"code": -32601, "message": "no"}}, None),
    ],
)
def test_a_host_that_needs_no_project_is_let_through_whatever_it_says(answer: Any, roots: Any) -> None:
    waiting = Waiting(remedy=None)
    waiting.greets()
    waiting.says(call(1))
    lines = (json.dumps(call(1)).encode(),)
    assert waiting.says(answer) == [Admitted((), roots, waiting.room.state, lines, (b"1",))]


def test_a_host_that_needs_no_project_loses_nothing_of_what_it_says_too_much() -> None:
    waiting = Waiting(remedy=None)
    waiting.greets()
    long = json.dumps(call(1, text="x" * MAX_HELD)).encode()
    assert waiting.says(long) == [Admitted((), None, waiting.room.state, (long,), (b"1",))]
