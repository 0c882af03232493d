"""Non-blocking file descriptors in the event loop: a reader of chunks and a writer with a queue (D3)."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from supervisord_mcp.eventloop import DirectLoop

_log = logging.getLogger(__name__)

#: How much one readiness of a descriptor is read at most, in bytes: what a pipe holds. For twice as much, the C library
#: would take the buffer of every read from the kernel and give it back, at fifteen times the cost of the read itself.
CHUNK = 1 << 16
#: What a pipe holds once it was full: fewer turns for a large message. Not from the start, because the kernel allows a
#: user only so much in all pipes together, and makes new ones tiny above that.
WIDE = 1 << 18
#: How many chunks `ChunkReader.drain` takes at most: more than any pipe holds, so what comes on is still being written.
_DRAINED_CHUNKS = 64
#: How many queued pieces one writev takes.
_PIECES = 64


def read_chunk(descriptor: int) -> bytes:
    """Read what is there, up to `CHUNK` bytes."""
    return os.read(descriptor, CHUNK)


class ChunkReader:
    """Calls ``on_chunk`` with what a descriptor brings, and ``on_end`` once at its end, with the error that was it.

    The descriptor stays the caller's: `close` stops reading and does not close it.
    """

    def __init__(
        self,
        descriptor: int,
        on_chunk: Callable[[bytes], None],
        on_end: Callable[[OSError | None], None],
        read: Callable[[int], bytes] = read_chunk,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._add: Callable[[int, Callable[[], None]], object]
        self._remove: Callable[[int], object]
        if isinstance(loop, DirectLoop):
            self._add, self._remove = loop.add_direct_reader, loop.remove_direct_reader
        else:
            self._add, self._remove = loop.add_reader, loop.remove_reader
        self._descriptor = descriptor
        self._on_chunk = on_chunk
        self._on_end = on_end
        self._read = read
        self._reading = False
        self._closed = False
        self._wide = False
        self.resume()

    def pause(self) -> None:
        """Stop reading until `resume`; the other side feels it once the pipe is full."""
        if self._reading:
            self._remove(self._descriptor)
            self._reading = False

    def resume(self) -> None:
        """Read on."""
        if not self._reading and not self._closed:
            self._add(self._descriptor, self._readable)
            self._reading = True

    def close(self) -> None:
        """Stop for good; neither callback comes any more."""
        self.pause()
        self._closed = True

    def drain(self) -> None:
        """Read what is left in the pipe right now, then stop; used when the process behind it has ended.

        A stranger that was handed the other end may write for ever, so there is a limit.
        """
        for _ in range(_DRAINED_CHUNKS):
            if self._closed:
                return
            try:
                chunk = self._read(self._descriptor)
            except OSError:
                break
            if not chunk:
                break
            self._on_chunk(chunk)
        self.close()

    def _readable(self) -> None:
        try:
            chunk = self._read(self._descriptor)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close()
            self._on_end(error)
            return
        if not chunk:
            self.close()
            self._on_end(None)
            return
        if len(chunk) >= CHUNK and not self._wide:
            self._wide = True
            widen(self._descriptor)
        try:
            self._on_chunk(chunk)
        except Exception:  # noqa: BLE001 - whatever is wrong with us must end this one stream, not leave it hanging
            _log.exception("what was read from a pipe could not be handled")
            self.close()
            self._on_end(OSError(errno.EPROTO, "smcp failed on what it read; the log of its daemon has the cause"))


class QueueWriter:
    """Writes to a descriptor at once where it can, and queues what the other side does not take.

    The queue itself has no limit: who writes looks at ``queued`` (bytes) and decides whom to slow down or to drop.
    ``on_drained`` is called when the queue became empty, ``on_error`` once when writing failed for good.
    """

    def __init__(
        self, descriptor: int, on_error: Callable[[OSError], None], on_drained: Callable[[], None] | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._on_error = on_error
        self._on_drained = on_drained
        self._queue: deque[memoryview] = deque()
        self._closed = False
        self._wide = False
        self.queued = 0
        #: When the other side last took something, in seconds of the loop's clock.
        self.progressed = self._loop.time()

    def write(self, data: bytes) -> None:
        """Write a whole line, now or as soon as the other side reads."""
        if self._closed:
            return
        if self._queue:
            self._queue.append(memoryview(data))
            self.queued += len(data)
            return
        try:
            sent = os.write(self._descriptor, data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._fail(error)
            return
        if sent < len(data):
            self.progressed = self._loop.time()
            self._queue.append(memoryview(data)[sent:])
            self.queued = len(data) - sent
            self._loop.add_writer(self._descriptor, self._writable)
            if self.queued >= CHUNK and not self._wide:
                self._wide = True
                widen(self._descriptor)

    def holds(self, data: bytes) -> bool:
        """Whether a line of these very bytes waits, of which nothing was written yet."""
        return any(waiting == data for waiting in self._queue)

    def close(self) -> None:
        """Stop writing; what is queued is given up."""
        if self._queue:
            self._loop.remove_writer(self._descriptor)
        self._queue.clear()
        self.queued = 0
        self._closed = True

    def flush(self) -> None:
        """Try once to write what is queued, for a last word before `close`."""
        if self._queue:
            self._writable()

    def _writable(self) -> None:
        try:
            sent = os.writev(self._descriptor, [self._queue[i] for i in range(min(len(self._queue), _PIECES))])
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail(error)
            return
        self.progressed = self._loop.time()
        self.queued -= sent
        while sent:
            first = self._queue[0]
            if sent < len(first):
                self._queue[0] = first[sent:]
                break
            sent -= len(first)
            self._queue.popleft()
        if not self._queue:
            self._loop.remove_writer(self._descriptor)
            if self._on_drained is not None:
                self._on_drained()

    def _fail(self, error: OSError) -> None:
        self.close()
        self._on_error(error)


def make_nonblocking(descriptor: int) -> None:
    """Set O_NONBLOCK; safe on a passed pipe or socket end, whose other end is another open file description (D1)."""
    os.set_blocking(descriptor, False)


def widen(descriptor: int) -> None:
    """Let a pipe hold more from now on. A socket stays as it is, and so does the pipe of a user who has enough."""
    with suppress(OSError):
        if fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) < WIDE:
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, WIDE)


def close_quietly(*descriptors: int) -> None:
    """Close descriptors that may be closed already."""
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)
