"""The pipes of one running child: lines out of it and into it, its stderr into the log, the end of one that jams.

A child that closes a pipe but does not end, or that does not read its stdin, cannot be used any more: it is killed, and
`Conduit.trouble` says why.
"""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios
from collections.abc import Callable
from dataclasses import dataclass

from supervisord_mcp.logs import Log, StderrSink
from supervisord_mcp.pipes import ChunkReader, QueueWriter
from supervisord_mcp.protocol.framing import LineSplitter, Oversized
from supervisord_mcp.runtimes.base import Child


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a line may be, in bytes, and how long a child may take, in seconds.

    ``grace`` is how long it may live on after it closed a pipe, ``write_timeout`` how long it may take nothing from its
    stdin while something waits for it.
    """

    max_message: int
    grace: float
    write_timeout: float


@dataclass(frozen=True, slots=True)
class Fittings:
    """What a conduit is connected to: who takes the lines of the child, and who is told that nothing waits for it."""

    on_line: Callable[[bytes | Oversized], None]
    on_drained: Callable[[], None]


class Conduit:
    """The connection of an instance with its child, from its start until nothing of it is left."""

    def __init__(self, child: Child, log: Log, fittings: Fittings, bounds: Bounds) -> None:
        self.child = child
        #: Why the child was killed, or the empty text.
        self.trouble = ""
        #: Whether a child that is gone had taken all that was written to it.
        self.heard = False
        self._loop = asyncio.get_running_loop()
        #: Who takes the lines of the child.
        self.on_line = fittings.on_line
        self._on_drained = fittings.on_drained
        self._bounds = bounds
        self._splitter = LineSplitter(bounds.max_message)
        self._sink = StderrSink(log)
        self._overdue: asyncio.TimerHandle | None = None
        self._useless: asyncio.TimerHandle | None = None
        self._writer = QueueWriter(child.stdin, self._deaf, self._drained)
        self._reader = ChunkReader(child.stdout, self._chunk, self._mute)
        self._stderr = ChunkReader(child.stderr, self._sink.feed, lambda _: None)

    @property
    def queued(self) -> int:
        """How many bytes wait for the child."""
        return self._writer.queued

    @property
    def tail(self) -> str:
        """The last lines of its stderr."""
        return self._sink.tail

    def write(self, data: bytes) -> None:
        """Write a line to the child, now or as soon as it reads."""
        self._writer.write(data)
        if self._writer.queued and self._overdue is None:
            self._overdue = self._loop.call_later(self._bounds.write_timeout, self._judge)

    def kill(self, trouble: str) -> None:
        """End the child, which is good for nothing any more."""
        self.trouble = self.trouble or trouble
        self.child.kill()

    def close_stdin(self) -> None:
        """Write what fits of what waits, and let the child see the end of its input."""
        self._writer.flush()
        self._writer.close()
        self._cancel_timers()
        self.child.close_stdin()

    async def aclose(self) -> None:
        """Take the last words of a child that has ended, and let go of everything."""
        self.heard = not self._writer.queued and _unread(self.child.stdin) == 0
        self._reader.drain()
        if (rest := self._splitter.finish()) is not None:
            self.on_line(rest)
        self._stderr.drain()
        self._sink.finish()
        self._writer.close()
        self._cancel_timers()
        await self.child.aclose()

    def _chunk(self, chunk: bytes) -> None:
        for line in self._splitter.feed(chunk):
            self.on_line(line)

    def _drained(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        self._on_drained()

    def _judge(self) -> None:
        self._overdue = None
        if not self._writer.queued:
            return
        idle = self._loop.time() - self._writer.progressed
        left = self._bounds.write_timeout - idle
        if left > 0:
            self._overdue = self._loop.call_later(left, self._judge)
        else:
            self.kill(f"not reading: it took nothing from its stdin for {self._bounds.write_timeout:g} s")

    def _deaf(self, error: OSError) -> None:
        self._give_up(f"it closed its stdin ({error.strerror})")

    def _mute(self, _error: OSError | None) -> None:
        self._give_up("it closed its stdout")

    def _give_up(self, trouble: str) -> None:
        """Let a child that cannot be talked to end by itself, and end it if it does not."""
        if self._useless is None:
            self._useless = self._loop.call_later(self._bounds.grace, self.kill, trouble)

    def _cancel_timers(self) -> None:
        for timer in (self._overdue, self._useless):
            if timer is not None:
                timer.cancel()
        self._overdue = self._useless = None


def _unread(pipe: int) -> int:
    """Return how many bytes nobody has read of a pipe, given the end that is written to; none if it is closed."""
    if pipe < 0:
        return 0
    try:
        return int(struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0"))[0])
    except OSError:
        return 0
