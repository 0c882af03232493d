"""What hosts send: checked here, answered here where the daemon can, else forwarded or held for a child."""

from __future__ import annotations

from collections.abc import Callable

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc, mcp, requests, salvage
from supervisord_mcp.protocol.attachment import Attachment, Batch, Greeting
from supervisord_mcp.protocol.calls import Call, SessionKey
from supervisord_mcp.protocol.catalogue import items_of
from supervisord_mcp.protocol.commands import Command, Dropped, Note, Remember, ToSession
from supervisord_mcp.protocol.conversation import Conversation
from supervisord_mcp.protocol.eras.modern_host import ModernHosts
from supervisord_mcp.protocol.framing import KEPT, Oversized
from supervisord_mcp.protocol.jsonrpc import Message
from supervisord_mcp.protocol.salvage import Outline

#: Answers one kind of request.
Handler = Callable[[Attachment, Message, bytes], list[Command]]


class Downstream:
    """The hosts' side of one conversation."""

    def __init__(self, conversation: Conversation, modern: ModernHosts) -> None:
        self._talk = conversation
        self._modern = modern
        self._handlers: dict[str, Handler] = {
            "ping": self._ping,
            "initialize": self._initialize,
            "server/discover": self._discover,
            "logging/setLevel": self._set_level,
            **dict.fromkeys(mcp.LISTINGS, self._list),
        }

    def from_session(self, key: SessionKey, line: bytes | Oversized) -> list[Command]:
        """A host sent a line."""
        attachment = self._talk.sessions[key]
        if isinstance(line, Oversized):
            return self._oversized(attachment, line)
        try:
            message = jsonrpc.parse(line)
        except FramingError as error:
            return self._unparsed(attachment, line, error)
        return self._dispatch(attachment, message)

    # What is no proper message

    def _oversized(self, attachment: Attachment, line: Oversized) -> list[Command]:
        text = f"message of {line.length} bytes is longer than max_message"
        return self._lost(attachment, salvage.outline(line.head, line.tail), jsonrpc.INVALID_REQUEST, text)

    def _lost(self, attachment: Attachment, seen: Outline, code: int, text: str) -> list[Command]:
        """A message cannot be read: tell the host, and the child if it was the answer to its question."""
        if not seen.answers or seen.asks:
            return [self._malformed(attachment, seen.identity, code, text)]
        lost = self._talk.callbacks.answer_lost(
            attachment.key, seen.identity, f"the answer of the host is lost: {text}"
        )
        return [*lost, self._malformed(attachment, None, code, text)]

    def _unparsed(self, attachment: Attachment, line: bytes, error: FramingError) -> list[Command]:
        text = salvage.bare(line)
        if not text and len(line) < 4:
            return []
        if text != line:
            try:
                return self._dispatch(attachment, jsonrpc.parse(text))
            except FramingError as second:
                error = second
        if text.startswith(b"[") and attachment.version == mcp.BATCH_VERSION:
            return self._batch(attachment, text)
        return self._lost(attachment, salvage.outline(text[:KEPT]), error.rpc_code, error.message)

    @staticmethod
    def _malformed(attachment: Attachment, identity: bytes | None, code: int, text: str) -> ToSession:
        if attachment.uses(identity):
            identity = None  # with the id of an open request this refusal would settle that one (case 2)
        closes = () if identity is None else (Call(attachment.key, identity),)
        return ToSession(attachment.key, jsonrpc.error_line(identity, code, text), closes=closes)

    def _batch(self, attachment: Attachment, line: bytes) -> list[Command]:
        items = items_of(line)
        if not items:
            return [self._malformed(attachment, None, jsonrpc.INVALID_REQUEST, "no array of messages")]
        batch = Batch()
        commands: list[Command] = []
        for item in items:
            try:
                message = jsonrpc.parse(item)
            except FramingError as error:
                batch.answers.append(jsonrpc.error_line(None, error.rpc_code, error.message))
                continue
            fault = requests.fault(message) or requests.batch_fault(message)
            asks = message.id if message.is_request else None
            if fault is not None or attachment.uses(asks):
                refused = self._refused(attachment, message, fault)
                batch.answers.append(refused.data)
                batch.answered += refused.closes
                attachment.batches.update({call.identity: batch for call in refused.closes})
                continue
            if asks is not None:
                batch.waiting.add(asks)
                attachment.batches[asks] = batch
            commands += self._handle(attachment, message)
        batch.closed = True
        if finished := attachment.finish(batch):
            return [*commands, *finished]
        # What is answered already waits for the rest, and must not be lost with the daemon meanwhile (D11).
        noted = {command.identity for command in commands if isinstance(command, Call)}
        return [*commands, *(call for call in batch.answered if call.identity not in noted)]

    def _refused(self, attachment: Attachment, message: Message, fault: str | None) -> ToSession:
        identity = message.id if message.id and jsonrpc.valid_id(message.id) else None
        if fault is None:
            fault = f"id {(message.id or b'').decode()} is already in use by a request that is not answered yet"
        return self._malformed(attachment, identity, jsonrpc.INVALID_REQUEST, fault)

    # Messages

    def _dispatch(self, attachment: Attachment, message: Message) -> list[Command]:
        fault = requests.fault(message)
        if fault is not None or (message.method is not None and attachment.uses(message.id)):
            return [self._refused(attachment, message, fault)]
        return self._handle(attachment, message)

    def _handle(self, attachment: Attachment, message: Message) -> list[Command]:
        identity = message.id
        try:
            if attachment.era != "legacy" and (told := self._modern.hear(attachment, message)) is not None:
                return told
            if message.method is None:
                return self._talk.callbacks.answered(attachment.key, message)
            if identity is None:
                return self._notification(attachment, message)
            return self._handlers.get(message.method, self._pass_on)(attachment, message, identity)
        except FramingError as error:
            if identity is None:
                return [Note("host", f"a notification of a host was dropped: {error.message}")]
            return self._talk.fail(attachment, identity, error.rpc_code, error.message)

    def _pass_on(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        if attachment.greeting is Greeting.NONE:
            return self._talk.fail(attachment, identity, jsonrpc.INVALID_REQUEST, "initialize comes first")
        if self._talk.crowded:
            return self._talk.turn_down(attachment, identity)
        if not self._talk.ready:
            return self._talk.hold(attachment, message, identity)
        return self._talk.forward(attachment, message, identity)

    def _ping(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        return self._talk.succeed(attachment, identity)

    def _discover(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        # Who shook hands has chosen its era (6.9).
        text = "Method not found: server/discover"
        return self._talk.fail(attachment, identity, jsonrpc.METHOD_NOT_FOUND, text)

    def _list(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        known = self._talk.discovery.known
        if attachment.greeted and not self._talk.ready and known is not None:
            assert message.method is not None
            stored = known.answer(message.method)
            if stored is not None and requests.cursor(message.params()) is None:
                attachment.lists.asked(message.method, None)
                told = self._talk.told(attachment, message.method, stored)
                return self._talk.succeed(attachment, identity, told)
        return self._pass_on(attachment, message, identity)

    def _initialize(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        if attachment.greeted:
            return self._talk.fail(attachment, identity, jsonrpc.INVALID_REQUEST, "already initialized")
        said = requests.opening(message)
        attachment.version = said.version
        attachment.capabilities = said.capabilities
        attachment.client = said.client
        attachment.greeting = Greeting.ASKED
        attachment.era = "legacy"
        attachment.asking = identity
        if self._talk.discovery.handshake is None:
            return [Remember(attachment.key), *self._talk.hold(attachment, message, identity)]
        return self._talk.greet(attachment, identity)

    def _set_level(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        if not attachment.greeted:
            return self._pass_on(attachment, message, identity)
        level = jsonrpc.string_of(message.params().get("level"))
        if level not in mcp.LEVELS:
            text = f"unknown log level; use one of {', '.join(mcp.LEVELS)}"
            return self._talk.fail(attachment, identity, jsonrpc.INVALID_PARAMS, text)
        if self._talk.discovery.handshake is not None and "logging" not in self._talk.discovery.capabilities:
            text = f"server '{self._talk.server}' does not offer logging"
            return self._talk.fail(attachment, identity, jsonrpc.METHOD_NOT_FOUND, text)
        attachment.level = level
        return [Remember(attachment.key), *self._talk.succeed(attachment, identity), *self._talk.raise_level()]

    def _notification(self, attachment: Attachment, message: Message) -> list[Command]:
        match message.method:
            case "notifications/initialized":
                return self._initialized(attachment)
            case "notifications/cancelled":
                return self._cancelled(attachment, message)
            case "notifications/progress":
                return self._talk.callbacks.progress(attachment.key, message)
            case "notifications/roots/list_changed" if not self._talk.callbacks.relay:
                return self._talk.moves.changed(attachment.key) if attachment.done else []
        message.params()
        if not attachment.greeted:
            return [Note("host", f"{message.method} came before initialize")]
        if self._talk.ready:
            return self._talk.notify(message)
        if self._talk.held or self._talk.discovery.handshaking:
            self._talk.held.add(attachment.key, message)
            return []
        return [Note("host", f"{message.method} came while the server was not running")]

    def _initialized(self, attachment: Attachment) -> list[Command]:
        owed = attachment.confirmed()
        if not attachment.done:
            return [Remember(attachment.key)] if attachment.greeted else []
        return [Remember(attachment.key), *owed, *self._talk.callbacks.host_ready()]

    def _cancelled(self, attachment: Attachment, message: Message) -> list[Command]:
        params = message.params()
        raw = params.get("requestId")
        identity = b"" if raw is None else bytes(raw)
        call = attachment.open.get(identity)
        if call is None:
            return []
        upstream = call.upstream
        commands: list[Command] = []
        if upstream is not None:
            if self._talk.pending[upstream].augmented:
                return []
            commands += self._talk.cancel_upstream(upstream, params)
        else:
            held = self._talk.held.find(attachment.key, identity)
            if held is not None and held.method == "initialize":
                return []  # it cannot be cancelled (protocol.md 2.3)
            self._talk.held.drop(attachment.key, identity)
            if self._talk.turns.drop(attachment.key, identity):
                commands += self._talk.turns.go_on()
            self._talk.subscriptions.cancel(attachment.key, identity)
            commands += self._talk.bridge.cancel(attachment.key, identity)
        dropped = Dropped(call, requests.overdue(params))
        return [*commands, dropped, *attachment.forget(identity)]
