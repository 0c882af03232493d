"""Where a session is read until it is known which instance it belongs to (protocol.md 6.1 D2, D5; 6.9).

That may depend on what only the host says: its era, and what it can be asked. The first message that is not
`server/discover` decides both; until then the probe is answered here, without a child being started (pitfall 60).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc, requests, salvage
from supervisord_mcp.protocol.anteroom import Reply, Waits, error_reply, parsed
from supervisord_mcp.protocol.eras import envelope
from supervisord_mcp.protocol.eras.envelope import Fault
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.jsonrpc import Message
from supervisord_mcp.protocol.mcp import Era


@dataclass(frozen=True, slots=True)
class Decided:
    """The era, revision and capabilities of the host are known; the line that said so comes first in ``lines``."""

    era: Era
    version: str
    capabilities: dict[str, Any] = field(default_factory=dict)
    lines: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """A host asks what the server is, and nobody knows: it has to be started and asked (`Threshold.learnt`)."""


Outcome = Reply | Waits | Decided | Unknown


class Threshold:
    """One session at the threshold; ``discovered`` is the result of `server/discover`, None if it is not known."""

    def __init__(self, discovered: bytes | None) -> None:
        self._discovered = discovered
        self._asking: list[bytes] = []

    def from_session(self, line: bytes | Oversized) -> list[Outcome]:
        """The host sent a line. Nothing may be said after `Decided`."""
        if isinstance(line, Oversized):
            seen = salvage.outline(line.head, line.tail)
            return [error_reply(seen.identity, jsonrpc.INVALID_REQUEST, "the message is too long")]
        text = salvage.bare(line)
        if not text:
            return []
        message = parsed(text)
        if isinstance(message, Reply):
            return [message]
        if message.id is None or message.method is None:
            return []  # nothing that could be answered or given up was said before
        return self._request(text, message, message.id)

    def learnt(self, discovered: bytes) -> list[Outcome]:
        """The server was asked what it is: answer who waits for that."""
        self._discovered = discovered
        asking, self._asking = self._asking, []
        return [Reply(jsonrpc.result_line(identity, discovered)) for identity in asking]

    def failed(self, text: str) -> list[Outcome]:
        """The server cannot be asked what it is."""
        asking, self._asking = self._asking, []
        return [error_reply(identity, jsonrpc.INTERNAL_ERROR, text) for identity in asking]

    def _request(self, line: bytes, message: Message, identity: bytes) -> list[Outcome]:
        if identity in self._asking:
            text = f"id {identity.decode()} is already in use by a request that is not answered yet"
            # With that id the refusal would settle the first one.
            return [error_reply(None, jsonrpc.INVALID_REQUEST, text)]
        if message.method == "initialize" and not envelope.is_modern(message):
            try:
                said = requests.opening(message)
            except FramingError as error:
                return [error_reply(identity, error.rpc_code, error.message)]
            return [Decided("legacy", said.version, said.capabilities, (line,))]
        if message.method == "ping" and not envelope.is_modern(message):
            return [Reply(jsonrpc.result_line(identity, b"{}"))]
        if message.method != "server/discover" and not envelope.claims(message):
            return [error_reply(identity, jsonrpc.INVALID_REQUEST, "initialize comes first")]
        meant = envelope.read(message)
        if isinstance(meant, Fault):
            return [Reply(meant.line(identity))]
        if message.method != "server/discover":
            return [Decided("modern", meant.version, meant.capabilities, (line,))]
        if self._discovered is not None:
            return [Reply(jsonrpc.result_line(identity, self._discovered))]
        first = not self._asking
        self._asking.append(identity)
        return [Waits(identity), *([Unknown()] if first else [])]
