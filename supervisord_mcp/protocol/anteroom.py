"""Where a session waits whose project is not known: its host is greeted, asked for its roots, and then let through.

A server of scope ``project`` cannot be chosen without a project. A host may only be asked for its roots after its own
handshake, so the handshake is answered here; everything else is held, in order, until the roots are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import msgspec

from supervisord_mcp import __version__
from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc, mcp
from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.jsonrpc import Message

#: The id of our one question; a string, so that it cannot meet the integers that callbacks use later.
_QUESTION = b'"smcp-roots"'
#: How much is held for a host that does not answer, in bytes.
MAX_HELD = 1 << 20


@dataclass(frozen=True, slots=True)
class Reply:
    """Send this to the host."""

    line: bytes


@dataclass(frozen=True, slots=True)
class Admitted:
    """The project is known: the session goes on with this state, and with these lines that came meanwhile."""

    project: str
    state: State
    lines: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """The project stays unknown: the session ends."""


Outcome = Reply | Admitted | TurnedAway


class Anteroom:
    """The waiting of one session. ``remedy`` is what a person is told when the project stays unknown."""

    def __init__(self, server: str, known: Catalogue | None, remedy: str) -> None:
        self._server = server
        self._known = known
        self._remedy = remedy
        self._state = State()
        self._lines: list[bytes] = []
        self._held = 0

    def from_session(self, line: bytes | Oversized) -> list[Outcome]:
        """The host sent a line."""
        if isinstance(line, Oversized):
            return [Reply(jsonrpc.error_line(None, jsonrpc.INVALID_REQUEST, "the message is too long"))]
        try:
            message = jsonrpc.parse(line)
        except FramingError as error:
            return [Reply(jsonrpc.error_line(None, error.rpc_code, error.message))]
        if not self._state.version:
            return self._before_handshake(message)
        if message.is_response and message.id == _QUESTION:
            return self._answered(message)
        if message.method == "notifications/initialized" and not self._state.initialized:
            self._state = msgspec.structs.replace(self._state, initialized=True)
            return [Reply(jsonrpc.encode({"jsonrpc": b'"2.0"', "id": _QUESTION, "method": b'"roots/list"'}))]
        return self._hold(line)

    def _before_handshake(self, message: Message) -> list[Outcome]:
        if message.id is None:
            return []
        if message.method == "ping":
            return [Reply(jsonrpc.result_line(message.id, b"{}"))]
        if message.method == "server/discover":
            return [Reply(jsonrpc.error_line(message.id, jsonrpc.METHOD_NOT_FOUND, "Method not found"))]
        if message.method != "initialize" or not jsonrpc.valid_id(message.id):
            return [Reply(jsonrpc.error_line(message.id, jsonrpc.INVALID_REQUEST, "initialize comes first"))]
        return self._greet(message, message.id)

    def _greet(self, message: Message, identity: bytes) -> list[Outcome]:
        params = jsonrpc.members_of(message.members.get("params", b"{}"))
        version = jsonrpc.string_of(params.get("protocolVersion"))
        capabilities = jsonrpc.value_of(params.get("capabilities", b"{}"))
        client = jsonrpc.value_of(params.get("clientInfo"))
        if version is None or not isinstance(capabilities, dict):
            text = "initialize needs protocolVersion (a string) and capabilities (an object)"
            return [Reply(jsonrpc.error_line(identity, jsonrpc.INVALID_PARAMS, text))]
        if "roots" not in capabilities:
            return [Reply(jsonrpc.error_line(identity, jsonrpc.INTERNAL_ERROR, self._remedy)), TurnedAway()]
        self._state = State(
            version=mcp.negotiate(version),
            capabilities=capabilities,
            client=client if isinstance(client, dict) else {},
        )
        return [Reply(jsonrpc.result_line(identity, self._handshake()))]

    def _handshake(self) -> bytes:
        """The result of `initialize`: the server's own where it was ever learnt, else one that promises every list."""
        if self._known is not None:
            members = dict(jsonrpc.members_of(self._known.handshake))
            declared = self._known.capabilities
        else:
            members = {"serverInfo": msgspec.json.encode({"name": self._server, "version": __version__})}
            declared = {"tools": {}, "prompts": {}, "resources": {}}
        told = mcp.server_capabilities(declared, self._state.version)
        members["protocolVersion"] = msgspec.json.encode(self._state.version)
        members["capabilities"] = msgspec.json.encode(told)
        return jsonrpc.object_text(members)

    def _hold(self, line: bytes) -> list[Outcome]:
        self._held += len(line)
        if self._held > MAX_HELD:
            return [TurnedAway()]
        self._lines.append(line)
        return []

    def _answered(self, message: Message) -> list[Outcome]:
        project = first_root(message)
        if project is None:
            return [*self._refuse_held(), TurnedAway()]
        return [Admitted(project, self._state, tuple(self._lines))]

    def _refuse_held(self) -> list[Outcome]:
        refused: list[Outcome] = []
        for line in self._lines:
            try:
                message = jsonrpc.parse(line)
            except FramingError:
                continue
            if message.is_request and message.id is not None:
                refused.append(Reply(jsonrpc.error_line(message.id, jsonrpc.INTERNAL_ERROR, self._remedy)))
        return refused


def first_root(message: Message) -> str | None:
    """Given the answer to `roots/list`, return the path of the first root that is a directory of this machine."""
    result = jsonrpc.value_of(message.members.get("result"))
    roots = result.get("roots") if isinstance(result, dict) else None
    for root in roots if isinstance(roots, list) else ():
        uri = root.get("uri") if isinstance(root, dict) else None
        if not isinstance(uri, str):
            continue
        parts = urlsplit(uri)
        path = unquote(parts.path)
        if parts.scheme == "file" and parts.netloc in ("", "localhost") and path.startswith("/") and "\0" not in path:
            return path
    return None
