"""What the multiplexer knows of one host: its handshake, its open requests, its log level, its batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from supervisord_mcp.protocol.commands import SessionKey, ToSession


class Greeting(Enum):
    """How far a host's handshake has come."""

    NONE = "none"
    ASKED = "asked"
    ANSWERED = "answered"
    DONE = "done"


class State(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The slow part of an attachment, which survives the daemon (D11)."""

    version: str = ""
    capabilities: dict[str, Any] = msgspec.field(default_factory=dict)
    client: dict[str, Any] = msgspec.field(default_factory=dict)
    initialized: bool = False
    level: str | None = None
    uris: list[str] = msgspec.field(default_factory=list)


@dataclass(slots=True)
class Batch:
    """An array of messages from a 2025-03-26 host: its answers are collected into one array (protocol.md 6.6)."""

    waiting: set[bytes] = field(default_factory=set)
    answered: list[bytes] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    closed: bool = False

    def line(self) -> bytes:
        """Return the array of all answers."""
        return b"[" + b",".join(answer.rstrip(b"\n") for answer in self.answers) + b"]\n"


@dataclass(slots=True)
class Attachment:
    """One host at one instance. ``open`` maps its unanswered ids to upstream ids (None: not sent upstream yet)."""

    key: SessionKey
    greeting: Greeting = Greeting.NONE
    version: str = ""
    capabilities: dict[str, Any] = field(default_factory=dict)
    client: dict[str, Any] = field(default_factory=dict)
    level: str | None = None
    open: dict[bytes, int | None] = field(default_factory=dict)
    batches: dict[bytes, Batch] = field(default_factory=dict)
    #: Lists whose change was announced and which the host has not asked for since: it needs no second telling.
    told: set[str] = field(default_factory=set)
    #: Lists that changed before the host finished its handshake.
    owed: set[str] = field(default_factory=set)

    @property
    def greeted(self) -> bool:
        """Whether the handshake was asked for, so that other requests may follow."""
        return self.greeting is not Greeting.NONE

    def state(self, uris: list[str]) -> State:
        """Return what is worth keeping; ``uris`` are the host's subscriptions."""
        return State(
            version=self.version,
            capabilities=self.capabilities,
            client=self.client,
            initialized=self.greeting is Greeting.DONE,
            level=self.level,
            uris=uris,
        )

    @classmethod
    def restored(cls, key: SessionKey, state: State) -> Attachment:
        """Given the kept state of a session, return its attachment to a new daemon's instance."""
        greeting = Greeting.NONE
        if state.version:
            greeting = Greeting.DONE if state.initialized else Greeting.ANSWERED
        return cls(key, greeting, state.version, state.capabilities, state.client, state.level)

    def answer(self, identity: bytes, line: bytes) -> list[ToSession]:
        """Answer one of the host's requests; inside a batch the answer waits for the others."""
        self.open.pop(identity, None)
        batch = self.batches.pop(identity, None)
        if batch is None:
            return [ToSession(self.key, line, closes=(identity,))]
        batch.waiting.discard(identity)
        batch.answered.append(identity)
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
        return [ToSession(self.key, batch.line(), closes=tuple(batch.answered))]
