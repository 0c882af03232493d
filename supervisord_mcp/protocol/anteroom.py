"""Where a session waits whose roots are not known: its host is greeted, asked for them, and then let through.

A server of scope ``project`` cannot be chosen without a project, nor one that asks back without the roots of its hosts
(protocol.md 6.1 D6). A host may only be asked for its roots after its own handshake, so the handshake is answered here;
everything else is held, in order, until the roots are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Raw

from supervisord_mcp import __version__
from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc, mcp, requests, salvage
from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.catalogue import Catalogue, items_of
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.jsonrpc import Message
from supervisord_mcp.protocol.profiles import Root, roots_of

#: The id of our one question; a string, so that it cannot meet the integers that callbacks use later.
_QUESTION = b'"smcp-roots"'
_ASK = jsonrpc.encode({"jsonrpc": jsonrpc.VERSION, "id": Raw(_QUESTION), "method": Raw(b'"roots/list"')})
#: How much is held for a host that does not answer, in bytes.
MAX_HELD = 1 << 20


@dataclass(frozen=True, slots=True)
class Reply:
    """Send this to the host."""

    line: bytes


@dataclass(frozen=True, slots=True)
class Waits:
    """A request of the host waits for its answer."""

    identity: bytes


@dataclass(frozen=True, slots=True)
class Admitted:
    """The roots are known: the session goes on with this state, and with these lines that came meanwhile.

    ``paths`` are those of the roots that are files of a machine. ``roots`` is None if the host did not say.
    """

    paths: tuple[str, ...]
    roots: tuple[Root, ...] | None
    state: State
    lines: tuple[bytes, ...]
    waiting: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """The project stays unknown: the session ends."""


Outcome = Reply | Waits | Admitted | TurnedAway


class Anteroom:
    """The waiting of one session.

    ``remedy`` is what a person is told when the project stays unknown, None if none is needed; ``state`` is what is
    known of a session that was waiting here when the daemon died.
    """

    def __init__(self, server: str, known: Catalogue | None, remedy: str | None, state: State | None = None) -> None:
        self._server = server
        self._known = known
        self._remedy = remedy
        self.state = state or State()
        self._lines: list[bytes] = []
        self._waiting: list[bytes] = []
        self._held = 0

    def begin(self) -> list[Outcome]:
        """Ask again, where the handshake was over before the daemon died."""
        return [Reply(_ASK)] if self.state.initialized else []

    def from_session(self, line: bytes | Oversized) -> list[Outcome]:
        """The host sent a line."""
        if isinstance(line, Oversized):
            seen = salvage.outline(line.head, line.tail)
            return [error_reply(seen.identity, jsonrpc.INVALID_REQUEST, "the message is too long")]
        text = salvage.bare(line)
        if not text:
            return []
        if text.startswith(b"[") and self.state.version == mcp.BATCH_VERSION:
            return self._hold(text, _batch(text))
        message = parsed(text)
        return [message] if isinstance(message, Reply) else self._from_host(text, message)

    def give_up(self) -> list[Outcome]:
        """The host does not say what its roots are: where it needs a project, let it go with an answer."""
        if self._remedy is None:
            return [Admitted((), None, self.state, tuple(self._lines), tuple(self._waiting))]
        return [
            *(error_reply(identity, jsonrpc.INTERNAL_ERROR, self._remedy) for identity in self._waiting),
            TurnedAway(),
        ]

    def _from_host(self, line: bytes, message: Message) -> list[Outcome]:
        if message.method == "ping" and message.id is not None:
            return [Reply(jsonrpc.result_line(message.id, b"{}"))]
        if not self.state.version:
            return self._before_handshake(message)
        if message.is_response and message.id == _QUESTION:
            return self._answered(message)
        if message.method == "notifications/initialized" and not self.state.initialized:
            self.state = msgspec.structs.replace(self.state, initialized=True)
            return [Reply(_ASK)]
        return self._hold(line, [message])

    def _before_handshake(self, message: Message) -> list[Outcome]:
        if message.id is None or message.method is None:
            return []
        if message.method == "server/discover":
            return [error_reply(message.id, jsonrpc.METHOD_NOT_FOUND, "Method not found: server/discover")]
        if message.method != "initialize":
            return [error_reply(message.id, jsonrpc.INVALID_REQUEST, "initialize comes first")]
        try:
            said = requests.opening(message)
        except FramingError as error:
            return [error_reply(message.id, error.rpc_code, error.message)]
        if self._remedy is not None and "roots" not in said.capabilities:
            return [error_reply(message.id, jsonrpc.INTERNAL_ERROR, self._remedy), TurnedAway()]
        self.state = State(version=said.version, capabilities=said.capabilities, client=said.client)
        return [Reply(jsonrpc.result_line(message.id, self._handshake()))]

    def _handshake(self) -> bytes:
        """The result of `initialize`: the server's own where it was ever learnt, else one that promises every list."""
        if self._known is not None:
            members = jsonrpc.members_of(self._known.handshake)
            declared = self._known.capabilities
        else:
            members = {"serverInfo": Raw(jsonrpc.text_of({"name": self._server, "version": __version__}))}
            declared = {"tools": {}, "prompts": {}, "resources": {}}
        told = mcp.server_capabilities(declared, self.state.version)
        members["protocolVersion"] = Raw(jsonrpc.text_of(self.state.version))
        members["capabilities"] = Raw(jsonrpc.text_of(told))
        return jsonrpc.object_text(members)

    def _hold(self, line: bytes, messages: list[Message]) -> list[Outcome]:
        asked = [message.id for message in messages if message.method is not None and message.id is not None]
        self._waiting += asked
        self._held += len(line)
        self._lines.append(line)
        if self._held > MAX_HELD:
            return self.give_up()
        return [Waits(identity) for identity in asked]

    def _answered(self, message: Message) -> list[Outcome]:
        roots = roots_of(message)
        paths = root_paths(roots or ())
        if not paths and (roots is None or self._remedy is not None):
            return self.give_up()
        return [Admitted(paths, roots, self.state, tuple(self._lines), tuple(self._waiting))]


def parsed(text: bytes) -> Message | Reply:
    """Return what a host said, or the error that it gets for it."""
    try:
        message = jsonrpc.parse(text)
    except FramingError as error:
        return error_reply(None, error.rpc_code, error.message)
    fault = requests.fault(message)
    if fault is None:
        return message
    identity = message.id if message.id is not None and jsonrpc.valid_id(message.id) else None
    return error_reply(identity, jsonrpc.INVALID_REQUEST, fault)


def error_reply(identity: bytes | None, code: int, text: str) -> Reply:
    """Return an error as the answer to a host."""
    return Reply(jsonrpc.error_line(identity, code, text))


def _batch(line: bytes) -> list[Message]:
    """Return the messages of a batch, none if it is broken: who reads it after us says so."""
    try:
        return [jsonrpc.parse(item) for item in items_of(line)]
    except FramingError:
        return []


def root_paths(roots: tuple[Root, ...]) -> tuple[str, ...]:
    """Return the paths of the roots that have one."""
    paths = []
    for root in roots:
        try:
            parts = urlsplit(root.uri)
        except ValueError:
            continue
        path = unquote(parts.path)
        if parts.scheme == "file" and parts.netloc in ("", "localhost") and path.startswith("/") and "\0" not in path:
            paths.append(path)
    return tuple(paths)
