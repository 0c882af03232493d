"""The end of a stream that nobody reads, on real pipes and sockets."""

from __future__ import annotations

import os
import socket
import tempfile

import anyio
import pytest

from supervisord_mcp.hangup import HangupWatch
from tests.kit.bounded import bounded

LIMIT = 20


async def passes(count: int = 20) -> None:
    """Let the event loop turn so often."""
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("filled", [0, 10])
@bounded(LIMIT)
async def test_the_end_of_a_pipe_is_told_once_and_nothing_is_taken(filled: int) -> None:
    read_end, write_end = os.pipe()
    told = anyio.Event()
    calls: list[None] = []

    def hung_up() -> None:
        calls.append(None)
        told.set()

    watch = HangupWatch(read_end, hung_up)
    os.write(write_end, b"x" * filled)
    await passes()
    assert calls == []
    os.close(write_end)
    await told.wait()
    await passes()
    assert calls == [None]
    watch.close()
    assert os.read(read_end, 100) == b"x" * filled
    os.close(read_end)


@bounded(LIMIT)
async def test_a_socket_that_is_shut_in_one_direction_has_ended() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        told = anyio.Event()
        HangupWatch(ours.fileno(), told.set)
        theirs.send(b"x")
        await passes()
        assert not told.is_set()
        theirs.shutdown(socket.SHUT_WR)
        await told.wait()
        assert ours.recv(10) == b"x"


@bounded(LIMIT)
async def test_a_closed_watch_tells_nothing() -> None:
    read_end, write_end = os.pipe()
    told = anyio.Event()
    watch = HangupWatch(read_end, told.set)
    watch.close()
    watch.close()
    os.close(write_end)
    await passes()
    assert not told.is_set()
    os.close(read_end)


@bounded(LIMIT)
async def test_what_cannot_be_watched_is_an_error_and_leaves_nothing_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with tempfile.TemporaryFile() as file, pytest.raises(OSError, match="not permitted"):
        HangupWatch(file.fileno(), lambda: None)
    assert len(os.listdir("/proc/self/fd")) == before
