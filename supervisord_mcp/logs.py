"""One log file per server: its stderr and our own lines about it, rotated by size; a full disk hurts only the log.

The file of a server is ``<log_dir>/NAME.log``, older ones are ``NAME.log.1`` and so on. Each line is a time, who
speaks (``stderr`` or ``smcp``) and the text. Writing never raises and never waits for anybody (case 28).
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

#: A line of stderr without a newline is cut here, so that a progress bar cannot grow a buffer, in bytes.
MAX_LINE = 8192
#: How many last lines of stderr go into the error of a crash, and how many bytes of them at most.
TAIL_LINES = 20
TAIL_BYTES = 4096
#: How often a file that was moved or deleted by somebody else is looked for, and a failed one tried again, in seconds.
_CHECK_EVERY = 1.0


class ServerLog:
    """The log of one server, shared by its instances."""

    def __init__(self, path: Path, *, max_size: int, keep: int) -> None:
        self.path = path
        self._max_size = max_size
        self._keep = keep
        self._descriptor: int | None = None
        self._size = 0
        self._checked = 0.0
        #: Why the log cannot be written just now, or the empty text.
        self.trouble = ""
        self.lost = 0
        self._followers: list[Callable[[list[str]], None]] = []

    def write(self, source: str, text: str) -> None:
        """Append lines; what cannot be written is counted in ``lost``."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        lines = [f"{stamp} {source} {line}" for line in text.splitlines() or [""]]
        self._append("".join(line + "\n" for line in lines).encode(errors="replace"))
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
            path = self.path if number == 0 else self.path.with_name(f"{self.path.name}.{number}")
            if len(lines) >= count:
                break
            try:
                lines = path.read_text(errors="replace").splitlines() + lines
            except OSError:
                break
        return lines[max(0, len(lines) - count) :]

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _append(self, data: bytes) -> None:
        now = time.monotonic()
        if now - self._checked >= _CHECK_EVERY:
            self._checked = now
            self._reopen_if_moved()
        elif self._descriptor is None and self.trouble:
            self.lost += 1
            return
        try:
            if self._descriptor is None:
                self._open()
            if self._size + len(data) > self._max_size and self._size:
                self._rotate()
            assert self._descriptor is not None
            written = os.write(self._descriptor, data)
            self._size += written
            if written < len(data):
                raise OSError("the disk is full")
            self.trouble = ""
        except OSError as error:
            self.close()
            self.trouble = f"{self.path}: {error.strerror or error}"
            self.lost += 1

    def _open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def _reopen_if_moved(self) -> None:
        if self._descriptor is None:
            return
        try:
            there, ours = os.stat(self.path, follow_symlinks=False), os.fstat(self._descriptor)
            if (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
                return
        except OSError:
            pass
        self.close()

    def _rotate(self) -> None:
        self.close()
        for number in range(self._keep - 1, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            newer = self.path if number == 1 else self.path.with_name(f"{self.path.name}.{number - 1}")
            if newer.exists():
                newer.replace(older)
        if self._keep == 1:
            self.path.unlink(missing_ok=True)
        self._open()


class StderrSink:
    """Takes one child's stderr chunk by chunk: into the log by lines, and its end into memory for error texts."""

    def __init__(self, log: ServerLog) -> None:
        self._log = log
        self._partial = b""
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    @property
    def tail(self) -> str:
        """The last lines, at most `TAIL_BYTES` of them."""
        lines = [*self._tail, *([self._text(self._partial)] if self._partial else [])]
        return "\n".join(lines)[-TAIL_BYTES:]

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        *lines, rest = (self._partial + chunk).replace(b"\r\n", b"\n").split(b"\n")
        # Of a line that was overwritten in place (a progress bar), the last state is what a terminal would show.
        self._partial = rest.rsplit(b"\r", 1)[-1]
        if len(self._partial) > MAX_LINE:
            lines.append(self._partial)
            self._partial = b""
        for line in lines:
            self._take(line)

    def finish(self) -> None:
        """Write what came without a newline at the end."""
        if self._partial:
            self._take(self._partial)
            self._partial = b""

    def _take(self, line: bytes) -> None:
        text = self._text(line)
        self._tail.append(text)
        self._log.write("stderr", text)

    @staticmethod
    def _text(line: bytes) -> str:
        text = line.rsplit(b"\r", 1)[-1][:MAX_LINE].decode(errors="replace")
        return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)
