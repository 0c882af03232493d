"""What a host hears of what it said before the daemon died."""

from __future__ import annotations

import json
from typing import Any

import pytest

from supervisord_mcp.protocol import jsonrpc, requests
from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.resumption import resume

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
DONE = State(version="2025-06-18", initialized=True)
CANCEL = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'


def line(identity: int, method: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"%b"}' % (identity, method.encode())


def asking(identity: str, *, initialized: bool = False) -> State:
    capabilities = {"roots": {"listChanged": True}}
    client = {"name": "h", "version": "1"}
    version = "2025-06-18"
    return State(version=version, capabilities=capabilities, client=client, initialized=initialized, asking=identity)


def test_requests_are_given_up_and_the_rest_is_heard_again() -> None:
    unprocessed = (line(1, "tools/call"), line(2, "tools/call"), b"no JSON", CANCEL, b'{"id":9,"result":{}}')
    resumption = resume((b"1", b'"x"'), unprocessed, DONE)
    assert resumption.lost == (b"1", b'"x"', b"2")
    assert resumption.lines == (CANCEL, b'{"id":9,"result":{}}')
    assert (resumption.greeting, resumption.state) == (None, DONE)


@pytest.mark.parametrize("identity", ["1", '"1"', '"\\u00e9"'])
@pytest.mark.parametrize("initialized", [False, True])
def test_a_handshake_without_an_answer_is_made_again(identity: str, initialized: bool) -> None:
    state = asking(identity, initialized=initialized)
    resumption = resume((identity.encode(), b"7"), (CANCEL,), state)
    assert resumption.lost == (b"7",)
    first, *others = resumption.lines
    message = jsonrpc.parse(first)
    assert message.id == identity.encode()
    said = requests.opening(message)
    assert (said.version, said.capabilities, said.client) == (state.version, state.capabilities, state.client)
    assert [json.loads(other) for other in others] == [*([INITIALIZED] if initialized else []), json.loads(CANCEL)]
    assert (resumption.greeting, resumption.state) == (identity.encode(), None)


def test_a_handshake_that_was_noted_and_is_still_to_be_heard_is_made_once() -> None:
    resumption = resume((b"1",), (line(1, "initialize"),), asking("1"))
    assert (resumption.lost, resumption.greeting, len(resumption.lines)) == ((), b"1", 1)
    assert json.loads(resumption.lines[0])["params"]["clientInfo"] == {"name": "h", "version": "1"}


def test_a_handshake_that_was_not_heard_is_heard() -> None:
    resumption = resume((), (line(1, "initialize"), line(2, "initialize"), line(3, "tools/list")), State())
    assert resumption.lines == (line(1, "initialize"),)
    assert (resumption.lost, resumption.greeting, resumption.state) == ((b"2", b"3"), b"1", None)


def test_a_handshake_that_was_answered_is_not_made_again() -> None:
    state = asking("1")
    resumption = resume((b"7",), (line(8, "initialize"),), state)
    assert resumption.lost == (b"7", b"8")
    assert (resumption.lines, resumption.greeting, resumption.state) == ((), None, state)


def test_a_listen_goes_on_and_what_is_none_does_not() -> None:
    listens: dict[str, dict[str, Any]] = {"1": {"toolsListChanged": True}, '"1"': {}, "9": {}}
    state = State(version="2026-07-28", era="modern", listens=listens)
    lines = (line(1, "tools/call"), line(9, "tools/call"), CANCEL)
    resumption = resume((b"1", b'"1"', b"3"), lines, state)
    assert resumption.lost == (b"3", b"9")  # what has the id of an open request was never taken up
    assert resumption.lines == (CANCEL,)
    assert resumption.state == State(
        version="2026-07-28", era="modern", listens={"1": {"toolsListChanged": True}, '"1"': {}}
    )


def test_a_handshake_of_which_only_the_id_is_known_may_be_tried_again() -> None:
    resumption = resume((b"1",), (line(1, "initialize"),), State())
    assert (resumption.lost, resumption.lines, resumption.state) == ((b"1",), (), None)
