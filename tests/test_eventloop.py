"""The loop of the daemon does what asyncio's does, and calls those who read by itself."""

from __future__ import annotations

import asyncio
import os
import select
import selectors
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from supervisord_mcp.eventloop import DirectLoop, DirectSelector, new_event_loop
from supervisord_mcp.pipes import ChunkReader

LIMIT = 10.0


def run(main: Callable[[DirectLoop], Coroutine[Any, Any, None]]) -> None:
    """Run something on such a loop, for a limited time."""
    loop = new_event_loop()
    assert isinstance(loop, DirectLoop)
    try:
        loop.run_until_complete(asyncio.wait_for(main(loop), LIMIT))
    finally:
        loop.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ends = socket.socketpair()
    with ends[0], ends[1]:
        for end in ends:
            end.setblocking(False)
        yield ends


@pytest.fixture
def selector() -> Iterator[DirectSelector]:
    made = DirectSelector(lambda error: None)
    yield made
    made.close()


def test_a_reader_is_called_until_it_is_removed(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair

    async def main(loop: DirectLoop) -> None:
        read: list[bytes] = []
        there = asyncio.Event()

        def readable() -> None:
            read.append(ours.recv(100))
            loop.call_soon(there.set)

        loop.add_direct_reader(ours.fileno(), readable)
        for word in (b"a", b"b"):
            theirs.send(word)
            await there.wait()
            there.clear()
        loop.remove_direct_reader(ours.fileno())
        theirs.send(b"c")
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        assert read == [b"a", b"b"]
        assert ours.recv(100) == b"c"

    run(main)


def test_one_that_is_removed_by_another_is_not_called(pair: tuple[socket.socket, socket.socket]) -> None:
    called: list[int] = []
    number, other = (end.fileno() for end in pair)

    async def main(loop: DirectLoop) -> None:
        done = asyncio.Event()

        def reader(mine: int, removed: int) -> Callable[[], None]:
            def readable() -> None:
                called.append(mine)
                loop.remove_direct_reader(mine)
                loop.remove_direct_reader(removed)
                loop.call_soon(done.set)

            return readable

        for end in pair:
            end.send(b"x")
        loop.add_direct_reader(number, reader(number, other))
        loop.add_direct_reader(other, reader(other, number))
        await done.wait()
        await asyncio.sleep(0.001)

    run(main)
    assert len(called) == 1


def test_a_reader_that_fails_is_reported_and_hurts_nobody(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair

    async def main(loop: DirectLoop) -> None:
        told: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _loop, context: told.append(context))
        there = asyncio.Event()

        def readable() -> None:
            ours.recv(100)
            loop.call_soon(there.set)
            raise ValueError("a fault")

        loop.add_direct_reader(ours.fileno(), readable)
        theirs.send(b"x")
        await there.wait()
        assert [str(context["exception"]) for context in told] == ["a fault"]
        loop.remove_direct_reader(ours.fileno())

    run(main)


def test_what_is_read_and_written_at_once_is_for_the_loop(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair

    async def main(loop: DirectLoop) -> None:
        happened: set[str] = set()
        both = asyncio.Event()

        def note(what: str) -> None:
            happened.add(what)
            if happened == {"read", "written"}:
                both.set()

        theirs.send(b"x")
        loop.add_direct_reader(ours.fileno(), lambda: note("read"))
        loop.add_writer(ours.fileno(), note, "written")
        await both.wait()
        loop.remove_writer(ours.fileno())
        loop.remove_direct_reader(ours.fileno())

    run(main)


def test_readers_are_called_again_and_again_before_the_loop_has_its_turn(
    selector: DirectSelector, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    read: list[bytes] = []

    def readable() -> None:
        read.append(ours.recv(100))
        if len(read) < 3:
            theirs.send(b"next")
        else:
            selector.returns = True

    selector.register(ours, selectors.EVENT_READ)
    selector.readers[ours.fileno()] = readable
    theirs.send(b"first")
    assert selector.select(None) == []
    assert read == [b"first", b"next", b"next"]
    theirs.send(b"fourth")
    assert selector.select(0) == []
    assert len(read) == 4, "it was looked once, and did not wait for more"
    selector.unregister(ours)


def test_what_else_happens_is_told_while_readers_are_busy(
    selector: DirectSelector, pair: tuple[socket.socket, socket.socket]
) -> None:
    source, sink = os.pipe()
    begun: list[int] = []

    def reader(mine: socket.socket) -> Callable[[], None]:
        def readable() -> None:
            # Each wakes the other one: there is always something to read.
            mine.send(mine.recv(100))
            begun.append(mine.fileno())
            if len(begun) == 5:
                os.write(sink, b"x")

        return readable

    for end in pair:
        selector.register(end, selectors.EVENT_READ)
        selector.readers[end.fileno()] = reader(end)
    selector.register(source, selectors.EVENT_READ, "other")
    pair[0].send(b"x")
    [(key, events)] = selector.select(None)
    assert (key.data, events) == ("other", selectors.EVENT_READ)
    assert len(begun) >= 5
    os.close(source)
    os.close(sink)


@pytest.mark.parametrize("way", ["call_soon", "call_later", "task", "future", "thread", "stop"])
def test_what_a_reader_arranges_for_is_done(way: str, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    loop = DirectLoop()
    done: list[str] = []

    async def later() -> None:
        done.append(way)
        loop.stop()

    def finish(_: object = None) -> None:
        done.append(way)
        loop.stop()

    def readable() -> None:
        ours.recv(100)
        match way:
            case "call_soon":
                loop.call_soon(finish)
            case "call_later":
                loop.call_later(0.001, finish)
            case "task":
                tasks.append(loop.create_task(later()))
            case "future":
                future.set_result(None)
            case "thread":
                loop.call_soon_threadsafe(finish)
            case "stop":
                done.append(way)
                loop.stop()

    tasks: list[asyncio.Task[None]] = []
    future = loop.create_future()
    future.add_done_callback(finish)
    loop.add_direct_reader(ours.fileno(), readable)
    # Far away, so that the selector waits for long unless it is told otherwise.
    giving_up = loop.call_later(LIMIT, loop.stop)
    theirs.send(b"x")
    loop.run_forever()
    assert done == [way]
    giving_up.cancel()
    loop.remove_direct_reader(ours.fileno())
    loop.close()


def test_a_timer_comes_while_readers_are_busy(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair

    async def main(loop: DirectLoop) -> None:
        def reader(mine: socket.socket) -> Callable[[], None]:
            def readable() -> None:
                mine.send(mine.recv(100))

            return readable

        # Each wakes the other one: there is always something to read.
        for end in (ours, theirs):
            loop.add_direct_reader(end.fileno(), reader(end))
        ours.send(b"x")
        await asyncio.sleep(0.01)
        for end in (ours, theirs):
            loop.remove_direct_reader(end.fileno())

    run(main)


def test_the_end_of_a_pipe_is_told_to_its_reader() -> None:
    source, sink = os.pipe()
    os.set_blocking(source, False)

    async def main(loop: DirectLoop) -> None:
        chunks: list[bytes] = []
        ended = asyncio.Event()
        reader = ChunkReader(source, chunks.append, lambda error: ended.set())
        os.write(sink, b"last words")
        os.close(sink)
        await ended.wait()
        reader.close()
        assert chunks == [b"last words"]

    run(main)
    os.close(source)


def test_timers_are_never_early() -> None:
    async def main(loop: DirectLoop) -> None:
        for seconds in (0.0001, 0.0015, 0.003):
            began = time.monotonic()
            await asyncio.sleep(seconds)
            assert time.monotonic() - began >= seconds

    run(main)


def test_a_selector_knows_what_it_watches(selector: DirectSelector, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    key = selector.register(ours, selectors.EVENT_READ, "data")
    assert (key.fd, key.data) == (ours.fileno(), "data")
    assert selector.get_key(ours.fileno()) == selector.get_key(ours) == key
    with pytest.raises(KeyError, match="registered already"):
        selector.register(ours.fileno(), selectors.EVENT_READ)
    assert selector.select(0) == []
    assert selector.modify(ours, selectors.EVENT_WRITE, "other").data == "other"
    [(found, events)] = selector.select(0)
    assert (found.data, events) == ("other", selectors.EVENT_WRITE)
    selector.modify(ours, selectors.EVENT_WRITE | selectors.EVENT_READ)
    theirs.close()
    [(_, events)] = selector.select(None)
    assert events == selectors.EVENT_READ | selectors.EVENT_WRITE, "the other end is gone, which both find out"
    assert selector.unregister(ours).fd == ours.fileno()
    for watched in (selector.unregister, selector.get_key):
        with pytest.raises(KeyError):
            watched(ours.fileno())
    with pytest.raises(KeyError):
        selector.modify(ours, selectors.EVENT_READ)


def test_what_was_closed_is_let_go(selector: DirectSelector) -> None:
    source, sink = os.pipe()
    selector.register(source, selectors.EVENT_READ)
    os.close(source)
    os.close(sink)
    selector.unregister(source)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        selector.register(ours, selectors.EVENT_READ)
        with pytest.raises(KeyError):
            selector.unregister(theirs)
        theirs.close()
        with pytest.raises(KeyError):
            selector.unregister(theirs)
        ours.close()
        selector.unregister(ours)
    assert dict(selector.get_map()) == {}
    assert len(selector.get_map()) == 0


def test_a_system_without_epoll_has_the_loop_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, "epoll")
    loop = new_event_loop()
    loop.close()
    assert not isinstance(loop, DirectLoop)
