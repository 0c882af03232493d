"""The state of one instance's conversation and what both directions do with it: forward, hold, cancel, announce."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from supervisord_mcp.protocol import callbacks as backcalls
from supervisord_mcp.protocol import jsonrpc, mcp, requests
from supervisord_mcp.protocol.attachment import Attachment, Greeting
from supervisord_mcp.protocol.callbacks import Callbacks
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import (
    Command,
    Demand,
    Note,
    Opened,
    Remember,
    SessionKey,
    ToServer,
    ToSession,
)
from supervisord_mcp.protocol.discovery import Discovery
from supervisord_mcp.protocol.jsonrpc import Message, Text
from supervisord_mcp.protocol.subscriptions import Subscriptions
from supervisord_mcp.protocol.tasks import BY_ID, Tasks


@dataclass(slots=True)
class Pending:
    """A request sent to the child: whose it is, under which id and progress token, or who takes the answer."""

    session: SessionKey | None
    identity: bytes
    method: str
    token: Text | None = None
    progress: float | None = None
    task: bool = False
    reply: Callable[[Message], list[Command]] | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A request of a host that waits for a child; ``size`` is about its bytes."""

    session: SessionKey
    message: Message
    size: int


class Conversation:
    """Everything between the hosts of one instance and its child (the tables of protocol.md 6.2).

    ``relay`` is true where the child belongs to one host (scope ``session``): its requests are then passed on to that
    host, and the host's own capabilities are what the child is told.
    """

    def __init__(self, server: str, *, relay: bool, known: Catalogue | None) -> None:
        self.server = server
        self.relay = relay
        self.sessions: dict[SessionKey, Attachment] = {}
        self.pending: dict[int, Pending] = {}
        self.held: deque[Held] = deque()
        self.last_id = 0
        self.level: str | None = None
        self.subscriptions = Subscriptions()
        self.callbacks = Callbacks()
        self.tasks = Tasks()
        self.task_tokens: dict[int, Pending] = {}
        self.discovery = Discovery(self.ask, known)

    @property
    def ready(self) -> bool:
        """Whether the child answered its handshake."""
        return self.discovery.ready

    @staticmethod
    def fail(attachment: Attachment, identity: bytes, code: int, text: str, data: Any = None) -> list[Command]:
        """Answer a request of a host with an error."""
        return [*attachment.answer(identity, jsonrpc.error_line(identity, code, text, data))]

    def ask(self, method: str, params: Text | None, reply: Callable[[Message], list[Command]]) -> list[Command]:
        """Send a request of the daemon's own; ``reply`` takes the answer."""
        self.last_id += 1
        self.pending[self.last_id] = Pending(None, b"", method, reply=reply)
        return [ToServer(jsonrpc.request_line(self.last_id, method, params))]

    def is_held(self, key: SessionKey, identity: bytes) -> Message | None:
        """Return the held request of a host with that id, if it is held."""
        for held in self.held:
            if held.session == key and held.message.id == identity:
                return held.message
        return None

    def release(self, key: SessionKey, identity: bytes | None = None) -> None:
        """Forget what is held for a host, or the one request of that id."""
        self.held = deque(
            held for held in self.held if held.session != key or (identity is not None and held.message.id != identity)
        )

    def hold(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """Keep a request until there is a child."""
        attachment.open[identity] = None
        size = sum(len(memoryview(text)) for text in message.members.values())
        self.held.append(Held(attachment.key, message, size))
        return [Opened(attachment.key, identity), Demand()]

    def greet(self, attachment: Attachment, identity: bytes) -> list[Command]:
        """Answer `initialize` from what the server said, in words of the host's revision."""
        handshake = self.discovery.handshake
        assert handshake is not None
        members = dict(jsonrpc.members_of(handshake))
        told = mcp.server_capabilities(self.discovery.capabilities, attachment.version)
        members["protocolVersion"] = msgspec.json.encode(attachment.version)
        members["capabilities"] = msgspec.json.encode(told)
        attachment.greeting = Greeting.ANSWERED
        answer = attachment.answer(identity, jsonrpc.result_line(identity, jsonrpc.object_text(members)))
        return [Remember(attachment.key), *answer]

    def forward(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """Send a request of a host to the child."""
        if message.method == "resources/subscribe":
            return self.subscribe(attachment, message, identity)
        if message.method == "resources/unsubscribe":
            return self.unsubscribe(attachment, message, identity)
        if message.method in BY_ID:
            task = jsonrpc.string_of(message.params().get("taskId"))
            if not self.tasks.owns(attachment.key, task):
                return self.fail(attachment, identity, jsonrpc.INVALID_PARAMS, "Task not found")
        self.last_id += 1
        upstream = self.last_id
        accepts_tasks = requests.accepts_tasks(self.discovery.capabilities)
        members, token, task_asked = requests.upstream_members(message, upstream, accepts_tasks)
        assert message.method is not None
        self.pending[upstream] = Pending(attachment.key, identity, message.method, token, task=task_asked)
        attachment.open[identity] = upstream
        return [Opened(attachment.key, identity), ToServer(jsonrpc.encode(members))]

    def subscribe(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """A host wants updates of a resource: the first one asks the server, the others wait for its answer."""
        uri = requests.uri(message)
        now, ask = self.subscriptions.subscribe(attachment.key, identity, uri)
        if now:
            answer = attachment.answer(identity, jsonrpc.result_line(identity, b"{}"))
            return [Remember(attachment.key), *answer]
        attachment.open[identity] = None
        commands: list[Command] = [Opened(attachment.key, identity)]
        return commands + (self.ask_subscription(uri) if ask else [])

    def unsubscribe(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """A host wants no more updates of a resource; only the last one is told to the server."""
        uri = requests.uri(message)
        last = self.subscriptions.unsubscribe(attachment.key, uri)
        answer = attachment.answer(identity, jsonrpc.result_line(identity, b"{}"))
        return [Remember(attachment.key), *answer, *(self.unsubscribe_upstream(uri) if last else [])]

    def ask_subscription(self, uri: str) -> list[Command]:
        """Subscribe at the server."""
        params = msgspec.json.encode({"uri": uri})
        return self.ask("resources/subscribe", params, lambda answer: self.subscribed(uri, answer))

    def subscribed(self, uri: str, answer: Message) -> list[Command]:
        """The server answered a subscription."""
        commands: list[Command] = []
        if "result" in answer.members:
            waiters, unwanted = self.subscriptions.accepted(uri)
            for key, identity in waiters:
                line = jsonrpc.result_line(identity, b"{}")
                commands += [Remember(key), *self.sessions[key].answer(identity, line)]
            return commands + (self.unsubscribe_upstream(uri) if unwanted else [])
        first, again = self.subscriptions.rejected(uri)
        if first is None:
            commands.append(Note("subscription", f"the server no longer accepts a subscription to {uri}"))
        else:
            key, identity = first
            commands += self.sessions[key].answer(identity, jsonrpc.encode({**answer.members, "id": identity}))
        return commands + (self.ask_subscription(uri) if again else [])

    def unsubscribe_upstream(self, uri: str) -> list[Command]:
        """Tell the server that nobody wants updates any more."""
        if not self.ready:
            return []
        return self.ask("resources/unsubscribe", msgspec.json.encode({"uri": uri}), lambda _: [])

    def replay_subscriptions(self) -> list[Command]:
        """Subscribe at a new child what hosts hold."""
        return [command for uri in self.subscriptions.to_replay() for command in self.ask_subscription(uri)]

    def raise_level(self) -> list[Command]:
        """Bring the child to the most verbose level that any host asked for; only a change is sent (pitfall 26)."""
        levels = [a.level for a in self.sessions.values() if a.level is not None]
        if not levels or "logging" not in self.discovery.capabilities:
            return []
        wanted = min(levels, key=mcp.LEVELS.__getitem__)
        if wanted == self.level:
            return []
        self.level = wanted
        return self.ask("logging/setLevel", msgspec.json.encode({"level": wanted}), self.level_set)

    def level_set(self, answer: Message) -> list[Command]:
        """The server answered a change of its log level; hosts that changed nothing are not told of a failure."""
        if "error" not in answer.members:
            return []
        return [Note("logging", f"the server refused log level {self.level}")]

    def cancel_upstream(self, upstream: int, reason: str) -> list[Command]:
        """Cancel a request at the child, and what the child asked back for it."""
        pending = self.pending.pop(upstream, None)
        if pending is None or pending.task:
            return []
        params = msgspec.json.encode({"requestId": upstream, "reason": reason})
        commands: list[Command] = []
        if self.relay and not self.eligible():
            # The call that was called back for is gone: the server must not stay blocked in it (6.3, pitfall 12).
            for ours, callback in self.callbacks.abandon():
                commands.append(ToServer(backcalls.refusal(callback)))
                commands += self.cancel_at_host(ours)
        return [*commands, ToServer(jsonrpc.notification_line("notifications/cancelled", params))]

    def cancel_at_host(self, ours: int) -> list[Command]:
        """Tell the one host that a callback needs no answer any more."""
        params = b'{"requestId":%d}' % ours
        line = jsonrpc.notification_line("notifications/cancelled", params)
        return [ToSession(key, line) for key in self.sessions]

    def eligible(self) -> set[SessionKey]:
        """The hosts with a request in flight during which the server may call back or log (6.3 rule 3)."""
        return {
            pending.session
            for pending in self.pending.values()
            if pending.session is not None and pending.method in mcp.CALLBACK_METHODS
        }

    def announce(self, kind: str) -> list[Command]:
        """Tell every host that a list changed."""
        return [command for attachment in self.sessions.values() for command in self.tell(attachment, kind)]

    @staticmethod
    def tell(attachment: Attachment, kind: str) -> list[Command]:
        """Tell a host that a list changed, once until it asks for that list again (pitfall 29)."""
        if attachment.greeting is Greeting.ANSWERED:
            attachment.owed.add(kind)
            return []
        if attachment.greeting is not Greeting.DONE or kind in attachment.told:
            return []
        attachment.told.add(kind)
        return [ToSession(attachment.key, jsonrpc.notification_line(f"notifications/{kind}/list_changed"))]
