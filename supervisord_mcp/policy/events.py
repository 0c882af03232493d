"""The words that the lifecycle of an instance and its executor exchange: what happened, and what to do about it.

Every event that belongs to a run carries the generation of that run, and so does every command that is meant for one;
a timer is known by its serial. That is all the identity there is: no process id, no handle, nothing that could be
used again by a stranger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

# Events


@dataclass(frozen=True, slots=True)
class Start:
    """A person wants the server to run."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A person wants the server stopped, until asked again."""


@dataclass(frozen=True, slots=True)
class Restart:
    """A person wants a new child in place of the present one."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A message needs the child."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time of a `SetTimer` is over."""

    serial: int


@dataclass(frozen=True, slots=True)
class OfRun:
    """An event that belongs to one run; from any other run it is ignored."""

    generation: int


@dataclass(frozen=True, slots=True)
class Installing(OfRun):
    """The spawn is in its install phase: it waits for another installation, or its own begins."""


@dataclass(frozen=True, slots=True)
class Spawned(OfRun):
    """There is a child now."""


@dataclass(frozen=True, slots=True)
class SpawnFailed(OfRun):
    """There is no child and there will be none: the spawn failed, or was cancelled in time.

    ``blameless`` is a failure that says nothing of the server: what it is made of could not be fetched.
    """

    retryable: bool
    cause: str
    blameless: bool = False


@dataclass(frozen=True, slots=True)
class Ready(OfRun):
    """The child answered the handshake."""


@dataclass(frozen=True, slots=True)
class Exited(OfRun):
    """Nothing is left of the child; ``success`` if it ended by itself with exit code 0."""

    success: bool
    cause: str
    #: Whether the end says nothing of the server: it was spoken to in a way that it does not know.
    blameless: bool = False
    #: Whether only a person may start another one: it exceeded a limit for which that is the rule.
    final: bool = False


@dataclass(frozen=True, slots=True)
class Replace(OfRun):
    """The child, which is not ready yet, has to be spoken to in another way from its first word on."""


@dataclass(frozen=True, slots=True)
class Idle(OfRun):
    """Nobody has used the child for its idle time."""


Event: TypeAlias = (
    Start | Stop | Restart | Demand | TimerFired | Installing | Spawned | SpawnFailed | Ready | Exited | Replace | Idle
)


# Commands


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Report `TimerFired` with this serial after so many seconds; it takes the place of a timer that still runs."""

    serial: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Forget the timer."""


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a child; report `Spawned`, then `Exited` some day, or else `SpawnFailed`."""

    generation: int


@dataclass(frozen=True, slots=True)
class CancelSpawn:
    """Break off the spawn; report `SpawnFailed`, or `Spawned` if that came first."""

    generation: int


@dataclass(frozen=True, slots=True)
class CloseStdin:
    """Answer the pending callbacks of the child and close its stdin."""

    generation: int


@dataclass(frozen=True, slots=True)
class Terminate:
    """Send SIGTERM to the tree of the child."""

    generation: int


@dataclass(frozen=True, slots=True)
class Kill:
    """Send SIGKILL to the tree of the child."""

    generation: int


Command: TypeAlias = SetTimer | CancelTimer | Spawn | CancelSpawn | CloseStdin | Terminate | Kill
