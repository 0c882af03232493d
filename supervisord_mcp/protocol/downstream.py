"""What hosts send: checked here, answered here where the daemon can, else forwarded or held for a child."""

from __future__ import annotations

import msgspec

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc, mcp, requests
from supervisord_mcp.protocol.attachment import Attachment, Batch, Greeting
from supervisord_mcp.protocol.commands import Command, Dropped, Note, Remember, SessionKey, ToServer, ToSession
from supervisord_mcp.protocol.conversation import Conversation
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.jsonrpc import Message


class Downstream:
    """The hosts' side of one conversation."""

    def __init__(self, conversation: Conversation) -> None:
        self._talk = conversation

    def from_session(self, key: SessionKey, line: bytes | Oversized) -> list[Command]:
        """A host sent a line."""
        attachment = self._talk.sessions[key]
        if isinstance(line, Oversized):
            text = f"message of {line.length} bytes is longer than max_message"
            return [self._malformed(key, jsonrpc.find_id(line.head, line.tail), jsonrpc.INVALID_REQUEST, text)]
        try:
            message = jsonrpc.parse(line)
        except FramingError as error:
            return self._unparsed(attachment, line, error)
        return self._dispatch(attachment, message)

    def _unparsed(self, attachment: Attachment, line: bytes, error: FramingError) -> list[Command]:
        stripped = line.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r")
        if not stripped and len(line) < 4:
            return []
        if stripped != line and stripped:
            return self.from_session(attachment.key, stripped)
        if stripped.startswith(b"[") and attachment.version == mcp.BATCH_VERSION:
            return self._batch(attachment, stripped)
        identity = jsonrpc.find_id(line[:4096], b"")
        return [self._malformed(attachment.key, identity, error.rpc_code, error.message)]

    @staticmethod
    def _malformed(key: SessionKey, identity: bytes | None, code: int, text: str) -> ToSession:
        return ToSession(key, jsonrpc.error_line(identity, code, text), closes=(identity,) if identity else ())

    def _batch(self, attachment: Attachment, line: bytes) -> list[Command]:
        try:
            items = msgspec.json.decode(line, type=list[msgspec.Raw])
        except (msgspec.DecodeError, RecursionError) as error:
            return [self._malformed(attachment.key, None, jsonrpc.PARSE_ERROR, f"not JSON: {error}")]
        if not items:
            return [self._malformed(attachment.key, None, jsonrpc.INVALID_REQUEST, "an empty batch")]
        batch = Batch()
        commands: list[Command] = []
        for item in items:
            try:
                message = jsonrpc.parse(bytes(item))
            except FramingError as error:
                batch.answers.append(jsonrpc.error_line(None, error.rpc_code, error.message))
                continue
            fault = requests.fault(message) or requests.batch_fault(message)
            if fault is None and message.id in attachment.open:
                fault = "the id is already in use by a request that is not answered yet"
            if fault is not None:
                batch.answers.append(jsonrpc.error_line(None, jsonrpc.INVALID_REQUEST, fault))
                continue
            if message.is_request and message.id is not None:
                batch.waiting.add(message.id)
                attachment.batches[message.id] = batch
            commands += self._dispatch(attachment, message)
        batch.closed = True
        return commands + (attachment.finish(batch) if not batch.waiting else [])

    def _dispatch(self, attachment: Attachment, message: Message) -> list[Command]:
        fault = requests.fault(message)
        if fault is not None:
            identity = message.id if message.id and jsonrpc.valid_id(message.id) else None
            return [self._malformed(attachment.key, identity, jsonrpc.INVALID_REQUEST, fault)]
        if message.method is None:
            return self._host_answer(message)
        try:
            if message.id is None:
                return self._host_notification(attachment, message)
            if message.id in attachment.open:
                # With the id of the first one this refusal would settle the first one (case 2).
                text = f"id {message.id.decode()} is already in use by a request that is not answered yet"
                return [self._malformed(attachment.key, None, jsonrpc.INVALID_REQUEST, text)]
            return self._host_request(attachment, message, message.id)
        except FramingError as error:
            if message.id is None:
                return [Note("host", f"a notification of a host was dropped: {error.message}")]
            return self._talk.fail(attachment, message.id, error.rpc_code, error.message)

    def _host_request(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        match message.method:
            case "ping":
                return [*attachment.answer(identity, jsonrpc.result_line(identity, b"{}"))]
            case "initialize":
                return self._initialize(attachment, message, identity)
            case "server/discover":
                # A legacy daemon's answer to the probe of a dual-era host; nothing is started for it (pitfall 60).
                return self._talk.fail(
                    attachment, identity, jsonrpc.METHOD_NOT_FOUND, "Method not found: server/discover"
                )
        if not attachment.greeted:
            return self._talk.fail(attachment, identity, jsonrpc.INVALID_REQUEST, "initialize comes first")
        if message.method == "logging/setLevel":
            return self._set_level(attachment, message, identity)
        if message.method in mcp.LISTINGS:
            attachment.told.discard(mcp.LISTINGS[message.method].capability)
            if not self._talk.ready and (stored := self._stored_list(message)) is not None:
                return [*attachment.answer(identity, jsonrpc.result_line(identity, stored))]
        if not self._talk.ready:
            return self._talk.hold(attachment, message, identity)
        return self._talk.forward(attachment, message, identity)

    def _stored_list(self, message: Message) -> bytes | None:
        known = self._talk.discovery.known
        if known is None or message.method is None or "cursor" in message.params():
            return None
        return known.answer(message.method)

    def _initialize(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        if attachment.greeting is not Greeting.NONE:
            return self._talk.fail(attachment, identity, jsonrpc.INVALID_REQUEST, "already initialized")
        params = message.params()
        version = jsonrpc.value_of(params.get("protocolVersion"))
        capabilities = jsonrpc.value_of(params.get("capabilities", b"{}"))
        if not isinstance(version, str) or not isinstance(capabilities, dict):
            text = "initialize needs protocolVersion (a string) and capabilities (an object)"
            return self._talk.fail(attachment, identity, jsonrpc.INVALID_PARAMS, text)
        client = jsonrpc.value_of(params.get("clientInfo"))
        attachment.version = mcp.negotiate(version)
        attachment.capabilities = capabilities
        attachment.client = client if isinstance(client, dict) else {}
        attachment.greeting = Greeting.ASKED
        if self._talk.discovery.handshake is None:
            return self._talk.hold(attachment, message, identity)
        return self._talk.greet(attachment, identity)

    def _set_level(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        level = jsonrpc.string_of(message.params().get("level"))
        if level not in mcp.LEVELS:
            text = f"unknown log level; use one of {', '.join(mcp.LEVELS)}"
            return self._talk.fail(attachment, identity, jsonrpc.INVALID_PARAMS, text)
        if self._talk.discovery.handshake is not None and "logging" not in self._talk.discovery.capabilities:
            text = f"server '{self._talk.server}' does not offer logging"
            return self._talk.fail(attachment, identity, jsonrpc.METHOD_NOT_FOUND, text)
        attachment.level = level
        answer = attachment.answer(identity, jsonrpc.result_line(identity, b"{}"))
        return [Remember(attachment.key), *answer, *(self._talk.raise_level() if self._talk.ready else [])]

    def _host_notification(self, attachment: Attachment, message: Message) -> list[Command]:
        match message.method:
            case "notifications/initialized":
                attachment.greeting = Greeting.DONE
                owed, attachment.owed = sorted(attachment.owed), set()
                return [Remember(attachment.key), *(c for kind in owed for c in self._talk.tell(attachment, kind))]
            case "notifications/cancelled":
                return self._host_cancelled(attachment, message)
            case "notifications/progress":
                return self._host_progress(message)
            case "notifications/roots/list_changed" if not self._talk.relay:
                return []
        if not self._talk.ready:
            return [Note("host", f"{message.method} came while the server was not running")]
        return [ToServer(jsonrpc.encode(message.members))]

    def _host_cancelled(self, attachment: Attachment, message: Message) -> list[Command]:
        raw = message.params().get("requestId")
        identity = b"" if raw is None else bytes(raw)
        if identity not in attachment.open:
            return []
        upstream = attachment.open[identity]
        commands: list[Command] = []
        if upstream is not None:
            pending = self._talk.pending.get(upstream)
            if pending is not None and pending.task:
                return []
            reason = jsonrpc.string_of(message.params().get("reason"))
            commands += self._talk.cancel_upstream(upstream, reason or "cancelled by the host")
        else:
            held = self._talk.is_held(attachment.key, identity)
            if held is not None and held.method == "initialize":
                return []  # it cannot be cancelled (protocol.md 2.3)
            self._talk.release(attachment.key, identity)
            self._talk.subscriptions.cancel(attachment.key, identity)
        return [*commands, Dropped(attachment.key, identity), *attachment.forget(identity)]

    def _host_progress(self, message: Message) -> list[Command]:
        params = message.params()
        callback = self._talk.callbacks.by_token(bytes(params.get("progressToken", b"")))
        if callback is None or callback.token is None:
            return []
        rewritten = jsonrpc.object_text({**params, "progressToken": callback.token})
        return [ToServer(jsonrpc.encode({**message.members, "params": rewritten}))]

    def _host_answer(self, message: Message) -> list[Command]:
        callback = self._talk.callbacks.answered(message.id or b"")
        if callback is None:
            return [Note("host", "a host answered a request that nobody asked")]
        return [ToServer(jsonrpc.encode({**message.members, "id": callback.identity}))]
