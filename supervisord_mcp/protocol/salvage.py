"""Lines that are no proper message: what can be read of them all the same, and whose they were."""

from __future__ import annotations

import re
from dataclasses import dataclass

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc, surrogates
from supervisord_mcp.protocol.jsonrpc import INVALID_REQUEST, Message

_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r"
_RAW_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
#: Noise before a frame is searched for at most this many bytes and this many beginnings of an object.
_NOISE = 4096
_BEGINNINGS = 16

_OPENING = re.compile(rb"[\[{]")
_ID_MEMBER = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.){0,300}"|-?[0-9]{1,40})\s*[,}]')


def bare(line: bytes) -> bytes:
    """Return a line without byte order marks and blanks around it."""
    return line.lstrip(_BOM + _SPACE).rstrip(_SPACE)


def lenient(line: bytes) -> Message:
    """Given a line of a server, return the message, also where it has what only careless encoders write.

    Repairs byte order marks, bytes that are no UTF-8, strings with half a surrogate pair (pitfall 48), and a frame at
    the end of a line of noise. Raise `FramingError` if no message is in it.
    """
    text = _as_utf8(bare(line))
    failure = FramingError("an empty line", INVALID_REQUEST)
    for reading in (jsonrpc.parse, _with_surrogates, _after_noise):
        try:
            return reading(text)
        except FramingError as error:
            failure = error
    raise failure


def _as_utf8(line: bytes) -> bytes:
    if line.isascii():
        return line
    escaped = _RAW_SURROGATE.sub(lambda half: b"\\u%04x" % ord(half[0].decode(errors="surrogatepass")), line)
    return escaped.decode(errors="replace").encode()


def _with_surrogates(line: bytes) -> Message:
    try:
        members = surrogates.members(line)
    except ValueError as error:
        raise FramingError(f"not JSON: {error}", jsonrpc.PARSE_ERROR) from error
    return jsonrpc.message_of(members)


def _after_noise(line: bytes) -> Message:
    start = 0
    for _ in range(_BEGINNINGS):
        start = line.find(b'{"', start + 1, _NOISE)
        # What begins like a frame is a broken one, and the objects inside it are somebody's data.
        if start < 0 or line.startswith(b"{"):
            break
        try:
            message = jsonrpc.parse(line[start:])
        except FramingError:
            continue
        if message.members.get("jsonrpc") == jsonrpc.VERSION:
            return message
    raise FramingError("no message in it", INVALID_REQUEST)


@dataclass(frozen=True, slots=True)
class Outline:
    """What a message that cannot be read seems to be: its id, whether it asks something, whether it answers."""

    identity: bytes | None = None
    asks: bool = False
    answers: bool = False


def outline(head: bytes, tail: bytes = b"") -> Outline:
    """Given the start (and, where it is whole, the end) of a message, return what can be seen of it.

    Only members before the first nested value and after the last one count: an id deeper in is somebody's data.
    """
    head = bare(head)
    if not head.startswith(b"{"):
        return Outline()
    nested = _OPENING.search(head, 1)
    front = head[: nested.start()] if nested else head
    end = tail.rstrip()
    back = end[max(end.rfind(b"}", 0, max(len(end) - 1, 0)), end.rfind(b"]")) + 1 :]
    if _OPENING.search(back):
        back = b""
    found = _ID_MEMBER.search(front) or _ID_MEMBER.search(back)
    return Outline(
        identity=found[1] if found else None,
        asks=b'"method"' in front or b'"method"' in back,
        answers=b'"result"' in front or b'"error"' in front or b'"result"' in back or b'"error"' in back,
    )
