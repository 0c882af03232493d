"""Requests of a child to its hosts (sampling, elicitation, roots) and the way back (protocol.md 6.2, 6.3).

They are relayed where hosts' capabilities were declared to the child: where it belongs to one host (scope
``session``), or to hosts of one `Profile` (6.1 D5), with `Attribution` to prove which of them is meant (D7). Where
nothing proves it they are refused. For any other child the daemon declared no client capabilities, so every callback
is refused at once with the code that a client without the capability uses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from msgspec import Raw

from supervisord_mcp.protocol import asking, jsonrpc
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.attribution import Addressee, Attribution, asks_back
from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.protocol.catalogue import items_of
from supervisord_mcp.protocol.commands import Command, Note, ToServer, ToSession
from supervisord_mcp.protocol.jsonrpc import Members, Message, Text
from supervisord_mcp.protocol.pending import Pending
from supervisord_mcp.protocol.profiles import Profile
from supervisord_mcp.protocol.questions import Question, Questions, Reply
from supervisord_mcp.protocol.tasks import Tasks

#: The client capability that a server request needs.
_NEEDS = {
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
}
#: What is asked in other words of a host of an older revision (protocol.md 1.5; pitfall 42).
_WORDED = ("elicitation/create", "sampling/createMessage")
#: How many messages of the child wait for the end of a host's handshake.
_MAX_EARLY = 256

#: How many dialogues on web pages are remembered, to tell their hosts when they are done.
_MAX_DIALOGUES = 1024
#: The error with which a server wants web pages to be visited first (2025-11-25).
URLS_NEEDED = -32042

#: Takes a child's request for a modern host, in place of sending it: whose it is, the calls it may be of, the request.
Park = Callable[[SessionKey, tuple[int, ...], Message], list[Command]]
#: Whether callbacks are relayed: to the one host of the child, to hosts that share it, or not at all (False).
Rules: TypeAlias = "bool | Shared"
#: Takes that the child gave up the request with this id; the parameters are those of its notification.
Withdraw = Callable[[bytes, Members], list[Command]]


@dataclass(frozen=True, slots=True)
class Shared:
    """How a child with callbacks is shared: by hosts of which profile, and whether their calls wait for each other.

    ``serialized`` lets calls during which the child may ask in flight for one host at a time; else what is asked while
    several hosts have such calls needs the proof of a task or a trace.
    """

    profile: Profile
    serialized: bool

    @property
    def text(self) -> str:
        """What stands for it in the key of an instance."""
        return f"{'serialized' if self.serialized else 'cookie'} {self.profile.text}"


class Callbacks:
    """What the child asks hosts, and what hosts are asked by the daemon itself.

    ``relay`` says that the child belongs to one host, ``shared`` how it is shared; with neither, nothing is relayed.
    ``park`` takes the requests for modern hosts, which cannot be asked (6.5), ``withdrawn`` takes what the child gives
    up of them; both are set by the bridge to those hosts.
    """

    def __init__(
        self, sessions: Mapping[SessionKey, Attachment], pending: Mapping[int, Pending], tasks: Tasks, rules: Rules
    ) -> None:
        self._sessions = sessions
        self._pending = pending
        self.relay = rules is True
        self.shared = rules if isinstance(rules, Shared) else None
        #: Whether calls of different hosts wait for each other now.
        self.serialized = self.shared is not None and self.shared.serialized
        self.park: Park | None = None
        self.withdrawn: Withdraw | None = None
        self._attribution = Attribution(sessions, pending, tasks, exclusive=self.relay)
        self._questions = Questions(sessions)
        # What the child said before its host had finished its handshake: a host must not get it sooner.
        self._early: deque[Message] = deque()
        # Dialogues on web pages, by the server's id for them, and their hosts (table ``elic`` of 6.2).
        self._dialogues: dict[str, SessionKey] = {}

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
        if message.id is None and not self.relay:
            return self._notification(message)
        if message.method == "roots/list" and message.id is not None and self.shared is not None:
            return self._roots(self.shared.profile, message.id)
        found = None
        if self.relay or self.shared is not None:
            found = self._attribution.find(jsonrpc.members_of(message.params().get("_meta")))
        if found is None:
            return self._unattributed(message)
        host = self._sessions[found.session]
        if host.era == "modern":
            return self._surface(found, message)
        if not host.done:
            return self._hold(message)
        if message.id is None:
            return [ToSession(host.key, jsonrpc.encode(message.members))]
        return self._ask(host, found, message, message.id)

    def _notification(self, message: Message) -> list[Command]:
        """A notification of a shared child that names no host by itself (6.4)."""
        if message.method == "notifications/elicitation/complete":
            host = self._dialogues.get(jsonrpc.string_of(message.params().get("elicitationId")) or "")
            return [] if host is None else [ToSession(host, jsonrpc.encode(message.members))]
        return [Note("unrouted", f"{message.method} names no host and was dropped")]

    @staticmethod
    def _roots(profile: Profile, identity: bytes) -> list[Command]:
        """The roots of a shared child are those that all its hosts have; whoever is meant (6.1 D6)."""
        if profile.roots is None:
            return [ToServer(jsonrpc.error_line(identity, jsonrpc.METHOD_NOT_FOUND, "Method not found: roots/list"))]
        return [ToServer(jsonrpc.result_line(identity, profile.roots_result()))]

    def _unattributed(self, message: Message) -> list[Command]:
        """Nothing proves whose a message is: it is refused, for the wrong host would be worse (6.3 rule 5)."""
        method = message.method or ""
        if message.id is None:
            return [Note("unrouted", f"{method} names no host and was dropped")]
        if self.shared is None or method not in _NEEDS:
            return self._unanswerable(method, message.id)
        commands: list[Command] = [Note("callback", f"{method} was refused: it may be for any of several hosts")]
        if self._attribution.contested and not self.serialized:
            self.serialized = True
            text = "calls of different hosts wait for each other from now on, for the server does not say whom it asks"
            commands.append(Note("callback", text))
        if method == "elicitation/create":
            return [*commands, refusal(message.id, method)]
        text = "cannot attribute request to a client"
        return [*commands, ToServer(jsonrpc.error_line(message.id, jsonrpc.INTERNAL_ERROR, text))]

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

    def _surface(self, found: Addressee, message: Message) -> list[Command]:
        """A question for a host of the modern era: it can only be told in the answer to a call of its own (6.5)."""
        if message.id is None:
            return [Note("unrouted", f"{message.method} cannot be told to a host of the modern era")]
        if not found.parents or self.park is None:
            return self._unanswerable(message.method or "", message.id)
        return self.park(found.session, found.parents, message)

    @staticmethod
    def _unanswerable(method: str, identity: bytes) -> list[Command]:
        text = f"Method not found: {method} (no client of this server offers it)"
        note = Note("callback", f"{method} was refused: no host can be asked")
        return [note, ToServer(jsonrpc.error_line(identity, jsonrpc.METHOD_NOT_FOUND, text))]

    def _ask(self, host: Attachment, found: Addressee, message: Message, identity: bytes) -> list[Command]:
        """Ask a legacy host, if it declared what the question needs (pitfalls 33, 42)."""
        assert message.method is not None
        params = message.params()
        needed = _NEEDS.get(message.method)
        if needed is not None and needed not in host.capabilities:
            return self._unanswerable(message.method, identity)
        if (objection := _objection(host, message.method, params)) is not None:
            return [ToServer(jsonrpc.error_line(identity, jsonrpc.INVALID_PARAMS, objection))]
        raw: Text | None = message.members.get("params")
        if message.method == "elicitation/create":
            self._remember(params, host.key)
        if raw is not None and message.method in _WORDED and not (needed == "elicitation" and _takes_urls(host)):
            raw = asking.older_params(message.method, raw, host.version)
        if raw is not None and needed == "sampling":
            raw = asking.without_context(raw, host.capabilities, host.version)
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

    def _remember(self, params: Members, host: SessionKey) -> None:
        """Note whom a dialogue on a web page belongs to, by the id that the server gave it."""
        name = jsonrpc.string_of(params.get("elicitationId"))
        if name is None or self.shared is None:
            return
        if len(self._dialogues) >= _MAX_DIALOGUES:
            del self._dialogues[next(iter(self._dialogues))]
        self._dialogues[name] = host

    def refused_call(self, session: SessionKey, error: Text) -> None:
        """A call of a host was answered with this error: it may name web pages that the host is to visit first."""
        members = jsonrpc.members_of(error)
        if jsonrpc.value_of(members.get("code")) != URLS_NEEDED:
            return
        for dialogue in items_of(jsonrpc.members_of(members.get("data")).get("elicitations")):
            self._remember(jsonrpc.members_of(dialogue), session)

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

    def linger(self, upstream: int, call: Pending) -> bool:
        """A host gave up a call; return whether the child may ask for it until it answers or `settled` is said."""
        if self.shared is None or not asks_back(call):
            return False
        self._attribution.lingering[upstream] = call
        return True

    def settled(self, upstream: int) -> list[Command]:
        """A call that its host had given up is over: the child answered it, or had time enough to."""
        self._attribution.lingering.pop(upstream, None)
        return []

    def task_over(self, task: str) -> list[Command]:
        """A task has ended: so has what was asked for it."""
        return self._questions.give_up(lambda question: question.task == task)

    def end(self, parent: int) -> list[Command]:
        """A call is given up: so is what was asked for it, unless it may as well belong to another (pitfall 12)."""
        if not self._questions:
            return []
        return self._questions.give_up(
            lambda question: parent in question.parents and not any(at in self._pending for at in question.parents)
        )

    def leave(self, session: SessionKey) -> list[Command]:
        """A host is gone: answer for it what it was asked."""
        for name in [name for name, host in self._dialogues.items() if host == session]:
            del self._dialogues[name]
        commands = self._questions.give_up(lambda question: question.session == session)
        if self.relay:
            return [*commands, *self._refuse_early()]
        # What waits for a host that will not come to be ready is for nobody; the others are found again.
        early = list(self._early)
        self._early.clear()
        return [*commands, *(command for message in early for command in self.from_child(message))]

    def child_lost(self) -> list[Command]:
        """The child is gone: it gets no answers, only hosts are told."""
        self._attribution.lingering.clear()
        self._dialogues.clear()
        self.serialized = self.shared is not None and self.shared.serialized
        return [command for command in self.abandon() if not isinstance(command, ToServer)]

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


def _objection(host: Attachment, method: str, params: Members) -> str | None:
    """Return why a host cannot be asked this, though it declared the capability, or None."""
    if method == "elicitation/create":
        mode = jsonrpc.string_of(params.get("mode"))
        if mode == "url" and not _takes_urls(host):
            return "the client does not support elicitation in mode url"
        if mode != "url" and _takes_urls(host) and "form" not in host.capabilities["elicitation"]:
            return "the client does not support elicitation in mode form"
    if method == "sampling/createMessage" and not {"tools", "toolChoice"}.isdisjoint(params):
        modes = host.capabilities["sampling"]
        if not isinstance(modes, dict) or "tools" not in modes:
            return "the client does not support tools in sampling"
    return None


def _takes_urls(host: Attachment) -> bool:
    """Whether a host's elicitation has the mode url; an empty capability means forms only (pitfall 42)."""
    modes: Any = host.capabilities["elicitation"]
    return isinstance(modes, dict) and "url" in modes
