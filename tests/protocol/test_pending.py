"""What waits for a child keeps its order and its owner."""

from __future__ import annotations

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.jsonrpc import Message
from supervisord_mcp.protocol.pending import HeldMessages, Pending


def message(identity: int | None, text: str = "") -> Message:
    inner = "" if identity is None else f'"id":{identity},'
    return jsonrpc.parse(f'{{{inner}"method":"x","params":{{"t":"{text}"}}}}'.encode())


def test_everything_comes_out_in_its_order() -> None:
    held = HeldMessages()
    for session, identity in ((1, 1), (2, 1), (1, None), (1, 2)):
        held.add(session, message(identity, "é" * 10))
    assert len(held) == 4
    assert held.size > 4 * 20
    assert [(entry.session, entry.message.id) for entry in held.take()] == [(1, b"1"), (2, b"1"), (1, None), (1, b"2")]
    assert (len(held), held.size) == (0, 0)


def test_what_is_dropped_is_one_request_or_all_of_a_host() -> None:
    held = HeldMessages()
    for session, identity in ((1, 1), (2, 1), (1, None), (1, 2)):
        held.add(session, message(identity))
    assert held.find(2, b"1") is not None
    assert held.find(2, b"2") is None
    assert [dropped.id for dropped in held.drop(1, b"2")] == [b"2"]
    assert [dropped.id for dropped in held.drop(1)] == [b"1", None]
    assert held.drop(1) == []
    assert [entry.session for entry in held.take()] == [2]
    assert held.size == 0


def test_a_pending_request_is_plain_until_more_is_known() -> None:
    pending = Pending(1, b'"x"', "tools/call")
    assert (pending.token, pending.augmented, pending.task, pending.progress, pending.reply) == (
        None,
        False,
        None,
        None,
        None,
    )
