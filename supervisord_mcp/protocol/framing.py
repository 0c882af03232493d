"""Bytes into lines: splits a stream on 0x0A, bounds the length of a line, and survives a line that is too long."""

from __future__ import annotations

from dataclasses import dataclass

#: How much of the start and of the end of an over-long line is kept, enough to find the id of the message.
KEPT = 4096
#: Smaller pieces of a line are gathered: kept one by one, pieces of two bytes would cost forty each.
_SMALL = 1024


@dataclass(frozen=True, slots=True)
class Oversized:
    """A line longer than the limit, thrown away but for its first and last bytes; ``length`` counts all of it."""

    head: bytes
    tail: bytes
    length: int


class LineSplitter:
    """Splits chunks into lines without their newline.

    A line longer than ``max_line`` bytes costs memory for at most that many bytes and becomes one `Oversized` when its
    newline (or the end of the stream) arrives; the line after it is intact (case 24: a reader that resumes in the
    middle of an over-long line takes its tail for a message).
    """

    __slots__ = ("_head", "_length", "_max", "_parts", "_tail")

    def __init__(self, max_line: int) -> None:
        self._max = max_line
        self._parts: list[bytes | bytearray] = []
        self._length = 0
        self._head: bytes | None = None
        self._tail = b""

    @property
    def held(self) -> int:
        """How many bytes of an incomplete line came so far."""
        return self._length

    @property
    def skipping(self) -> bool:
        """Whether the incomplete line is over-long and being thrown away."""
        return self._head is not None

    def skip(self) -> None:
        """Throw away what comes up to the next newline: its beginning was over-long, or is lost."""
        self._length = max(self._length, 1)
        self._head = self._head or b""
        self._parts.clear()

    def feed(self, chunk: bytes) -> list[bytes | Oversized]:
        """Given the next bytes of the stream, return the lines they complete."""
        if not self._length and chunk.endswith(b"\n") and chunk.count(b"\n") == 1 and len(chunk) <= self._max:
            return [chunk[:-1]]
        if b"\n" not in chunk:
            self._hold(chunk)
            return []
        first, *rest = chunk.split(b"\n")
        lines = [self._complete(first)]
        last = rest.pop()
        lines += [line if len(line) <= self._max else self._complete(line) for line in rest]
        if last:
            self._hold(last)
        return lines

    def finish(self) -> bytes | Oversized | None:
        """At the end of the stream, return what came after the last newline, if anything."""
        return self._complete(b"") if self._length else None

    def _hold(self, part: bytes) -> None:
        self._length += len(part)
        if self._head is not None:
            self._tail = (self._tail + part)[-KEPT:]
            return
        if len(part) >= _SMALL:
            self._parts.append(part)
        elif self._parts and isinstance(gathered := self._parts[-1], bytearray):
            gathered += part
        else:
            self._parts.append(bytearray(part))
        if self._length > self._max:
            whole = b"".join(self._parts)
            self._head, self._tail = whole[:KEPT], whole[-KEPT:]
            self._parts.clear()

    def _complete(self, part: bytes) -> bytes | Oversized:
        if not self._length and len(part) <= self._max:
            return part
        self._hold(part)
        line = b"".join(self._parts) if self._head is None else Oversized(self._head, self._tail, self._length)
        self._parts.clear()
        self._length = 0
        self._head = None
        self._tail = b""
        return line
