"""What a modern server says of itself, in the form of the handshake that a legacy host expects (protocol.md 6.4)."""

from __future__ import annotations

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.eras import envelope
from supervisord_mcp.protocol.jsonrpc import Members, Text


def handshake(version: str, result: Members, server: str) -> bytes:
    """Given what a modern server says of itself, return it in the form of the result of `initialize` (6.4).

    Extensions are not among the capabilities, for a legacy host cannot use them.
    """
    told = jsonrpc.members_of(result.get("capabilities"))
    told.pop("extensions", None)
    meta = jsonrpc.members_of(result.get("_meta"))
    # Drafts had it in the result itself (0.1#5).
    info = (
        _named(meta.get(envelope.SERVER_INFO))
        or _named(result.get("serverInfo"))
        or jsonrpc.text_of({"name": server, "version": ""})
    )
    members: dict[str, Text] = {
        "protocolVersion": jsonrpc.text_of(version),
        "capabilities": jsonrpc.object_text(told),
        "serverInfo": info,
    }
    if jsonrpc.string_of(result.get("instructions")) is not None:
        members["instructions"] = result["instructions"]
    return jsonrpc.object_text(members)


def _named(info: Text | None) -> Text | None:
    """Return what a server says of itself, or None if that is nothing that a host's parser takes."""
    return info if jsonrpc.string_of(jsonrpc.members_of(info).get("name")) is not None else None
