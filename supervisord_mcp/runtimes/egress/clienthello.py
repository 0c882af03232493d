"""The first message of a client of TLS: which server it asks for, before anything of it is sent on."""

from __future__ import annotations

import enum
from dataclasses import dataclass

#: What a client may send before its message is complete; real ones need less than two thousand bytes.
MOST_BYTES = 1 << 16
_HANDSHAKE, _CLIENT_HELLO = 0x16, 1
_SERVER_NAME, _HOST_NAME = 0, 0


class Hello(enum.Enum):
    """What the first bytes of a connection are where they name no server."""

    INCOMPLETE = "incomplete"
    NOT_TLS = "not TLS"
    NAMELESS = "nameless"
    MALFORMED = "malformed"


class _ShortError(Exception):
    """A length points behind the end."""


@dataclass(slots=True)
class _Reader:
    data: bytes
    at: int = 0

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise _ShortError
        part = self.data[self.at : end]
        self.at = end
        return part

    def block(self, size: int) -> _Reader:
        """Return what follows a length of so many bytes."""
        return _Reader(self.take(self.number(size)))

    @property
    def left(self) -> int:
        return len(self.data) - self.at


def server_name(data: bytes) -> Hello | str:
    """Given the first bytes of a connection, return the name of the server that its client asks for, or what they are.

    The message may come in any number of records and parts. Once it begins like TLS it is TLS or malformed.
    """
    if not data:
        return Hello.INCOMPLETE
    if data[0] != _HANDSHAKE or (len(data) > 1 and data[1] != 3):
        return Hello.NOT_TLS
    message = _message(data)
    if isinstance(message, Hello):
        return message
    try:
        return _name(_Reader(message))
    except _ShortError:
        return Hello.MALFORMED


def _message(data: bytes) -> Hello | bytes:
    """Return the first message of the handshake, without its header, from the records that carry it."""
    message = b""
    at = 0
    while True:
        if len(message) >= 4:
            size = int.from_bytes(message[1:4], "big")
            if message[0] != _CLIENT_HELLO or size > MOST_BYTES:
                return Hello.MALFORMED
            if len(message) >= 4 + size:
                return message[4 : 4 + size]
        header = data[at : at + 5]
        if header and (header[0] != _HANDSHAKE or (len(header) > 1 and header[1] != 3)):
            return Hello.MALFORMED
        if len(header) < 5:
            return Hello.INCOMPLETE
        size = int.from_bytes(header[3:5], "big")
        if not 0 < size <= 1 << 14:
            return Hello.MALFORMED
        message += data[at + 5 : at + 5 + size]
        if len(data) < at + 5 + size and len(message) < 4:
            return Hello.INCOMPLETE
        at += 5 + size


def _name(hello: _Reader) -> Hello | str:
    hello.take(2 + 32)
    hello.block(1)
    hello.block(2)
    hello.block(1)
    if not hello.left:
        return Hello.NAMELESS
    extensions = hello.block(2)
    if hello.left:
        return Hello.MALFORMED
    found: list[bytes] = []
    while extensions.left:
        kind = extensions.number(2)
        content = extensions.block(2)
        if kind != _SERVER_NAME:
            continue
        names = content.block(2)
        while names.left:
            is_host = names.number(1) == _HOST_NAME
            name = names.block(2).data
            if not is_host:
                return Hello.MALFORMED
            found.append(name)
    if not found:
        return Hello.NAMELESS
    # Two names would let this program read one, and the server the other.
    return found[0].decode("latin-1") if len(found) == 1 else Hello.MALFORMED
