"""Results for older and newer peers: what a revision does not know is taken out, what it requires is added.

Rules of protocol.md 1.5 and 6.6. Two directions, three functions for results:

- `older`: a handshake server's result for a host of an older handshake revision;
- `to_legacy`: a 2026-07-28 server's result for a host of the handshake era (6.5, first bridge, step 6);
- `to_modern`: a handshake server's result for a host of 2026-07-28 (6.5, second bridge, step 8).

`error_to_modern` and `url_requests` do the same for errors. Everything works on JSON text: a result that needs no
change is returned as the very object that was given, and what is not looked at keeps its bytes. ``_meta`` is left alone
in both directions (pitfall 59).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import content, jsonrpc, mcp, wrapping
from supervisord_mcp.protocol.catalogue import array_text, items_of
from supervisord_mcp.protocol.jsonrpc import Members, Text

#: Requests whose results carry ``ttlMs`` and ``cacheScope`` in 2026-07-28 (protocol.md 3.11).
CACHEABLE = frozenset({*mcp.LISTINGS, "resources/read", "server/discover"})
#: Where a 2026-07-28 result names its server.
SERVER_INFO = "io.modelcontextprotocol/serverInfo"

#: Codes of the handshake era that 2026-07-28 forbids (protocol.md 1.6).
RESOURCE_NOT_FOUND = -32002
URL_ELICITATION_REQUIRED = -32042
#: Its successor where the host cannot be sent to a page.
MISSING_CLIENT_CAPABILITY = -32021
#: Codes that 2026-07-28 gives a meaning or keeps for later, so that a handshake server's own use of them misleads.
_RESERVED = range(-32099, -32019)

#: The revision that introduced a key of a definition. Strict parsers fail on keys that they do not know (6.6).
_TOOL = {
    "annotations": "2025-03-26",
    "title": "2025-06-18",
    "outputSchema": "2025-06-18",
    "icons": "2025-11-25",
    "execution": "2025-11-25",
}
_OTHER = {"title": "2025-06-18", "icons": "2025-11-25"}
_ARGUMENT = {"title": "2025-06-18"}
_IMPLEMENTATION = {
    "title": "2025-06-18",
    "description": "2025-11-25",
    "icons": "2025-11-25",
    "websiteUrl": "2025-11-25",
}

#: Changes the members of a result in place for a host of that revision; returns whether anything changed.
_Change = Callable[[Members, str], bool]


def older(method: str, result: Text, version: str) -> Text:
    """Given a handshake server's result, return it for a host of an older handshake revision."""
    change = _CHANGES.get(method)
    if change is None:
        return result
    members = jsonrpc.members_of(result)
    return jsonrpc.object_text(members) if change(members, version) else result


def to_legacy(method: str, result: Text, version: str, *, wrapped: bool = False) -> Text:
    """Given a final result of a 2026-07-28 server, return it for a host of that handshake revision.

    ``wrapped`` says that the tool called is one of `wrapping.wrapped_tools`. Raise `FramingError` for a result that is
    not final: an unknown ``resultType`` must never pass as success (pitfall 35).
    """
    members = jsonrpc.members_of(result)
    _require_final(members, method)
    changed = members.pop("resultType", None) is not None
    if method in CACHEABLE:
        for key in ("ttlMs", "cacheScope"):
            changed |= members.pop(key, None) is not None
    if method == "tools/list":
        changed |= _change_items(members, "tools", _wrapped_tool)
    elif method == "tools/call":
        changed |= _as_object(members, wrapped=wrapped)
    change = _CHANGES.get(method)
    if change is not None:
        changed |= change(members, version)
    return jsonrpc.object_text(members) if changed else result


def to_modern(method: str, result: Text, server: Text | None = None) -> bytes:
    """Given a handshake server's result, return it for a host of 2026-07-28; ``server`` is the server's serverInfo.

    Raise `FramingError` for a ``resultType`` other than that of a final result: nobody asked such a server for one.
    """
    if not content.is_object(Raw(result)) and result != jsonrpc.NULL:
        raise FramingError(f"the server answered {method} with a result that is no object", jsonrpc.INTERNAL_ERROR)
    members = jsonrpc.members_of(result)
    _require_final(members, method)
    members["resultType"] = Raw(b'"complete"')
    if method in CACHEABLE:
        # Nothing is known of how long it stays true, and the server may show something else to somebody else.
        members["ttlMs"] = Raw(b"0")
        members["cacheScope"] = Raw(b'"private"')
    if method == "tools/list":
        _drop_items(members, "tools", _needs_task)
        _change_items(members, "tools", _without_execution)
    if members.get("nextCursor") == jsonrpc.NULL:
        del members["nextCursor"]
    if server is not None:
        meta = jsonrpc.members_of(members.get("_meta"))
        members["_meta"] = Raw(jsonrpc.object_text({SERVER_INFO: server, **meta}))
    return jsonrpc.object_text(members)


def older_implementation(implementation: Text, version: str) -> Text:
    """Given a serverInfo (or clientInfo), return it for a peer of that handshake revision."""
    return _without(implementation, _IMPLEMENTATION, version)


def error_to_modern(error: Text, *, lacks_pages: bool = False) -> Text:
    """Given an error of a handshake server, return it for a host of 2026-07-28 (protocol.md 1.6; pitfall 41).

    `URL_ELICITATION_REQUIRED` becomes the error for a request that may ask for pages if only its client declared them,
    which ``lacks_pages`` says. Else no capability would help: the server named none (`url_requests`), or the request is
    none that may ask (pitfall 32), and the fault is the server's.
    """
    members = jsonrpc.members_of(error)
    code = jsonrpc.value_of(members.get("code"))
    if code == RESOURCE_NOT_FOUND:
        return jsonrpc.object_text({**members, "code": jsonrpc.text_of(jsonrpc.INVALID_PARAMS)})
    if code == URL_ELICITATION_REQUIRED and lacks_pages:
        data = jsonrpc.text_of({"requiredCapabilities": {"elicitation": {"url": {}}}})
        code_text = jsonrpc.text_of(MISSING_CLIENT_CAPABILITY)
        return jsonrpc.object_text({**members, "code": code_text, "data": data})
    if code in _RESERVED:
        return jsonrpc.object_text({**members, "code": jsonrpc.text_of(jsonrpc.INTERNAL_ERROR)})
    return error


def url_requests(error: Text) -> dict[str, bytes]:
    """Given an error of a handshake server, return the input requests that it stands for: none if it is another error.

    Each page that `URL_ELICITATION_REQUIRED` sends a person to is one elicitation in mode url (6.5, second bridge,
    step 7); ``elicitationId`` does not exist in 2026-07-28 (pitfall 43).
    """
    members = jsonrpc.members_of(error)
    if jsonrpc.value_of(members.get("code")) != URL_ELICITATION_REQUIRED:
        return {}
    pages = items_of(jsonrpc.members_of(members.get("data")).get("elicitations"))
    asked: dict[str, bytes] = {}
    for number, page in enumerate(pages, 1):
        params = jsonrpc.members_of(page)
        if jsonrpc.string_of(params.get("url")) is None:
            return {}
        params.pop("elicitationId", None)
        params.pop("_meta", None)
        text: dict[str, Text] = {"message": b'""', **params, "mode": b'"url"'}
        asked[f"r{number}"] = jsonrpc.object_text(
            {"method": b'"elicitation/create"', "params": jsonrpc.object_text(text)}
        )
    return asked


# What changes per method


def _call(members: Members, version: str) -> bool:
    changed = _change_blocks(members, version)
    if version < "2025-06-18" and "structuredContent" in members:
        _drop_structure(members)
        return True
    return changed


def _change_blocks(members: Members, version: str) -> bool:
    blocks = members.get("content")
    told = None if blocks is None else content.older_blocks(blocks, version)
    if told is None or told is blocks:
        return False
    members["content"] = Raw(told)
    return True


def _prompt(members: Members, version: str) -> bool:
    return _change_items(members, "messages", lambda message: content.older_message(message, version))


def _tools(members: Members, version: str) -> bool:
    return _change_items(members, "tools", lambda tool: _without(tool, _TOOL, version))


def _prompts(members: Members, version: str) -> bool:
    return _change_items(members, "prompts", lambda prompt: _older_prompt(prompt, version))


def _resources(members: Members, version: str) -> bool:
    return _change_items(members, "resources", lambda resource: _without(resource, _OTHER, version))


def _templates(members: Members, version: str) -> bool:
    return _change_items(members, "resourceTemplates", lambda template: _without(template, _OTHER, version))


_CHANGES: dict[str, _Change] = {
    "tools/call": _call,
    # Its result is that of the call (2025-11-25).
    "tasks/result": _call,
    "prompts/get": _prompt,
    "tools/list": _tools,
    "prompts/list": _prompts,
    "resources/list": _resources,
    "resources/templates/list": _templates,
}


def _require_final(members: Members, method: str) -> None:
    raw = members.get("resultType")
    if raw is not None and raw != Raw(b'"complete"') and jsonrpc.string_of(raw) != "complete":
        kind = bytes(raw)[:100].decode(errors="replace")
        raise FramingError(f"the server answered {method} with resultType {kind}", jsonrpc.INTERNAL_ERROR)


def _change_items(members: Members, key: str, change: Callable[[Text], Text]) -> bool:
    items = items_of(members.get(key))
    told = tuple(change(item) for item in items)
    if all(one is other for one, other in zip(items, told, strict=True)):
        return False
    members[key] = Raw(array_text(tuple(map(bytes, told))))
    return True


def _drop_items(members: Members, key: str, drop: Callable[[Text], bool]) -> None:
    items = items_of(members.get(key))
    kept = tuple(item for item in items if not drop(item))
    if len(kept) < len(items):
        members[key] = Raw(array_text(kept))


def _without(item: Text, since: dict[str, str], version: str) -> Text:
    """Return a definition without the keys that are newer than a revision."""
    members = jsonrpc.members_of(item)
    newer = [key for key in members if since.get(key, "") > version]
    for key in newer:
        del members[key]
    return jsonrpc.object_text(members) if newer else item


def _older_prompt(prompt: Text, version: str) -> Text:
    prompt = _without(prompt, _OTHER, version)
    members = jsonrpc.members_of(prompt)
    changed = _change_items(members, "arguments", lambda argument: _without(argument, _ARGUMENT, version))
    return jsonrpc.object_text(members) if changed else prompt


def _wrapped_tool(tool: Text) -> Text:
    if not wrapping.is_wrapped(tool):
        return tool
    members = jsonrpc.members_of(tool)
    return jsonrpc.object_text({**members, "outputSchema": wrapping.wrap_schema(members["outputSchema"])})


def _as_object(members: Members, *, wrapped: bool) -> bool:
    """Make an object of ``structuredContent``, or take it out where no schema promised it (pitfall 39)."""
    value = members.get("structuredContent")
    if value is None:
        return False
    if wrapped:
        members["structuredContent"] = Raw(wrapping.wrap_value(value))
        return True
    if content.is_object(value):
        return False
    _drop_structure(members)
    return True


def _drop_structure(members: Members) -> None:
    value = members.pop("structuredContent")
    if not items_of(members.get("content")):
        # A server should say the same as text; where it does not, this is all there is.
        members["content"] = Raw(array_text((content.text_block(bytes(value).decode(errors="replace")),)))


def _needs_task(tool: Text) -> bool:
    """Whether a tool can only be called as a task of 2025-11-25, which a host of 2026-07-28 cannot ask for."""
    execution = jsonrpc.members_of(jsonrpc.members_of(tool).get("execution"))
    return jsonrpc.string_of(execution.get("taskSupport")) == "required"


def _without_execution(tool: Text) -> Text:
    members = jsonrpc.members_of(tool)
    return tool if members.pop("execution", None) is None else jsonrpc.object_text(members)
