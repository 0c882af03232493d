"""Content blocks of tool results and prompts for hosts older than the kind of block (protocol.md 1.5, 6.6; pitfall 40).

A parser of a revision takes the blocks of that revision for all there are and fails on another. What such a host
cannot be shown is described to it in a text block.
"""

from __future__ import annotations

from msgspec import Raw

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.catalogue import array_text, items_of
from supervisord_mcp.protocol.jsonrpc import Members, Text

#: The revision that introduced a kind of block; the others are as old as the protocol.
_SINCE = {"audio": "2025-03-26", "resource_link": "2025-06-18"}


def older_block(block: Text, version: str) -> Text:
    """Given one content block, return it for a host of that revision: the same object if the host knows its kind."""
    members = jsonrpc.members_of(block)
    kind = jsonrpc.string_of(members.get("type"))
    if kind is None or version >= _SINCE.get(kind, ""):
        return block
    text = _audio(members) if kind == "audio" else _link(members)
    told: dict[str, Text] = {"type": b'"text"', "text": jsonrpc.text_of(text)}
    if "annotations" in members:
        told["annotations"] = members["annotations"]
    return jsonrpc.object_text(told)


def older_blocks(blocks: Text, version: str) -> Text:
    """Given an array of content blocks, return it for a host of that revision: the same object if nothing changes."""
    items = items_of(blocks)
    told = tuple(older_block(item, version) for item in items)
    if all(one is other for one, other in zip(items, told, strict=True)):
        return blocks
    return array_text(tuple(map(bytes, told)))


def text_block(text: str) -> bytes:
    """Return a text block."""
    return jsonrpc.text_of({"type": "text", "text": text})


def older_message(message: Text, version: str) -> Text:
    """Given a message of a prompt or a sampling request with one block, return it for a host of that revision."""
    members = jsonrpc.members_of(message)
    block = members.get("content")
    told = None if block is None else older_block(block, version)
    return message if told is block or told is None else jsonrpc.object_text({**members, "content": told})


def _audio(block: Members) -> str:
    kind = jsonrpc.string_of(block.get("mimeType")) or "unknown type"
    data = jsonrpc.string_of(block.get("data")) or ""
    return f"[audio of {kind}, {len(data) * 3 // 4} bytes, left out: this client's protocol revision has no audio]"


def _link(block: Members) -> str:
    uri = jsonrpc.string_of(block.get("uri")) or "unknown address"
    name = jsonrpc.string_of(block.get("title")) or jsonrpc.string_of(block.get("name"))
    kind = jsonrpc.string_of(block.get("mimeType"))
    about = jsonrpc.string_of(block.get("description"))
    parts = ["resource", f'"{name}"' if name else None, f"({kind})" if kind else None, f"at {uri}"]
    line = " ".join(part for part in parts if part)
    return f"[{line}]" if about is None else f"[{line}: {about}]"


def is_object(text: Raw) -> bool:
    """Whether the JSON text of a value is that of an object."""
    return bytes(memoryview(text)[:1]) == b"{"
