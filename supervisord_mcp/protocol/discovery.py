"""What the daemon asks a fresh child for itself: the handshake, then every list, compared with the catalogue (D8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from supervisord_mcp.protocol import jsonrpc, mcp
from supervisord_mcp.protocol.alarms import Alarms
from supervisord_mcp.protocol.catalogue import Catalogue, items_of
from supervisord_mcp.protocol.commands import Command, Health, Learned, Note, Ready, ToServer
from supervisord_mcp.protocol.eras.envelope import Envelope
from supervisord_mcp.protocol.eras.opening import Opened, Opening
from supervisord_mcp.protocol.eras.probe import Terms
from supervisord_mcp.protocol.eras.translation import handshake
from supervisord_mcp.protocol.jsonrpc import Message, Text
from supervisord_mcp.protocol.mcp import Era

#: A list with more pages than this is cut: a server that always returns a cursor must not keep the daemon busy.
MAX_PAGES = 100
#: How often the lists are fetched until a host asks for one: some servers say "changed" after every fetch.
MAX_FETCHES = 8

#: Sends a request of the daemon's own and calls back with the answer.
Ask = Callable[[str, Text | None, Callable[[Message], list[Command]]], list[Command]]
#: Tells hosts that a list changed: all of them, or those that have (or have not) asked the running child for it.
Announce = Callable[[str, bool | None], list[Command]]


@dataclass(frozen=True, slots=True)
class Ways:
    """What a discovery is connected to; ``welcome`` is called with the revision of a modern child that is ready."""

    ask: Ask
    announce: Announce
    alarms: Alarms
    welcome: Callable[[str], list[Command]]


class Discovery:
    """The daemon's own conversation with one child at a time.

    ``handshaking`` is true from the start of a child until it answered its handshake, ``ready`` from then on.
    ``era`` is that of the child, legacy as long as it is not known to be another. ``handshake`` is what `initialize`
    answered, or its equivalent where a modern server has no such thing; ``discovered`` is what that one said.
    """

    def __init__(self, server: str, ways: Ways, known: Catalogue | None) -> None:
        self._server = server
        self._ask = ways.ask
        self._announce = ways.announce
        self._welcome = ways.welcome
        self._opening = Opening(ways.ask, ways.alarms, self._opened)
        self.era: Era = "legacy"
        self.discovered: bytes | None = known.discovered if known else None
        self.known = known
        self.ready = False
        self.handshaking = False
        self.handshake: bytes | None = known.handshake if known else None
        self.capabilities: dict[str, Any] = known.capabilities if known else {}
        self.version = known.version if known else ""
        self._lists: dict[str, tuple[bytes, ...]] = {}
        self._offered = 0
        self._outstanding = 0
        # Whether the lists of this child have not been compared yet.
        self._first = True
        self._again = False
        self._announced: set[str] = set()
        self._fetches = 0

    @property
    def server_info(self) -> Text | None:
        """How the server names itself, which every result to a modern host carries (protocol.md 3.2)."""
        return jsonrpc.members_of(self.handshake).get("serverInfo")

    def start(self, terms: Terms, version: str, capabilities: dict[str, Any], client: dict[str, Any]) -> list[Command]:
        """A child runs: open the conversation, as one client with these capabilities."""
        self.handshaking = True
        self.era = "legacy"
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": client}
        return self._opening.begin(terms, jsonrpc.text_of(params), Envelope(mcp.NEWEST_MODERN, {}, client))

    @property
    def doubtful(self) -> bool:
        """Whether a death of the child now is an answer to the first words that it was sent (6.1 D3)."""
        return self.handshaking and self._opening.doubtful

    def stopping(self) -> None:
        """The child is being stopped: it gets nothing new and does not get ready, but may finish what it has."""
        self._opening.stop()
        self.ready = self.handshaking = False

    def child_lost(self, *, blameless: bool) -> None:
        """The child is gone, and where it is blameless, that was its answer; what is known of it stays known."""
        self._opening.child_lost(blameless=blameless)
        self.ready = self.handshaking = False
        self._first = True
        self._outstanding = 0
        self._again = False
        self._fetches = 0

    def says(self) -> Learned:
        """Return what is to be kept of a child at once: what it said of itself, and what is known of its lists."""
        assert self.handshake is not None
        lists = self.known.lists if self.known is not None else {}
        kept = {one: items for one, items in lists.items() if mcp.LISTINGS[one].capability in self.capabilities}
        return Learned(Catalogue(self.handshake, kept, self.discovered), ())

    def asked(self) -> list[Command]:
        """A host asks for a list: what was put off is done now."""
        self._fetches = 0
        return self.refresh() if self._again else []

    def changed(self, kind: str) -> list[Command]:
        """The server said that a list changed: tell the hosts, and fetch the lists again.

        Many servers say so at every start. Until the lists are compared, only hosts that already asked this child can
        have something old; the others are told if the comparison finds a difference (pitfall 29).
        """
        if self._first:
            return [*self._announce(kind, True), *self.refresh()]
        self._announced.add(kind)
        return [*self._announce(kind, None), *self.refresh()]

    def refresh(self) -> list[Command]:
        """Fetch the lists again, now or as soon as what is being fetched is there."""
        if not self.ready:
            return []
        if self._outstanding or self._fetches >= MAX_FETCHES:
            self._again = True
            return []
        return self._fetch_all()

    def _opened(self, opened: Opened) -> list[Command]:
        self.era, self.version = opened.era, opened.version
        told = jsonrpc.object_text(opened.result)
        modern = opened.era == "modern"
        self.discovered = told if modern else None
        self.handshake = handshake(opened.version, opened.result, self._server) if modern else told
        capabilities = jsonrpc.value_of(jsonrpc.members_of(self.handshake).get("capabilities"))
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.handshaking = False
        self.ready = True
        # Nothing of a host may reach a legacy server before this notification (protocol.md 2.3).
        first = (
            self._welcome(opened.version)
            if modern
            else [ToServer(jsonrpc.notification_line("notifications/initialized"))]
        )
        return [*first, Ready(), *self._fetch_all()]

    def _fetch_all(self) -> list[Command]:
        self._again = False
        self._fetches += 1
        self._lists = {}
        self._offered = 0
        wanted = [listing for listing in mcp.LISTINGS.values() if listing.capability in self.capabilities]
        if not wanted:
            return self._complete()
        self._outstanding = len(wanted)
        return [command for listing in wanted for command in self._fetch(listing, None, (), 1)]

    def _fetch(self, listing: mcp.Listing, cursor: Text | None, items: tuple[bytes, ...], page: int) -> list[Command]:
        params = None if cursor is None else jsonrpc.object_text({"cursor": cursor})
        return self._ask(listing.method, params, lambda answer: self._fetched(listing, answer, items, page))

    def _fetched(self, listing: mcp.Listing, answer: Message, before: tuple[bytes, ...], page: int) -> list[Command]:
        notes: list[Command] = []
        result = answer.members.get("result")
        if result is not None:
            members = jsonrpc.members_of(result)
            items = before + items_of(members.get(listing.key))
            cursor = members.get("nextCursor")
            # The empty text is a cursor like any other in the modern era, and none before (pitfall 37).
            text = jsonrpc.string_of(cursor)
            if text or (text is not None and self.era == "modern"):
                if page < MAX_PAGES:
                    return self._fetch(listing, cursor, items, page + 1)
                told = f"{listing.method} has more than {MAX_PAGES} pages; the rest is left out"
                notes.append(Note("catalogue", told))
            self._lists[listing.method] = items
            self._offered += len(items)
        elif self.known is not None and listing.method in self.known.lists:
            # A failure says nothing about the list: what was known is better than none.
            self._lists[listing.method] = self.known.lists[listing.method]
        self._outstanding -= 1
        return notes if self._outstanding else [*notes, *self._complete()]

    def _complete(self) -> list[Command]:
        if self._again and self._fetches < MAX_FETCHES:
            return self._fetch_all()
        assert self.handshake is not None
        fresh, known = Catalogue(self.handshake, self._lists, self.discovered), self.known
        first, announced = self._first, self._announced
        self._first, self._announced = False, set()
        if known is not None and known.offers and not self._offered:
            return [Health(f"it runs, but offers nothing of the {known.offers} things it offered before")]
        if fresh == known:
            return [Health("")]
        self.known = fresh
        changed = known.differences(fresh) if known else ()
        commands: list[Command] = [Health(""), Learned(fresh, changed)]
        for kind in changed:
            if first:
                commands += self._announce(kind, False)
            elif kind not in announced:
                commands += self._announce(kind, None)
        return commands
