"""The name server of a sandbox, as packets: it knows the names of the rules and their addresses, and nobody else.

Nothing is ever sent on: a name outside of the rules does not exist, so nothing leaves in the labels of a question.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

_A, _IN = 1, 1
_NO_ERROR, _FORMAT_ERROR, _NO_SUCH_NAME, _NOT_IMPLEMENTED, _REFUSED = 0, 1, 3, 4, 5
_RESPONSE, _AUTHORITATIVE, _TRUNCATED, _RECURSION_DESIRED, _RECURSION_AVAILABLE = 0x8000, 0x400, 0x200, 0x100, 0x80
_HEADER = struct.Struct(">6H")
_QUESTION_AT = _HEADER.size
#: An answer holds for a short time only: the address of a name below a wildcard may one day be another's.
_SECONDS = 60
_MOST_JUMPS = 16


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: the labels of a name as they came, the type and the class of the record."""

    labels: tuple[bytes, ...]
    kind: int
    group: int

    @property
    def name(self) -> str:
        """The name as text; bytes that no host has make it one that nobody has."""
        return ".".join(label.decode("latin-1") for label in self.labels)

    def encoded(self) -> bytes:
        """Return the question as it stands in a packet."""
        labels = b"".join(bytes((len(label),)) + label for label in self.labels)
        return labels + b"\0" + struct.pack(">2H", self.kind, self.group)


def answer(packet: bytes, address_of: Callable[[str], str | None]) -> bytes | None:
    """Given a query and the function from a name to its address, return the response; None where none is due."""
    if len(packet) < _HEADER.size:
        return None
    identity, flags, questions, *_ = _HEADER.unpack_from(packet)
    if flags & _RESPONSE:
        return None
    if flags & 0x7800:
        return _response(identity, flags, _NOT_IMPLEMENTED)
    question = read_question(packet) if questions == 1 and not flags & _TRUNCATED else None
    if question is None:
        return _response(identity, flags, _FORMAT_ERROR)
    if question.group != _IN:
        return _response(identity, flags, _REFUSED, question)
    address = address_of(question.name)
    if address is None:
        return _response(identity, flags, _NO_SUCH_NAME, question)
    return _response(identity, flags, _NO_ERROR, question, address if question.kind == _A else None)


def read_question(packet: bytes) -> Question | None:
    """Return the first question of a packet; None where there is none in full."""
    labels: list[bytes] = []
    at, after, jumps, length = _QUESTION_AT, 0, 0, 0
    while True:
        if at >= len(packet):
            return None
        size = packet[at]
        if size >= 0xC0:
            # A pointer. Only backwards, so that a circle ends.
            if at + 1 >= len(packet) or jumps >= _MOST_JUMPS:
                return None
            target = (size & 0x3F) << 8 | packet[at + 1]
            after, jumps = after or at + 2, jumps + 1
            if target >= at:
                return None
            at = target
            continue
        if size > 63 or at + 1 + size > len(packet):
            return None
        at += 1
        if size == 0:
            break
        labels.append(packet[at : at + size])
        at, length = at + size, length + size + 1
        if length > 254:
            return None
    at = after or at
    if at + 4 > len(packet):
        return None
    return Question(tuple(labels), *struct.unpack_from(">2H", packet, at))


def _response(
    identity: int, flags: int, code: int, question: Question | None = None, address: str | None = None
) -> bytes:
    flags = _RESPONSE | _AUTHORITATIVE | _RECURSION_AVAILABLE | (flags & 0x7800) | (flags & _RECURSION_DESIRED) | code
    packet = _HEADER.pack(identity, flags, question is not None, address is not None, 0, 0)
    if question is not None:
        packet += question.encoded()
    if address is not None:
        # The name of the record is a pointer to the question.
        packet += struct.pack(">5H", 0xC000 | _QUESTION_AT, _A, _IN, 0, _SECONDS)
        packet += struct.pack(">H4B", 4, *map(int, address.split(".")))
    return packet
