"""What the child sends: answers to their askers, progress and updates to whom they belong, requests to the one host."""

from __future__ import annotations

from collections import deque

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import callbacks as backcalls
from supervisord_mcp.protocol import jsonrpc, mcp, requests
from supervisord_mcp.protocol.attachment import Greeting
from supervisord_mcp.protocol.callbacks import Callback
from supervisord_mcp.protocol.commands import Command, Learned, Note, Ready, ToServer, ToSession, Weight
from supervisord_mcp.protocol.conversation import Conversation, Pending
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.jsonrpc import Message, Text


class Upstream:
    """The child's side of one conversation."""

    def __init__(self, conversation: Conversation) -> None:
        self._talk = conversation

    def from_server(self, line: bytes | Oversized) -> list[Command]:
        """The child sent a line."""
        if isinstance(line, Oversized):
            return self._server_oversized(line)
        try:
            message = jsonrpc.lenient(line)
        except FramingError:
            return [Note("noise", line[:200].decode(errors="replace"))] if line.strip() else []
        if message.method is None:
            return self._server_answer(message)
        try:
            if message.id is None:
                return self._server_notification(message)
            return self._server_request(message, message.id)
        except FramingError as error:
            return [Note("noise", error.message)]

    def _server_oversized(self, line: Oversized) -> list[Command]:
        raw = jsonrpc.find_id(line.head, line.tail)
        upstream = requests.number(raw) if raw is not None else None
        if upstream not in self._talk.pending:
            # The oldest one is the best guess; leaving all of them open is certainly wrong.
            upstream = next(iter(self._talk.pending), None)
        text = f"server '{self._talk.server}' sent a message of {line.length} bytes, longer than max_message"
        if upstream is None:
            return [Note("noise", text)]
        error = jsonrpc.error_line(b"%d" % upstream, jsonrpc.INTERNAL_ERROR, text, {"reason": "message_too_long"})
        return [Note("noise", text), *self._server_answer(jsonrpc.parse(error))]

    def _server_answer(self, message: Message) -> list[Command]:
        upstream = requests.number(message.id or b"")
        pending = self._talk.pending.pop(upstream, None) if upstream is not None else None
        if pending is None:
            known = upstream is not None and 0 < upstream <= self._talk.last_id
            return [Note("late" if known else "unknown", "an answer that nobody waits for")]
        if pending.reply is not None:
            return self._own_answer(pending, message)
        assert pending.session is not None
        assert upstream is not None
        attachment = self._talk.sessions.get(pending.session)
        if attachment is None:
            return [Note("late", "an answer for a host that is gone")]
        members = message.members
        result = members.get("result")
        if result is not None:
            if pending.task and self._talk.tasks.created(pending.session, result, upstream):
                self._talk.task_tokens[upstream] = pending
            elif pending.method == "tasks/list":
                members["result"] = self._talk.tasks.filtered(pending.session, result)
        members["id"] = pending.identity
        return [*attachment.answer(pending.identity, jsonrpc.encode(members))]

    def _own_answer(self, pending: Pending, message: Message) -> list[Command]:
        assert pending.reply is not None
        commands = pending.reply(message)
        expanded: list[Command] = []
        for command in commands:
            expanded.append(command)
            if isinstance(command, Ready):
                expanded += self._resume_child()
            elif isinstance(command, Learned):
                expanded += [c for kind in command.changed for c in self._talk.announce(kind)]
        return expanded

    def _resume_child(self) -> list[Command]:
        commands = [*self._talk.raise_level(), *self._talk.replay_subscriptions()]
        held, self._talk.held = self._talk.held, deque()
        for message, attachment in ((item.message, self._talk.sessions.get(item.session)) for item in held):
            if attachment is None or message.id is None:
                continue
            del attachment.open[message.id]
            try:
                if message.method == "initialize":
                    commands += self._talk.greet(attachment, message.id)
                else:
                    commands += self._talk.forward(attachment, message, message.id)
            except FramingError as error:
                commands += self._talk.fail(attachment, message.id, error.rpc_code, error.message)
        return commands

    def _server_request(self, message: Message, identity: bytes) -> list[Command]:
        assert message.method is not None
        if message.method == "ping":
            return [ToServer(jsonrpc.result_line(identity, b"{}"))]
        host = (
            next((a for a in self._talk.sessions.values() if a.greeting is Greeting.DONE), None)
            if self._talk.relay
            else None
        )
        needed = backcalls.NEEDS.get(message.method)
        if host is None or (needed is not None and needed not in host.capabilities):
            text = f"Method not found: {message.method} (no client of this server offers it)"
            note = Note("callback", f"{message.method} was refused: no host can be asked")
            return [note, ToServer(jsonrpc.error_line(identity, jsonrpc.METHOD_NOT_FOUND, text))]
        params = message.params()
        meta = jsonrpc.members_of(params.get("_meta", b"{}"))
        token = meta.get("progressToken")
        ours = self._talk.callbacks.open(Callback(identity, message.method, None if token is None else bytes(token)))
        members: dict[str, Text] = {**message.members, "id": b"%d" % ours}
        if token is not None:
            changed = jsonrpc.object_text({**meta, "progressToken": b"%d" % ours})
            members["params"] = jsonrpc.object_text({**params, "_meta": changed})
        return [ToSession(host.key, jsonrpc.encode(members))]

    def _server_notification(self, message: Message) -> list[Command]:
        match message.method:
            case "notifications/progress":
                return self._server_progress(message)
            case "notifications/message":
                return self._server_log(message)
            case "notifications/resources/updated":
                uri = jsonrpc.string_of(message.params().get("uri")) or ""
                line = jsonrpc.encode(message.members)
                return [ToSession(key, line) for key in sorted(self._talk.subscriptions.interested(uri))]
            case "notifications/cancelled":
                ours = self._talk.callbacks.cancelled(bytes(message.params().get("requestId", b"")))
                return [] if ours is None else self._talk.cancel_at_host(ours)
            case "notifications/tasks/status":
                owner, ended = self._talk.tasks.status(message)
                if ended is not None:
                    self._talk.task_tokens.pop(ended, None)
                return [ToSession(owner, jsonrpc.encode(message.members))] if owner in self._talk.sessions else []
        if message.method in mcp.CHANGED:
            return [*self._talk.announce(mcp.CHANGED[message.method]), *self._talk.discovery.refresh()]
        if self._talk.relay:
            return [ToSession(key, jsonrpc.encode(message.members)) for key in self._talk.sessions]
        return [Note("unrouted", f"{message.method} names no host and was dropped")]

    def _server_progress(self, message: Message) -> list[Command]:
        params = message.params()
        upstream = requests.number(bytes(params.get("progressToken", b"")))
        pending = None if upstream is None else self._talk.pending.get(upstream) or self._talk.task_tokens.get(upstream)
        if pending is None or pending.token is None or pending.session not in self._talk.sessions:
            return [Note("late", "progress that no host waits for")]
        value = jsonrpc.value_of(params.get("progress"))
        if not isinstance(value, int | float) or (pending.progress is not None and value <= pending.progress):
            return [Note("late", "progress that does not increase")]
        pending.progress = value
        rewritten = jsonrpc.object_text({**params, "progressToken": pending.token})
        line = jsonrpc.encode({**message.members, "params": rewritten})
        return [ToSession(pending.session, line, Weight.DROPPABLE)]

    def _server_log(self, message: Message) -> list[Command]:
        rank = mcp.LEVELS.get(jsonrpc.string_of(message.params().get("level")) or "", mcp.LEVELS["info"])
        calling = self._talk.eligible()
        if len(calling) > 1 and len(self._talk.sessions) > 1:
            # Nothing on the wire says whose call this is about (pitfall 28): showing it to the wrong host is worse.
            return [Note("message", jsonrpc.encode(message.members).decode(errors="replace").strip())]
        line = jsonrpc.encode(message.members)
        commands: list[Command] = []
        for attachment in self._talk.sessions.values():
            if attachment.greeting is not Greeting.DONE or (calling and attachment.key not in calling):
                continue
            if attachment.level is None:
                fits = bool(calling) or len(self._talk.sessions) == 1
            else:
                fits = rank >= mcp.LEVELS[attachment.level]
            if fits:
                commands.append(ToSession(attachment.key, line, Weight.DROPPABLE))
        return commands
