"""The envelope of a modern request: what its ``_meta`` must say about version and client (protocol.md 3.2, 3.4).

In this era nothing is agreed on beforehand: every request carries the revision it is written in, and what its sender
can do. Towards a modern server the daemon writes that for a legacy host; what a modern host wrote is read and checked
here, since not every server checks it (pitfall 20), and taken off for a legacy server (pitfall 15).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Raw

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc, mcp
from supervisord_mcp.protocol.jsonrpc import Members, Message, Text

PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
#: What makes a request a modern one; a legacy server may answer -32600 to the first three (pitfall 15).
KEYS = (PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL)

#: In ``_meta`` of results: who answers.
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
#: In ``_meta`` of everything that is delivered for a listen: the id of its request, with its JSON type.
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"

#: The sender of the request lacks a capability that the server needs for it (``data.requiredCapabilities``).
MISSING_CAPABILITY = -32021
#: The revision of the request is not served (``data.supported``, ``data.requested``).
UNSUPPORTED_VERSION = -32022


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a request says about its sender: revision, capabilities, name, and the log level it wants (None: no log)."""

    version: str
    capabilities: dict[str, Any]
    client: dict[str, Any] | None = None
    level: str | None = None

    def members(self) -> dict[str, bytes]:
        """Return the keys of ``_meta``."""
        told: dict[str, Any] = {PROTOCOL_VERSION: self.version, CLIENT_CAPABILITIES: self.capabilities}
        if self.client is not None:
            told[CLIENT_INFO] = self.client
        if self.level is not None:
            told[LOG_LEVEL] = self.level
        return {key: jsonrpc.text_of(value) for key, value in told.items()}


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a request is refused: the error of its answer."""

    code: int
    text: str
    data: Any = None

    def line(self, identity: bytes) -> bytes:
        """Return the answer to the request of that id."""
        return jsonrpc.error_line(identity, self.code, self.text, self.data)


def is_modern(message: Message) -> bool:
    """Whether a request claims a revision in its ``_meta``, which only the modern era does (protocol.md 3.2)."""
    try:
        return PROTOCOL_VERSION in jsonrpc.members_of(message.params().get("_meta"))
    except FramingError:
        return False


def claims(message: Message) -> bool:
    """Whether a request has any part of the envelope: a defective one is told what is missing (pitfall 61)."""
    try:
        meta = jsonrpc.members_of(message.params().get("_meta"))
    except FramingError:
        return False
    return any(key in meta for key in KEYS)


def read(message: Message, supported: Sequence[str] = mcp.MODERN_VERSIONS) -> Envelope | Fault:
    """Given a request, return its envelope, or why it is refused: -32602 for a defect, -32022 for its revision.

    What is defective is told before what is not served (protocol.md 3.4, 4.2: "first failure wins").
    """
    try:
        meta = message.params().get("_meta")
    except FramingError as error:
        return Fault(error.rpc_code, error.message)
    if meta is None:
        return _defect(f"{message.method} needs params._meta")
    keys = jsonrpc.members_of(meta)
    version = jsonrpc.string_of(keys.get(PROTOCOL_VERSION))
    if version is None:
        return _defect(f'_meta needs "{PROTOCOL_VERSION}" (a string)')
    capabilities = jsonrpc.value_of(keys.get(CLIENT_CAPABILITIES))
    if not isinstance(capabilities, dict):
        return _defect(f'_meta needs "{CLIENT_CAPABILITIES}" (an object)')
    client = jsonrpc.value_of(keys.get(CLIENT_INFO))
    if CLIENT_INFO in keys and not isinstance(client, dict):
        return _defect(f'"{CLIENT_INFO}" must be an object')
    level = jsonrpc.string_of(keys.get(LOG_LEVEL))
    if LOG_LEVEL in keys and level not in mcp.LEVELS:
        return _defect(f'"{LOG_LEVEL}" must be one of {", ".join(mcp.LEVELS)}')
    if version not in supported:
        return unsupported(version, supported)
    return Envelope(version, capabilities, client, level)


def unsupported(requested: str, supported: Sequence[str] = mcp.MODERN_VERSIONS) -> Fault:
    """Return why a revision is not served, with those that are (protocol.md 3.4, pitfall 20)."""
    data = {"supported": list(supported), "requested": requested}
    return Fault(UNSUPPORTED_VERSION, f"Unsupported protocol version: {requested}", data)


def _defect(text: str) -> Fault:
    return Fault(jsonrpc.INVALID_PARAMS, text)


def write(params: Text | None, envelope: Envelope, token: int | None = None) -> bytes:
    """Given the parameters of a request (None: it has none), return them with an envelope (pitfall 16).

    ``token`` becomes the progress token; without one there is none. Every other key of ``_meta`` stays as it is
    (pitfall 59), and so does the text of every parameter.
    """
    members = jsonrpc.members_of(params)
    meta: dict[str, Text] = {**stripped(jsonrpc.members_of(members.get("_meta"))), **envelope.members()}
    meta.pop("progressToken", None)
    if token is not None:
        meta["progressToken"] = b"%d" % token
    return jsonrpc.object_text({**members, "_meta": jsonrpc.object_text(meta)})


def stripped(meta: Members) -> Members:
    """Given the members of ``_meta`` of a request, return them without the envelope (pitfall 15)."""
    return {key: text for key, text in meta.items() if key not in KEYS}


def strip(params: Text | None) -> bytes | None:
    """Given the parameters of a modern request, return them without the envelope (pitfall 15).

    A ``_meta`` that held nothing else is left out, and so are parameters that held nothing else: methods that have
    none in the legacy era are then sent without any.
    """
    members = jsonrpc.members_of(params)
    meta = stripped(jsonrpc.members_of(members.pop("_meta", None)))
    if meta:
        members["_meta"] = Raw(jsonrpc.object_text(meta))
    return jsonrpc.object_text(members) if members else None
