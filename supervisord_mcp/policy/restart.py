"""When a child comes back by itself, after how long, and when to stop trying.

A failure is answered with a restart, and every restart is written into the `Ledger`. Three measures are read from it,
each with its own memory, because each guards against another way to fail:

* **Delay**: the failures in a row double it, from ``first`` to ``most``. A good run, ready for ``reset_after`` seconds,
  makes the next failure a first one.
* **Window**: at most ``restarts`` of them in any ``within`` seconds. Only time empties the window, never a good run, so
  a child that flaps after a long good run trips as well. The window is judged when the child fails; the restart comes
  not earlier than that, so that no window of this length can ever hold more than the budget.
* **Starts**: at most ``restarts`` of them in a row without the child becoming ready once. A start that hangs until its
  time-out fails too slowly for the window, and would otherwise be repeated for ever.

Randomness is an argument: ``jitter`` is a number in [0, 1) and takes up to a quarter off the delay, so that children
which failed together do not come back together; with 0 the delay is the nominal one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

#: Which ends of a run are answered with a restart.
RestartMode: TypeAlias = Literal["always", "on-failure", "never"]

# 2 ** 60 seconds are above every limit, and below what a float can hold.
_MOST_DOUBLINGS = 60


@dataclass(frozen=True, slots=True)
class Backoff:
    """The delay before a restart, in seconds, and how long a good run lasts."""

    first: float = 1.0
    most: float = 30.0
    reset_after: float = 60.0

    def delay(self, failures: int, jitter: float) -> float:
        """Given the failures in a row (at least one), return the seconds to wait."""
        nominal = min(self.most, self.first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
        return nominal * (1.0 - jitter / 4.0)


@dataclass(frozen=True, slots=True)
class Budget:
    """At most ``restarts`` in any ``within`` seconds."""

    restarts: int = 5
    within: float = 60.0


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Everything the configuration says about restarts."""

    mode: RestartMode = "on-failure"
    backoff: Backoff = field(default_factory=Backoff)
    budget: Budget = field(default_factory=Budget)


@dataclass(frozen=True, slots=True)
class Run:
    """How a run ended: the seconds it was ready (None: it never was), and whether it ended by itself with code 0."""

    ready_for: float | None = None
    success: bool = False

    @property
    def orderly(self) -> bool:
        """Whether this was no failure. An exit before ready is one, whatever its code."""
        return self.success and self.ready_for is not None


@dataclass(frozen=True, slots=True)
class Ledger:
    """What is remembered about failures and restarts since a person last asked for the server.

    ``failures`` are those in a row without a good run, ``unready`` those in a row before ready, ``restarts`` counts
    all, and ``recent`` holds the times of those that may still be in the window.
    """

    failures: int = 0
    unready: int = 0
    restarts: int = 0
    recent: tuple[float, ...] = ()

    def settled(self, run: Run, backoff: Backoff) -> Ledger:
        """Return the ledger after a run, whatever ended it: forgiving what the run made good."""
        if run.ready_for is None:
            return self
        return replace(self, unready=0, failures=0 if run.ready_for >= backoff.reset_after else self.failures)

    def failed(self, run: Run) -> Ledger:
        """Return the ledger with one more failure."""
        return replace(self, failures=self.failures + 1, unready=self.unready + (run.ready_for is None))

    def restarted(self, now: float, budget: Budget) -> Ledger:
        """Return the ledger with one more restart, at this time."""
        return replace(self, restarts=self.restarts + 1, recent=(*self._within(now, budget), now))

    def spent(self, now: float, budget: Budget) -> str:
        """Return why no further restart is allowed now, for a person; empty if one is."""
        if len(self._within(now, budget)) >= budget.restarts:
            return f"the budget of {budget.restarts} restarts in {budget.within:g} s is spent"
        if self.unready > budget.restarts:
            return f"not ready once in {self.unready} starts"
        return ""

    def _within(self, now: float, budget: Budget) -> tuple[float, ...]:
        return tuple(time for time in self.recent if now - time < budget.within)


@dataclass(frozen=True, slots=True)
class Leave:
    """No restart: the policy says so."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A restart, after ``delay`` seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No restart: it would be one too many. ``reason`` says which measure is full."""

    reason: str


Verdict: TypeAlias = Leave | Retry | GiveUp


def judge(ledger: Ledger, run: Run, policy: RestartPolicy, now: float, jitter: float) -> tuple[Ledger, Verdict]:
    """Given a run that ended unasked, return what happens next, and the ledger with this run in it."""
    ledger = ledger.settled(run, policy.backoff)
    if policy.mode == "never" or (policy.mode == "on-failure" and run.orderly):
        return ledger, Leave()
    ledger = ledger.failed(run)
    if reason := ledger.spent(now, policy.budget):
        return ledger, GiveUp(reason)
    return ledger, Retry(policy.backoff.delay(ledger.failures, jitter))
