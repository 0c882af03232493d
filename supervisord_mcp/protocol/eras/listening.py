"""`subscriptions/listen` of modern hosts, served from the notifications of a legacy child (protocol.md 3.7, 6.4).

A listen is acknowledged first, with what of its filter is honoured, and gets nothing else before (pitfall 22). Then it
gets exactly the kinds that were acknowledged (pitfall 23), each notification tagged with the id of the listen, of the
JSON type that the host sent (pitfall 21). Resources are subscribed at the child like those of legacy hosts, one
subscription for all who want it (pitfalls 24, 25).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.calls import Call, SessionKey
from supervisord_mcp.protocol.commands import Command, Dropped, Remember, ToSession, Weight
from supervisord_mcp.protocol.conversation import Conversation
from supervisord_mcp.protocol.eras.envelope import MISSING_CAPABILITY, SERVER_INFO, SUBSCRIPTION_ID, Envelope, Fault
from supervisord_mcp.protocol.jsonrpc import Message, Text
from supervisord_mcp.protocol.subscriptions import ListenKey

#: How many listens one host may have open (protocol.md 3.7).
MAX_LISTENS = 1024
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
#: The extension that a filter by tasks needs.
TASKS = "io.modelcontextprotocol/tasks"

#: The members of a filter that say yes or no, and the capability whose list they are about.
_FLAGS = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}


@dataclass(frozen=True, slots=True)
class Filter:
    """What a listen asks for: the capabilities whose lists change, resources in the order of the request, and tasks."""

    kinds: tuple[str, ...]
    uris: tuple[str, ...]
    tasks: tuple[str, ...] = ()


@dataclass(slots=True)
class Listen:
    """One listen. ``waiting`` are resources that the child has not answered for yet, ``granted`` those it accepted.

    ``owed`` is what came before the acknowledgement.
    """

    key: ListenKey
    wanted: Filter
    waiting: set[str] = field(default_factory=set)
    granted: set[str] = field(default_factory=set)
    owed: list[ToSession] = field(default_factory=list)
    acknowledged: bool = False

    @property
    def honoured(self) -> Filter:
        """What the host was, or is about to be told that it gets."""
        return Filter(self.wanted.kinds, tuple(uri for uri in self.wanted.uris if uri in self.granted))


def read(message: Message, said: Envelope) -> Filter | Fault:
    """Given `subscriptions/listen`, return what it asks for, or why it is refused."""
    raw = message.params().get("notifications")
    wanted = jsonrpc.members_of(raw)
    if raw is None or not isinstance(jsonrpc.value_of(raw), dict):
        return Fault(jsonrpc.INVALID_PARAMS, "subscriptions/listen needs notifications (an object)")
    kinds = []
    for flag, kind in _FLAGS.items():
        value = bytes(wanted.get(flag, b"false"))
        if value not in (b"true", b"false"):
            return Fault(jsonrpc.INVALID_PARAMS, f"notifications.{flag} must be true or false")
        if value == b"true":
            kinds.append(kind)
    names: dict[str, tuple[str, ...]] = {}
    for key in ("resourceSubscriptions", "taskIds"):
        found = jsonrpc.value_of(wanted.get(key, b"[]"))
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            return Fault(jsonrpc.INVALID_PARAMS, f"notifications.{key} must be a list of strings")
        names[key] = tuple(dict.fromkeys(found))
    if "taskIds" in wanted and not declares(said, TASKS):
        data: dict[str, object] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        return Fault(MISSING_CAPABILITY, "notifications.taskIds needs the tasks extension", data)
    return Filter(tuple(kinds), names["resourceSubscriptions"], names["taskIds"])


def declares(said: Envelope, extension: str) -> bool:
    """Whether a request declares an extension."""
    extensions = said.capabilities.get("extensions")
    return isinstance(extensions, dict) and extension in extensions


def written(honoured: Filter) -> dict[str, Any]:
    """Return what a filter is on the wire, without the tasks."""
    told: dict[str, Any] = {flag: True for flag, kind in _FLAGS.items() if kind in honoured.kinds}
    if honoured.uris:
        told["resourceSubscriptions"] = list(honoured.uris)
    return told


def rewritten(said: Text | None, honoured: Filter) -> dict[str, Any]:
    """Given the filter of a listen as its host wrote it, return it with what is honoured of it, without the tasks."""
    value = jsonrpc.value_of(said)
    members = value.items() if isinstance(value, dict) else ()
    ours = (*_FLAGS, "resourceSubscriptions", "taskIds")
    return {**{name: one for name, one in members if name not in ours}, **written(honoured)}


def acknowledgement(honoured: Filter) -> Message:
    """Return the first message of a listen, which says what is honoured of its filter."""
    params = jsonrpc.text_of({"notifications": written(honoured)})
    return jsonrpc.parse(jsonrpc.notification_line(ACKNOWLEDGED, params))


def final(attachment: Attachment, identity: bytes, server: Text | None, said: Text | None = None) -> list[Command]:
    """End a listen for its host: with a result, and only then as cancelled (0.1#1, pitfall 62).

    ``said`` is the result of the child, if it ended the listen so; of that only the tag is another (pitfall 59).
    """
    members = jsonrpc.members_of(said)
    meta: dict[str, Text] = {**jsonrpc.members_of(members.get("_meta")), SUBSCRIPTION_ID: identity}
    if server is not None:
        meta.setdefault(SERVER_INFO, server)
    told: dict[str, Text] = {"resultType": b'"complete"', **members, "_meta": jsonrpc.object_text(meta)}
    result = jsonrpc.object_text(told)
    params = jsonrpc.object_text({"requestId": identity})
    cancelled = ToSession(attachment.key, jsonrpc.notification_line("notifications/cancelled", params))
    ended = attachment.answer(identity, jsonrpc.result_line(identity, result))
    return [*ended, cancelled, Remember(attachment.key)]


def tagged(message: Message, identity: bytes) -> bytes:
    """Given a notification, return its line for the listen with that id (pitfall 21)."""
    params = message.params()
    meta = jsonrpc.members_of(params.get("_meta"))
    told = {**params, "_meta": jsonrpc.object_text({**meta, SUBSCRIPTION_ID: identity})}
    return jsonrpc.encode({**message.members, "params": Raw(jsonrpc.object_text(told))})


class Listening:
    """The open listens of the modern hosts of one legacy child."""

    def __init__(self, conversation: Conversation) -> None:
        self._talk = conversation
        self._listens: dict[ListenKey, Listen] = {}

    def __len__(self) -> int:
        return len(self._listens)

    def holds(self, session: SessionKey, identity: bytes) -> bool:
        """Whether that request is a listen that was acknowledged; it outlives the child."""
        listen = self._listens.get(ListenKey(session, identity))
        return listen is not None and listen.acknowledged

    def count(self, session: SessionKey) -> int:
        """Return how many listens a host has."""
        return sum(key.session == session for key in self._listens)

    def kept(self, session: SessionKey) -> dict[bytes, dict[str, Any]]:
        """Return the parameters of the listens of a host that were acknowledged, by their ids."""
        mine = (listen for key, listen in self._listens.items() if key.session == session and listen.acknowledged)
        return {listen.key.identity: {"notifications": written(listen.honoured)} for listen in mine}

    def restore(self, attachment: Attachment, wanted: Filter, identity: bytes) -> None:
        """A listen was open and acknowledged when the daemon died: it goes on, and its host knows nothing of it."""
        key = ListenKey(attachment.key, identity)
        self._listens[key] = Listen(key, wanted, granted=set(wanted.uris), acknowledged=True)
        attachment.opens(Call(attachment.key, identity))
        self._talk.subscriptions.restore(key, wanted.uris)

    def open(self, attachment: Attachment, wanted: Filter, identity: bytes) -> list[Command]:
        """A host listens: subscribe what it asks for, and acknowledge once that is answered."""
        offered = self._talk.discovery.capabilities
        key = ListenKey(attachment.key, identity)
        listen = Listen(key, Filter(tuple(kind for kind in wanted.kinds if kind in offered), wanted.uris))
        self._listens[key] = listen
        commands: list[Command] = [*attachment.opens(Call(attachment.key, identity))]
        resources = offered.get("resources")
        if isinstance(resources, dict) and resources.get("subscribe"):
            for uri in wanted.uris:
                commands += self._subscribe(listen, uri)
        return commands if listen.waiting else [*commands, *self._acknowledge(listen)]

    def _subscribe(self, listen: Listen, uri: str) -> list[Command]:
        granted, ask = self._talk.subscriptions.subscribe(listen.key, listen.key.identity, uri)
        (listen.granted if granted else listen.waiting).add(uri)
        return self._talk.subscribe_upstream(uri) if ask else []

    def answered(self, key: ListenKey, uri: str, *, accepted: bool) -> list[Command]:
        """The child answered a subscription that a listen waits for."""
        listen = self._listens[key]
        listen.waiting.discard(uri)
        if accepted:
            listen.granted.add(uri)
        return [] if listen.waiting else self._acknowledge(listen)

    def _acknowledge(self, listen: Listen) -> list[Command]:
        listen.acknowledged = True
        told = tagged(acknowledgement(listen.honoured), listen.key.identity)
        owed, listen.owed = listen.owed, []
        # Remembered once its host was told: what was not acknowledged is not there for the next daemon.
        return [ToSession(listen.key.session, told), Remember(listen.key.session), *owed]

    # What listens are told

    def list_changed(self, kind: str, asked: bool | None) -> list[Command]:
        """A list changed: tell the listens for it, of all hosts or of those that have (or have not) asked for it."""
        message = jsonrpc.parse(jsonrpc.notification_line(f"notifications/{kind}/list_changed"))
        sessions = self._talk.sessions
        return self._deliver(
            (
                listen
                for listen in self._listens.values()
                if kind in listen.wanted.kinds
                and (asked is None or sessions[listen.key.session].lists.saw(kind) is asked)
            ),
            message,
        )

    def updated(self, keys: Iterable[ListenKey], message: Message) -> list[Command]:
        """A resource changed that these listens subscribed to."""
        return self._deliver((self._listens[key] for key in sorted(keys)), message)

    @staticmethod
    def _deliver(listens: Iterable[Listen], message: Message) -> list[Command]:
        commands: list[Command] = []
        for listen in listens:
            told = ToSession(listen.key.session, tagged(message, listen.key.identity), Weight.REPEATED)
            if listen.acknowledged:
                commands.append(told)
            else:
                listen.owed.append(told)
        return commands

    # The end

    def cancel(self, attachment: Attachment, identity: bytes) -> list[Command] | None:
        """A host cancels a listen, which is not answered then; return None if that request is none."""
        listen = self._listens.get(ListenKey(attachment.key, identity))
        if listen is None:
            return None
        closed = self._close(listen)
        dropped = Dropped(attachment.open[identity])
        return [*closed, dropped, *attachment.forget(identity), Remember(attachment.key)]

    def end(self, session: SessionKey) -> list[Command]:
        """End the listens of a host for good."""
        attachment, server = self._talk.sessions[session], self._talk.discovery.server_info
        commands: list[Command] = []
        for listen in [listen for key, listen in self._listens.items() if key.session == session]:
            commands += [*self._close(listen), *final(attachment, listen.key.identity, server)]
        return commands

    def leave(self, session: SessionKey) -> list[Command]:
        """A host is gone, and so are its listens."""
        gone = [listen for key, listen in self._listens.items() if key.session == session]
        return [command for listen in gone for command in self._close(listen)]

    def _close(self, listen: Listen) -> list[Command]:
        del self._listens[listen.key]
        commands: list[Command] = []
        for uri in self._talk.subscriptions.leave(listen.key):
            commands += self._talk.unsubscribe_upstream(uri)
        return commands

    def child_lost(self) -> None:
        """The child is gone: who waits for its answer is told so; listens that were acknowledged go on (6.8)."""
        for key in [key for key, listen in self._listens.items() if not listen.acknowledged]:
            # Their requests are answered with an error, so that nothing is held in their name; nobody is told of it.
            del self._listens[key]
            self._talk.subscriptions.leave(key)
