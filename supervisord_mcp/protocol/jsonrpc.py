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

from supervisord_mcp.errors import FramingError

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

#: Raw JSON text of one value.
Text = bytes | msgspec.Raw
Members = dict[str, Text]

_BOM = b"\xef\xbb\xbf"
_NULL = b"null"
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_string = msgspec.json.Decoder(str)
_any = msgspec.json.Decoder()
# An id is a string or an integer (protocol.md 0.1#2); 1.0 is the integer 1 in JSON Schema's eyes.
_ID = re.compile(rb'"(?:[^"\\]|\\.)*"|-?(?:0|[1-9][0-9]*)(?:\.0+)?', re.DOTALL)
_ID_MEMBER = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.){0,300}"|-?[0-9]{1,40})\s*[,}]')
_KEYS = {key: b'"' + key.encode() + b'":' for key in ("jsonrpc", "id", "method", "params", "result", "error", "_meta")}


class Message:
    """One JSON-RPC message: ``members`` in their order, ``method`` decoded, ``id`` as raw text (None: no id)."""

    __slots__ = ("id", "members", "method")

    def __init__(self, members: Members, method: str | None, identity: bytes | None) -> None:
        self.members = members
        self.method = method
        self.id = identity

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
        raw = self.members.get("params")
        if raw is None:
            return {}
        try:
            return _members.decode(raw)  # type: ignore[return-value]
        except (msgspec.DecodeError, RecursionError) as error:
            raise FramingError(f"params of {self.method} must be an object", INVALID_PARAMS) from error


def parse(line: bytes) -> Message:
    """Given one line without its newline, return the message. Raise `FramingError` with the code for the answer."""
    try:
        members: Members = _members.decode(line)  # type: ignore[assignment]
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
    return _message(members)


def _message(members: Members) -> Message:
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
    """Whether the raw text is an id that MCP allows: a string or an integer."""
    return _ID.fullmatch(identity) is not None


def lenient(line: bytes) -> Message:
    """Given a line of a server, return the message, also where it has what only careless encoders write.

    Repairs a byte order mark, a carriage return, a frame at the end of a line of noise, and strings with half a
    surrogate pair (pitfall 48: emitted again with ASCII escapes). Raise `FramingError` if no message is in it.
    """
    try:
        return parse(line)
    except FramingError as error:
        stripped = line.removeprefix(_BOM).strip()
        if stripped != line:
            return lenient(stripped)
        if error.rpc_code == PARSE_ERROR and rb"\u" in line:
            repaired = _with_lone_surrogates(line)
            if repaired is not None:
                return repaired
        return _salvage(line, error)


def _with_lone_surrogates(line: bytes) -> Message | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    return _message({key: json.dumps(member).encode() for key, member in value.items()})


def _salvage(line: bytes, error: FramingError) -> Message:
    start = line.find(b'{"', 1)
    while start > 0:
        if b'"jsonrpc"' in line[start:]:
            try:
                return parse(line[start:])
            except FramingError:
                pass
        start = line.find(b'{"', start + 1, start + 4096)
    raise error


def find_id(head: bytes, tail: bytes) -> bytes | None:
    """Given the start and the end of a message that was thrown away, return the raw text of its id if it can be seen.

    Only members before the first nested value and after the last one count: an id deeper in is somebody's data.
    """
    match = _ID_MEMBER.search(head)
    if match and b"{" not in head[1 : match.start()] and b"[" not in head[: match.start()]:
        return match[1]
    end = tail[max(tail.rfind(b"}", 0, len(tail.rstrip()) - 1), tail.rfind(b"]")) + 1 :]
    found = list(_ID_MEMBER.finditer(end))
    return found[-1][1] if found else None


def encode(members: Mapping[str, Text]) -> bytes:
    """Given the members of a message, return its line with the newline."""
    parts: list[Text] = []
    for key, value in members.items():
        parts += (b"," if parts else b"{", _KEYS.get(key) or msgspec.json.encode(key) + b":", value)
    parts.append(b"}\n")
    return b"".join(parts)


def object_text(members: Mapping[str, Text]) -> bytes:
    """Given the members of an object, return its JSON text."""
    return encode(members)[:-1] if members else b"{}"


def result_line(identity: bytes, result: Text) -> bytes:
    """Return the answer with a result."""
    return b"".join((b'{"jsonrpc":"2.0","id":', identity, b',"result":', result, b"}\n"))


def error_line(identity: bytes | None, code: int, message: str, data: Any = None) -> bytes:
    """Return the answer with an error; ``identity`` None becomes null (the id could not be read)."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return b"".join((b'{"jsonrpc":"2.0","id":', identity or _NULL, b',"error":', msgspec.json.encode(error), b"}\n"))


def request_line(identity: int, method: str, params: Text | None = None) -> bytes:
    """Return a request of the daemon's own."""
    middle = b"" if params is None else b"".join((b',"params":', params))
    return b'{"jsonrpc":"2.0","id":%d,"method":%b%b}\n' % (identity, msgspec.json.encode(method), middle)


def notification_line(method: str, params: Text | None = None) -> bytes:
    """Return a notification of the daemon's own."""
    middle = b"" if params is None else b"".join((b',"params":', params))
    return b'{"jsonrpc":"2.0","method":%b%b}\n' % (msgspec.json.encode(method), middle)


def members_of(text: Text) -> Members:
    """Given the JSON text of an object, return its members, empty if it is none."""
    try:
        return _members.decode(text)  # type: ignore[return-value]
    except (msgspec.DecodeError, RecursionError):
        return {}


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
    return msgspec.json.encode(value)
