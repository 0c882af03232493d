"""The state of one instance's conversation and what both directions do with it: forward, hold, cancel, announce."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from msgspec import Raw

from supervisord_mcp.protocol import conversion, jsonrpc, mcp, promises, requests
from supervisord_mcp.protocol.alarms import Alarms
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.attribution import asks_back
from supervisord_mcp.protocol.callbacks import Callbacks, Rules
from supervisord_mcp.protocol.calls import Call, SessionKey
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import Command, Demand, Note, Remember, ToServer, ToSession, Weight
from supervisord_mcp.protocol.discovery import Discovery, Ways
from supervisord_mcp.protocol.jsonrpc import Members, Message, Text
from supervisord_mcp.protocol.lists import Cursors
from supervisord_mcp.protocol.moving import Moves
from supervisord_mcp.protocol.pending import HeldMessages, Pending, Reply
from supervisord_mcp.protocol.subscriptions import Holder, ListenKey, Subscriptions
from supervisord_mcp.protocol.tasklists import TaskLists
from supervisord_mcp.protocol.tasks import BY_ID, Tasks
from supervisord_mcp.protocol.traces import stamp
from supervisord_mcp.protocol.turns import Gate, Turns

#: For how long a call that was cancelled may still ask something, if the child does not answer it, in seconds. Many
#: servers never answer such a call, as they should, and stop asking for it; what they had sent by then arrives well
#: within that time. Until it is over, what they ask for other hosts is refused unless it names its call (6.3).
LINGERING = 5.0
#: Gives as many random bytes as asked for: what must not be guessed is made of them.
Entropy = Callable[[int], bytes]
#: Sends one kind of request to the child.
Forward = Callable[[Attachment, Message, bytes], list[Command]]


class Bridge(Protocol):
    """What is done instead while the child is a modern one (`eras.modern_child`, protocol.md 6.4, column LC to MS)."""

    def opened(self, version: str) -> list[Command]:
        """The child is ready."""

    def asked(self, params: Text | None) -> bytes:
        """Return the parameters of a request of the daemon's own."""

    def send(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """Send a request of a host. Raise `FramingError` if it is malformed."""

    def subscribe(self, uri: str) -> list[Command]:
        """Ask for updates of a resource; `Conversation.subscribed` takes the answer."""

    def unsubscribe(self, uri: str) -> list[Command]:
        """Nobody wants updates of a resource any more."""

    def notified(self, message: Message) -> list[Command]:
        """The child sent a notification that is no progress."""

    def cancel(self, session: SessionKey, identity: bytes) -> list[Command]:
        """A host gives up a request of which nothing is at the child."""

    def leave(self, session: SessionKey) -> list[Command]:
        """A host is gone, or moves to another instance."""

    def child_lost(self) -> None:
        """The child is gone."""

    def __bool__(self) -> bool:
        """Whether a call goes on of which nothing is at the child."""


class ModernSide(Protocol):
    """What a conversation needs of the side that serves its modern hosts (`eras.modern_host`)."""

    @property
    def listening(self) -> Listens:
        """The open listens."""

    def forward(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """Send a request of a modern host to the child."""

    def send(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """Send a call whose turn has come."""

    def list_changed(self, kind: str, asked: bool | None) -> list[Command]:
        """A list changed: tell the listens for it."""

    def child_ready(self) -> list[Command]:
        """A child is there."""

    def notified(self, message: Message) -> list[Command] | None:
        """A modern child sent a notification; return None if it is for no listen of a modern host."""

    def levels(self) -> list[str]:
        """The log levels of the requests in flight."""

    def shows(self, session: SessionKey, rank: int) -> bool:
        """Whether a log message of that rank, which is about a call of this host, is shown to it."""


class Listens(Protocol):
    """The listens of modern hosts at a legacy child (`eras.listening`)."""

    def updated(self, keys: Iterable[ListenKey], message: Message) -> list[Command]:
        """A resource changed that these listens hold."""

    def answered(self, key: ListenKey, uri: str, *, accepted: bool) -> list[Command]:
        """The child answered a subscription that a listen waits for."""


class Conversation:
    """Everything between the hosts of one instance and its child (the tables of protocol.md 6.2).

    ``relay`` is true where the child belongs to one host (scope ``session``): its requests are then passed on to that
    host, and the host's own capabilities are what the child is told. It says how where the child is shared by hosts
    with callbacks. ``turns`` are the calls that wait until the child may be asked by another host (6.1 D7).
    """

    def __init__(self, server: str, *, relay: Rules, known: Catalogue | None, entropy: Entropy) -> None:
        self.server = server
        self.entropy = entropy
        # Traces of ours must not be those of other instances (`traces.stamp`).
        self._seed = ""
        self.alarms = Alarms()
        self.sessions: dict[SessionKey, Attachment] = {}
        self.pending: dict[int, Pending] = {}
        self.held = HeldMessages()
        #: The cursors that the running child handed out, to whichever host.
        self.cursors = Cursors()
        self.turns = Turns(Gate(self.sessions, self.eligible, self._send_in_turn, self.fail))
        self.last_id = 0
        #: Whether too much waits for the child.
        self.crowded = False
        self.level: str | None = None
        self.subscriptions = Subscriptions()
        self.tasks = Tasks(self.alarms)
        self._task_lists = TaskLists(self.tasks, self)
        self.callbacks = Callbacks(self.sessions, self.pending, self.tasks, relay)
        shared = self.callbacks.shared
        self.moves = Moves(self.sessions, self.callbacks.ask, self.alarms, None if shared is None else shared.profile)
        #: Set by the multiplexer, which knows all parts. ``part`` ends a session, for which it is given the reason.
        self.bridge: Bridge
        self.modern_hosts: ModernSide
        self.part: Callable[[SessionKey, str], list[Command]]
        self.discovery = Discovery(server, Ways(self.ask, self.announce, self.alarms, self._welcome), known)
        self._special: dict[str, Forward] = {
            "server/discover": self._forward_discover,
            "resources/subscribe": self.subscribe,
            "resources/unsubscribe": self.unsubscribe,
            **dict.fromkeys(mcp.LISTINGS, self._forward_list),
            **dict.fromkeys(BY_ID, self._forward_about_task),
            "tasks/list": self._list_tasks,
        }

    @property
    def ready(self) -> bool:
        """Whether the child answered its handshake and takes requests."""
        return self.discovery.ready

    @property
    def modern(self) -> bool:
        """Whether the child is known to be a modern one."""
        return self.discovery.era == "modern"

    def _welcome(self, version: str) -> list[Command]:
        return self.bridge.opened(version)

    @staticmethod
    def fail(attachment: Attachment, identity: bytes, code: int, text: str, data: Any = None) -> list[Command]:
        """Answer a request of a host with an error."""
        return [*attachment.answer(identity, jsonrpc.error_line(identity, code, text, data))]

    @staticmethod
    def succeed(attachment: Attachment, identity: bytes, result: Text = b"{}") -> list[Command]:
        """Answer a request of a host with a result of the daemon's own."""
        return [*attachment.answer(identity, jsonrpc.result_line(identity, result))]

    def turn_down(self, attachment: Attachment, identity: bytes) -> list[Command]:
        """Refuse a request because too much waits for the child already (``crowded``)."""
        trouble = "is not reading" if self.ready else "is not ready"
        text = f"server '{self.server}' {trouble}, and too much waits for it already; try again later"
        return self.fail(attachment, identity, jsonrpc.INTERNAL_ERROR, text, {"reason": "server_not_reading"})

    # Towards the child

    def ask(self, method: str, params: Text | None, reply: Callable[[Message], list[Command]]) -> list[Command]:
        """Send a request of the daemon's own; ``reply`` takes the answer."""
        self.last_id += 1
        if self.modern:
            params = self.bridge.asked(params)
        self.pending[self.last_id] = Pending(None, b"", method, reply=reply)
        return [ToServer(jsonrpc.request_line(self.last_id, method, params))]

    def hold(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """Keep a request until there is a child."""
        self.held.add(attachment.key, message)
        return [*attachment.opens(requests.call(attachment.key, message, identity)), Demand()]

    def forward(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """Send a request of a host to the child. Raise `FramingError` if it is malformed."""
        assert message.method is not None
        if attachment.era != "legacy":
            return self.modern_hosts.forward(attachment, message, identity)
        special = self._special.get(message.method)
        if special is not None:
            return special(attachment, message, identity)
        if self.callbacks.serialized and message.method in mcp.CALLBACK_METHODS and not self.modern:
            return self.turns.send(attachment, message, identity)
        return self.send(attachment, message, identity)

    def _send_in_turn(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        if attachment.era != "legacy":
            return self.modern_hosts.send(attachment, message, identity)
        return self.send(attachment, message, identity)

    def send(
        self,
        attachment: Attachment,
        message: Message,
        identity: bytes,
        task: str | None = None,
        reply: Reply | None = None,
    ) -> list[Command]:
        """Send a request as it is, perhaps about a task; ``reply`` takes its answer. Raise `FramingError` as above."""
        assert message.method is not None
        if self.modern:
            return self.bridge.send(attachment, message, identity)
        self.last_id += 1
        upstream = self.last_id
        # To a host of an older revision tasks were not offered: for it the member means nothing (pitfall 65).
        offered = self.discovery.capabilities if attachment.version >= mcp.NEWEST_LEGACY else {}
        token, augmented, tool = requests.rewrite(message, upstream, offered)
        pending = Pending(attachment.key, identity, message.method, token, augmented, task)
        if reply is not None:
            pending.reply = reply
        if self.callbacks.shared is not None and asks_back(pending):
            self._seed = self._seed or self.entropy(8).hex()
            pending.trace = stamp(message, upstream, self._seed)
        self.pending[upstream] = pending
        sent = ToServer(jsonrpc.encode(message.members))
        # As `Attachment.opens` does it, but every call comes through here: none is made to be thrown away.
        call = attachment.open.get(identity)
        if call is not None:
            call.upstream = upstream
            return [sent]
        call = attachment.open[identity] = Call(attachment.key, identity, message.method, tool, upstream)
        return [call, sent]

    def _forward_list(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        refused = self.begin_list(attachment, message, identity)
        return refused or [*self.send(attachment, message, identity), *self.discovery.asked()]

    def begin_list(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """Note that the child is about to be asked for a list; return the refusal if that cannot be (pitfall 67)."""
        assert message.method is not None
        cursor = requests.cursor(message.params())
        known = attachment.lists.asked(message.method, cursor)
        # A host that has just come may have its cursor from before, too: only the child's own are sent to it.
        if cursor is not None and not (known and self.cursors.has(message.method, cursor)):
            text = "the running server did not hand out this cursor; ask for the list from its beginning"
            return self.fail(attachment, identity, jsonrpc.INVALID_PARAMS, text)
        if cursor is None:
            attachment.lists.passed_on(message.method)
        return []

    def note_page(self, attachment: Attachment, method: str, result: Members) -> None:
        """A host is given this result, which may name the page that comes next of a list."""
        cursor = requests.cursor(result, "nextCursor") if method in mcp.LISTINGS else None
        if cursor is not None:
            attachment.lists.answered(method, cursor)
            self.cursors.add(method, cursor)

    def _forward_discover(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        # Asked before its host chose the other era; a legacy server may not survive it (pitfall 17).
        return self.modern_hosts.forward(attachment, message, identity)

    def _forward_about_task(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        task = jsonrpc.string_of(message.params().get("taskId"))
        if not self.tasks.claim(attachment, task):
            return self.fail(attachment, identity, jsonrpc.INVALID_PARAMS, "Task not found")
        return self.send(attachment, message, identity, task)

    def _list_tasks(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        if self.modern:
            return self.bridge.send(attachment, message, identity)
        return self._task_lists.ask(attachment, message, identity)

    def notify(self, message: Message) -> list[Command]:
        """Pass on a notification of a host, unless it is one that a modern server does not know (protocol.md 1.3)."""
        if self.modern and message.method in mcp.LEGACY_NOTIFICATIONS:
            return []
        return [ToServer(jsonrpc.encode(message.members))]

    def cancel_upstream(self, upstream: int, params: Members) -> list[Command]:
        """Cancel a request at the child, and what the child asked back for it."""
        pending = self.pending.pop(upstream)
        if pending.augmented:
            return self.turns.go_on()  # a task is ended by tasks/cancel alone
        lingers: list[Command] = []
        if self.callbacks.linger(upstream, pending):
            lingers.append(self.alarms.after(LINGERING, lambda: self.callbacks.settled(upstream)))
        text = jsonrpc.object_text({**params, "requestId": b"%d" % upstream})
        cancelled = ToServer(jsonrpc.notification_line("notifications/cancelled", text))
        # The call that was called back for is gone: the server must not stay blocked in it (6.3, pitfall 12).
        return [*self.callbacks.end(upstream), cancelled, *lingers, *self.turns.go_on()]

    # Handshake, lists, log level

    def greet(self, attachment: Attachment, identity: bytes) -> list[Command]:
        """Answer `initialize` from what the server said, in words of the host's revision."""
        handshake = self.discovery.handshake
        assert handshake is not None
        told = attachment.told = mcp.server_capabilities(self.discovery.capabilities, attachment.version)
        said = jsonrpc.members_of(handshake)
        if "serverInfo" in said:
            said["serverInfo"] = Raw(conversion.older_implementation(said["serverInfo"], attachment.version))
        result = jsonrpc.object_text(
            {
                **said,
                "protocolVersion": jsonrpc.text_of(attachment.version),
                "capabilities": jsonrpc.text_of(told),
            }
        )
        changes = attachment.welcomed()
        answer = self.succeed(attachment, identity, result)
        return [Remember(attachment.key), *answer, *changes, *self.raise_level()]

    def compare_offers(self) -> list[Command]:
        """A child is ready: end the sessions of hosts that were told of more than it offers (6.8 step 4)."""
        commands: list[Command] = []
        learnt = False
        for attachment in [attachment for attachment in self.sessions.values() if attachment.answered]:
            offered = mcp.server_capabilities(self.discovery.capabilities, attachment.version)
            if attachment.told is None:
                attachment.told = offered
                commands.append(Remember(attachment.key))
            elif missing := promises.lacking(attachment.told, offered):
                text = f"server '{self.server}' does not offer {', '.join(missing)} any more, as this host was told"
                commands += self.part(attachment.key, f"{text}; reconnect it, so that the host learns what it offers")
                # The child may end with its last host, before it was asked for its lists.
                commands[:0] = [] if learnt else [self.discovery.says()]
                learnt = True
        return commands

    def announce(self, kind: str, asked: bool | None = None) -> list[Command]:
        """Tell hosts that a list changed: all, or those that have (or have not) asked the running child for it."""
        commands = [
            command
            for attachment in self.sessions.values()
            if asked is None or attachment.lists.saw(kind) is asked
            for command in attachment.list_changed(kind)
        ]
        return [*commands, *self.modern_hosts.list_changed(kind, asked)]

    def raise_level(self, coming: str | None = None) -> list[Command]:
        """Bring the child to the most verbose level that any host wants; only a change is sent (pitfall 26).

        A host that never set one counts with the usual level as soon as another one has: it must not be silenced. Of
        a modern host the requests in flight count, and ``coming``, which is about to be sent; after them the level is
        the usual one again (6.4).
        """
        levels = [attachment.level for attachment in self.sessions.values() if attachment.greeted]
        levels += [*self.modern_hosts.levels(), *([] if coming is None else [coming])]
        if not levels and any(attachment.era == "modern" for attachment in self.sessions.values()):
            levels.append(None)
        if not self.ready or self.modern or "logging" not in self.discovery.capabilities or not levels:
            return []
        if self.level is None and not any(levels):
            return []
        wanted = min((level or mcp.DEFAULT_LEVEL for level in levels), key=mcp.LEVELS.__getitem__)
        if wanted == self.level:
            return []
        self.level = wanted
        return self.ask("logging/setLevel", jsonrpc.text_of({"level": wanted}), self._level_set)

    def _level_set(self, answer: Message) -> list[Command]:
        """The server answered a change of its log level; hosts that changed nothing are not told of a failure."""
        if "error" not in answer.members:
            return []
        return [Note("logging", f"the server refused log level {self.level}")]

    def told(self, attachment: Attachment, method: str, result: Text) -> Text:
        """Given a result of the server, return it in words of the host's revision (6.6)."""
        if attachment.version >= self.discovery.version:
            return result
        if self.discovery.discovered is not None:
            return conversion.to_legacy(method, result, attachment.version)
        return conversion.older(method, result, attachment.version)

    # Subscriptions

    def subscribe(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """A host wants updates of a resource: the first one asks the server, the others wait for its answer."""
        uri = requests.uri(message)
        now, ask = self.subscriptions.subscribe(attachment.key, identity, uri)
        if now:
            return [Remember(attachment.key), *self.succeed(attachment, identity)]
        opened = attachment.opens(requests.call(attachment.key, message, identity))
        return [*opened, *(self.subscribe_upstream(uri) if ask else [])]

    def unsubscribe(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """A host wants no more updates of a resource; only the last one is told to the server."""
        uri = requests.uri(message)
        last = self.subscriptions.unsubscribe(attachment.key, uri)
        answer = self.succeed(attachment, identity)
        return [Remember(attachment.key), *answer, *(self.unsubscribe_upstream(uri) if last else [])]

    def subscribe_upstream(self, uri: str) -> list[Command]:
        """Ask the server for updates, for everybody who waits for them."""
        if self.modern:
            return self.bridge.subscribe(uri)
        params = jsonrpc.text_of({"uri": uri})
        return self.ask("resources/subscribe", params, lambda answer: self.subscribed(uri, answer))

    def subscribed(self, uri: str, answer: Message) -> list[Command]:
        """The server accepted or refused a subscription."""
        if "result" not in answer.members:
            return self._not_subscribed(uri, answer)
        accepted = self.subscriptions.accepted(uri)
        commands: list[Command] = []
        for waiter in accepted.waiters:
            if isinstance(waiter.session, ListenKey):
                commands += self.modern_hosts.listening.answered(waiter.session, uri, accepted=True)
                continue
            attachment = self.sessions[waiter.session]
            commands += [Remember(waiter.session), *self.succeed(attachment, waiter.identity)]
        # Who held it before a restart may have missed a change (protocol.md 6.8).
        missed = jsonrpc.notification_line("notifications/resources/updated", jsonrpc.text_of({"uri": uri}))
        commands += self.tell_updated(accepted.before, jsonrpc.parse(missed))
        return commands + (self.unsubscribe_upstream(uri) if accepted.unwanted else [])

    def _not_subscribed(self, uri: str, answer: Message) -> list[Command]:
        commands: list[Command] = []
        first, again = self.subscriptions.rejected(uri)
        if first is None:
            commands.append(Note("subscription", f"the server no longer accepts a subscription to {uri}"))
        elif isinstance(first.session, ListenKey):
            commands += self.modern_hosts.listening.answered(first.session, uri, accepted=False)
        else:
            line = jsonrpc.encode({**answer.members, "id": Raw(first.identity)})
            commands += self.sessions[first.session].answer(first.identity, line)
        return commands + (self.subscribe_upstream(uri) if again else [])

    def tell_updated(self, holders: set[Holder], message: Message) -> list[Command]:
        """Tell those who hold a resource that it changed."""
        line = jsonrpc.encode(message.members)
        hosts = sorted(holder for holder in holders if not isinstance(holder, ListenKey))
        listens = [holder for holder in holders if isinstance(holder, ListenKey)]
        commands: list[Command] = [ToSession(key, line, Weight.REPEATED) for key in hosts]
        return [*commands, *self.modern_hosts.listening.updated(listens, message)] if listens else commands

    def unsubscribe_upstream(self, uri: str) -> list[Command]:
        """Tell the server that nobody wants updates any more."""
        if not self.ready:
            return []
        if self.modern:
            return self.bridge.unsubscribe(uri)
        return self.ask("resources/unsubscribe", jsonrpc.text_of({"uri": uri}), lambda _: [])

    def replay_subscriptions(self) -> list[Command]:
        """Subscribe at a new child what hosts hold."""
        return [command for uri in self.subscriptions.to_replay() for command in self.subscribe_upstream(uri)]

    # Attribution

    def eligible(self) -> set[SessionKey]:
        """The hosts with a request in flight during which the server may call back or log (6.3 rule 3)."""
        return {
            pending.session for pending in self.pending.values() if pending.session is not None and asks_back(pending)
        }
