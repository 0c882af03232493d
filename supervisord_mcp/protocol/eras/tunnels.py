"""Listens of modern hosts at a modern child: one upstream for each, retagged both ways (protocol.md 6.4, 6.8).

The child knows a listen by the id of its request at the child, the host by that of its own, so the tag of everything
that is sent for it is exchanged, with its JSON type (pitfall 21). A listen outlives the child: the host keeps it, and
it is opened again at the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import Raw

from supervisord_mcp.protocol import jsonrpc, mcp, requests
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.calls import Call, SessionKey
from supervisord_mcp.protocol.commands import Command, Dropped, Note, Remember, ToServer, ToSession, Weight
from supervisord_mcp.protocol.conversation import Conversation
from supervisord_mcp.protocol.eras.cache import Cache
from supervisord_mcp.protocol.eras.envelope import SUBSCRIPTION_ID
from supervisord_mcp.protocol.eras.listening import ACKNOWLEDGED, Filter, acknowledgement, final, rewritten, tagged
from supervisord_mcp.protocol.jsonrpc import Message
from supervisord_mcp.protocol.pending import Pending
from supervisord_mcp.protocol.subscriptions import ListenKey

#: What says nothing more the second time, if the first was not read.
_REPEATED = frozenset({*mcp.CHANGED, "notifications/resources/updated"})


@dataclass(slots=True)
class Tunnel:
    """One listen: the parameters of its request, what they ask for, and its id at the child (None: not there now)."""

    key: ListenKey
    params: Raw
    wanted: Filter
    upstream: int | None = None
    acknowledged: bool = False


class Tunnels:
    """The open listens of the modern hosts of one modern child."""

    def __init__(self, conversation: Conversation, cache: Cache) -> None:
        self._talk = conversation
        self._cache = cache
        self._tunnels: dict[ListenKey, Tunnel] = {}
        self._upstream: dict[int, Tunnel] = {}

    def __len__(self) -> int:
        return len(self._tunnels)

    @property
    def busy(self) -> bool:
        """Whether a listen needs the child; changes of lists are noticed when the next one starts."""
        return any(tunnel.wanted.uris or tunnel.wanted.tasks for tunnel in self._tunnels.values())

    def count(self, session: SessionKey) -> int:
        """Return how many listens a host has."""
        return sum(key.session == session for key in self._tunnels)

    def holds(self, session: SessionKey, identity: bytes) -> bool:
        """Whether that request is a listen that was acknowledged; it outlives the child."""
        tunnel = self._tunnels.get(ListenKey(session, identity))
        return tunnel is not None and tunnel.acknowledged

    # Towards the child

    def open(self, attachment: Attachment, message: Message, wanted: Filter, identity: bytes) -> list[Command]:
        """A host listens: so does the daemon, for it alone. Tasks of other hosts are left out (6.4)."""
        tunnel = self._add(attachment, message, wanted, identity)
        return [*attachment.opens(Call(attachment.key, identity)), *self._listen(tunnel)]

    def open_without_child(
        self, attachment: Attachment, message: Message, wanted: Filter, identity: bytes
    ) -> list[Command]:
        """A host listens for changes of lists, for which no child is started: acknowledge what the server offers."""
        declared = self._talk.discovery.capabilities
        kinds = tuple(kind for kind in wanted.kinds if _tells(declared.get(kind)))
        tunnel = self._add(attachment, message, Filter(kinds, ()), identity)
        tunnel.acknowledged = True
        told = ToSession(attachment.key, tagged(acknowledgement(tunnel.wanted), identity))
        return [*attachment.opens(Call(attachment.key, identity)), told, Remember(attachment.key)]

    def kept(self, session: SessionKey) -> dict[bytes, dict[str, Any]]:
        """Return the parameters of the listens of a host that were acknowledged, by their ids."""
        kept: dict[bytes, dict[str, Any]] = {}
        for tunnel in [tunnel for tunnel in self._of(session) if tunnel.acknowledged]:
            params = jsonrpc.members_of(tunnel.params)
            told = {name: jsonrpc.value_of(text) for name, text in params.items()}
            kept[tunnel.key.identity] = {
                **told,
                "notifications": rewritten(params["notifications"], tunnel.wanted),
            }
        return kept

    def restore(self, attachment: Attachment, message: Message, wanted: Filter, identity: bytes) -> list[Command]:
        """A listen was open and acknowledged when the daemon died: it goes on, and its host knows nothing of it."""
        self._add(attachment, message, wanted, identity).acknowledged = True
        attachment.opens(Call(attachment.key, identity))
        return self.child_ready() if self._talk.ready else []

    def _add(self, attachment: Attachment, message: Message, wanted: Filter, identity: bytes) -> Tunnel:
        params = message.params()
        # Nothing is reported on a listen, and a token of the host must not be taken for one of the daemon's (3.7).
        meta = jsonrpc.members_of(params["_meta"])
        if meta.pop("progressToken", None) is not None:
            params["_meta"] = Raw(jsonrpc.object_text(meta))
        tasks = tuple(task for task in wanted.tasks if self._talk.tasks.claim(attachment, task))
        if tasks != wanted.tasks:
            told = {**jsonrpc.members_of(params["notifications"]), "taskIds": jsonrpc.text_of(tasks)}
            params["notifications"] = Raw(jsonrpc.object_text(told))
        wanted = Filter(wanted.kinds, wanted.uris, tasks)
        tunnel = Tunnel(ListenKey(attachment.key, identity), Raw(jsonrpc.object_text(params)), wanted)
        self._tunnels[tunnel.key] = tunnel
        return tunnel

    def _listen(self, tunnel: Tunnel) -> list[Command]:
        self._talk.last_id += 1
        upstream = tunnel.upstream = self._talk.last_id
        self._upstream[upstream] = tunnel
        # As a request of the daemon's own, for it does not keep the child from being idle.
        self._talk.pending[upstream] = Pending(
            None, b"", "subscriptions/listen", reply=lambda answer: self._answered(upstream, answer)
        )
        return [ToServer(jsonrpc.request_line(upstream, "subscriptions/listen", tunnel.params))]

    def child_ready(self) -> list[Command]:
        """A modern child is there: open again what hosts kept open, which may have missed changes (6.8)."""
        commands: list[Command] = []
        for tunnel in [tunnel for tunnel in self._tunnels.values() if tunnel.upstream is None]:
            commands += self._listen(tunnel)
            for uri in tunnel.wanted.uris:
                params = jsonrpc.text_of({"uri": uri})
                missed = jsonrpc.notification_line("notifications/resources/updated", params)
                commands.append(self._told(tunnel, jsonrpc.parse(missed)))
        return commands

    # From the child

    def notified(self, message: Message) -> list[Command] | None:
        """The child sent a notification; return None if it is for no listen of a host."""
        params = message.params()
        if message.method == "notifications/cancelled":
            upstream = requests.number(bytes(params.get("requestId", b"")))
            tunnel = None if upstream is None else self._upstream.get(upstream)
            return None if tunnel is None else self._ended(tunnel)
        meta = jsonrpc.members_of(params.get("_meta"))
        upstream = requests.number(bytes(meta.get(SUBSCRIPTION_ID, b"")))
        tunnel = None if upstream is None else self._upstream.get(upstream)
        if tunnel is None:
            return None
        return self._passed(tunnel, message)

    def _passed(self, tunnel: Tunnel, message: Message) -> list[Command]:
        if message.method == ACKNOWLEDGED:
            again, tunnel.acknowledged = tunnel.acknowledged, True
            return [] if again else [self._told(tunnel, message), Remember(tunnel.key.session)]
        if not tunnel.acknowledged:
            return [Note("unrouted", f"{message.method} came before its listen was acknowledged and was dropped")]
        if not _asked_for(tunnel.wanted, message):
            return [Note("unrouted", f"{message.method} is not what was listened for and was dropped")]
        self._note(message)
        return [self._told(tunnel, message)]

    def _note(self, message: Message) -> None:
        """Learn from a notification: a host may ask again before the daemon's own listen tells the same."""
        if message.method in mcp.CHANGED:
            self._cache.changed(mcp.CHANGED[message.method])
        elif message.method == "notifications/resources/updated":
            self._cache.updated(jsonrpc.string_of(message.params().get("uri")) or "")
        elif message.method == "notifications/tasks":
            self._talk.tasks.status(message)

    @staticmethod
    def _told(tunnel: Tunnel, message: Message) -> ToSession:
        weight = Weight.REPEATED if message.method in _REPEATED else Weight.MUST
        return ToSession(tunnel.key.session, tagged(message, tunnel.key.identity), weight)

    def _answered(self, upstream: int, answer: Message) -> list[Command]:
        tunnel = self._upstream[upstream]
        if "error" not in answer.members or (tunnel.acknowledged and not self._talk.ready):
            return self._ended(tunnel, answer.members.get("result"))
        self._forget(tunnel)
        answer.members["id"] = Raw(tunnel.key.identity)
        attachment = self._talk.sessions[tunnel.key.session]
        refused = attachment.answer(tunnel.key.identity, jsonrpc.encode(answer.members))
        return [*refused, Remember(attachment.key)] if tunnel.acknowledged else [*refused]

    def _ended(self, tunnel: Tunnel, said: Raw | None = None) -> list[Command]:
        """The child ended a listen. Where it is about to end itself, the host keeps what is to be opened again."""
        assert tunnel.upstream is not None
        self._talk.pending.pop(tunnel.upstream, None)
        if tunnel.acknowledged and not self._talk.ready:
            del self._upstream[tunnel.upstream]
            tunnel.upstream = None
            return []
        self._forget(tunnel)
        return self._finish(tunnel, said)

    def _finish(self, tunnel: Tunnel, said: Raw | None = None) -> list[Command]:
        """End a listen for its host: with a result, and only then as cancelled (pitfall 62)."""
        attachment = self._talk.sessions[tunnel.key.session]
        return final(attachment, tunnel.key.identity, self._talk.discovery.server_info, said)

    def _forget(self, tunnel: Tunnel) -> None:
        del self._tunnels[tunnel.key]
        if tunnel.upstream is not None:
            del self._upstream[tunnel.upstream]

    # What the daemon tells by itself

    def list_changed(self, kind: str, asked: bool | None) -> list[Command]:
        """A list is not what it was before the child started: who has the old one does not hear of it from the child.

        Of every other change the child tells each listen itself.
        """
        if asked is not False:
            return []
        message = jsonrpc.parse(jsonrpc.notification_line(f"notifications/{kind}/list_changed"))
        return [
            self._told(tunnel, message)
            for tunnel in self._tunnels.values()
            if kind in tunnel.wanted.kinds and tunnel.acknowledged
        ]

    # The end

    def cancel(self, attachment: Attachment, identity: bytes) -> list[Command] | None:
        """A host cancels a listen, which is not answered then; return None if that request is none."""
        tunnel = self._tunnels.get(ListenKey(attachment.key, identity))
        if tunnel is None:
            return None
        closed = self._close(tunnel)
        dropped = Dropped(attachment.open[identity])
        return [*closed, dropped, *attachment.forget(identity), Remember(attachment.key)]

    def end(self, session: SessionKey) -> list[Command]:
        """End the listens of a host for good."""
        commands: list[Command] = []
        for tunnel in self._of(session):
            commands += [*self._close(tunnel), *self._finish(tunnel)]
        return commands

    def end_all(self) -> list[Command]:
        """The child turned out to be of the other era: hosts listen anew (6.8)."""
        return [command for session in {key.session for key in self._tunnels} for command in self.end(session)]

    def leave(self, session: SessionKey) -> list[Command]:
        """A host is gone, and so are its listens."""
        return [command for tunnel in self._of(session) for command in self._close(tunnel)]

    def _of(self, session: SessionKey) -> list[Tunnel]:
        return [tunnel for key, tunnel in self._tunnels.items() if key.session == session]

    def _close(self, tunnel: Tunnel) -> list[Command]:
        self._forget(tunnel)
        return [] if tunnel.upstream is None else self._talk.cancel_upstream(tunnel.upstream, {})

    def child_lost(self) -> None:
        """The child is gone: who waits for its acknowledgement is told so; the other listens wait for the next one."""
        self._upstream.clear()
        for key, tunnel in list(self._tunnels.items()):
            tunnel.upstream = None
            if not tunnel.acknowledged:
                del self._tunnels[key]


def _tells(declared: object) -> bool:
    return isinstance(declared, dict) and bool(declared.get("listChanged"))


def _asked_for(wanted: Filter, message: Message) -> bool:
    """Whether a notification is of a kind that a listen asked for (pitfall 23); extensions have kinds of their own.

    A log message never is (3.7), and of tasks only those that were named, which are the host's own (6.4).
    """
    match message.method:
        case method if method in mcp.CHANGED:
            return mcp.CHANGED[method] in wanted.kinds
        case "notifications/tasks":
            return jsonrpc.string_of(message.params().get("taskId")) in wanted.tasks
        case "notifications/resources/updated":
            return bool(wanted.uris)
        case method:
            return method != "notifications/message"
