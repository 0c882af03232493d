"""Requests of hosts on their way: held until there is a child, or pending at the child."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.protocol.commands import Command
from supervisord_mcp.protocol.jsonrpc import Message
from supervisord_mcp.protocol.traces import Trace

#: Takes the answer to a request.
Reply: TypeAlias = Callable[[Message], list[Command]]


class Pending(msgspec.Struct):
    """A request sent to the child: whose it is, under which id and progress token, and who takes the answer.

    ``reply`` takes the answer where it does not simply go to the host: to a request of the daemon's own (no
    ``session``), or of a host of the other era.

    ``progress`` is the last value reported, ``augmented`` says that the call asked for a task, ``task`` names the one
    that the request is about, ``trace`` is the cookie it was sent with. ``offset`` is added to what the child reports:
    a call of several rounds goes on counting (pitfall 9). (A struct, because one is made for every call.)
    """

    session: SessionKey | None
    identity: bytes
    method: str
    token: bytes | None = None
    augmented: bool = False
    task: str | None = None
    progress: float | None = None
    offset: float = 0
    trace: Trace | None = None
    reply: Reply | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A request or notification of a host that waits for a child; ``size`` is about its bytes."""

    session: SessionKey
    message: Message
    size: int


class HeldMessages:
    """What waits for a child, in the order in which it came."""

    def __init__(self) -> None:
        self._held: deque[Held] = deque()
        self.size = 0

    def __len__(self) -> int:
        return len(self._held)

    def add(self, session: SessionKey, message: Message) -> None:
        """Hold a message of a host."""
        size = sum(len(memoryview(text)) for text in message.members.values())
        self._held.append(Held(session, message, size))
        self.size += size

    def take(self) -> list[Held]:
        """Take everything out."""
        taken = list(self._held)
        self._held.clear()
        self.size = 0
        return taken

    @property
    def first(self) -> Held | None:
        """What has waited longest."""
        return self._held[0] if self._held else None

    def take_first(self) -> Held:
        """Take out what has waited longest. Raise `IndexError` if nothing waits."""
        held = self._held.popleft()
        self.size -= held.size
        return held

    def find(self, session: SessionKey, identity: bytes) -> Message | None:
        """Return the held request of a host with that id, or None."""
        return next((h.message for h in self._held if h.session == session and h.message.id == identity), None)

    def drop(self, session: SessionKey, identity: bytes | None = None) -> list[Message]:
        """Forget what is held for a host, or its one request of that id; return what was held."""
        kept: deque[Held] = deque()
        dropped: list[Message] = []
        for held in self._held:
            if held.session == session and (identity is None or held.message.id == identity):
                dropped.append(held.message)
                self.size -= held.size
            else:
                kept.append(held)
        self._held = kept
        return dropped
