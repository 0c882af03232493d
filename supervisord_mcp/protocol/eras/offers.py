"""What a host is told by `server/discover` (protocol.md 3.3, 6.4): by a server of its era, or in place of one."""

from __future__ import annotations

from msgspec import Raw

from supervisord_mcp.protocol import conversion, jsonrpc, mcp
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.jsonrpc import Members, Text


def known(catalogue: Catalogue) -> bytes:
    """Given what is known of a server, return what a host is told without the server being asked."""
    return stored(catalogue.handshake, catalogue.discovered)


def stored(handshake: Text, discovered: Text | None) -> bytes:
    """As `known`, given what a server said, of whichever era; it may be old by now, so the host is not to keep it."""
    if discovered is None:
        return of_handshake(handshake)
    return served(discovered, ttlMs=b"0")


def of_handshake(handshake: Text) -> bytes:
    """Given the result of a legacy server's `initialize`, return it in the other form (6.4, column MC to LS).

    The tasks of 2025-11-25 are not those of the extension, so they are left out.
    """
    members = jsonrpc.members_of(handshake)
    declared = jsonrpc.value_of(members.get("capabilities"))
    told = mcp.server_capabilities(declared if isinstance(declared, dict) else {}, mcp.NEWEST_LEGACY)
    told.pop("tasks", None)
    result: Members = {
        "supportedVersions": Raw(jsonrpc.text_of(mcp.MODERN_VERSIONS)),
        "capabilities": Raw(jsonrpc.text_of(told)),
    }
    if "instructions" in members:
        result["instructions"] = members["instructions"]
    return conversion.to_modern("server/discover", jsonrpc.object_text(result), members.get("serverInfo"))


def served(result: Text, **other: Text) -> bytes:
    """Given the result of a modern server, return it for a host, with other members as given.

    Of the versions only those that the daemon speaks as well are promised (6.4).
    """
    members = jsonrpc.members_of(result)
    versions = jsonrpc.text_of(shared_versions(members.get("supportedVersions")))
    return jsonrpc.object_text({**members, "supportedVersions": versions, **other})


def shared_versions(theirs: Text | None) -> list[str]:
    """Given the list of versions of a modern server, return those that the daemon speaks as well."""
    value = jsonrpc.value_of(theirs)
    return [one for one in mcp.MODERN_VERSIONS if isinstance(value, list) and one in value]
