"""What one host knows of a server's lists: so that it is told of a change once, and never gets another child's page."""

from __future__ import annotations

import hashlib

from supervisord_mcp.protocol import mcp

#: As many cursors of one list are remembered; a host whose cursor is older begins that list again.
MAX_CURSORS = 4096
#: What is kept of a cursor, in bytes: a server may make them as long as it likes.
_DIGEST = 16


class Cursors:
    """Cursors that a child handed out, by the method that takes them: never more than `MAX_CURSORS` of each."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, dict[bytes, None]] = {}

    def add(self, method: str, cursor: bytes) -> None:
        """Given the raw text of a cursor, remember it; the one that was handed out first is forgotten for it."""
        known, digest = self._known.setdefault(method, {}), _digest(cursor)
        known.pop(digest, None)
        if len(known) >= MAX_CURSORS:
            del known[next(iter(known))]
        known[digest] = None

    def has(self, method: str, cursor: bytes) -> bool:
        """Whether this cursor was handed out for that list."""
        return _digest(cursor) in self._known.get(method, ())

    def forget(self, method: str | None = None) -> None:
        """Forget the cursors of one list, or all."""
        if method is None:
            self._known.clear()
        else:
            self._known.pop(method, None)


def _digest(cursor: bytes) -> bytes:
    return hashlib.blake2b(cursor, digest_size=_DIGEST).digest()


class KnownLists:
    """The lists as one host sees them. A *kind* is the capability whose lists change together."""

    __slots__ = ("_former", "_owed", "_pages", "_seen", "_told")

    def __init__(self, *, former: bool = False) -> None:
        # Announced, and not asked for since: no second telling is needed.
        self._told: set[str] = set()
        # Changed while the host could not be told yet.
        self._owed: set[str] = set()
        # Asked of the child that runs now.
        self._seen: set[str] = set()
        # Cursors that the child handed out, and whether the host may have others, from a child that is gone.
        self._pages = Cursors()
        self._former = former

    def asked(self, method: str, cursor: bytes | None) -> bool:
        """The host asks for a list; return False if the cursor is one of a child that is gone (pitfall 67)."""
        if cursor is not None:
            return not self._former or self._pages.has(method, cursor)
        kind = mcp.LISTINGS[method].capability
        self._told.discard(kind)
        self._owed.discard(kind)
        self._pages.forget(method)
        return True

    def passed_on(self, method: str) -> None:
        """The running child is asked for the list from its beginning."""
        self._seen.add(mcp.LISTINGS[method].capability)

    def answered(self, method: str, cursor: bytes) -> None:
        """The running child answered with a page, and with the cursor of the next one."""
        self._pages.add(method, cursor)

    def saw(self, kind: str) -> bool:
        """Whether the running child was asked for this list."""
        return kind in self._seen

    def changed(self, kind: str, can_be_told: bool) -> bool:
        """A list changed; return whether to tell the host now."""
        if kind in self._told:
            return False
        (self._told if can_be_told else self._owed).add(kind)
        return can_be_told

    def settle(self) -> list[str]:
        """The host can be told from now on; return what it is owed."""
        owed = sorted(self._owed)
        self._told |= self._owed
        self._owed.clear()
        return owed

    def child_lost(self) -> None:
        """The child is gone: nothing that it said can be gone on with."""
        self._seen.clear()
        self._former = True
        self._pages.forget()
