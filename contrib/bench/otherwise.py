"""The daemon with one thing of its hot path done otherwise: ``otherwise.py run``, SMCP_OTHERWISE naming the way.

Run as a script in place of ``python -m supervisord_mcp``, by `contrib.bench.tried`. Each way is the simplest form of
what the program does not do, good enough to be measured and for nothing else.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import msgspec

from supervisord_mcp import daemon, pipes
from supervisord_mcp.eventloop import DirectSelector
from supervisord_mcp.pipes import ChunkReader, QueueWriter
from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.runtimes import orphans

VARIABLE = "SMCP_OTHERWISE"
#: For how long `look_again` looks, in seconds.
_MOMENT = 60e-6


def read_until_empty() -> None:
    """Read again after each read, until nothing is left, instead of waiting to be told of more."""

    def readable(self: Any) -> None:
        while self._reading:
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
            self._on_chunk(chunk)

    _replace(ChunkReader, "_readable", readable)


def long_reads() -> None:
    """Offer four times as much room for each read of what a server says."""
    _replace(pipes, "CHUNK", 1 << 18)


def always_queue() -> None:
    """Write only when told that there is room, never at once."""

    def write(self: Any, data: bytes) -> None:
        if self._closed:
            return
        if not self._queue:
            self.progressed = self._loop.time()
            self._loop.add_writer(self._descriptor, self._writable)
        self._queue.append(memoryview(data))
        self.queued += len(data)

    _replace(QueueWriter, "write", write)


def one_piece() -> None:
    """Write what waits line by line, not many lines at once."""
    _replace(pipes, "_PIECES", 1)


def through_a_task() -> None:
    """Give what was read to a task that waits for it, as those do who await a stream."""
    made: Any = ChunkReader.__init__
    closed: Any = ChunkReader.close

    def make(self: Any, descriptor: int, on_chunk: Callable[[bytes], None], *more: Any) -> None:
        chunks: asyncio.Queue[bytes] = asyncio.Queue()

        async def take() -> None:
            while True:
                on_chunk(await chunks.get())

        self.taker = asyncio.get_running_loop().create_task(take())
        made(self, descriptor, chunks.put_nowait, *more)

    def close(self: Any) -> None:
        closed(self)
        self.taker.cancel()

    _replace(ChunkReader, "__init__", make)
    _replace(ChunkReader, "close", close)


def parse_everything() -> None:
    """Decode each message to values and encode them again, instead of reading the envelope alone."""
    parse = jsonrpc.parse

    def whole(line: bytes) -> jsonrpc.Message:
        with suppress(msgspec.DecodeError, RecursionError):  # it is refused by who reads it next
            line = msgspec.json.encode(msgspec.json.decode(line))
        return parse(line)

    _replace(jsonrpc, "parse", whole)


def unfrozen() -> None:
    """Let the collector of garbage look at what stays for as long as the daemon runs, too."""
    _replace(gc, "freeze", lambda: None)


def no_collector() -> None:
    """Collect no garbage at all: more than this no setting of the collector can win."""
    gc.disable()


def uvloop() -> None:
    """Run on the event loop of libuv; needs the package uvloop.

    It keeps SIGCHLD to itself and refuses a handler for it, so what the daemon inherits from its servers is not reaped.
    """
    run: Any = anyio.run

    def on_it(function: Any, *arguments: Any, **_own: Any) -> Any:
        return run(function, *arguments, backend_options={"use_uvloop": True})

    _replace(anyio, "run", on_it)
    _replace(orphans, "watch_strangers", lambda _loop: lambda: None)


def look_again() -> None:
    """Look for news again and again for a moment before sleeping: who sleeps has to be woken, which takes a while."""

    def looks(self: Any, timeout: float) -> Any:
        end = time.perf_counter() + _MOMENT
        while timeout and time.perf_counter() < end:
            if (found := look(self, 0.0)) or self.returns:
                return found
        return look(self, timeout)

    look = _replace(DirectSelector, "_look", looks)


def through_a_handle() -> None:
    """Let asyncio make a handle of each piece of news, queue it and run it, as its own loop does."""
    _replace(daemon, "new_event_loop", asyncio.new_event_loop)


def a_turn_for_each() -> None:
    """Go once around asyncio's loop after each look for news, also where there is nothing else to be done."""

    def until(self: Any, end: float | None) -> Any:
        left = -1.0 if end is None else math.ceil(max(end - time.monotonic(), 0.0) * 1e3) * 1e-3
        return self._look(left)

    _replace(DirectSelector, "_until", until)


#: The ways by the name of what is measured.
WAYS: dict[str, Callable[[], None]] = {
    "read-until-empty": read_until_empty,
    "long-reads": long_reads,
    "always-queue": always_queue,
    "one-piece": one_piece,
    "through-a-task": through_a_task,
    "through-a-handle": through_a_handle,
    "a-turn-for-each": a_turn_for_each,
    "parse-everything": parse_everything,
    "unfrozen": unfrozen,
    "no-collector": no_collector,
    "uvloop": uvloop,
    "look-again": look_again,
}


def _replace(place: object, name: str, by: object) -> Any:
    """Put something in the place of something else, which is returned."""
    assert hasattr(place, name), f"the program has no {name} any more, so nothing would be measured"
    replaced = getattr(place, name)
    setattr(place, name, by)
    return replaced


def main() -> int:
    """Be the daemon."""
    WAYS[os.environ[VARIABLE]]()
    from supervisord_mcp.cli import main as smcp

    return smcp()


if __name__ == "__main__":
    sys.exit(main())
