"""What the multiplexer wants done: the commands it returns, carried out by the server that owns it.

The three that every call needs are structs of msgspec: a frozen dataclass takes eight times as long to make.
One of them is the `Call` itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import msgspec

from supervisord_mcp.protocol.calls import Call, SessionKey
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.eras.probe import Verdict
from supervisord_mcp.protocol.profiles import Root


class Weight(Enum):
    """How much a message to a host matters when the host does not read (protocol.md 6.1 D9).

    REPEATED says that something changed: it matters once, as long as the host has not read it.
    """

    MUST = "must"
    REPEATED = "repeated"
    DROPPABLE = "droppable"


class ToServer(msgspec.Struct, frozen=True, gc=False):
    """Write a line to the child."""

    data: bytes


class ToSession(msgspec.Struct, frozen=True, gc=False):
    """Write a line to a host; ``closes`` are its requests that this answers (several for a batch)."""

    session: SessionKey
    data: bytes
    weight: Weight = Weight.MUST
    closes: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Dropped:
    """A request of a host needs no answer any more: the host cancelled it, or (``overdue``) waited for too long."""

    call: Call
    overdue: bool = False


@dataclass(frozen=True, slots=True)
class Remember:
    """The slow state of a session changed and should be written down (`Attachment.state`)."""

    session: SessionKey


@dataclass(frozen=True, slots=True)
class Demand:
    """A child is needed."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The child answered the handshake."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The child answered the handshake with an error, or with what is no answer to it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Respawn:
    """Another child is needed in place of this one, which did nothing wrong: it was spoken to in the wrong era."""


@dataclass(frozen=True, slots=True)
class Judged:
    """It is known which eras the server speaks, or known better than before."""

    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Learned:
    """The catalogue of the instance changed; ``changed`` names the capabilities whose lists differ from before."""

    catalogue: Catalogue
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Health:
    """What is wrong with a running child, or the empty text when it is well."""

    trouble: str


@dataclass(frozen=True, slots=True)
class Alarm:
    """Say this number to `Multiplexer.rang` after so many seconds; a number of the past does no harm."""

    serial: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Moved:
    """A host works on other directories now: it belongs to the child that was told of those."""

    session: SessionKey
    roots: tuple[Root, ...]


@dataclass(frozen=True, slots=True)
class Parted:
    """A host is let go, with the reason: its session ends, and it is to connect anew."""

    session: SessionKey
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something for the server's log: noise on stdout, an answer nobody waits for, a request that was refused."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class LogMessage:
    """The child said something with ``notifications/message``, which was shown to these sessions, or to none.

    ``text`` is its data: a text as it is, anything else as JSON.
    """

    level: str
    logger: str
    text: str
    sessions: tuple[SessionKey, ...] = ()


Command = (
    ToServer
    | ToSession
    | Call
    | Dropped
    | Remember
    | Demand
    | Ready
    | Refused
    | Respawn
    | Judged
    | Learned
    | Health
    | Alarm
    | Moved
    | Parted
    | Note
    | LogMessage
)
