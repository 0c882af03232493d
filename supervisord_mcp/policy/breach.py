"""When a server counts as beyond a limit that nothing but its figures tells of, and what its policy makes of that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

#: What follows from a breach: started again as after a crash, left until a person starts it, or only told.
Policy = Literal["restart", "stop", "warn"]

#: A breach is over, so that the next one is told of, once the server is below this part of the limit again.
_BELOW = 0.9
#: The limits that are kept by a refusal: the server is told no, and goes on.
REFUSING = frozenset({"nofile"})


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is watched, None is nothing. ``memory`` in bytes, ``pids`` threads, ``cpu`` processors, ``nofile`` files."""

    memory: int | None = None
    pids: int | None = None
    cpu: float | None = None
    nofile: int | None = None

    @property
    def pressing(self) -> bool:
        """Whether something may have to be done, so that it is looked at often."""
        return not (self.memory is self.pids is self.cpu is None)


NOTHING = Bounds()


@dataclass(frozen=True, slots=True)
class Held:
    """What a server uses: ``cpu`` over the last minute, None before it ran for one; ``nofile`` of one process."""

    memory: int
    pids: int
    cpu: float | None
    nofile: int


def crossed(bounds: Bounds, held: Held, known: frozenset[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Given the limits that a server was beyond when it was last seen, return those that it is beyond now, and the new.

    Beyond ``nofile``, which the kernel lets nobody exceed, is a process that has used it up.
    """
    beyond = frozenset(name for name, part in _parts(bounds, held) if part > (_BELOW if name in known else 1.0))
    return beyond, tuple(sorted(beyond - known))


def _parts(bounds: Bounds, held: Held) -> Iterator[tuple[str, float]]:
    """Yield which part of each limit is used; beyond it is more than one."""
    if bounds.memory is not None:
        yield "memory", held.memory / bounds.memory
    if bounds.pids is not None:
        yield "pids", held.pids / bounds.pids
    if bounds.cpu is not None and held.cpu is not None:
        yield "cpu", held.cpu / bounds.cpu
    if bounds.nofile is not None:
        yield "nofile", (held.nofile + 1) / bounds.nofile
