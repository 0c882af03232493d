"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """``rounds`` repetitions of ``calls`` calls, ``floods`` of so many ``seconds`` for each of the ``crowds``.

    ``idle`` is how long is watched what costs something while nothing happens, in seconds.
    """

    rounds: int = 21
    calls: int = 500
    floods: int = 7
    seconds: float = 1.0
    crowds: tuple[int, ...] = (1, 10, 50)
    starts: int = 15
    connections: int = 50
    idle: float = 20.0


FULL = Plan()
QUICK = Plan(rounds=5, calls=200, floods=3, seconds=0.3, starts=3, connections=20, idle=5.0)
