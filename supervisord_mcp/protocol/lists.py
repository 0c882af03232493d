"""What one host knows of a server's lists: so that it is told of a change once, and never gets another child's page."""

from __future__ import annotations

from supervisord_mcp.protocol import mcp

#: A page of a list: the method that asks for it, and the raw text of the cursor.
Page = tuple[str, bytes]


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
        self._pages: set[Page] = set()
        self._former = former

    def asked(self, method: str, cursor: bytes | None) -> bool:
        """The host asks for a list; return False if the cursor is one of a child that is gone (pitfall 67)."""
        if cursor is not None:
            return not self._former or (method, cursor) in self._pages
        kind = mcp.LISTINGS[method].capability
        self._told.discard(kind)
        self._owed.discard(kind)
        self._pages = {page for page in self._pages if page[0] != method}
        return True

    def passed_on(self, method: str) -> None:
        """The running child is asked for the list from its beginning."""
        self._seen.add(mcp.LISTINGS[method].capability)

    def answered(self, method: str, cursor: bytes | None) -> None:
        """The running child answered with a page, and with the cursor of the next one if there is one."""
        if cursor is not None:
            self._pages.add((method, cursor))

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
        self._pages.clear()
