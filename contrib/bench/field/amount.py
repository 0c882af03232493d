"""How much of a trial there is, and how long anything in it may take."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Amount:
    """``rounds`` trials of each row, in each ``calls`` calls one by one and ``seconds`` of calling for each crowd.

    ``patience`` is for what must come (a gateway, clients), ``recovery`` for what may never come, both in seconds;
    All of it, the installation too, ends within ``budget`` seconds: no further round is begun that would take longer
    if it took as long as the longest one before it, and no trial after that time.
    ``left`` is how long after the clients vanished is looked for what is left, ``blob`` how many bytes are large.
    """

    rounds: int = 2
    budget: float = 1150.0
    calls: int = 500
    warm: int = 50
    seconds: float = 0.5
    crowd: int = 10
    many: int = 50
    patience: float = 30.0
    recovery: float = 4.0
    left: float = 2.0
    blob: int = 1 << 24

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


FULL = Amount()
QUICK = Amount(rounds=1, calls=100, warm=20, seconds=0.3, many=20, recovery=4.0)
