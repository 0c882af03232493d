"""Hosts of the modern era (protocol.md 6.4, column MC to LS; 6.9).

Every request of such a host carries its revision and capabilities, which are checked here, since not every child checks
them and a legacy one knows nothing of them. To such a child it goes on without them, and what comes back is completed.
What the child asks in return is parked (`parking`), and what it tells unasked is told on listens (`listening`). A child
of their own era gets what they say as it is (`modern_relay`, `tunnels`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import conversion, jsonrpc, mcp, requests
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.protocol.commands import Command, Dropped, Note, Remember
from supervisord_mcp.protocol.conversation import Conversation
from supervisord_mcp.protocol.eras import envelope, listening, offers
from supervisord_mcp.protocol.eras.cache import Cache
from supervisord_mcp.protocol.eras.envelope import Envelope, Fault
from supervisord_mcp.protocol.eras.listening import MAX_LISTENS, Listening
from supervisord_mcp.protocol.eras.modern_relay import BY_TASK, ModernRelay, Relayed
from supervisord_mcp.protocol.eras.parking import PARKABLE, RETRY, STALE, Call, Parking, takes
from supervisord_mcp.protocol.eras.tunnels import Tunnels
from supervisord_mcp.protocol.jsonrpc import Message, Text

#: Requests of the handshake era that do not exist in the modern one (protocol.md 1.1, 3.14).
GONE = frozenset(
    {
        *("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"),
        # The tasks of 2025-11-25 are not those of the extension, which has no such requests.
        *("tasks/list", "tasks/result"),
    }
)
#: Parameters that a legacy server must not see: those of a retry, and a wish for a task that must be ignored (3.13).
_NOT_LEGACY = (*RETRY, "task")

_LISTEN = Raw(b'"subscriptions/listen"')

#: Answers one kind of request.
Handler = Callable[[Attachment, Message, bytes, Envelope], list[Command]]


class ModernHosts:
    """What the modern hosts of one conversation say, and what they are told."""

    def __init__(self, conversation: Conversation, cache: Cache) -> None:
        self._talk = conversation
        self.parking = Parking(conversation, self._deliver)
        self.listening = Listening(conversation)
        self.relay = ModernRelay(conversation, cache)
        self.tunnels = Tunnels(conversation, cache)
        conversation.modern_hosts = self
        conversation.callbacks.park = self.parking.park
        conversation.callbacks.withdrawn = self.parking.withdrawn
        self._local: dict[str, Handler] = {
            "server/discover": self._discover,
            "subscriptions/listen": self._listen,
            **dict.fromkeys(mcp.LISTINGS, self._list),
            **dict.fromkeys(PARKABLE, self._call),
        }

    # From hosts

    def hear(self, attachment: Attachment, message: Message) -> list[Command] | None:
        """A host said something that is not known to be legacy; return None if it is to be heard as a legacy host.

        Its first message that is not `server/discover` decides its era for good (6.9, pitfall 60).
        """
        if attachment.era == "modern":
            return self._heard(attachment, message)
        if message.method == "server/discover" and message.id is not None:
            return self._request(attachment, message, message.id)
        if message.id is None or message.method in (None, "initialize") or not envelope.claims(message):
            return None
        attachment.era = "modern"
        attachment.version = mcp.NEWEST_MODERN
        # What the child asked before is for nobody: such a host is told of it in answers only.
        early = self._talk.callbacks.host_ready()
        try:
            told = self._request(attachment, message, message.id)
        except FramingError as fault:  # what was decided by now is to be done all the same
            told = self._talk.fail(attachment, message.id, fault.rpc_code, fault.message)
        return [Remember(attachment.key), *early, *told]

    def _heard(self, attachment: Attachment, message: Message) -> list[Command]:
        if message.method is None:
            return [Note("host", "a host of the modern era answered a request, which nobody asks it")]
        if message.id is not None:
            if self._talk.crowded and message.method != "server/discover":
                return self._talk.turn_down(attachment, message.id)
            return self._request(attachment, message, message.id)
        if message.method == "notifications/cancelled":
            return self._cancelled(attachment, message)
        return [Note("host", f"{message.method} does not exist in the modern era and was dropped")]

    def _request(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        assert message.method is not None
        self.parking.reused(attachment.key, identity)
        if message.method == "initialize" and not envelope.is_modern(message):
            asked = jsonrpc.string_of(message.params().get("protocolVersion"))
            return self._refuse(attachment, identity, envelope.unsupported(asked or ""))
        said = envelope.read(message)
        if isinstance(said, Fault):
            return self._refuse(attachment, identity, said)
        if message.method in GONE or (message.method in BY_TASK and self._talk.discovery.discovered is None):
            # The extension of tasks is not offered for a legacy server, whose tasks are others (6.4).
            text = f"Method not found: {message.method}"
            return self._talk.fail(attachment, identity, jsonrpc.METHOD_NOT_FOUND, text)
        # What the last request said stands for the host where it has to be described as a whole.
        if attachment.era != "legacy":  # it may have shaken hands while its probe waited for the child
            attachment.capabilities, attachment.client = said.capabilities, said.client or {}
        return self._local.get(message.method, self._pass_on)(attachment, message, identity, said)

    @staticmethod
    def _refuse(attachment: Attachment, identity: bytes, fault: Fault) -> list[Command]:
        return [*attachment.answer(identity, fault.line(identity))]

    def _cancelled(self, attachment: Attachment, message: Message) -> list[Command]:
        params = message.params()
        identity = bytes(params.get("requestId", b""))
        call = attachment.open.get(identity)
        if call is None:
            return self.parking.cancel(attachment.key, identity)
        told = self.listening.cancel(attachment, identity)
        if told is None:
            told = self.tunnels.cancel(attachment, identity)
        if told is not None:
            return told
        commands: list[Command] = []
        upstream = call.upstream
        if upstream is None:
            self._talk.held.drop(attachment.key, identity)
            if self._talk.turns.drop(attachment.key, identity):
                commands += self._talk.turns.go_on()
        else:
            self.relay.cancel(upstream)
            commands += [*self.parking.give_up(upstream), *self._talk.cancel_upstream(upstream, params)]
        dropped = Dropped(call, requests.overdue(params))
        return [*commands, dropped, *attachment.forget(identity), *self._talk.raise_level()]

    # Requests

    def _pass_on(self, attachment: Attachment, message: Message, identity: bytes, said: Envelope) -> list[Command]:
        if not self._talk.ready:
            return self._talk.hold(attachment, message, identity)
        if self._talk.modern:
            return self.relay.request(attachment, message, identity, said)
        if self._talk.callbacks.serialized and message.method in mcp.CALLBACK_METHODS:
            return self._talk.turns.send(attachment, message, identity)
        return self._send(attachment, message, identity, said)

    def forward(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """Send a request that waited for the child, and was checked when it came. Raise `FramingError` as there."""
        return self._request(attachment, message, identity)

    def send(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """Send a call whose turn has come, and which was checked when it came."""
        said = envelope.read(message)
        assert isinstance(said, Envelope)
        return self._send(attachment, message, identity, said)

    def _discover(self, attachment: Attachment, message: Message, identity: bytes, said: Envelope) -> list[Command]:
        found = self._talk.discovery
        if found.handshake is None or (self._talk.ready and self._talk.modern):
            return self._pass_on(attachment, message, identity, said)
        return self._talk.succeed(attachment, identity, offers.stored(found.handshake, found.discovered))

    def _listen(self, attachment: Attachment, message: Message, identity: bytes, said: Envelope) -> list[Command]:
        wanted = listening.read(message, said)
        if isinstance(wanted, Fault):
            return self._refuse(attachment, identity, wanted)
        if self.listening.count(attachment.key) + self.tunnels.count(attachment.key) >= MAX_LISTENS:
            raise FramingError("Subscription limit reached", jsonrpc.INTERNAL_ERROR)
        if self._talk.ready:
            if self._talk.modern:
                return self.tunnels.open(attachment, message, wanted, identity)
            return self.listening.open(attachment, wanted, identity)
        if wanted.uris or wanted.tasks or self._talk.discovery.handshake is None:
            return self._talk.hold(attachment, message, identity)
        # Changes of lists are noticed when the next child starts; none is started to hear of them.
        if self._talk.discovery.discovered is not None:
            return self.tunnels.open_without_child(attachment, message, wanted, identity)
        return self.listening.open(attachment, wanted, identity)

    def _list(self, attachment: Attachment, message: Message, identity: bytes, said: Envelope) -> list[Command]:
        assert message.method is not None
        cursor = requests.cursor(message.params())
        known = self._talk.discovery.known
        stored = None if known is None or cursor is not None else known.answer(message.method)
        if not self._talk.ready:
            if stored is None:
                return self._talk.hold(attachment, message, identity)
            attachment.lists.asked(message.method, None)
            server = self._talk.discovery.server_info
            return self._talk.succeed(attachment, identity, conversion.to_modern(message.method, stored, server))
        if self._talk.modern:
            return self.relay.request(attachment, message, identity, said)
        refused = self._talk.begin_list(attachment, message, identity)
        if refused:
            return refused
        return [*self._send(attachment, message, identity, said), *self._talk.discovery.asked()]

    def _call(self, attachment: Attachment, message: Message, identity: bytes, said: Envelope) -> list[Command]:
        params = message.params()
        call = self.parking.find(params)
        if call is not None:
            taken = self.parking.retry(attachment, message, said, call)
            if taken is not None:
                return taken
        elif "requestState" in params and self._talk.ready and not self._talk.modern:
            raise FramingError(STALE, jsonrpc.INVALID_PARAMS)
        if call is not None:
            # The state was good once; what is sent now is a call anew.
            del params["requestState"]
            message.members["params"] = Raw(jsonrpc.object_text(params))
        return self._pass_on(attachment, message, identity, said)

    def _send(self, attachment: Attachment, message: Message, identity: bytes, said: Envelope) -> list[Command]:
        """Send a request to the legacy child, without what such a child does not know (pitfall 15)."""
        assert message.method is not None
        params = message.params()
        requests.token(params)  # what is refused must not change the log level of the child
        call = Call(attachment.key, attachment.principal, identity, message.method, said, params)
        told = envelope.strip(jsonrpc.object_text({key: params[key] for key in params if key not in _NOT_LEGACY}))
        message.members.pop("params")
        if told is not None:
            message.members["params"] = Raw(told)
        level = [] if said.level is None else self._talk.raise_level(said.level)
        upstream = self._talk.last_id + 1
        sent = self._talk.send(attachment, message, identity, reply=lambda answer: self._answered(upstream, answer))
        call.upstream = upstream
        self.parking.calls[upstream] = call
        return [*level, *sent]

    # Answers

    def _answered(self, upstream: int, answer: Message) -> list[Command]:
        call, commands = self.parking.finished(upstream, answer)
        if call.parked is None:
            commands += self._deliver(call, answer)
        commands += self._talk.turns.go_on()
        return commands if call.said.level is None else [*commands, *self._talk.raise_level()]

    def _deliver(self, call: Call, answer: Message) -> list[Command]:
        """Tell the host what its call came to, in words of its era (6.5, second bridge, steps 7 and 8)."""
        attachment = self._talk.sessions[call.session]
        error, result = answer.members.get("error"), answer.members.get("result")
        if result is None:
            return self._failed(attachment, call, error)
        if call.method in mcp.LISTINGS:
            self._talk.note_page(attachment, call.method, jsonrpc.members_of(result))
        try:
            told = conversion.to_modern(call.method, result, self._talk.discovery.server_info)
        except FramingError as fault:
            return self._talk.fail(attachment, call.identity, fault.rpc_code, fault.message)
        return self._talk.succeed(attachment, call.identity, told)

    def _failed(self, attachment: Attachment, call: Call, error: Text | None) -> list[Command]:
        if error is None or not jsonrpc.members_of(error):
            text = f"server '{self._talk.server}' answered with an error that is none"
            return self._talk.fail(attachment, call.identity, jsonrpc.INTERNAL_ERROR, text)
        asks, able = call.method in PARKABLE, takes(call.said.capabilities, "url")
        if asks and able and (pages := conversion.url_requests(error)):
            return self.parking.ask_for_pages(call, pages)
        told = conversion.error_to_modern(error, lacks_pages=asks and not able)
        members = {"jsonrpc": jsonrpc.VERSION, "id": Raw(call.identity), "error": Raw(told)}
        return [*attachment.answer(call.identity, jsonrpc.encode(members))]

    # What the conversation asks of us

    def levels(self) -> list[str]:
        """The log levels of the requests in flight; one that is parked wants no log (6.4)."""
        calls = self.parking.calls.values()
        return [
            call.said.level for call in calls if call.said.level is not None and not (call.parked and call.parked.state)
        ]

    def shows(self, session: SessionKey, rank: int) -> bool:
        """Whether a log message of that rank, which is about a call of this host, is shown to it (pitfall 27)."""
        active: list[Call | Relayed] = [*self.relay.calls.values()]
        active += [call for call in self.parking.calls.values() if not (call.parked and call.parked.state)]
        return any(
            call.session == session and call.said.level is not None and rank >= mcp.LEVELS[call.said.level]
            for call in active
        )

    def list_changed(self, kind: str, asked: bool | None) -> list[Command]:
        """A list changed: tell the listens for it, of all hosts or of those that have (or have not) asked for it."""
        return [*self.listening.list_changed(kind, asked), *self.tunnels.list_changed(kind, asked)]

    def holds(self, session: SessionKey, identity: bytes) -> bool:
        """Whether that request is a listen that outlives the child."""
        return self.listening.holds(session, identity) or self.tunnels.holds(session, identity)

    def notified(self, message: Message) -> list[Command] | None:
        """A modern child sent a notification; return None if it is for no listen of a modern host."""
        return self.tunnels.notified(message)

    def child_ready(self) -> list[Command]:
        """A child is there, of whichever era."""
        return self.tunnels.child_ready() if self._talk.modern else self.tunnels.end_all()

    # Over a death of the daemon (D11; 6.8 step 3)

    def kept(self, session: SessionKey) -> dict[str, dict[str, Any]]:
        """Return the listens of a host that are worth keeping (`State.listens`)."""
        kept = {**self.listening.kept(session), **self.tunnels.kept(session)}
        return {identity.decode(): params for identity, params in kept.items()}

    def restore(self, attachment: Attachment, listens: dict[str, dict[str, Any]]) -> list[Command]:
        """A host has these listens from before: they go on without a word, at whatever child there will be."""
        last = Envelope(attachment.version, attachment.capabilities, attachment.client or None)
        modern = self._talk.modern if self._talk.ready else self._talk.discovery.discovered is not None
        commands: list[Command] = []
        for text, kept in listens.items():
            identity, params = text.encode(), jsonrpc.text_of(kept)
            if "_meta" not in kept:  # at a legacy child it needed none
                params = envelope.write(params, last)
            message = jsonrpc.message_of({"id": Raw(identity), "method": _LISTEN, "params": Raw(params)})
            said = envelope.read(message)
            wanted = said if isinstance(said, Fault) else listening.read(message, said)
            if isinstance(wanted, Fault):
                commands += self._refuse(attachment, identity, wanted)
            elif modern:
                commands += self.tunnels.restore(attachment, message, wanted, identity)
            else:
                self.listening.restore(attachment, wanted, identity)
        return commands

    def wants_child(self, session: SessionKey) -> bool:
        """Whether a listen of a host is for resources, of which only a child can tell."""
        return any(params["notifications"].get("resourceSubscriptions") for params in self.kept(session).values())

    def leave(self, session: SessionKey) -> list[Command]:
        """A host is gone. Where the child was its alone, no other connection of its principal comes to this one."""
        self.relay.leave(session)
        parted = self.parking.leave(session, for_good=self._talk.callbacks.relay)
        return [*parted, *self.listening.leave(session), *self.tunnels.leave(session)]

    def dismiss(self, session: SessionKey) -> list[Command]:
        """A host is told that everything it waits for is over; here its listens end, as they should (pitfall 62)."""
        self.relay.leave(session)
        parted = self.parking.leave(session, for_good=True)
        return [*parted, *self.listening.end(session), *self.tunnels.end(session)]

    def child_lost(self) -> None:
        """The child is gone; who waited for it is told so elsewhere."""
        self.parking.child_lost()
        self.listening.child_lost()
        self.relay.child_lost()
        self.tunnels.child_lost()
