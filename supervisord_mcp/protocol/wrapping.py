"""Output schemas that no handshake revision can express, made objects by one rule (protocol.md 1.5, 6.6; pitfall 39).

2026-07-28 allows any JSON Schema as ``outputSchema`` and any JSON value as ``structuredContent``; 2025-06-18 and
2025-11-25 allow objects alone. A tool whose schema has another root is shown with that schema as the one property
``result`` of an object, and what it returns is put into the same place.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Raw

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.catalogue import array_text, items_of
from supervisord_mcp.protocol.jsonrpc import Members, Text

#: Where a wrapped schema stands in the object around it.
_PLACE = "#/properties/result"
#: Keywords whose value maps names to schemas: their keys are no keywords.
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
#: Keywords whose value is data, not a schema.
_DATA = frozenset({"const", "enum", "default", "examples", "required", "type", "$id", "$schema"})
_POINTS = frozenset({"$ref", "$dynamicRef"})
#: Schemas nested deeper than this are left alone: nobody writes them, and each level is read again.
_DEPTH = 64


def is_wrapped(tool: Text) -> bool:
    """Given a tool of a modern server, return whether hosts of the handshake era are shown a wrapped output schema."""
    schema = jsonrpc.members_of(tool).get("outputSchema")
    return schema is not None and not _is_object(schema)


def wrapped_tools(tools: Iterable[Text]) -> frozenset[str]:
    """Given the tools of a modern server, return the names of those whose ``structuredContent`` has to be wrapped."""
    names = (jsonrpc.string_of(jsonrpc.members_of(tool).get("name")) for tool in tools if is_wrapped(tool))
    return frozenset(name for name in names if name is not None)


def wrap_schema(schema: Text) -> bytes:
    """Given an output schema with any root, return the object schema around it.

    ``$schema`` moves outwards, as it may stand only at the root of a resource; references to the schema's own root
    follow it to its new place, except where ``$id`` makes it (or a part of it) a document of its own.
    """
    inner = jsonrpc.members_of(schema)
    outer: dict[str, Text] = {}
    if "$schema" in inner and "$id" not in inner:
        outer["$schema"] = inner.pop("$schema")
        schema = jsonrpc.object_text(inner)
    outer["type"] = b'"object"'
    outer["properties"] = jsonrpc.object_text({"result": _moved(Raw(schema), 0)})
    outer["required"] = b'["result"]'
    return jsonrpc.object_text(outer)


def wrap_value(value: Text) -> bytes:
    """Given the ``structuredContent`` of a tool whose schema was wrapped, return it in its new place."""
    return jsonrpc.object_text({"result": value})


def _is_object(schema: Text) -> bool:
    return jsonrpc.string_of(jsonrpc.members_of(schema).get("type")) == "object"


def _moved(schema: Raw, depth: int) -> Raw:
    """Return a schema with the references to the root of its document moved; the same object if it has none."""
    if depth > _DEPTH:
        return schema
    if bytes(memoryview(schema)[:1]) == b"[":
        items = items_of(schema)
        moved = [bytes(_moved(Raw(item), depth + 1)) for item in items]
        return Raw(array_text(tuple(moved))) if moved != list(items) else schema
    members = jsonrpc.members_of(schema)
    if "$id" in members:
        return schema
    return _replaced(schema, members, {key: _member(key, text, depth) for key, text in members.items()})


def _member(key: str, text: Raw, depth: int) -> Raw:
    if key in _POINTS:
        return _pointer(text)
    if key in _DATA:
        return text
    if key in _NAMED:
        named = jsonrpc.members_of(text)
        return _replaced(text, named, {name: _moved(inner, depth + 1) for name, inner in named.items()})
    return _moved(text, depth + 1)


def _replaced(text: Raw, before: Members, after: Members) -> Raw:
    return text if all(before[key] is after[key] for key in before) else Raw(jsonrpc.object_text(after))


def _pointer(text: Raw) -> Raw:
    target = jsonrpc.string_of(text)
    # "#name" is an anchor, which is found wherever it stands in its document.
    if target is None or not (target == "#" or target.startswith("#/")):
        return text
    return Raw(jsonrpc.text_of(_PLACE + target[1:]))
