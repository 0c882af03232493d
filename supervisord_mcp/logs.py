"""One log per server: its stderr, its log messages and our own lines about it; a full disk hurts only the log.

The file of a server is ``<log_dir>/NAME.log``, older ones are ``NAME.log.1`` and so on (`rotated`); what a line looks
like says `loglines`. Writing never raises and never waits for anybody (case 28). No line has a value that the masker
knows. A line that comes again is counted instead, and of a server that writes too many some are left out and counted:
both are said in the log, at the latest with the next `ServerLog.settle`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from supervisord_mcp.credentials.masking import MaskedStream, masker
from supervisord_mcp.loglines import OURS, STDERR, printable, repetition, speaker, stamp
from supervisord_mcp.protocol.news import LogLine, LogMark
from supervisord_mcp.rotated import RotatedFile

#: A line of stderr is cut here, so that one without an end cannot grow a buffer, in bytes.
MAX_LINE = 8192
#: How many last lines of stderr go into the error of a crash, and how many characters of them at most.
TAIL_LINES = 20
TAIL_LENGTH = 4096
#: Over how many seconds a rate is meant.
RATED_OVER = 10.0
_clock = time.monotonic
_now = time.time


def _nobody(_lines: list[LogLine]) -> None:
    """Nobody follows."""


class ServerLog:
    """The log of one server, shared by its instances."""

    def __init__(
        self,
        path: Path,
        *,
        max_size: int,
        keep: int,
        rate: int | None = None,
        tell: Callable[[list[LogLine]], None] = _nobody,
    ) -> None:
        """``rate`` is how many lines a second a server may write, ``tell`` gets every line."""
        self.server = path.name.removesuffix(".log")
        self.file = RotatedFile(path, max_size=max_size, keep=keep, missing=_missing)
        self._tell = tell
        self._bucket = _Bucket(rate)
        #: The last line, how often it came since, and when the first and the last time was.
        self._last: LogLine | None = None
        self._again = 0
        self._first_again = self._last_again = 0.0
        self._left_out = 0

    @property
    def path(self) -> Path:
        """The newest file."""
        return self.file.path

    @property
    def trouble(self) -> str:
        """Why the log cannot be written just now, or the empty text."""
        return self.file.trouble

    @property
    def lost(self) -> int:
        """How many lines could not be written since the start."""
        return self.file.lost

    def limit(self, *, max_size: int, keep: int, rate: int | None = None) -> None:
        """Take other limits, for what is written from now on."""
        self.file.limit(max_size=max_size, keep=keep)
        self._bucket.limit(rate)

    def write(self, source: str, text: str, *, instance: str = "", session: int = 0) -> None:
        """Append lines; what cannot be written is counted in ``lost``."""
        if source != STDERR:
            text = masker.mask(text)
        now = _now()
        head = f"{stamp(now)} {speaker(source, instance, session)}"
        lines: list[LogLine] = []
        for number, part in enumerate(text.split("\n")):
            one = printable(part)
            if len(one) > MAX_LINE and source != STDERR:  # that was cut already
                one = f"{one[:MAX_LINE]} … (cut, {len(one)} characters)"
            if number and source == OURS:
                # What others say stands in some of our lines: none of theirs may begin one.
                one = f"  {one}"
            line = LogLine(
                line=f"{head} {one}",
                server=self.server,
                time=now,
                source=source,
                instance=instance,
                session=session,
                text=one,
            )
            if self._last is not None and _same(line, self._last):
                self._again += 1
                self._first_again = self._first_again or now
                self._last_again = now
                continue
            if source != OURS and not self._bucket.take():
                self._left_out += 1
                continue
            lines += self._settled(now)
            lines.append(line)
            self._last = line
        self._put(lines)

    def settle(self) -> None:
        """Write down what was counted instead of written."""
        self._put(self._settled(_now()))

    def mark(self) -> LogMark:
        """Return where the log ends as it is now."""
        self.settle()
        inode, size = self.file.position()
        return LogMark(path=str(self.path), inode=inode, size=size)

    def last(self, count: int) -> list[str]:
        """Return the last lines, oldest first."""
        self.settle()
        return self.file.last(count)

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        self.settle()
        self.file.close()

    def _settled(self, now: float) -> list[LogLine]:
        """Return what there is to say about lines that were not written, with the time of the last of them."""
        lines: list[LogLine] = []
        again, last = self._again, self._last
        if again and last is not None:
            at, first = self._last_again, self._first_again
            self._again, self._first_again = 0, 0.0
            tag = (last.instance, last.session)
            if again == 1:  # it says more than that it came again, and is hardly longer
                line = f"{stamp(at)} {speaker(last.source, *tag)} {last.text}"
                lines.append(msgspec.structs.replace(last, line=line, time=at))
            else:
                line = f"{stamp(at)} {speaker(OURS, *tag)} {repetition(again, first)}"
                lines.append(msgspec.structs.replace(last, line=line, time=at, repeated=again, since=first))
        if self._left_out:
            text = f"{self._left_out} lines are left out here: more than {self._bucket.rate} a second (log.rate)"
            self._left_out, self._last = 0, None
            line = f"{stamp(now)} {OURS} {text}"
            lines.append(LogLine(line=line, server=self.server, time=now, source=OURS, text=text))
        return lines

    def _put(self, lines: list[LogLine]) -> None:
        if lines:
            self.file.append([f"{line.line}\n".encode(errors="replace") for line in lines])
            self._tell(lines)


class _Bucket:
    """How many lines may still be written. Once it is empty, nothing may until there is room for a second's worth."""

    def __init__(self, rate: int | None) -> None:
        self.rate = rate
        self._left = (rate or 0) * RATED_OVER
        self._at = _clock()
        self._empty = False

    def limit(self, rate: int | None) -> None:
        """Take another rate."""
        if rate != self.rate:
            self.rate, self._left, self._empty = rate, (rate or 0) * RATED_OVER, False

    def take(self) -> bool:
        """Take one line out; return whether there was one."""
        rate = self.rate
        if rate is None:
            return True
        now = _clock()
        self._left = min(self._left + (now - self._at) * rate, rate * RATED_OVER)
        self._at = now
        if self._left < (rate if self._empty else 1):
            self._empty = True
            return False
        self._empty = False
        self._left -= 1
        return True


class Log(Protocol):
    """Where an instance writes."""

    def write(self, source: str, text: str, *, session: int = 0) -> None:
        """Append lines of a source, which belong to a session unless that is 0."""


@dataclass(frozen=True, slots=True)
class TaggedLog:
    """The log of a server as one of its instances writes it: each line says which instance it is from."""

    log: ServerLog
    instance: str = ""
    #: The session that the instance belongs to, 0 for none.
    session: int = 0

    def write(self, source: str, text: str, *, session: int = 0) -> None:
        """Append lines."""
        self.log.write(source, text, instance=self.instance, session=session or self.session)


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


def _same(one: LogLine, other: LogLine) -> bool:
    return (one.text, one.source, one.instance, one.session) == (
        other.text,
        other.source,
        other.instance,
        other.session,
    )


def _missing(count: int, trouble: str) -> bytes:
    return f"{stamp(_now())} {OURS} {count} lines are missing here ({trouble})\n".encode(errors="replace")


def _shown(line: bytes) -> bytes:
    """Return what a terminal would show of a line, by the last carriage return in it."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]


def _text(line: bytes) -> str:
    shown = _shown(line)
    text = printable(shown[:MAX_LINE].decode(errors="replace"))
    return text if len(shown) <= MAX_LINE else f"{text} … (cut, {len(shown)} bytes)"
