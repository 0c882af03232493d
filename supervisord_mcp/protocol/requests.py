"""Reading and rewriting the requests of hosts: what makes one invalid, and what of it changes on the way upstream."""

from __future__ import annotations

from typing import Any

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.jsonrpc import Members, Message, Text

#: Keys of the modern per-request envelope; a legacy server may answer -32600 to them (pitfall 15).
_ENVELOPE = (
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
)


def fault(message: Message) -> str | None:
    """Return why a host's message is no valid JSON-RPC, or None."""
    version = message.members.get("jsonrpc")
    if version is None or bytes(version) != b'"2.0"':
        return 'jsonrpc must be "2.0"'
    if message.id is not None and not jsonrpc.valid_id(message.id):
        return "id must be a string or an integer"
    if message.method is None and message.id is None:
        return "an answer needs an id"
    return None


def batch_fault(message: Message) -> str | None:
    """Return why a message must not be part of a batch, or None (protocol.md 1.1)."""
    return "initialize must not be part of a batch" if message.method == "initialize" else None


def uri(message: Message) -> str:
    """Return the ``uri`` parameter. Raise `FramingError` if it is missing or no string."""
    value = jsonrpc.string_of(message.params().get("uri"))
    if value is None:
        raise FramingError(f"{message.method} needs uri (a string)", jsonrpc.INVALID_PARAMS)
    return value


def number(identity: bytes) -> int | None:
    """Given the raw text of an id from a server, return the upstream id it means; some return numbers as text."""
    try:
        return int(identity.strip(b'"'))
    except ValueError:
        return None


def accepts_tasks(capabilities: dict[str, Any]) -> bool:
    """Whether a server takes task-augmented tool calls (2025-11-25)."""
    found: Any = capabilities
    for key in ("tasks", "requests", "tools", "call"):
        found = found.get(key) if isinstance(found, dict) else None
    return found is not None


def upstream_members(message: Message, upstream: int, tasks: bool) -> tuple[Members, Text | None, bool]:
    """Given a host's request, return (its members as sent upstream, the host's progress token, whether a task runs).

    The upstream progress token is the upstream id. Parameters that need no change keep their very bytes.
    """
    members = message.members
    members["id"] = b"%d" % upstream
    if "params" not in members:
        return members, None, False
    params = message.params()
    task = "task" in params and message.method == "tools/call"
    changed = False
    if task and not tasks:
        # A receiver without the capability must ignore the member (pitfall 65).
        del params["task"]
        task, changed = False, True
    token: Text | None = None
    if "_meta" in params:
        meta = jsonrpc.members_of(params["_meta"])
        for key in _ENVELOPE:
            changed = meta.pop(key, None) is not None or changed
        token = meta.get("progressToken")
        if token is not None:
            if not jsonrpc.valid_id(bytes(token)):
                raise FramingError("progressToken must be a string or an integer", jsonrpc.INVALID_PARAMS)
            meta["progressToken"] = members["id"]
        if token is not None or changed:
            params["_meta"] = jsonrpc.object_text(meta)
            changed = True
    if changed:
        members["params"] = jsonrpc.object_text(params)
    return members, token, task
