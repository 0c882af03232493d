"""Tells of the limits that the children of one instance exceed: as events, in the log, and in how a child ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from supervisord_mcp.logs import Log
from supervisord_mcp.observer import Event, Observers
from supervisord_mcp.policy.breach import Policy
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.runtimes.base import Child, ExitStatus
from supervisord_mcp.runtimes.limits import breached, excess

#: What came of it: the child was ended, was refused what it wanted, or nothing but these words.
Outcome = Literal["ended", "refused", "warned"]


class Breaches:
    """The breaches of one instance. ``policy`` returns what its entry says of them."""

    def __init__(self, key: InstanceKey, observers: Observers, log: Log, policy: Callable[[], Policy]) -> None:
        self._policy = policy
        self._key = key
        self._observers = observers
        self._log = log

    def exceeded(self, limit: str, value: str, child: Child | None, *, refused: bool) -> None:
        """A child was found beyond a limit: end it, unless that is only to be told, or it was only refused more."""
        cause = excess(limit, value)
        if refused or self._policy() == "warn":
            self.tell(limit, cause, "refused" if refused else "warned")
        elif child is not None:
            child.end(cause)

    def tell(self, limit: str, cause: str, outcome: Outcome) -> None:
        """Tell of a limit, by its name in the configuration, and of the cause in words."""
        data = {
            "instance": str(self._key),
            "limit": limit,
            "cause": cause,
            "outcome": outcome,
            "policy": self._policy(),
        }
        self._observers.publish(Event("limit", self._key.server, data))
        self._log.write("smcp", f"{cause} exceeded: {outcome}")

    def ended(self, status: ExitStatus | None) -> tuple[ExitStatus | None, bool]:
        """Given how a child ended, tell of the limit that it exceeded, if it did.

        Return the status as people are to read it, and whether only a person may start another child.
        """
        limit = "" if status is None or status.success else breached(status.cause)
        if status is None or not limit:
            return status, False
        self.tell(limit, status.cause, "ended")
        if self._policy() != "stop":
            return status, False
        return replace(status, cause=f'{status.cause}; not started again, for breach is "stop"'), True
