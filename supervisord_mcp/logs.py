"""One log file per server: its stderr and our own lines about it, rotated by size; a full disk hurts only the log.

The file of a server is ``<log_dir>/NAME.log``, older ones are ``NAME.log.1`` and so on. Each line is a time in UTC, who
speaks (``stderr`` or ``smcp``, of one of several instances with its tag behind: ``stderr[/src/site]``) and the text.
Writing never raises and never waits for anybody (case 28). No line has a value that the masker knows.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from supervisord_mcp.credentials.masking import MaskedStream, masker

#: Whose lines are masked already, as a stream.
STDERR = "stderr"
#: A line of stderr is cut here, so that one without an end cannot grow a buffer, in bytes.
MAX_LINE = 8192
#: How many last lines of stderr go into the error of a crash, and how many characters of them at most.
TAIL_LINES = 20
TAIL_LENGTH = 4096
#: How often a file that was moved or deleted by somebody else is looked for, and a failed one tried again, in seconds.
_CHECK_EVERY = 1.0
#: How much of a file is read at once, from its end, in bytes.
_BLOCK = 1 << 16


class ServerLog:
    """The log of one server, shared by its instances."""

    def __init__(self, path: Path, *, max_size: int, keep: int) -> None:
        self.path = path
        #: Why the log cannot be written just now, or the empty text.
        self.trouble = ""
        #: How many lines could not be written since the start.
        self.lost = 0
        self._max_size = max_size
        self._keep = keep
        self._descriptor: int | None = None
        self._size = 0
        self._checked = 0.0
        self._missing = 0
        self._followers: list[Callable[[list[str]], None]] = []

    def limit(self, *, max_size: int, keep: int) -> None:
        """Take other limits, for what is written from now on."""
        self._max_size, self._keep = max_size, keep

    def write(self, source: str, text: str) -> None:
        """Append lines; what cannot be written is counted in ``lost``."""
        head = f"{_now()} {source}"
        if not source.startswith(STDERR):
            text = masker.mask(text)
        lines = [f"{head} {printable(line)}" for line in text.split("\n")]
        self._append(lines)
        for follower in list(self._followers):
            follower(lines)

    def follow(self, follower: Callable[[list[str]], None]) -> Callable[[], None]:
        """Hand every line to the follower from now on; return the function that ends it."""
        self._followers.append(follower)
        return lambda: self._followers.remove(follower)

    def last(self, count: int) -> list[str]:
        """Return the last lines that are in the files, oldest first."""
        lines: list[str] = []
        for number in range(self._keep):
            if len(lines) >= count:
                break
            with suppress(OSError):
                lines = _tail(self._numbered(number), count - len(lines)) + lines
        return lines

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _append(self, lines: list[str]) -> None:
        now = time.monotonic()
        if now - self._checked >= _CHECK_EVERY:
            self._checked = now
            self._look_at_file()
        elif self.trouble:
            self._lose(len(lines))
            return
        rest = [f"{line}\n".encode(errors="replace") for line in lines]
        try:
            if self._missing:
                note = f"{_now()} smcp {self._missing} lines are missing here ({self.trouble})\n"
                self._write([note.encode(errors="replace")])
                self._missing = 0
            while rest:
                del rest[: self._write(rest)]
        except OSError as error:
            self.close()
            self.trouble = f"{self.path}: {error.strerror or error}"
            self._lose(len(rest))
        else:
            self.trouble = ""

    def _lose(self, count: int) -> None:
        self.lost += count
        self._missing += count

    def _write(self, lines: list[bytes]) -> int:
        """Write as many lines as fit into the file, at least one; return how many."""
        if self._descriptor is None:
            self._open()
        if self._size and self._size + len(lines[0]) > self._max_size:
            self._rotate()
        assert self._descriptor is not None
        count, room = 1, self._max_size - self._size - len(lines[0])
        while count < len(lines) and len(lines[count]) <= room:
            room -= len(lines[count])
            count += 1
        data = b"".join(lines[:count])
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            # Half a line would run into the next one.
            with suppress(OSError):
                os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - (len(data) - len(rest)))
            raise
        self._size += len(data)
        return count

    def _open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # O_NONBLOCK: opening or writing a FIFO in the place of the file must not wait for somebody to read it.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._descriptor = os.open(self.path, flags, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def _look_at_file(self) -> None:
        """Notice that somebody moved, deleted or shortened the file."""
        if self._descriptor is None:
            return
        ours = os.fstat(self._descriptor)
        self._size = ours.st_size
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except OSError:
            self.close()
            return
        if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
            self.close()

    def _rotate(self) -> None:
        self.close()
        for number in range(self._keep - 1, 0, -1):
            with suppress(FileNotFoundError):
                self._numbered(number - 1).replace(self._numbered(number))
        if self._keep == 1:
            self.path.unlink(missing_ok=True)
        self._open()

    def _numbered(self, number: int) -> Path:
        return self.path if number == 0 else self.path.with_name(f"{self.path.name}.{number}")


class Log(Protocol):
    """Where an instance writes."""

    def write(self, source: str, text: str) -> None:
        """Append lines of a source."""


@dataclass(frozen=True, slots=True)
class TaggedLog:
    """The log of a server as one of its instances writes it: each line says which instance it is from."""

    log: Log
    tag: str

    def write(self, source: str, text: str) -> None:
        """Append lines."""
        self.log.write(f"{source}[{printable(self.tag)}]", text)


class StderrSink:
    """Takes one child's stderr chunk by chunk: into the log by lines, and its end into memory for error texts."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._masked = MaskedStream(masker)
        self._partial = b""
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    @property
    def tail(self) -> str:
        """The last lines, at most `TAIL_LENGTH` of them."""
        lines = [*self._tail, *([_text(self._partial)] if self._partial else [])]
        return "\n".join(lines)[-TAIL_LENGTH:]

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._feed(self._masked.feed(chunk))

    def _feed(self, chunk: bytes) -> None:
        *lines, rest = (self._partial + chunk).split(b"\n")
        # Of a line that was written over (a progress bar) only the last state is kept. A carriage return at the end
        # stays: it may be the first half of a line end.
        self._partial = _shown(rest) + b"\r" if rest.endswith(b"\r") else _shown(rest)
        if len(self._partial) > MAX_LINE:
            lines.append(self._partial)
            self._partial = b""
        self._take(lines)

    def finish(self) -> None:
        """Write what came without a newline at the end."""
        self._feed(self._masked.finish())
        if self._partial:
            self._take([self._partial])
            self._partial = b""

    def _take(self, lines: list[bytes]) -> None:
        if lines:
            texts = [_text(line) for line in lines]
            self._tail.extend(texts)
            self._log.write(STDERR, "\n".join(texts))


def printable(text: str) -> str:
    """Return a text in which nothing is left that a terminal would obey."""
    if text.replace("\t", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _shown(line: bytes) -> bytes:
    """Return what a terminal would show of a line, by the last carriage return in it."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]


def _text(line: bytes) -> str:
    shown = _shown(line)
    text = printable(shown[:MAX_LINE].decode(errors="replace"))
    return text if len(shown) <= MAX_LINE else f"{text} … (cut, {len(shown)} bytes)"


def _tail(path: Path, count: int) -> list[str]:
    """Return the last lines of a file without reading all of it."""
    data = b""
    with path.open("rb") as file:
        start = file.seek(0, os.SEEK_END)
        while start and data.count(b"\n") <= count:
            size = min(_BLOCK, start)
            start = file.seek(start - size)
            data = file.read(size) + data
    lines = data.decode(errors="replace").removesuffix("\n").split("\n") if data else []
    return lines[max(0, len(lines) - count) :]
