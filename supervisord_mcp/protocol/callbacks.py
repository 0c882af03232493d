"""Requests of a child to its hosts (sampling, elicitation, roots) and the way back (protocol.md 6.2, 6.3).

They are relayed where hosts' capabilities were declared to the child: where it belongs to one host (scope
``session``). For other children the daemon declared no client capabilities (6.1 D5), so every callback is refused at
once with the code that a client without the capability uses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Raw

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.attribution import Addressee, Attribution
from supervisord_mcp.protocol.commands import Command, Note, SessionKey, ToServer, ToSession
from supervisord_mcp.protocol.jsonrpc import Members, Message, Text
from supervisord_mcp.protocol.pending import Pending
from supervisord_mcp.protocol.questions import Question, Questions, Reply
from supervisord_mcp.protocol.tasks import Tasks

#: The client capability that a server request needs.
_NEEDS = {
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
}
#: How many messages of the child wait for the end of a host's handshake.
_MAX_EARLY = 256

#: Takes a child's request for a modern host, in place of sending it: whose it is, the call it belongs to, the request.
Park = Callable[[SessionKey, int, Message], list[Command]]
#: Takes that the child gave up the request with this id; the parameters are those of its notification.
Withdraw = Callable[[bytes, Members], list[Command]]


class Callbacks:
    """What the child asks hosts, and what hosts are asked by the daemon itself.

    ``park`` takes the requests for modern hosts, which cannot be asked (6.5), ``withdrawn`` takes what the child gives
    up of them; both are set by the bridge to those hosts.
    """

    def __init__(
        self, sessions: Mapping[SessionKey, Attachment], pending: Mapping[int, Pending], tasks: Tasks, *, relay: bool
    ) -> None:
        self._sessions = sessions
        self._pending = pending
        self.relay = relay
        self.park: Park | None = None
        self.withdrawn: Withdraw | None = None
        self._attribution = Attribution(sessions, pending, tasks, exclusive=relay)
        self._questions = Questions(sessions)
        # What the child said before its host had finished its handshake: a host must not get it sooner.
        self._early: deque[Message] = deque()

    def __bool__(self) -> bool:
        return bool(self._questions or self._early)

    # From the daemon

    def ask(
        self, session: SessionKey, method: str, params: Text | None, parent: int | None, reply: Reply
    ) -> list[Command]:
        """Ask a legacy host, which is attached, something for the call with the upstream id ``parent``.

        ``reply`` gets the host's answer, a result or an error, or None when there will be none: the host left, the
        call was given up (`end`), the child is gone. It must then not answer the call, for that is done already.
        """
        parents = frozenset() if parent is None else frozenset((parent,))
        return self._questions.ask(Question(session, reply, parents), method, params)

    # From the child

    def from_child(self, message: Message) -> list[Command]:
        """The child asks its host something, or notifies it of something that only the host understands."""
        found = self._attribution.find(message.params()) if self.relay else None
        host = None if found is None else self._sessions[found.session]
        if host is not None and host.era == "modern":
            return self._surface(found, message)
        if host is not None and not host.done:
            return self._hold(message)
        if message.id is not None:
            return self._ask(host, found, message, message.id)
        if host is None:
            return [Note("unrouted", f"{message.method} names no host and was dropped")]
        return [ToSession(host.key, jsonrpc.encode(message.members))]

    def cancelled(self, params: Members) -> list[Command]:
        """The child gave up one of its requests."""
        identity = bytes(params.get("requestId", b""))
        for message in self._early:
            if message.id == identity:
                self._early.remove(message)
                return []
        told = self._questions.withdraw(identity, params)
        if told is not None:
            return told
        return [] if self.withdrawn is None else self.withdrawn(identity, params)

    def _hold(self, message: Message) -> list[Command]:
        if len(self._early) < _MAX_EARLY:
            self._early.append(message)
            return []
        if message.id is not None:
            return [refusal(message.id, message.method or "")]
        return [Note("early", f"{message.method} came before the host was ready and was dropped")]

    def _surface(self, found: Addressee | None, message: Message) -> list[Command]:
        """A question for a host of the modern era: it can only be told in the answer to a call of its own (6.5)."""
        if message.id is None:
            return [Note("unrouted", f"{message.method} cannot be told to a host of the modern era")]
        if found is None or not found.parents or self.park is None:
            return self._unanswerable(message.method or "", message.id)
        return self.park(found.session, found.parents[-1], message)

    @staticmethod
    def _unanswerable(method: str, identity: bytes) -> list[Command]:
        text = f"Method not found: {method} (no client of this server offers it)"
        note = Note("callback", f"{method} was refused: no host can be asked")
        return [note, ToServer(jsonrpc.error_line(identity, jsonrpc.METHOD_NOT_FOUND, text))]

    def _ask(
        self, host: Attachment | None, found: Addressee | None, message: Message, identity: bytes
    ) -> list[Command]:
        assert message.method is not None
        needed = _NEEDS.get(message.method)
        if host is None or found is None or (needed is not None and needed not in host.capabilities):
            return self._unanswerable(message.method, identity)
        params = message.params()
        mode = jsonrpc.string_of(params.get("mode")) if needed == "elicitation" else None
        if mode == "url" and not _takes_urls(host):
            text = "the client does not support elicitation in mode url"
            return [ToServer(jsonrpc.error_line(identity, jsonrpc.INVALID_PARAMS, text))]
        raw: Text | None = message.members.get("params")
        if mode == "form" and host.version < "2025-11-25":
            del params["mode"]  # a host of that revision knows no modes (pitfall 42)
            raw = jsonrpc.object_text(params)
        token = jsonrpc.members_of(params.get("_meta")).get("progressToken")
        question = Question(
            host.key,
            _passed_on(identity, message.method),
            frozenset(found.parents),
            found.task,
            identity,
            None if token is None else bytes(token),
        )
        return self._questions.ask(question, message.method, raw)

    # From the host

    def host_ready(self) -> list[Command]:
        """A host finished its handshake: it gets what waited for that."""
        early = list(self._early)
        self._early.clear()
        return [command for message in early for command in self.from_child(message)]

    def answered(self, session: SessionKey, message: Message) -> list[Command]:
        """A host answered something."""
        return self._questions.answered(session, message)

    def answer_lost(self, session: SessionKey, identity: bytes | None, text: str) -> list[Command]:
        """A host's answer cannot be passed on; return nothing if it was none."""
        return self._questions.answer_lost(session, identity, text)

    def progress(self, session: SessionKey, message: Message) -> list[Command]:
        """A host reports on a callback."""
        return self._questions.progress(session, message)

    # Giving up

    def end(self, parent: int) -> list[Command]:
        """A call is given up: so is what was asked for it, unless it may as well belong to another (pitfall 12)."""
        if not self._questions:
            return []
        return self._questions.give_up(
            lambda question: parent in question.parents and not any(at in self._pending for at in question.parents)
        )

    def leave(self, session: SessionKey) -> list[Command]:
        """A host is gone: answer for it what it was asked."""
        commands = self._questions.give_up(lambda question: question.session == session)
        return [*commands, *self._refuse_early()] if self.relay else commands

    def abandon(self) -> list[Command]:
        """The child ends: answer everything that is open, and tell hosts that they need not answer any more."""
        return [*self._refuse_early(), *self._questions.give_up(lambda _: True)]

    def _refuse_early(self) -> list[Command]:
        early = list(self._early)
        self._early.clear()
        return [refusal(message.id, message.method or "") for message in early if message.id is not None]


def refusal(identity: bytes, method: str) -> ToServer:
    """Tell the child that nobody answers its request (protocol.md 6.3).

    An elicitation is answered as cancelled: that is a result every server handles, where errors end some of them.
    """
    match method:
        case "elicitation/create":
            return ToServer(jsonrpc.result_line(identity, b'{"action":"cancel"}'))
        case "sampling/createMessage":
            return ToServer(jsonrpc.error_line(identity, -1, "the host is gone"))
        case _:
            return ToServer(jsonrpc.error_line(identity, jsonrpc.INTERNAL_ERROR, "the host is gone"))


def _passed_on(identity: bytes, method: str) -> Reply:
    """Return what takes a host's answer to the child's request and hands it to the child under the child's id."""

    def reply(answer: Message | None) -> list[Command]:
        if answer is None:
            return [refusal(identity, method)]
        answer.members["id"] = Raw(identity)
        return [ToServer(jsonrpc.encode(answer.members))]

    return reply


def _takes_urls(host: Attachment) -> bool:
    """Whether a host's elicitation has the mode url; an empty capability means forms only (pitfall 42)."""
    modes: Any = host.capabilities["elicitation"]
    return isinstance(modes, dict) and "url" in modes
