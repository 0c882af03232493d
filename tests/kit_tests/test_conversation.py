"""The language for conversations: that it can fail, and what it says then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from supervisord_mcp.protocol.calls import Call
from supervisord_mcp.protocol.commands import Dropped, ToServer, ToSession
from tests.kit.conversation import Talk, call, error, matches, request, result


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        (1, "1", False),
        (..., [1], True),
        ([1, ...], [1, 2], True),
        ([1], [1, 2], False),
        ([1], {"0": 1}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1, ...: ...}, {"a": 1, "b": 2}, True),
        ({"a": 1, ...: ...}, {"b": 2}, False),
        ({"a": 1}, [1], False),
        (error(1, -32603), {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "x", "data": 5}}, True),
        (error(1, 5, "x", [1]), {"jsonrpc": "2.0", "id": 1, "error": {"code": 5, "message": "x", "data": [2]}}, False),
    ],
)
def test_patterns(expected: Any, actual: Any, same: bool) -> None:
    assert matches(expected, actual) is same


def test_a_failure_shows_the_whole_transcript() -> None:
    talk = Talk()
    talk.child_runs()
    a = talk.host("a")
    a.says(call(1))
    with pytest.raises(AssertionError) as caught:
        talk.server.hears(request(..., "tools/call", {"name": "other", ...: ...}))
    text = str(caught.value)
    assert text.startswith(
        'server should hear {"jsonrpc": "2.0", "id": …, "method": "tools/call", "params": {"name": "other", …}}'
    )
    for line in (
        "the child starts",
        "a joins",
        'a: {"jsonrpc": "2.0", "id": 1,',
        '-> server: {"jsonrpc":"2.0","id":2,',
    ):
        assert line in text


def test_what_is_not_heard_fails_the_block() -> None:
    talk = Talk()
    talk.child_runs()
    talk.host("a").says(call(1))
    with pytest.raises(AssertionError, match="server should hear nothing more"), talk:
        pass


def test_what_should_be_heard_and_is_not_fails() -> None:
    talk = Talk()
    with pytest.raises(AssertionError, match="hears nothing"):
        talk.server.hears(result(1))
    with pytest.raises(AssertionError, match="should hear b'x', but hears b''"):
        talk.server.hears_text(b"x")


CHEATS: list[tuple[str, Callable[[Talk], list[Any]]]] = [
    ("not one line", lambda talk: [ToServer(b"{}")]),
    ("not one line", lambda talk: [ToServer(b"{}\n{}\n")]),
    ("used again", lambda talk: [ToServer(b'{"jsonrpc":"2.0","id":1,"method":"x"}\n')] * 2),
    ("not there", lambda talk: [ToSession(99, b"{}\n")]),
    ("closes", lambda talk: [ToSession(1, b'{"id":1,"result":{}}\n')]),
    ("closes", lambda talk: [ToSession(1, b'{"id":1,"result":{}}\n', closes=(Call(1, b'"1"'),))]),
    ("closes", lambda talk: [ToSession(1, b'{"method":"x"}\n', closes=(Call(1, b"1"),))]),
    ("opened twice", lambda talk: [Call(1, b"1"), Call(1, b"1")]),
    ("another call", lambda talk: [Call(1, b"1"), ToSession(1, b'{"id":1,"result":{}}\n', closes=(Call(1, b"1"),))]),
    ("another call", lambda talk: [Call(1, b"1"), Dropped(Call(1, b"1"))]),
]


@pytest.mark.parametrize(("text", "cheat"), CHEATS)
def test_what_must_never_be_done_is_watched(text: str, cheat: Callable[[Talk], list[Any]]) -> None:
    talk = Talk()
    talk.host_first("a")
    with pytest.raises(AssertionError, match=text):
        talk._apply(cheat(talk))
