"""What becomes of what a host had said when the daemon died: what is given up, and what is heard again (6.8, D11).

A request may have been executed, so it is never sent twice: its host gets an error. `initialize` executes nothing, and
a host that gets an error for it may give the server up; so it is heard again, and answered as if nothing had happened.
A listen that was acknowledged is open because it is to be, and goes on like the subscriptions of older hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.attachment import State

_INITIALIZED = jsonrpc.notification_line("notifications/initialized").rstrip()


@dataclass(frozen=True, slots=True)
class Resumption:
    """How a session goes on: ids that get an error, lines that are heard again, and the state it goes on with.

    ``greeting`` is the id of the `initialize` among the lines, if it is there; ``state`` is None if the session begins
    with its handshake.
    """

    lost: tuple[bytes, ...]
    lines: tuple[bytes, ...]
    greeting: bytes | None
    state: State | None


def resume(pending: Sequence[bytes], unprocessed: Sequence[bytes], state: State) -> Resumption:
    """Given the ids without an answer, the lines that may not have been acted upon, and the state, say what to do."""
    lines: list[bytes] = []
    greeting: bytes | None = None
    if state.asking is not None and state.asking.encode() in pending:
        greeting = state.asking.encode()
        lines = [_handshake(greeting, state), *([_INITIALIZED] if state.initialized else [])]
    listens = {text: wanted for text, wanted in state.listens.items() if text.encode() in pending}
    state = msgspec.structs.replace(state, listens=listens)
    kept = [*(text.encode() for text in listens), *([] if greeting is None else [greeting])]
    lost = [identity for identity in pending if identity not in kept]
    begun = bool(state.version)
    for line in unprocessed:
        try:
            message = jsonrpc.parse(line)
        except FramingError:
            continue
        if not message.is_request or message.id is None:
            lines.append(line)
        elif message.method == "initialize" and not begun and greeting is None and message.id not in lost:
            greeting = message.id
            lines.append(line)
        elif message.id != greeting and message.id not in lost and message.id not in kept:
            lost.append(message.id)
    return Resumption(tuple(lost), tuple(lines), greeting, state if begun and greeting is None else None)


def _handshake(identity: bytes, state: State) -> bytes:
    """Return the `initialize` of which this state was made."""
    params = {"protocolVersion": state.version, "capabilities": state.capabilities, "clientInfo": state.client}
    members = {"jsonrpc": jsonrpc.VERSION, "id": Raw(identity), "method": Raw(b'"initialize"')}
    return jsonrpc.encode({**members, "params": Raw(jsonrpc.text_of(params))}).rstrip()
