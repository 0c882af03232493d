"""Whose words wait for a child, and who is held back for it: only hosts whose own words they are.

A child that stops reading must hurt nobody but those who talk to it. So every byte that waits has an owner, the host
that said it, and a host is not read from while more than its share waits; the others are, and what the daemon answers
itself they get at once. Many hosts together may still fill many shares; then requests for the child are refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.session import SessionLink

#: Above this many bytes of its own that wait for the child, a host is not read from.
SHARE = 1 << 18
#: Below this many it is read from again; less than the share, so that not every line of a slow child changes it.
ENOUGH = SHARE // 2
#: With so many full shares waiting, requests for the child are refused.
SHARES = 16


@dataclass(slots=True)
class _Part:
    """Bytes of one owner (None: of nobody who is attached), next to each other in the queue."""

    owner: SessionKey | None
    size: int


class Congestion:
    """What waits for the child of one instance, in the order in which it takes it.

    ``sessions`` are those that are attached, as they come and go. ``crowded`` is whether requests for the child are to
    be refused. A host may exceed its share by one read, or by one message: a long one alone makes no crowd.
    """

    def __init__(self, sessions: Mapping[SessionKey, SessionLink]) -> None:
        self.crowded = False
        #: How many bytes waited when it was last looked at.
        self.waiting = 0
        self._sessions = sessions
        self._parts: deque[_Part] = deque()
        self._own: dict[SessionKey, int] = {}
        self._held_back: set[SessionKey] = set()

    def settle(self, waiting: int, owner: SessionKey | None = None) -> None:
        """So many bytes wait now; what is new belongs to ``owner``, if that is a session which is attached.

        What is gone is taken to have been the oldest. Who is above its share is paused, who is below it resumed.
        """
        if waiting > self.waiting:
            self._add(owner if owner in self._sessions else None, waiting - self.waiting)
        else:
            self._take(self.waiting - waiting)
        self.waiting = waiting
        self.crowded = sum(min(size, SHARE) for size in self._own.values()) >= SHARE * SHARES
        self._hold_back()

    def leave(self, session: SessionLink) -> None:
        """A session is not attached any more; what still waits of it is nobody's."""
        if session.key in self._held_back:
            self._held_back.discard(session.key)
            session.resume()
        if self._own.pop(session.key, 0):
            for part in self._parts:
                if part.owner == session.key:
                    part.owner = None

    def _add(self, owner: SessionKey | None, size: int) -> None:
        if owner is not None:
            self._own[owner] = self._own.get(owner, 0) + size
        if self._parts and self._parts[-1].owner == owner:
            self._parts[-1].size += size
        else:
            self._parts.append(_Part(owner, size))

    def _take(self, size: int) -> None:
        while size:
            part = self._parts[0]
            taken = min(size, part.size)
            size -= taken
            part.size -= taken
            if not part.size:
                self._parts.popleft()
            if part.owner is not None:
                self._own[part.owner] -= taken
                if not self._own[part.owner]:
                    del self._own[part.owner]

    def _hold_back(self) -> None:
        for key in [key for key in self._held_back if self._own.get(key, 0) <= ENOUGH]:
            self._held_back.discard(key)
            self._sessions[key].resume()
        for key, size in self._own.items():
            if size > SHARE and key not in self._held_back:
                self._held_back.add(key)
                self._sessions[key].pause()
