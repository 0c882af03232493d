"""Calls that wait for their turn at a child that several hosts share (protocol.md 6.1 D7, ``serialized``).

A server that asks back does not say during whose call. While it may be asked of one host only, because no other host
has such a call in flight, there is no doubt; so the calls of the others wait, in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc, requests
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.protocol.commands import Command
from supervisord_mcp.protocol.jsonrpc import Message
from supervisord_mcp.protocol.pending import Held, HeldMessages

#: How many calls may wait, and how many bytes of them. Hosts are read on meanwhile, for one of them may be asked.
MAX_TURNS = 1024
MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Gate:
    """What turns need of a conversation: who has such calls in flight, and how a call is sent and answered."""

    sessions: Mapping[SessionKey, Attachment]
    calling: Callable[[], Set[SessionKey]]
    send: Callable[[Attachment, Message, bytes], list[Command]]
    fail: Callable[[Attachment, bytes, int, str], list[Command]]


class Turns:
    """The calls that wait."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._waiting = HeldMessages()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def send(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """Send a call if it is its turn, else let it wait; refuse it where too many wait."""
        if not self._waiting and not self._gate.calling() - {attachment.key}:
            return self._gate.send(attachment, message, identity)
        if len(self._waiting) >= MAX_TURNS or self._waiting.size > MAX_BYTES:
            text = "too many calls wait for their turn at this server"
            return self._gate.fail(attachment, identity, jsonrpc.INTERNAL_ERROR, text)
        self._waiting.add(attachment.key, message)
        return [*attachment.opens(requests.call(attachment.key, message, identity))]

    def go_on(self) -> list[Command]:
        """Send the calls whose turn has come: those that waited longest, of one host."""
        commands: list[Command] = []
        while (first := self._waiting.first) is not None and not self._gate.calling() - {first.session}:
            held = self._waiting.take_first()
            attachment, identity = self._gate.sessions[held.session], held.message.id
            assert identity is not None
            try:
                commands += self._gate.send(attachment, held.message, identity)
            except FramingError as error:
                commands += self._gate.fail(attachment, identity, error.rpc_code, error.message)
        return commands

    def drop(self, session: SessionKey, identity: bytes | None = None) -> bool:
        """Forget what waits for a host, or its one call of that id; return whether anything did."""
        return bool(self._waiting.drop(session, identity))

    def take(self) -> list[Held]:
        """Take everything out."""
        return self._waiting.take()
