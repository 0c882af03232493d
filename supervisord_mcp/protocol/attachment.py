"""What the multiplexer knows of one host: its handshake, its open requests, its log level, its batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.calls import Call, SessionKey
from supervisord_mcp.protocol.commands import ToSession, Weight
from supervisord_mcp.protocol.lists import KnownLists
from supervisord_mcp.protocol.mcp import Era


class Greeting(Enum):
    """How far a host's handshake has come. HASTY: it said that it is done before it was answered (case 4)."""

    NONE = "none"
    ASKED = "asked"
    HASTY = "hasty"
    ANSWERED = "answered"
    DONE = "done"


class State(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The slow part of an attachment, which survives the daemon (D11); ``asked`` is the last id used for a callback.

    ``asking`` is the JSON text of the id of its `initialize`, until the host said that its handshake is done: while
    that waits for an answer, the handshake was not answered yet (`resumption`).

    A host of the modern era, which alone is noted in ``era``, has no handshake: its ``version``, ``capabilities`` and
    ``client`` are those of its last request.

    ``listens`` are its listens that were acknowledged: their parameters, by the JSON text of their ids.

    ``told`` are the server's capabilities in the answer to `initialize`; None where that was answered before anything
    was known of the server (`anteroom`), so that what the first child offers is taken for it (`promises`).
    """

    version: str = ""
    capabilities: dict[str, Any] = msgspec.field(default_factory=dict)
    client: dict[str, Any] = msgspec.field(default_factory=dict)
    initialized: bool = False
    level: str | None = None
    uris: list[str] = msgspec.field(default_factory=list)
    asked: int = 0
    era: Era | None = None
    asking: str | None = None
    told: dict[str, Any] | None = None
    listens: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


@dataclass(slots=True)
class Batch:
    """An array of messages from a 2025-03-26 host: its answers are collected into one array (protocol.md 6.6)."""

    waiting: set[bytes] = field(default_factory=set)
    answered: list[Call] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    closed: bool = False

    def line(self) -> bytes:
        """Return the array of all answers."""
        return b"[" + b",".join(answer.rstrip(b"\n") for answer in self.answers) + b"]\n"


@dataclass(slots=True)
class Attachment:
    """One host at one instance. ``open`` are its requests that have no answer yet, by their ids.

    ``era`` is that of its first message which is not ``server/discover``, None until then (protocol.md 6.9). ``asking``
    is the id of its `initialize`. ``principal`` is who it is (protocol.md 6.5 step 4, 6.7): the user of a local host.
    Server and workspace need not be part of it, for what is kept for a principal is kept by one instance.
    """

    key: SessionKey
    greeting: Greeting = Greeting.NONE
    version: str = ""
    capabilities: dict[str, Any] = field(default_factory=dict)
    client: dict[str, Any] = field(default_factory=dict)
    level: str | None = None
    asked: int = 0
    open: dict[bytes, Call] = field(default_factory=dict)
    batches: dict[bytes, Batch] = field(default_factory=dict)
    era: Era | None = None
    lists: KnownLists = field(default_factory=KnownLists)
    asking: bytes | None = None
    principal: str = ""
    told: dict[str, Any] | None = None

    # The handshake

    @property
    def greeted(self) -> bool:
        """Whether the handshake was asked for, so that other requests may follow."""
        return self.greeting is not Greeting.NONE

    @property
    def answered(self) -> bool:
        """Whether the handshake was answered, so that the host relies on what it was told."""
        return self.greeting in (Greeting.ANSWERED, Greeting.DONE)

    @property
    def done(self) -> bool:
        """Whether the handshake is complete, so that the host takes requests and notifications."""
        return self.greeting is Greeting.DONE

    def welcomed(self) -> list[ToSession]:
        """The handshake was answered; return what the host is told right after."""
        hasty = self.greeting is Greeting.HASTY
        self.greeting = Greeting.ANSWERED
        return self.confirmed() if hasty else []

    def confirmed(self) -> list[ToSession]:
        """The host says that its handshake is done; return what it is told at once. Nothing if it never began one."""
        if self.greeting is Greeting.ASKED:
            self.greeting = Greeting.HASTY
        if self.greeting is not Greeting.ANSWERED:
            return []
        self.greeting = Greeting.DONE
        return [self._list_changed(kind) for kind in self.lists.settle()]

    def refused(self) -> None:
        """The handshake was answered with an error: the host may try again."""
        self.greeting = Greeting.NONE

    def state(self, uris: list[str], listens: dict[str, dict[str, Any]]) -> State:
        """Return what is worth keeping; ``uris`` are the host's subscriptions, ``listens`` its listens."""
        if self.era == "modern":
            said = (self.version, self.capabilities, self.client)
            return State(version=said[0], capabilities=said[1], client=said[2], era="modern", listens=listens)
        if not self.greeted:
            return State()
        asking = None if self.done or self.asking is None else self.asking.decode()
        return State(
            version=self.version,
            capabilities=self.capabilities,
            client=self.client,
            initialized=self.greeting in (Greeting.HASTY, Greeting.DONE),
            level=self.level,
            uris=uris,
            asked=self.asked,
            asking=asking,
            told=self.told,
        )

    @classmethod
    def restored(cls, key: SessionKey, state: State, principal: str = "") -> Attachment:
        """Given the kept state of a session, return its attachment to a new daemon's instance."""
        greeting, era = Greeting.NONE, state.era
        if state.version and era != "modern":
            greeting, era = Greeting.DONE if state.initialized else Greeting.ANSWERED, "legacy"
        kept = (state.version, state.capabilities, state.client, state.level, state.asked)
        lists = KnownLists(former=True)
        return cls(key, greeting, *kept, era=era, lists=lists, principal=principal, told=state.told)

    # Answers

    @property
    def calls(self) -> list[Call]:
        """The requests that nothing was sent back for yet: also those that are answered, in a batch that is not."""
        batches = {id(batch): batch for batch in self.batches.values()}
        return [*self.open.values(), *(call for batch in batches.values() for call in batch.answered)]

    def uses(self, identity: bytes | None) -> bool:
        """Whether a request of that id has no answer yet; one that waits for the others of its batch has none."""
        return identity in self.open or identity in self.batches

    def opens(self, call: Call) -> list[Call]:
        """A request waits for its answer, perhaps at the child by now; return it if it did not wait before."""
        known = self.open.setdefault(call.identity, call)
        if known is call:
            return [call]
        known.upstream = call.upstream
        return []

    def answer(self, identity: bytes, line: bytes) -> list[ToSession]:
        """Answer one of the host's requests; inside a batch the answer waits for the others."""
        call = self.open.pop(identity, None)
        if call is None:  # it was answered at once
            call = Call(self.key, identity)
        if not self.batches or (batch := self.batches.get(identity)) is None:
            return [ToSession(self.key, line, closes=(call,))]
        batch.waiting.discard(identity)
        batch.answered.append(call)
        batch.answers.append(line)
        return self.finish(batch)

    def forget(self, identity: bytes) -> list[ToSession]:
        """Give up one of the host's requests without an answer (it cancelled it)."""
        self.open.pop(identity, None)
        batch = self.batches.pop(identity, None)
        if batch is None:
            return []
        batch.waiting.discard(identity)
        return self.finish(batch)

    def finish(self, batch: Batch) -> list[ToSession]:
        """Send the array once every answer is there; a batch without requests gets no answer."""
        if not batch.closed or batch.waiting or not batch.answers:
            return []
        for call in batch.answered:
            del self.batches[call.identity]
        return [ToSession(self.key, batch.line(), closes=tuple(batch.answered))]

    # Lists

    def list_changed(self, kind: str) -> list[ToSession]:
        """A list changed: tell the host, once until it asks for that list again (pitfall 29).

        Only of lists that it knows of: where it was not told that there are prompts, it is not told of theirs (6.4).
        """
        if not self.answered:
            return []  # what it asks for later is new anyway
        if self.told is not None and kind not in self.told:
            return []
        return [self._list_changed(kind)] if self.lists.changed(kind, self.done) else []

    def _list_changed(self, kind: str) -> ToSession:
        line = jsonrpc.notification_line(f"notifications/{kind}/list_changed")
        return ToSession(self.key, line, Weight.REPEATED)
