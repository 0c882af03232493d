"""What the child sends: answers to their askers, progress and updates to whom they belong, requests to the one host."""

from __future__ import annotations

from msgspec import Raw

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc, mcp, requests, salvage
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.protocol.catalogue import items_of
from supervisord_mcp.protocol.commands import Command, Note, Ready, ToServer, ToSession, Weight
from supervisord_mcp.protocol.conversation import Conversation
from supervisord_mcp.protocol.framing import KEPT, Oversized
from supervisord_mcp.protocol.jsonrpc import Members, Message
from supervisord_mcp.protocol.pending import Pending
from supervisord_mcp.protocol.sayings import said
from supervisord_mcp.protocol.tasks import BY_ID

#: Requests whose answers have to be looked into.
_READ = frozenset({*BY_ID, *mcp.LISTINGS})


class Upstream:
    """The child's side of one conversation."""

    def __init__(self, conversation: Conversation) -> None:
        self._talk = conversation

    def from_server(self, line: bytes | Oversized) -> list[Command]:
        """The child sent a line."""
        if isinstance(line, Oversized):
            return self._oversized(line)
        try:
            message = jsonrpc.parse(line)
        except FramingError:
            return self._unparsed(line)
        # Without its quotes it is found in half the time, about 0.5 µs per KiB: every answer is searched for it.
        if b"resultType" in line:
            self._refuse_modern(message)
        return self._dispatch(message)

    # What is no proper message

    def _unparsed(self, line: bytes) -> list[Command]:
        text = salvage.bare(line)
        if not text:
            return []
        if text.startswith(b"[") and (commands := self._batch(text)):
            return commands
        try:
            message = salvage.lenient(text)
            self._refuse_modern(message)
            return self._dispatch(message)
        except FramingError as error:
            noise: list[Command] = [Note("noise", text[:200].decode(errors="replace"))]
            seen = salvage.outline(text[:KEPT])
            if seen.answers and not seen.asks and seen.identity is not None:
                upstream = requests.number(seen.identity)
                if upstream in self._talk.pending:
                    # Nobody will send that answer again: the host would wait for ever.
                    noise += self._fail(upstream, f"sent an answer that cannot be read: {error.message}")
            return noise

    def _batch(self, line: bytes) -> list[Command]:
        """A server of 2025-03-26 may answer in arrays, whoever asked. Nothing comes of what is no such array."""
        try:
            messages = [jsonrpc.parse(item) for item in items_of(line)]
        except FramingError:
            return []
        for message in messages:
            self._refuse_modern(message)
        return [command for message in messages for command in self._dispatch(message)]

    def _oversized(self, line: Oversized) -> list[Command]:
        text = f"sent a message of {line.length} bytes, longer than max_message"
        note = Note("noise", f"the server {text}")
        seen = salvage.outline(line.head, line.tail)
        if seen.asks:
            if seen.identity is None:
                return [note]
            error = jsonrpc.error_line(seen.identity, jsonrpc.INVALID_REQUEST, "the message is too long")
            return [note, ToServer(error)]
        upstream = None if seen.identity is None else requests.number(seen.identity)
        if upstream not in self._talk.pending:
            # The oldest one is the best guess; leaving all of them open is certainly wrong.
            # The daemon's own listens are always open.
            pending = self._talk.pending
            upstream = min(pending, key=lambda at: (pending[at].session is None, at), default=None)
        return [note] if upstream is None else [note, *self._fail(upstream, text)]

    def _fail(self, upstream: int, text: str) -> list[Command]:
        reason = {"reason": "message_lost"}
        told = f"server '{self._talk.server}' {text}"
        line = jsonrpc.error_line(b"%d" % upstream, jsonrpc.INTERNAL_ERROR, told, reason)
        return self._dispatch(jsonrpc.parse(line))

    def _refuse_modern(self, message: Message) -> None:
        """Make an error of a result that only the modern era knows: a legacy host takes it for success (pitfall 45)."""
        if self._talk.modern:
            return
        kind = jsonrpc.string_of(jsonrpc.members_of(message.members.get("result")).get("resultType"))
        if kind in ("task", "input_required"):
            text = f"server '{self._talk.server}' answered with resultType {kind}, which nobody asked for"
            del message.members["result"]
            message.members["error"] = Raw(jsonrpc.text_of({"code": jsonrpc.INTERNAL_ERROR, "message": text}))

    # Messages

    def _dispatch(self, message: Message) -> list[Command]:
        if message.members.get("jsonrpc") != jsonrpc.VERSION:
            return [Note("noise", jsonrpc.encode(message.members)[:200].decode(errors="replace").strip())]
        if message.method is None:
            return self._answer(message)
        try:
            if message.id is None:
                return self._notification(message)
            if self._talk.modern:
                # There are no requests of servers in this era, and so no answers to them (protocol.md 1.2).
                return [Note("violation", f"the server sent a request, {message.method}, which was ignored")]
            if message.method == "ping":
                return [ToServer(jsonrpc.result_line(message.id, b"{}"))]
            return self._talk.callbacks.from_child(message)
        except FramingError as error:
            note = Note("noise", error.message)
            if message.id is None:
                return [note]
            return [note, ToServer(jsonrpc.error_line(message.id, error.rpc_code, error.message))]

    def _answer(self, message: Message) -> list[Command]:
        if "error" in message.members and message.members.get("result") == jsonrpc.NULL:
            del message.members["result"]  # as servers of older JSON-RPC write it; it is no success
        upstream = requests.number(message.id or b"")
        pending = self._talk.pending.pop(upstream, None) if upstream is not None else None
        if pending is None or upstream is None:
            known = upstream is not None and 0 < upstream <= self._talk.last_id
            if known and upstream is not None:
                self._talk.callbacks.settled(upstream)
            return [Note("late" if known else "unknown", "an answer that nobody waits for")]
        if pending.reply is not None:
            followed = self._read(pending.reply(message))
            return [*followed, *self._talk.turns.go_on()] if self._talk.callbacks.serialized else followed
        assert pending.session is not None
        attachment = self._talk.sessions[pending.session]
        before: list[Command] = []
        if pending.augmented or pending.method in _READ:
            before = self._read_answer(attachment, pending, message, upstream)
        elif pending.trace is not None and "error" in message.members:
            self._talk.callbacks.refused_call(attachment.key, message.members["error"])
        if attachment.version < self._talk.discovery.version and "result" in message.members:
            told = self._talk.told(attachment, pending.method, message.members["result"])
            message.members["result"] = Raw(told)
        message.members["id"] = Raw(pending.identity)
        answer = attachment.answer(pending.identity, jsonrpc.encode(message.members))
        if self._talk.callbacks.serialized:
            return [*before, *answer, *self._talk.turns.go_on()]
        return [*before, *answer]

    def _read_answer(self, attachment: Attachment, pending: Pending, message: Message, upstream: int) -> list[Command]:
        """Learn from an answer what it says of tasks and lists; return what comes before it."""
        result = message.members.get("result")
        if pending.task is not None:
            over = self._talk.tasks.answered(pending.task, pending.method, message)
            return self._talk.callbacks.task_over(pending.task) if over else []
        if result is None:
            return []
        if pending.augmented:
            return self._talk.tasks.created(pending, result, upstream)
        self._talk.note_page(attachment, pending.method, jsonrpc.members_of(result))
        return []

    def _read(self, followed: list[Command]) -> list[Command]:
        """Given what follows from an answer that somebody took, return it with what hosts get of a child now ready."""
        commands: list[Command] = []
        for command in followed:
            commands.append(command)
            if isinstance(command, Ready):
                commands += self._resume()
        return commands

    def _resume(self) -> list[Command]:
        """The child is ready: it gets what hosts had set, then what was held for it, in order."""
        commands = self._talk.compare_offers()
        commands += [*self._talk.raise_level(), *self._talk.replay_subscriptions()]
        commands += self._talk.modern_hosts.child_ready()
        for held in self._talk.held.take():
            attachment, message = self._talk.sessions[held.session], held.message
            if message.id is None:
                commands += self._talk.notify(message)
                continue
            try:
                if message.method == "initialize":
                    commands += self._talk.greet(attachment, message.id)
                else:
                    commands += self._talk.forward(attachment, message, message.id)
            except FramingError as error:
                commands += self._talk.fail(attachment, message.id, error.rpc_code, error.message)
        return commands

    # Notifications

    def _notification(self, message: Message) -> list[Command]:
        if message.method == "notifications/progress":
            return self._progress(message)
        if self._talk.modern:
            told = self._talk.modern_hosts.notified(message)
            return self._talk.bridge.notified(message) if told is None else told
        match message.method:
            case "notifications/message":
                return self._log(message)
            case "notifications/resources/updated":
                uri = jsonrpc.string_of(message.params().get("uri")) or ""
                return self._talk.tell_updated(self._talk.subscriptions.interested(uri), message)
            case "notifications/cancelled":
                return self._talk.callbacks.cancelled(message.params())
            case "notifications/tasks/status":
                return self._task_status(message)
            case method if method in mcp.CHANGED:
                return self._talk.discovery.changed(mcp.CHANGED[method])
        return self._talk.callbacks.from_child(message)

    def _task_status(self, message: Message) -> list[Command]:
        task, over = self._talk.tasks.status(message)
        ended = self._talk.callbacks.task_over(task) if over else []
        owner = self._talk.tasks.owner(task)
        return ended if owner is None else [*ended, ToSession(owner, jsonrpc.encode(message.members))]

    def _progress(self, message: Message) -> list[Command]:
        params = message.params()
        upstream = requests.number(bytes(params.get("progressToken", b"")))
        pending = None
        if upstream is not None:
            pending = self._talk.pending.get(upstream) or self._talk.tasks.running(upstream)
        if pending is None or pending.token is None or pending.session is None:
            return [Note("late", "progress that no host waits for")]
        value = jsonrpc.value_of(params.get("progress"))
        if not isinstance(value, int | float):
            return [Note("late", "progress without a number")]
        value += pending.offset
        if pending.progress is not None and value <= pending.progress:
            return [Note("late", "progress that does not increase")]
        pending.progress = value
        params["progressToken"] = Raw(pending.token)
        if pending.offset:
            params.update(_shifted(params, value, pending.offset))
        message.members["params"] = Raw(jsonrpc.object_text(params))
        return [ToSession(pending.session, jsonrpc.encode(message.members), Weight.DROPPABLE)]

    def _log(self, message: Message) -> list[Command]:
        rank = mcp.LEVELS.get(jsonrpc.string_of(message.params().get("level")) or "", mcp.LEVELS[mcp.DEFAULT_LEVEL])
        # A modern host is shown what a request of its own asked for, of whatever method that is (pitfall 27).
        wanting = {
            key
            for key, attachment in self._talk.sessions.items()
            if attachment.era == "modern" and self._talk.modern_hosts.shows(key, rank)
        }
        calling = self._talk.eligible() | wanting
        line = jsonrpc.encode(message.members)
        if len(calling) > 1:
            # Nothing on the wire says whose call this is about (pitfall 28): showing it to the wrong host is worse.
            return [said(message)]
        shown = tuple(
            attachment.key
            for attachment in self._talk.sessions.values()
            if (not calling or attachment.key in calling) and self._shows(attachment, rank, calling)
        )
        return [said(message, shown), *(ToSession(key, line, Weight.DROPPABLE) for key in shown)]

    def _shows(self, attachment: Attachment, rank: int, calling: set[SessionKey]) -> bool:
        """Whether a log message of that rank is shown to a host, by the level that it asked for."""
        if attachment.era == "modern":
            return self._talk.modern_hosts.shows(attachment.key, rank)
        if not attachment.done:
            return False
        if attachment.level is not None:
            return rank >= mcp.LEVELS[attachment.level]
        if not calling and len(self._talk.sessions) > 1:
            return False  # it never asked for any, and this one may be about another host
        return self._talk.level is None or rank >= mcp.LEVELS[mcp.DEFAULT_LEVEL]


def _shifted(params: Members, value: float, offset: float) -> Members:
    """Return the numbers of a report for a call whose earlier rounds were reported on already (pitfall 9)."""
    shifted = {"progress": Raw(jsonrpc.text_of(value))}
    total = jsonrpc.value_of(params.get("total"))
    if isinstance(total, int | float):
        shifted["total"] = Raw(jsonrpc.text_of(total + offset))
    return shifted
