"""JSON-RPC envelopes: read only as deep as routing needs, ids and tokens replaced, every other byte as it came (D4).

A message is a mapping of its top-level members to their raw JSON text. What is not looked at is never decoded, so big
integers, 1e400, duplicate keys below the top level and escapes pass as they were sent. Ids keep their JSON text: ``1``,
``"1"`` and ``1.0`` are three different ids (case 2).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import surrogates

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

#: JSON text of one value.
Text = bytes | Raw
Members = dict[str, Raw]

#: What ``jsonrpc`` must be.
VERSION = Raw(b'"2.0"')
NULL = Raw(b"null")

_members = msgspec.json.Decoder(Members)
_string = msgspec.json.Decoder(str)
_any = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()
# An id is a string or an integer (protocol.md 0.1#2); 1.0 is the integer 1 in JSON Schema's eyes.
_INTEGER = re.compile(rb"-?[0-9]+(?:\.0+)?")


class Message(msgspec.Struct):
    """One JSON-RPC message: ``members`` in their order, ``method`` decoded, ``id`` as raw text (None: no id)."""

    members: Members
    method: str | None
    id: bytes | None

    @property
    def is_request(self) -> bool:
        """Whether an answer is expected."""
        return self.method is not None and self.id is not None

    @property
    def is_response(self) -> bool:
        """Whether this answers a request (with a result or an error)."""
        return self.method is None

    def params(self) -> Members:
        """Return the members of ``params``, empty if there are none. Raise `FramingError` if it is no object."""
        raw = self.members.get("params", NULL)
        if raw == NULL:
            return {}
        try:
            return _object(raw)
        except ValueError as error:
            raise FramingError(f"params of {self.method} must be an object", INVALID_PARAMS) from error


def parse(line: bytes) -> Message:
    """Given one line without its newline, return the message. Raise `FramingError` with the code for the answer."""
    try:
        members = _members.decode(line)
    except RecursionError as error:
        raise FramingError("nested too deeply", INVALID_REQUEST) from error
    except msgspec.ValidationError as error:
        raise FramingError("not a JSON-RPC object", INVALID_REQUEST) from error
    except msgspec.DecodeError as error:
        raise FramingError(f"not JSON: {error}", PARSE_ERROR) from error
    # The decoder does not look into strings it passes over.
    if not line.isascii():
        try:
            line.decode()
        except UnicodeDecodeError as error:
            raise FramingError(f"not UTF-8 at byte {error.start}", PARSE_ERROR) from error
    return message_of(members)


def message_of(members: Members) -> Message:
    """Given the members of an object, return the message it is. Raise `FramingError` if it is none."""
    raw = members.get("id")
    identity = None if raw is None else bytes(raw)
    method: str | None = None
    if "method" in members:
        try:
            method = _string.decode(members["method"])
        except msgspec.DecodeError as error:
            raise FramingError("method must be a string", INVALID_REQUEST) from error
    elif "result" not in members and "error" not in members:
        raise FramingError("neither a request nor an answer", INVALID_REQUEST)
    return Message(members, method, identity)


def valid_id(identity: bytes) -> bool:
    """Given the text of a JSON value, return whether it is an id that MCP allows: a string or an integer."""
    return identity.isdigit() or identity.startswith(b'"') or _INTEGER.fullmatch(identity) is not None


def encode(members: Mapping[str, Raw]) -> bytes:
    """Given the members of a message, return its line with the newline."""
    return _encoder.encode_lines((members,))


def object_text(members: Mapping[str, Text]) -> bytes:
    """Given the members of an object, return its JSON text."""
    return _encoder.encode({key: text if isinstance(text, Raw) else Raw(text) for key, text in members.items()})


def result_line(identity: bytes, result: Text) -> bytes:
    """Return the answer with a result."""
    return b"".join((b'{"jsonrpc":"2.0","id":', identity, b',"result":', result, b"}\n"))


def error_line(identity: bytes | None, code: int, message: str, data: Any = None) -> bytes:
    """Return the answer with an error; ``identity`` None becomes null (the id could not be read)."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return b"".join((b'{"jsonrpc":"2.0","id":', identity or b"null", b',"error":', text_of(error), b"}\n"))


def request_line(identity: int, method: str, params: Text | None = None) -> bytes:
    """Return a request of the daemon's own."""
    middle = b"" if params is None else b"".join((b',"params":', params))
    return b'{"jsonrpc":"2.0","id":%d,"method":%b%b}\n' % (identity, text_of(method), middle)


def notification_line(method: str, params: Text | None = None) -> bytes:
    """Return a notification of the daemon's own."""
    middle = b"" if params is None else b"".join((b',"params":', params))
    return b'{"jsonrpc":"2.0","method":%b%b}\n' % (text_of(method), middle)


def members_of(text: Text | None) -> Members:
    """Given the JSON text of an object, return its members, empty if it is none."""
    if text is None:
        return {}
    try:
        return _object(text)
    except ValueError:
        return {}


def _object(text: Text) -> Members:
    try:
        return _members.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except msgspec.DecodeError:
        return surrogates.members(bytes(text))


def value_of(text: Text | None) -> Any:
    """Given JSON text, return its value; None where there is no text or it cannot be decoded."""
    if text is None:
        return None
    try:
        return _any.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def string_of(text: Text | None) -> str | None:
    """Given JSON text, return the string it is, or None if it is none."""
    value = value_of(text)
    return value if isinstance(value, str) else None


def text_of(value: Any) -> bytes:
    """Given a plain value, return its JSON text."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # a file name or a line of stderr that is no UTF-8 (pitfall 48)
        return json.dumps(value, ensure_ascii=False).encode(errors="replace")
