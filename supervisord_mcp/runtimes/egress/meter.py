"""How much of the network one sandbox uses, what it was refused, and how fast it may go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["passed", "refused", "failed"]

#: Reports that a server may cause at once, and each second after that: a refusal in a loop must not fill a log.
_REPORTS_AT_ONCE, _REPORTS_PER_SECOND = 40, 4
#: Places that are remembered as refused.
_MOST_REFUSED = 8


@dataclass(frozen=True, slots=True)
class Contact:
    """One attempt of a server to reach something, when it is over. ``port`` is 0 where only a name was looked up.

    ``sent`` and ``received`` are bytes as the server sees them. ``unreported`` is how many before it were left out.
    """

    server: str
    host: str
    port: int
    outcome: Outcome
    reason: str = ""
    sent: int = 0
    received: int = 0
    unreported: int = 0


Report = Callable[[Contact], None]


@dataclass(slots=True)
class Usage:
    """What a server has used since it was started. ``waiting`` is how often it had to wait for its rate."""

    connections: int = 0
    open: int = 0
    refused: int = 0
    failed: int = 0
    waiting: int = 0
    names: int = 0
    sent: int = 0
    received: int = 0


class Bucket:
    """A rate with a stock: ``rate`` a second, and as many at once as ``stock``."""

    def __init__(self, rate: float, stock: float) -> None:
        self._rate, self._stock = rate, stock
        self._level = stock
        self._at: float | None = None

    def take(self, now: float) -> float:
        """Take one; return 0, or how many seconds to wait until there is one again (then nothing is taken)."""
        if self._at is not None:
            self._level = min(self._stock, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level >= 1:
            self._level -= 1
            return 0.0
        return (1 - self._level) / self._rate

    def give_back(self) -> None:
        """Return one that was not needed."""
        self._level = min(self._stock, self._level + 1)


class Meter:
    """Counts for one server and tells of what happened, at a bounded pace."""

    def __init__(self, server: str, report: Report, clock: Callable[[], float]) -> None:
        self.usage = Usage()
        #: The first places that were refused, as a person reads them.
        self.refused: tuple[str, ...] = ()
        self._server = server
        self._report = report
        self._clock = clock
        self._pace = Bucket(_REPORTS_PER_SECOND, _REPORTS_AT_ONCE)
        self._unreported = 0

    def note(self, host: str, port: int, outcome: Outcome, reason: str = "", traffic: tuple[int, int] = (0, 0)) -> None:
        """Count an attempt that is over, and report it; ``traffic`` is what was sent and received."""
        self.usage.refused += outcome == "refused"
        self.usage.failed += outcome == "failed"
        # A name may be any bytes that a program made up.
        shown = "".join(sign if "!" <= sign <= "~" else "?" for sign in host)[:253]
        place = f"{shown}:{port}" if port else shown
        if outcome == "refused" and shown and place not in self.refused and len(self.refused) < _MOST_REFUSED:
            self.refused += (place,)
        if self._pace.take(self._clock()) > 0:
            self._unreported += 1
            return
        left_out, self._unreported = self._unreported, 0
        self._report(Contact(self._server, shown, port, outcome, reason, *traffic, left_out))
