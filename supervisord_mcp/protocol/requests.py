"""Reading and rewriting the requests of hosts: what makes one invalid, and what of it changes on the way upstream."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc, mcp
from supervisord_mcp.protocol.calls import Call, SessionKey
from supervisord_mcp.protocol.jsonrpc import Members, Message

#: Keys of the modern per-request envelope; a legacy server may answer -32600 to them (pitfall 15).
_ENVELOPE = (
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
)


class _Params(msgspec.Struct):
    """The two parameters of a request that may have to change, and its name; the others are only checked to be JSON."""

    name: Raw | UnsetType = UNSET
    task: Raw | UnsetType = UNSET
    meta: Raw | UnsetType = msgspec.field(name="_meta", default=UNSET)


#: Requests that no person or model made: the greeting, and the one that is not answered but goes on.
_NO_CALLS = frozenset({"initialize", "server/discover", "subscriptions/listen"})
#: How hosts say that they waited for too long.
_OVERDUE = re.compile("tim(ed?|e[ -]?d)?[ -]?out|deadline", re.IGNORECASE)
_FIRST = b'{"_meta":'
_params = msgspec.json.Decoder(_Params)


def fault(message: Message) -> str | None:
    """Return why a host's message is no valid JSON-RPC, or None."""
    if message.members.get("jsonrpc") != jsonrpc.VERSION:
        return 'jsonrpc must be "2.0"'
    if message.id is not None:
        return None if jsonrpc.valid_id(message.id) else "id must be a string or an integer"
    return "an answer needs an id" if message.method is None else None


def batch_fault(message: Message) -> str | None:
    """Return why a message must not be part of a batch, or None (protocol.md 1.1)."""
    return "initialize must not be part of a batch" if message.method == "initialize" else None


@dataclass(frozen=True, slots=True)
class Opening:
    """What `initialize` says: the version to use, and the capabilities and the name of the client."""

    version: str
    capabilities: dict[str, Any]
    client: dict[str, Any]


def opening(message: Message) -> Opening:
    """Given `initialize`, return what it says. Raise `FramingError` if a part is missing or malformed."""
    params = message.params()
    version = jsonrpc.string_of(params.get("protocolVersion"))
    capabilities = jsonrpc.value_of(params.get("capabilities", b"{}"))
    if version is None or not isinstance(capabilities, dict):
        text = "initialize needs protocolVersion (a string) and capabilities (an object)"
        raise FramingError(text, jsonrpc.INVALID_PARAMS)
    if not mcp.is_version(version):
        raise FramingError(f"protocolVersion {version!r} is no version of MCP", jsonrpc.INVALID_PARAMS)
    client = jsonrpc.value_of(params.get("clientInfo"))
    return Opening(mcp.negotiate(version), capabilities, client if isinstance(client, dict) else {})


def uri(message: Message) -> str:
    """Return the ``uri`` parameter. Raise `FramingError` if it is missing or no string."""
    value = jsonrpc.string_of(message.params().get("uri"))
    if value is None:
        raise FramingError(f"{message.method} needs uri (a string)", jsonrpc.INVALID_PARAMS)
    return value


def overdue(params: Members) -> bool:
    """Given the parameters of a cancellation, return whether the host gave up because it waited for too long."""
    return _OVERDUE.search(jsonrpc.string_of(params.get("reason")) or "") is not None


def cursor(members: Members, key: str = "cursor") -> bytes | None:
    """Given the members of a request or an answer, return the raw text of its cursor; some write null for none."""
    text = members.get(key, jsonrpc.NULL)
    return None if text == jsonrpc.NULL else bytes(text)


def number(identity: bytes) -> int | None:
    """Given the raw text of an id from a server, return the upstream id it means; some return numbers as text."""
    try:
        return int(identity)
    except ValueError:
        text = identity.strip(b'"')
        return int(text) if text.isdigit() and len(text) < 20 else None


def accepts_tasks(capabilities: dict[str, Any]) -> bool:
    """Whether a server takes task-augmented tool calls (2025-11-25)."""
    found: Any = capabilities
    for key in ("tasks", "requests", "tools", "call"):
        found = found.get(key) if isinstance(found, dict) else None
    return found is not None


def token(params: Members) -> bytes | None:
    """Return the progress token that a host gave with a request. Raise `FramingError` if it is none."""
    text = jsonrpc.members_of(params.get("_meta")).get("progressToken", jsonrpc.NULL)
    if text == jsonrpc.NULL:
        return None
    if not jsonrpc.valid_id(bytes(text)):
        raise FramingError("progressToken must be a string or an integer", jsonrpc.INVALID_PARAMS)
    return bytes(text)


def call(session: SessionKey, message: Message, identity: bytes) -> Call:
    """Given a request of a host, return the call that it is."""
    if message.method in _NO_CALLS:
        return Call(session, identity)
    assert message.method is not None
    if message.method != "tools/call":
        return Call(session, identity, message.method)
    try:
        name = _params.decode(message.members.get("params", b"{}")).name
    except (msgspec.DecodeError, RecursionError):  # it is refused later
        name = UNSET
    return Call(session, identity, message.method, b"" if name is UNSET else bytes(name))


def tool(method: str, params: Members) -> bytes:
    """Return the JSON text of the name of the tool that a request calls, empty if it calls none."""
    return bytes(params.get("name", b"")) if method == "tools/call" else b""


def rewrite(message: Message, upstream: int, capabilities: dict[str, Any]) -> tuple[bytes | None, bool, bytes]:
    """Given a host's request, make it the one sent upstream.

    Return the host's progress token, whether a task runs, and the JSON text of the name of the tool that is called. The
    upstream progress token is the upstream id. Parameters that need no change keep their very bytes. Raise
    `FramingError` if the parameters are no object or the token is none.
    """
    members = message.members
    identity = members["id"] = Raw(b"%d" % upstream)
    raw = members.get("params", jsonrpc.NULL)
    if raw == jsonrpc.NULL:
        return None, False, b""
    try:
        params = _params.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FramingError(f"params of {message.method} must be an object", jsonrpc.INVALID_PARAMS) from error
    token: bytes | None = None
    if params.meta is not UNSET:
        token, meta = _rewrite_meta(params.meta, identity)
        if meta is not None:
            members["params"] = _with_meta(raw, params.meta, meta)
    if message.method != "tools/call":
        return token, False, b""
    tool = b"" if params.name is UNSET else bytes(params.name)
    if params.task is UNSET:
        return token, False, tool
    if accepts_tasks(capabilities):
        return token, True, tool
    # A receiver without the capability must ignore the member (pitfall 65).
    plain = jsonrpc.members_of(members["params"])
    del plain["task"]
    members["params"] = Raw(jsonrpc.object_text(plain))
    return token, False, tool


def _rewrite_meta(raw: Raw, identity: Raw) -> tuple[bytes | None, bytes | None]:
    """Return (the host's progress token, the new text of ``_meta`` if it changes)."""
    meta: Members = jsonrpc.members_of(raw)
    size = len(meta)
    for key in _ENVELOPE:
        meta.pop(key, None)
    token = meta.get("progressToken", jsonrpc.NULL)
    if token == jsonrpc.NULL:
        return None, jsonrpc.object_text(meta) if len(meta) < size else None
    text = bytes(token)
    if not jsonrpc.valid_id(text):
        raise FramingError("progressToken must be a string or an integer", jsonrpc.INVALID_PARAMS)
    meta["progressToken"] = identity
    return text, jsonrpc.object_text(meta)


def _with_meta(params: Raw, old: Raw, new: bytes) -> Raw:
    """Return the parameters with another ``_meta``; the rest keeps its bytes, duplicate keys included, where it can.

    Every client known writes ``_meta`` as the first or the last parameter, and without blanks.
    """
    text, part = bytes(params), bytes(old)
    if text.endswith(part + b"}"):
        return Raw(b"".join((text[: -len(part) - 1], new, b"}")))
    if text.startswith(_FIRST + part):
        return Raw(b"".join((_FIRST, new, text[len(_FIRST) + len(part) :])))
    return Raw(jsonrpc.object_text({**jsonrpc.members_of(params), "_meta": new}))
