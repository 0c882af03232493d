"""What the daemon asks a fresh child for itself: the handshake, then every list, compared with the catalogue (D8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from supervisord_mcp import __version__
from supervisord_mcp.protocol import jsonrpc, mcp
from supervisord_mcp.protocol.catalogue import Catalogue, items_of
from supervisord_mcp.protocol.commands import Command, Health, Learned, Note, Ready, Refused, ToServer
from supervisord_mcp.protocol.jsonrpc import Message, Text

#: A list with more pages than this is cut: a server that always returns a cursor must not keep the daemon busy.
MAX_PAGES = 100

#: Sends a request of the daemon's own and calls back with the answer.
Ask = Callable[[str, Text | None, Callable[[Message], list[Command]]], list[Command]]


class Discovery:
    """The daemon's own conversation with one child at a time."""

    def __init__(self, ask: Ask, known: Catalogue | None) -> None:
        self._ask = ask
        self.known = known
        self.ready = False
        self.handshake: bytes | None = known.handshake if known else None
        self._capabilities: dict[str, Any] = known.capabilities if known else {}
        self._lists: dict[str, tuple[bytes, ...]] = {}
        self._outstanding = 0
        self._again = False

    @property
    def capabilities(self) -> dict[str, Any]:
        """What the server declared, or was known to declare before it runs."""
        return self._capabilities

    def start(self, version: str, capabilities: dict[str, Any], client: dict[str, Any] | None) -> list[Command]:
        """A child runs: open the conversation. ``client`` defaults to the daemon itself."""
        params = {
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": client or {"name": "smcp", "version": __version__},
        }
        return self._ask("initialize", msgspec.json.encode(params), self._greeted)

    def child_lost(self) -> None:
        """The child is gone; what is known of it stays known."""
        self.ready = False
        self._outstanding = 0
        self._again = False
        self._lists = {}

    def refresh(self) -> list[Command]:
        """The server said that a list changed: fetch the lists again, once more if a fetch is under way."""
        if not self.ready:
            return []
        if self._outstanding:
            self._again = True
            return []
        return self._fetch_all()

    def _greeted(self, message: Message) -> list[Command]:
        result = message.members.get("result")
        if result is None:
            error = jsonrpc.value_of(message.members.get("error"))
            text = error.get("message") if isinstance(error, dict) else error
            return [Refused(f"answered initialize with an error: {text}")]
        members = jsonrpc.members_of(result)
        version = jsonrpc.value_of(members.get("protocolVersion"))
        if version not in mcp.LEGACY_VERSIONS:
            return [Refused(f"speaks protocol version {version!r}, which smcp does not know")]
        capabilities = jsonrpc.value_of(members.get("capabilities"))
        self._capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.handshake = bytes(result)
        self.ready = True
        # Nothing of a host may reach the server before this notification (protocol.md 2.3).
        return [ToServer(jsonrpc.notification_line("notifications/initialized")), Ready(), *self._fetch_all()]

    def _fetch_all(self) -> list[Command]:
        self._again = False
        self._lists = {}
        wanted = [listing for listing in mcp.LISTINGS.values() if listing.capability in self._capabilities]
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
            if jsonrpc.string_of(cursor) and page < MAX_PAGES:
                return self._fetch(listing, cursor, items, page + 1)
            if page >= MAX_PAGES:
                notes.append(
                    Note("catalogue", f"{listing.method} has more than {MAX_PAGES} pages; the rest is left out")
                )
            self._lists[listing.method] = items
        self._outstanding -= 1
        return notes if self._outstanding else [*notes, *self._complete()]

    def _complete(self) -> list[Command]:
        if self._again:
            return self._fetch_all()
        assert self.handshake is not None
        fresh = Catalogue(self.handshake, self._lists)
        known = self.known
        if known is not None and known.offers and not fresh.offers:
            return [Health(f"it runs, but offers nothing of the {known.offers} things it offered before")]
        if fresh == known:
            return [Health("")]
        self.known = fresh
        changed = known.differences(fresh) if known else ()
        return [Health(""), Learned(fresh, changed)]
