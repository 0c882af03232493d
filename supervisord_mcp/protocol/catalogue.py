"""What a server offers, kept so that a host can be answered without a child (D8): the handshake and the lists."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from supervisord_mcp.protocol import jsonrpc, mcp
from supervisord_mcp.protocol.jsonrpc import Text

#: The version of the stored form; another version is ignored and learnt anew.
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The result of `initialize` and the items of each list by its method, all as the server's own JSON text.

    ``discovered`` is the result of `server/discover` where the server is a modern one; ``handshake`` then says the
    same in the other form.
    """

    handshake: bytes
    lists: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    discovered: bytes | None = None

    @property
    def capabilities(self) -> dict[str, Any]:
        """What the server declared."""
        declared = jsonrpc.value_of(jsonrpc.members_of(self.handshake).get("capabilities"))
        return declared if isinstance(declared, dict) else {}

    @property
    def version(self) -> str:
        """The revision that the server speaks; empty if it did not say."""
        return jsonrpc.string_of(jsonrpc.members_of(self.handshake).get("protocolVersion")) or ""

    @property
    def era(self) -> mcp.Era:
        """The era of the child that said this."""
        return "legacy" if self.discovered is None else "modern"

    @property
    def offers(self) -> int:
        """How many tools, prompts, resources and templates are listed."""
        return sum(map(len, self.lists.values()))

    def answer(self, method: str) -> bytes | None:
        """Return the result for a list request without cursor, or None if that list is not known."""
        items = self.lists.get(method)
        if items is None:
            return None
        return jsonrpc.object_text({mcp.LISTINGS[method].key: array_text(items)})

    def differences(self, newer: Catalogue) -> tuple[str, ...]:
        """Return the capabilities whose lists differ in the newer catalogue, compared by value and order."""
        changed = {
            listing.capability
            for method, listing in mcp.LISTINGS.items()
            if _values(self.lists.get(method)) != _values(newer.lists.get(method))
        }
        return tuple(sorted(changed))


def _values(items: tuple[bytes, ...] | None) -> list[Any]:
    # What cannot be decoded (1e400, half a surrogate pair) is compared by its text.
    return [item if (value := jsonrpc.value_of(item)) is None else value for item in items or ()]


def array_text(items: tuple[bytes, ...]) -> bytes:
    """Given the JSON texts of items, return the text of their array."""
    return b"[" + b",".join(items) + b"]"


class _Stored(msgspec.Struct, frozen=True):
    format: int
    handshake: msgspec.Raw
    lists: dict[str, list[msgspec.Raw]]
    discovered: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_stored = msgspec.json.Decoder(_Stored)
_items = msgspec.json.Decoder(list[msgspec.Raw])


def items_of(text: Text | None) -> tuple[bytes, ...]:
    """Given the JSON text of an array, return the texts of its items, empty if it is none."""
    if text is None:
        return ()
    try:
        return tuple(map(bytes, _items.decode(text)))
    except (msgspec.DecodeError, RecursionError):
        return ()


def dump(catalogue: Catalogue) -> bytes:
    """Return the stored form."""
    lists = {method: msgspec.Raw(array_text(items)) for method, items in catalogue.lists.items()}
    stored = {"format": FORMAT, "handshake": msgspec.Raw(catalogue.handshake), "lists": lists}
    if catalogue.discovered is not None:
        stored["discovered"] = msgspec.Raw(catalogue.discovered)
    return msgspec.json.encode(stored)


def load(data: bytes) -> Catalogue | None:
    """Given a stored form, return the catalogue, or None if it is damaged or of another version."""
    try:
        stored = _stored.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if stored.format != FORMAT or not jsonrpc.members_of(stored.handshake):
        return None
    lists = {method: tuple(map(bytes, items)) for method, items in stored.lists.items() if method in mcp.LISTINGS}
    discovered = None if stored.discovered is msgspec.UNSET else bytes(stored.discovered)
    return Catalogue(bytes(stored.handshake), lists, discovered)
