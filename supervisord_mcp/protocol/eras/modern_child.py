"""Legacy hosts at a modern child: the column "LC to MS" of protocol.md 6.4, and 6.8 where such a child is replaced."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw

from supervisord_mcp.protocol import conversion, jsonrpc, mcp, requests, wrapping
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.protocol.commands import Alarm, Command, Note, ToSession, Weight
from supervisord_mcp.protocol.conversation import Conversation
from supervisord_mcp.protocol.eras import cache, envelope
from supervisord_mcp.protocol.eras.cache import Cache
from supervisord_mcp.protocol.eras.driver import Call, Driver, capabilities
from supervisord_mcp.protocol.eras.envelope import Envelope
from supervisord_mcp.protocol.eras.listens import Listen, Listens, untagged
from supervisord_mcp.protocol.jsonrpc import Members, Message, Text
from supervisord_mcp.protocol.sayings import said

#: How long to wait before a listen that the child ended is opened again: the first and the longest wait, in seconds.
FIRST_WAIT = 1.0
LONGEST_WAIT = 30.0


class ModernChild:
    """What a conversation does differently while its child is a modern one."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self.driver = Driver(talk)
        self.listens = Listens(talk)
        self.cache = Cache(talk.alarms)
        # The upstream ids of the listens for resources, by their URIs.
        self._uris: dict[str, int] = {}
        # How often a listen was ended by the child, by what it is for, and what waits to open one again.
        self._ends: dict[str, int] = {}
        self._alarms: dict[str, Alarm] = {}
        self._tools: tuple[bytes, ...] = ()
        self._wrapped: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.driver)

    # The child

    def opened(self, version: str) -> list[Command]:
        """The child is ready: one listen brings what changes of its lists, for all hosts."""
        self.driver.version = version
        return self._watch_lists()

    def child_lost(self) -> None:
        """The child is gone."""
        self.driver.child_lost()
        self.listens.child_lost()
        self.cache.clear()
        for alarm in self._alarms.values():
            self._talk.alarms.forget(alarm)
        self._alarms.clear()
        self._uris.clear()
        self._ends.clear()

    def asked(self, params: Text | None) -> bytes:
        """Given the parameters of a request of the daemon's own, return them with its envelope (pitfall 16)."""
        return envelope.write(params, Envelope(self.driver.version, {}, mcp.DAEMON))

    # Requests of hosts

    def send(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """Send a request of a host to the child. Raise `FramingError` if it is malformed."""
        assert message.method is not None
        method = message.method
        if method.startswith("tasks/"):
            # Those of 2025-11-25 were not offered, and those of the extension were not declared (6.4).
            return self._talk.fail(attachment, identity, jsonrpc.METHOD_NOT_FOUND, f"Method not found: {method}")
        params = message.params()
        token = requests.token(params)
        client = cache.client_of(attachment.principal, capabilities(attachment))
        asked = cache.question_of(method, params, client)
        known = None if asked is None else self.cache.find(asked)
        if known is not None:
            return self._give(attachment, method, identity, known)
        ticket = None if asked is None else self.cache.asked(asked)

        def finish(call: Call, result: Raw) -> list[Command]:
            kept = [] if ticket is None or call.rounds else self.cache.answered(ticket, result)
            return [*kept, *self._finish(call, result)]

        def failed() -> None:
            if asked is not None:
                self.cache.failed(asked)

        return self.driver.start(Call(attachment.key, identity, method, params, token, finish, failed))

    def _finish(self, call: Call, result: Raw) -> list[Command]:
        attachment = self._talk.sessions[call.session]
        wrapped = call.method == "tools/call" and jsonrpc.string_of(call.params.get("name")) in self._wrapping()
        told = conversion.to_legacy(call.method, result, attachment.version, wrapped=wrapped)
        self._note_page(attachment, call.method, result)
        return self._talk.succeed(attachment, call.identity, told)

    def _note_page(self, attachment: Attachment, method: str, result: Text) -> None:
        if method in mcp.LISTINGS:  # other results are not looked into
            self._talk.note_page(attachment, method, jsonrpc.members_of(result))

    def _give(self, attachment: Attachment, method: str, identity: bytes, result: bytes) -> list[Command]:
        self._note_page(attachment, method, result)
        told = conversion.to_legacy(method, result, attachment.version)
        return self._talk.succeed(attachment, identity, told)

    def _wrapping(self) -> frozenset[str]:
        """Return the tools whose structured results hosts expect in a wrapper, as in the list that they got (6.6)."""
        known = self._talk.discovery.known
        tools = () if known is None else known.lists.get("tools/list", ())
        if tools is not self._tools:
            self._tools, self._wrapped = tools, wrapping.wrapped_tools(tools)
        return self._wrapped

    def cancel(self, session: SessionKey, identity: bytes) -> list[Command]:
        """A host gives up a call that waits for the host itself."""
        return self.driver.cancel(session, identity)

    def leave(self, session: SessionKey) -> list[Command]:
        """A host is gone, or moves to another instance."""
        return self.driver.leave(session)

    # Subscriptions (6.4: one listen for each URI)

    def subscribe(self, uri: str) -> list[Command]:
        """The first host wants updates of a resource."""
        listen = Listen(
            honoured=lambda members: self._honoured(uri, members),
            told=lambda message: self._updated(uri, message),
            ended=lambda error: self._ended(uri, error),
        )
        self._uris[uri], commands = self.listens.open({"resourceSubscriptions": [uri]}, listen)
        return commands

    def unsubscribe(self, uri: str) -> list[Command]:
        """Nobody wants updates of a resource any more."""
        upstream = self._uris.pop(uri, None)
        return [] if upstream is None else self.listens.close(upstream)

    def _honoured(self, uri: str, members: Members) -> list[Command]:
        uris = jsonrpc.value_of(members.get("resourceSubscriptions"))
        if isinstance(uris, list) and uri in uris:
            return self._talk.subscribed(uri, _RESULT)
        return [*self.unsubscribe(uri), *self._talk.subscribed(uri, _error("subscriptions are not supported for it"))]

    def _updated(self, uri: str, message: Message) -> list[Command]:
        if message.method != "notifications/resources/updated":
            return [Note("unrouted", f"{message.method} is not what was listened for")]
        self.cache.updated(jsonrpc.string_of(message.params().get("uri")) or uri)
        return self._talk.tell_updated(self._talk.subscriptions.holders(uri), jsonrpc.parse(untagged(message)))

    def _ended(self, uri: str, error: Members | None) -> list[Command]:
        del self._uris[uri]
        if self._talk.subscriptions.asking(uri):
            answer = _error("the server ended the subscription") if error is None else _failure(error)
            return self._talk.subscribed(uri, answer)
        self._talk.subscriptions.lost(uri)
        return self._later(f"resource {uri}", self._talk.replay_subscriptions)

    # Lists

    def _watch_lists(self) -> list[Command]:
        kinds = [
            kind
            for kind in dict.fromkeys(mcp.CHANGED.values())
            if isinstance(declared := self._talk.discovery.capabilities.get(kind), dict) and declared.get("listChanged")
        ]
        if not kinds:
            return []
        listen = Listen(honoured=lambda _: [], told=self._list_changed, ended=self._unwatched)
        _, commands = self.listens.open({f"{kind}ListChanged": True for kind in kinds}, listen)
        return commands

    def _list_changed(self, message: Message) -> list[Command]:
        kind = mcp.CHANGED.get(message.method or "")
        if kind is None:
            return [Note("unrouted", f"{message.method} is not what was listened for")]
        self.cache.changed(kind)
        return self._talk.discovery.changed(kind)

    def _unwatched(self, error: Members | None) -> list[Command]:
        if error is not None:
            return [
                Note("listen", f"the server tells no changes of its lists: {jsonrpc.value_of(error.get('message'))}")
            ]
        return self._later("lists", self._watch_again)

    def _watch_again(self) -> list[Command]:
        # What changed meanwhile was told to nobody.
        self.cache.clear()
        return [*self._watch_lists(), *self._talk.discovery.refresh()]

    def _later(self, name: str, act: Callable[[], list[Command]]) -> list[Command]:
        """Open a listen again that the child ended, the later the more often it did that."""
        ends = self._ends[name] = self._ends.get(name, 0) + 1

        def now() -> list[Command]:
            del self._alarms[name]
            return act()

        # Hosts may have opened it again meanwhile, and the child may have ended that one too.
        self._talk.alarms.forget(self._alarms.get(name))
        self._alarms[name] = self._talk.alarms.after(min(FIRST_WAIT * 2 ** (ends - 1), LONGEST_WAIT), now)
        return [self._alarms[name]]

    # What the child says

    def notified(self, message: Message) -> list[Command]:
        """The child sent a notification that is no progress."""
        match message.method:
            case "notifications/cancelled":
                return self.listens.cancelled(message.params())
            case "notifications/message":
                return self._log(message)
        return self.listens.notified(message)

    def _log(self, message: Message) -> list[Command]:
        """A log message belongs to one request, and nothing says to which: show it only where that is certain (3.10).

        It can only be about a request whose host wants messages of that level, for the child was told so with it.
        """
        rank = mcp.LEVELS.get(jsonrpc.string_of(message.params().get("level")) or "", -1)
        line = jsonrpc.encode(message.members)
        keys = {pending.session for pending in self._talk.pending.values() if pending.session is not None}
        wanting = [key for key in keys if self._wants(self._talk.sessions[key], rank)]
        if len(wanting) != 1:
            return [said(message)]
        return [said(message, tuple(wanting)), ToSession(wanting[0], line, Weight.DROPPABLE)]

    def _wants(self, attachment: Attachment, rank: int) -> bool:
        if attachment.era == "modern":
            return self._talk.modern_hosts.shows(attachment.key, rank)
        return attachment.level is not None and rank >= mcp.LEVELS[attachment.level]


_RESULT = Message({"result": Raw(b"{}")}, None, None)


def _error(text: str) -> Message:
    return _failure({"code": Raw(b"%d" % jsonrpc.INVALID_PARAMS), "message": Raw(jsonrpc.text_of(text))})


def _failure(error: Members) -> Message:
    members = {"jsonrpc": jsonrpc.VERSION, "id": jsonrpc.NULL, "error": Raw(jsonrpc.object_text(error))}
    return Message(members, None, None)
