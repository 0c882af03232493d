"""What a server asks a host (sampling, elicitation, roots), in words of the host's revision (protocol.md 1.5, 6.5).

- `older_params`: the parameters of a real request for a host of the handshake era, whoever asks;
- `input_request`: a handshake server's request as an entry of ``inputRequests`` for a host of 2026-07-28;
- `without_context` and `entry_within`: no context of a sampling for a host that did not declare it (1.2).

Parameters that need no change are returned as the very object that was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import content, jsonrpc, mcp
from supervisord_mcp.protocol.catalogue import array_text, items_of
from supervisord_mcp.protocol.jsonrpc import Members, Text

#: The first revision with elicitation by a web page, titled choices, and several blocks in a sampling message.
_MODES = "2025-11-25"
#: Parameters of handshake requests that an input request does not have.
_LEGACY_PARAMS = ("_meta", "task", "elicitationId")


def older_params(method: str, params: Text, version: str, elicitation: str | None = None) -> Text:
    """Given the parameters of a server's question, return them for a host of that handshake revision.

    ``elicitation`` is a fresh id for an elicitation that has none: 2026-07-28 knows no such ids, and 2025-11-25
    requires one for a web page (pitfall 43). Raise `FramingError` if no host of that revision can be asked this.
    """
    if method == "elicitation/create":
        return _elicitation(params, version, elicitation)
    if method == "sampling/createMessage":
        return _sampling(params, version)
    return params


def input_request(method: str, params: Text | None) -> bytes:
    """Given a handshake server's question, return its entry in ``inputRequests`` (6.5, second bridge, step 3)."""
    members = jsonrpc.members_of(params)
    for key in _LEGACY_PARAMS:
        members.pop(key, None)
    entry: dict[str, Text] = {"method": jsonrpc.text_of(method)}
    if members or method != "roots/list":
        entry["params"] = jsonrpc.object_text(members)
    return jsonrpc.object_text(entry)


def without_context(params: Text, capabilities: Mapping[str, Any], version: str = mcp.NEWEST_MODERN) -> Text:
    """Given the parameters of a sampling request, return them for a host with these capabilities (protocol.md 1.2).

    Without ``sampling.context`` a server must not ask for the context of other servers, which is left out: none is
    what is meant by nothing. Revisions before 2025-11-25 have no such capability, and their hosts decide themselves.
    """
    if version < _MODES:
        return params
    declared = capabilities.get("sampling")
    members = jsonrpc.members_of(params)
    wanted = jsonrpc.string_of(members.pop("includeContext", None))
    if wanted in (None, "none") or (isinstance(declared, dict) and "context" in declared):
        return params
    return jsonrpc.object_text(members)


def entry_within(entry: Text, capabilities: Mapping[str, Any]) -> Text:
    """Given an entry of ``inputRequests``, return it for a request that declares these capabilities."""
    members = jsonrpc.members_of(entry)
    params = members.get("params")
    if params is None or jsonrpc.string_of(members.get("method")) != "sampling/createMessage":
        return entry
    told = without_context(params, capabilities)
    return entry if told is params else jsonrpc.object_text({**members, "params": told})


def _elicitation(params: Text, version: str, elicitation: str | None) -> Text:
    members = jsonrpc.members_of(params)
    if jsonrpc.string_of(members.get("mode")) == "url":
        if version < _MODES:
            text = "the client's protocol revision has no elicitation in mode url"
            raise FramingError(text, jsonrpc.INVALID_PARAMS)
        if elicitation is None or "elicitationId" in members:
            return params
        return jsonrpc.object_text({**members, "elicitationId": jsonrpc.text_of(elicitation)})
    if version >= _MODES:
        return params
    # A host of that revision knows no modes (pitfall 42).
    changed = members.pop("mode", None) is not None
    changed |= _plain_choices(members)
    return jsonrpc.object_text(members) if changed else params


def _plain_choices(members: Members) -> bool:
    """Write choices that have titles as 2025-06-18 does: ``enum`` with ``enumNames``."""
    schema = jsonrpc.members_of(members.get("requestedSchema"))
    fields = jsonrpc.members_of(schema.get("properties"))
    changed = False
    for name, field in fields.items():
        parts = jsonrpc.members_of(field)
        choices = [jsonrpc.members_of(choice) for choice in items_of(parts.get("oneOf"))]
        if choices and all("const" in choice for choice in choices):
            del parts["oneOf"]
            values = tuple(bytes(choice["const"]) for choice in choices)
            titles = tuple(bytes(choice.get("title", choice["const"])) for choice in choices)
            parts["enum"], parts["enumNames"] = Raw(array_text(values)), Raw(array_text(titles))
            fields[name] = Raw(jsonrpc.object_text(parts))
            changed = True
    if changed:
        properties = jsonrpc.object_text(fields)
        members["requestedSchema"] = Raw(jsonrpc.object_text({**schema, "properties": properties}))
    return changed


def _sampling(params: Text, version: str) -> Text:
    members = jsonrpc.members_of(params)
    messages = items_of(members.get("messages"))
    told = tuple(bytes(one) for message in messages for one in _messages(message, version))
    return params if told == messages else jsonrpc.object_text({**members, "messages": array_text(told)})


def _messages(message: bytes, version: str) -> list[Text]:
    """Return a message with at most one block each, as revisions before 2025-11-25 have it."""
    members = jsonrpc.members_of(message)
    blocks = members.get("content")
    if version >= _MODES or blocks is None or content.is_object(blocks):
        return [content.older_message(message, version)]
    single = [jsonrpc.object_text({**members, "content": block}) for block in items_of(blocks)]
    return [content.older_message(one, version) for one in single]
