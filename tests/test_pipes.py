"""Real pipes that are slow, full, closed and broken."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import pty
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio

from supervisord_mcp import pipes
from supervisord_mcp.pipes import CHUNK, WIDE, ChunkReader, QueueWriter, close_quietly, make_nonblocking, widen
from tests.kit.bounded import bounded

LIMIT = 20


class Seen:
    """What a reader or a writer told."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.ends: list[OSError | None] = []
        self.drained = 0
        self._changed = anyio.Event()

    def chunk(self, data: bytes) -> None:
        self.chunks.append(data)
        self._told()

    def end(self, error: OSError | None) -> None:
        self.ends.append(error)
        self._told()

    def empty(self) -> None:
        self.drained += 1
        self._told()

    def _told(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, wanted: Callable[[], object]) -> None:
        while not wanted():
            await self._changed.wait()

    @property
    def data(self) -> bytes:
        return b"".join(self.chunks)


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe whose ends are non-blocking."""
    ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield ends
    finally:
        close_quietly(*ends)


async def turns(count: int = 3) -> None:
    """Give the event loop the turns in which something might happen that must not."""
    for _ in range(count):
        await asyncio.sleep(0)


def fill(descriptor: int) -> int:
    """Write until the pipe takes no more; return how much it took."""
    size = 0
    while True:
        try:
            size += os.write(descriptor, b"x" * 4096)
        except BlockingIOError:
            return size


# Reading


@bounded(LIMIT)
async def test_chunks_arrive_and_then_the_end_once() -> None:
    with pipe() as (ours, theirs):
        seen = Seen()
        reader = ChunkReader(ours, seen.chunk, seen.end)
        os.write(theirs, b"one")
        await seen.until(lambda: seen.chunks)
        os.write(theirs, b"two")
        os.close(theirs)
        await seen.until(lambda: seen.ends)
        assert seen.data == b"onetwo"
        await turns()
        assert seen.ends == [None]
        reader.close()


@bounded(LIMIT)
async def test_one_turn_takes_at_most_a_chunk() -> None:
    with pipe() as (ours, theirs):
        seen = Seen()
        sizes: list[int] = []

        def read(descriptor: int) -> bytes:
            data = pipes.read_chunk(descriptor)
            sizes.append(len(data))
            return data

        reader = ChunkReader(ours, seen.chunk, seen.end, read)
        sent = fill(theirs)
        await seen.until(lambda: len(seen.data) == sent)
        assert max(sizes) <= CHUNK
        reader.close()


@bounded(LIMIT)
async def test_a_paused_reader_leaves_the_pipe_alone() -> None:
    with pipe() as (ours, theirs):
        seen = Seen()
        reader = ChunkReader(ours, seen.chunk, seen.end)
        reader.pause()
        reader.pause()
        os.write(theirs, b"later")
        await turns()
        assert seen.chunks == []
        reader.resume()
        reader.resume()
        await seen.until(lambda: seen.chunks)
        assert seen.data == b"later"
        reader.close()


@bounded(LIMIT)
async def test_a_closed_reader_says_nothing_and_cannot_be_resumed() -> None:
    with pipe() as (ours, theirs):
        seen = Seen()
        reader = ChunkReader(ours, seen.chunk, seen.end)
        os.write(theirs, b"lost")
        reader.close()
        reader.close()
        reader.resume()
        reader.drain()
        os.close(theirs)
        await turns()
        assert seen.chunks == []
        assert seen.ends == []
        assert os.read(ours, 10) == b"lost"


@bounded(LIMIT)
async def test_the_handler_of_a_chunk_may_close_the_reader() -> None:
    with pipe() as (ours, theirs):
        seen = Seen()

        def once(data: bytes) -> None:
            reader.close()
            seen.chunk(data)

        reader = ChunkReader(ours, once, seen.end)
        os.write(theirs, b"one")
        await seen.until(lambda: seen.chunks)
        os.write(theirs, b"two")
        os.close(theirs)
        await turns()
        assert seen.data == b"one"
        assert seen.ends == []


@bounded(LIMIT)
async def test_an_error_ends_the_reading_with_it() -> None:
    ours, theirs = pty.openpty()
    make_nonblocking(ours)
    try:
        seen = Seen()
        ChunkReader(ours, seen.chunk, seen.end)
        os.close(theirs)
        await seen.until(lambda: seen.ends)
        assert [error and error.errno for error in seen.ends] == [errno.EIO]
    finally:
        close_quietly(ours, theirs)


@bounded(LIMIT)
async def test_a_fault_of_the_handler_ends_the_reading_with_an_error() -> None:
    with pipe() as (ours, theirs):
        seen = Seen()

        def broken(_chunk: bytes) -> None:
            raise KeyError("a fault of ours")

        ChunkReader(ours, broken, seen.end)
        os.write(theirs, b"anything")
        await seen.until(lambda: seen.ends)
        assert [error and error.errno for error in seen.ends] == [errno.EPROTO]


@bounded(LIMIT)
async def test_nothing_to_read_after_all_is_no_error() -> None:
    with pipe() as (ours, theirs):
        seen = Seen()
        asked: list[int] = []

        def read(descriptor: int) -> bytes:
            asked.append(descriptor)
            if len(asked) == 1:
                raise BlockingIOError(errno.EAGAIN, "somebody else was quicker")
            return pipes.read_chunk(descriptor)

        reader = ChunkReader(ours, seen.chunk, seen.end, read)
        os.write(theirs, b"still here")
        await seen.until(lambda: seen.chunks)
        assert len(asked) == 2
        assert seen.ends == []
        reader.close()


@bounded(LIMIT)
async def test_draining_reads_what_is_there_and_does_not_wait_for_the_end() -> None:
    with pipe() as (ours, theirs):
        seen = Seen()
        reader = ChunkReader(ours, seen.chunk, seen.end)
        sent = fill(theirs)
        reader.drain()
        assert len(seen.data) == sent
        os.write(theirs, b"too late")
        await turns()
        assert len(seen.data) == sent
        assert seen.ends == []


@bounded(LIMIT)
async def test_draining_reads_up_to_the_end_without_telling_it() -> None:
    with pipe() as (ours, theirs):
        seen = Seen()
        reader = ChunkReader(ours, seen.chunk, seen.end)
        reader.pause()
        os.write(theirs, b"last words")
        os.close(theirs)
        reader.drain()
        assert seen.data == b"last words"
        assert seen.ends == []


@bounded(LIMIT)
async def test_draining_ends_although_somebody_writes_on() -> None:
    with pipe() as (ours, theirs):
        seen = Seen()

        def read(descriptor: int) -> bytes:
            data = pipes.read_chunk(descriptor)
            os.write(theirs, data)
            return data

        reader = ChunkReader(ours, seen.chunk, seen.end, read)
        os.write(theirs, b"for ever")
        reader.drain()
        assert len(seen.chunks) > 1
        await turns()


# Writing


@bounded(LIMIT)
async def test_what_fits_is_written_at_once() -> None:
    with pipe() as (theirs, ours):
        seen = Seen()
        writer = QueueWriter(ours, seen.end, seen.empty)
        writer.write(b"one\n")
        assert os.read(theirs, 10) == b"one\n"
        assert writer.queued == 0
        await turns()
        assert seen.drained == 0
        writer.close()


@bounded(LIMIT)
async def test_what_does_not_fit_waits_its_turn_in_order() -> None:
    with pipe() as (theirs, ours):
        seen = Seen()
        writer = QueueWriter(ours, seen.end, seen.empty)
        lines = [b"%d " % number + bytes([65 + number % 26]) * (997 * number % 30_000) + b"\n" for number in range(300)]
        for line in lines:
            writer.write(line)
        assert writer.queued > 0
        assert writer.holds(lines[-1])
        assert not writer.holds(lines[0])
        assert not writer.holds(lines[-1][1:])
        reader = ChunkReader(theirs, seen.chunk, seen.end)
        await seen.until(lambda: seen.drained)
        assert writer.queued == 0
        assert not writer.holds(lines[-1])
        reader.drain()
        assert seen.data == b"".join(lines)
        assert seen.drained == 1
        writer.close()


@bounded(LIMIT)
async def test_a_line_longer_than_the_pipe_arrives_whole() -> None:
    with pipe() as (theirs, ours):
        seen = Seen()
        writer = QueueWriter(ours, seen.end, seen.empty)
        line = os.urandom(1 << 22)
        writer.write(line)
        reader = ChunkReader(theirs, seen.chunk, seen.end)
        await seen.until(lambda: len(seen.data) == len(line))
        assert seen.data == line
        reader.close()
        writer.close()


@bounded(LIMIT)
async def test_progress_is_seen_only_when_the_other_side_takes_something() -> None:
    with pipe() as (theirs, ours):
        seen = Seen()
        writer = QueueWriter(ours, seen.end, seen.empty)
        fill(ours)
        writer.write(b"waits")
        blocked = writer.progressed
        writer.write(b"waits too")
        writer.flush()
        assert writer.progressed == blocked
        assert writer.queued == 14
        os.read(theirs, 1 << 20)
        await seen.until(lambda: seen.drained)
        assert writer.progressed > blocked
        writer.close()


@bounded(LIMIT)
async def test_flushing_writes_what_now_fits() -> None:
    with pipe() as (theirs, ours):
        seen = Seen()
        writer = QueueWriter(ours, seen.end)
        fill(ours)
        writer.write(b"last word")
        os.read(theirs, 1 << 20)
        writer.flush()
        writer.close()
        assert os.read(theirs, 100) == b"last word"
        writer.flush()


@bounded(LIMIT)
async def test_a_reader_that_is_gone_is_told_once() -> None:
    with pipe() as (theirs, ours):
        seen = Seen()
        writer = QueueWriter(ours, seen.end, seen.empty)
        os.close(theirs)
        writer.write(b"one")
        writer.write(b"two")
        assert [error and error.errno for error in seen.ends] == [errno.EPIPE]
        assert writer.queued == 0
        await turns()
        assert len(seen.ends) == 1


@bounded(LIMIT)
async def test_a_reader_that_leaves_while_something_waits_is_told_once() -> None:
    with pipe() as (theirs, ours):
        seen = Seen()
        writer = QueueWriter(ours, seen.end, seen.empty)
        fill(ours)
        writer.write(b"waits")
        os.close(theirs)
        await seen.until(lambda: seen.ends)
        writer.write(b"more")
        writer.flush()
        await turns()
        assert [error and error.errno for error in seen.ends] == [errno.EPIPE]
        assert writer.queued == 0
        assert seen.drained == 0


@bounded(LIMIT)
async def test_a_closed_writer_gives_up_what_waits() -> None:
    with pipe() as (theirs, ours):
        seen = Seen()
        writer = QueueWriter(ours, seen.end, seen.empty)
        filled = fill(ours)
        writer.write(b"waits")
        writer.close()
        writer.close()
        writer.write(b"more")
        assert writer.queued == 0
        assert len(os.read(theirs, 1 << 20)) == filled
        await turns()
        assert (seen.ends, seen.drained) == ([], 0)


def test_closing_a_closed_descriptor_is_no_error() -> None:
    first, second = os.pipe()
    os.close(first)
    close_quietly(first, second)
    close_quietly(second)


# Room


def room(descriptor: int) -> int:
    """Return how much a pipe holds."""
    return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)


@bounded(LIMIT)
async def test_a_pipe_grows_where_a_reader_finds_it_full() -> None:
    with pipe() as (ours, theirs):
        seen = Seen()
        narrow = room(ours)
        reader = ChunkReader(ours, seen.chunk, seen.end)
        os.write(theirs, b"short")
        await seen.until(lambda: seen.chunks)
        assert room(ours) == narrow
        sent = 5 + fill(theirs)
        await seen.until(lambda: len(seen.data) == sent)
        assert room(ours) == WIDE
        reader.close()


@bounded(LIMIT)
async def test_a_pipe_grows_where_a_line_does_not_fit() -> None:
    with pipe() as (theirs, ours):
        seen = Seen()
        narrow = room(ours)
        writer = QueueWriter(ours, seen.end, seen.empty)
        writer.write(b"x" * narrow)
        assert room(ours) == narrow
        writer.write(b"y" * CHUNK)
        assert room(ours) == WIDE
        reader = ChunkReader(theirs, seen.chunk, seen.end)
        await seen.until(lambda: seen.drained)
        reader.drain()
        assert seen.data == b"x" * narrow + b"y" * CHUNK
        writer.close()


def test_a_pipe_never_shrinks_and_a_socket_is_left_alone() -> None:
    with pipe() as (ours, _):
        fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, 2 * WIDE)
        widen(ours)
        assert room(ours) == 2 * WIDE
    one, other = socket.socketpair()
    with one, other:
        widen(one.fileno())
