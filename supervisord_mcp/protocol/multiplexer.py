"""N hosts to one child: events in, commands out (protocol.md 6.1 to 6.4, column LC to LS; 6.8 to 6.10).

The multiplexer owns the meaning of messages between the hosts of one instance and its child. It is handed lines and
facts (a host came, the child runs, the child is gone) and returns `commands`; it never waits and never acts.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from supervisord_mcp.protocol import jsonrpc, mcp
from supervisord_mcp.protocol.attachment import Attachment, State
from supervisord_mcp.protocol.callbacks import Rules
from supervisord_mcp.protocol.calls import Call, SessionKey
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import Command, Demand, Parted, Remember
from supervisord_mcp.protocol.conversation import Conversation, Entropy
from supervisord_mcp.protocol.downstream import Downstream
from supervisord_mcp.protocol.eras.modern_child import ModernChild
from supervisord_mcp.protocol.eras.modern_host import ModernHosts
from supervisord_mcp.protocol.eras.probe import Terms
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.mcp import Era
from supervisord_mcp.protocol.upstream import Upstream


class Multiplexer:
    """The conversation of one instance.

    ``relay`` as in `Conversation`, ``known`` is the stored catalogue, ``entropy`` gives as many random bytes as asked.
    """

    def __init__(self, server: str, *, entropy: Entropy, relay: Rules = False, known: Catalogue | None = None) -> None:
        self._talk = Conversation(server, relay=relay, known=known, entropy=entropy)
        self._talk.bridge = bridge = ModernChild(self._talk)
        self._modern = ModernHosts(self._talk, bridge.cache)
        self._talk.part = self._part
        self._downstream = Downstream(self._talk, self._modern)
        self._upstream = Upstream(self._talk)

    # What others may know

    @property
    def ready(self) -> bool:
        """Whether the child answered its handshake."""
        return self._talk.ready

    @property
    def era(self) -> Era:
        """The era of the child; it counts only while it is ready."""
        return self._talk.discovery.era

    @property
    def catalogue(self) -> Catalogue | None:
        """What is known of the server's offers; of a child that just answered, what it said of itself."""
        discovery = self._talk.discovery
        if discovery.known is None and discovery.ready and discovery.handshake is not None:
            return Catalogue(discovery.handshake, {}, discovery.discovered)
        return discovery.known

    @property
    def sessions(self) -> int:
        """How many hosts are attached."""
        return len(self._talk.sessions)

    @property
    def waiting(self) -> bool:
        """Whether requests are held for a child."""
        return bool(self._talk.held)

    @property
    def busy(self) -> bool:
        """Whether anything keeps the child from being idle: a request, a callback, a subscription, a task, a retry."""
        talk = self._talk
        return bool(
            talk.held
            or talk.callbacks
            or talk.bridge
            or self._modern.tunnels.busy
            or self._modern.parking
            or talk.subscriptions
            or talk.tasks
            or any(pending.session is not None for pending in talk.pending.values())
        )

    @property
    def held_bytes(self) -> int:
        """How much is held for a child that is not ready yet, in bytes."""
        return self._talk.held.size

    @property
    def crowded(self) -> bool:
        """Whether so much waits for the child that further requests for it are refused; set by who counts it."""
        return self._talk.crowded

    @crowded.setter
    def crowded(self, value: bool) -> None:
        self._talk.crowded = value

    def host(self, key: SessionKey) -> str:
        """Return how a host names itself, the empty text if it did not yet."""
        attachment = self._talk.sessions.get(key)
        name = None if attachment is None else attachment.client.get("name")
        return name if isinstance(name, str) else ""

    def calls(self) -> list[Call]:
        """Return the requests of hosts that nothing was sent back for yet."""
        return [call for attachment in self._talk.sessions.values() for call in attachment.calls]

    def calls_of(self, key: SessionKey) -> list[Call]:
        """Return those of one host."""
        attachment = self._talk.sessions.get(key)
        return [] if attachment is None else attachment.calls

    def state(self, key: SessionKey) -> State:
        """Return what is worth keeping of a session over a death of the daemon."""
        return self._talk.sessions[key].state(self._talk.subscriptions.of(key), self._modern.kept(key))

    def from_session(self, key: SessionKey, line: bytes | Oversized) -> list[Command]:
        """A host sent a line."""
        return self._downstream.from_session(key, line)

    def from_server(self, line: bytes | Oversized) -> list[Command]:
        """The child sent a line."""
        return self._upstream.from_server(line)

    def rang(self, serial: int) -> list[Command]:
        """The time of an `Alarm` has come."""
        return self._talk.alarms.rang(serial)

    def attach(self, key: SessionKey, state: State | None = None, principal: str = "") -> list[Command]:
        """A host is there, of this principal; ``state`` is what it had before the daemon was restarted."""
        if state is None:
            self._talk.sessions[key] = Attachment(key, principal=principal)
            return []
        attachment = self._talk.sessions[key] = Attachment.restored(key, state, principal)
        self._talk.subscriptions.restore(key, state.uris)
        commands = self._modern.restore(attachment, state.listens)
        if self._talk.ready:
            commands += self._talk.compare_offers()
            return [*commands, *self._talk.replay_subscriptions(), *self._talk.raise_level()]
        return [*commands, Demand()] if state.uris or self._modern.wants_child(key) else commands

    def detach(self, key: SessionKey) -> list[Command]:
        """A host is gone: cancel what it waits for, answer what it was asked, let go of what it held (pitfall 12)."""
        attachment = self._talk.sessions.pop(key, None)
        if attachment is None:
            return []
        self._talk.held.drop(key)
        # Calls of others may have waited for nothing but those of this host.
        next_turns = self._talk.turns.go_on() if self._talk.turns.drop(key) else []
        commands = [*next_turns, *self._modern.leave(key), *self._cancel_all(attachment, "the host is gone")]
        commands += [*self._talk.callbacks.leave(key), *self._talk.bridge.leave(key)]
        for uri in self._talk.subscriptions.leave(key):
            commands += self._talk.unsubscribe_upstream(uri)
        self._talk.tasks.leave(attachment)
        return commands + self._talk.raise_level()

    def _part(self, key: SessionKey, text: str) -> list[Command]:
        """End the session of a host: answer what it waits for with the reason, and let it go."""
        failed = self.fail_session(key, text, {"reason": "server_changed"})
        return [*failed, *self.detach(key), Parted(key, text)]

    def fail_session(self, key: SessionKey, text: str, data: Any = None) -> list[Command]:
        """Answer everything a host waits for with an error; it stays attached."""
        attachment = self._talk.sessions[key]
        commands: list[Command] = []
        if any(message.method == "initialize" for message in self._talk.held.drop(key)):
            attachment.refused()
            commands.append(Remember(key))
        self._talk.turns.drop(key)
        commands += [*self._modern.dismiss(key), *self._cancel_all(attachment, text), *self._talk.bridge.leave(key)]
        for identity in list(attachment.open):
            self._talk.subscriptions.cancel(key, identity)
            commands += self._talk.fail(attachment, identity, jsonrpc.INTERNAL_ERROR, text, data)
        return commands

    def _cancel_all(self, attachment: Attachment, reason: str) -> list[Command]:
        params = {"reason": Raw(jsonrpc.text_of(reason))}
        return [
            command
            for call in attachment.open.values()
            if call.upstream is not None
            for command in self._talk.cancel_upstream(call.upstream, params)
        ]

    def assume(self, shown: Catalogue) -> list[Command]:
        """Hosts saw this catalogue elsewhere: announce what differs from ours, or take it until we know better."""
        discovery = self._talk.discovery
        if discovery.known is None:
            discovery.known = shown
            return []
        return [command for kind in shown.differences(discovery.known) for command in self._talk.announce(kind)]

    def child_started(self, terms: Terms) -> list[Command]:
        """A child runs and its pipes are connected; ``terms`` say what is known of its era."""
        hosts = self._talk.sessions.values() if self._talk.callbacks.relay else ()
        host = next((attachment for attachment in hosts if attachment.greeted or attachment.capabilities), None)
        if host is None:
            shared = self._talk.callbacks.shared
            declared = {} if shared is None else shared.profile.capabilities()
            return self._talk.discovery.start(terms, mcp.NEWEST_LEGACY, declared, mcp.DAEMON)
        version = host.version if host.era == "legacy" else mcp.NEWEST_LEGACY
        capabilities = mcp.relayed_capabilities(host.capabilities, version)
        return self._talk.discovery.start(terms, version, capabilities, host.client or mcp.DAEMON)

    @property
    def doubtful(self) -> bool:
        """Whether a death of the child now is no crash: it may only not have known what it was asked (6.1 D3)."""
        return self._talk.discovery.doubtful

    def child_lost(self, text: str, data: Any = None, *, blameless: bool = False) -> list[Command]:
        """The child is gone: fail what it had and what it never got, keep the hosts (protocol.md 6.8).

        It is ``blameless`` where it only did not know the era of its first words (`doubtful`); another takes its place.
        """
        # What came while a child was already on its way out, or is replaced by another, waits for the next one.
        waits = blameless or not self._talk.discovery.handshaking
        commands = [] if waits else self.fail_held(text, data)
        self._talk.pending.clear()
        self._talk.turns.take()
        self._talk.cursors.forget()
        for attachment in self._talk.sessions.values():
            attachment.lists.child_lost()
            for identity in [i for i in attachment.open if not self._outlives_child(attachment, i)]:
                commands += self._talk.fail(attachment, identity, jsonrpc.INTERNAL_ERROR, text, data)
        commands += self._talk.callbacks.child_lost()
        self._modern.child_lost()
        self._talk.subscriptions.child_lost()
        self._talk.tasks.child_lost()
        self._talk.bridge.child_lost()
        self._talk.level = None
        self._talk.discovery.child_lost(blameless=blameless)
        return commands

    def _outlives_child(self, attachment: Attachment, identity: bytes) -> bool:
        """Whether an open request goes on without a child: it waits for the next one, or it listens."""
        held = self._talk.held.find(attachment.key, identity)
        return held is not None or self._modern.holds(attachment.key, identity)

    def fail_held(self, text: str, data: Any = None) -> list[Command]:
        """No child will come for now: answer everything that waits for one."""
        commands: list[Command] = []
        for held in self._talk.held.take():
            attachment, message = self._talk.sessions[held.session], held.message
            if message.id is None:
                continue
            if message.method == "initialize":
                attachment.refused()
                commands.append(Remember(held.session))
            commands += self._talk.fail(attachment, message.id, jsonrpc.INTERNAL_ERROR, text, data)
        return commands

    def stopping(self) -> list[Command]:
        """The child is about to be stopped: answer its open callbacks, or it may not end on EOF (pitfall 49).

        From now on hosts wait for the next child; what this one has, it may still answer.
        """
        self._talk.discovery.stopping()
        for held in self._talk.turns.take():
            self._talk.held.add(held.session, held.message)
        return [*self._talk.callbacks.abandon(), *self._modern.parking.stopping()]
