"""Two connections joined: every byte and every end of one goes to the other, once the first of TLS have been judged."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable

from supervisord_mcp.runtimes.egress.clienthello import MOST_BYTES, Hello, server_name

_CHUNK = 1 << 16
#: In how many parts the first message of TLS may come; who needs more only wants work to be done.
_MOST_PARTS = 64
_HELLO_SECONDS = 30.0

#: Given the name that a client of TLS asks for, or that it names none, return why it must not; empty where it may.
Judge = Callable[[Hello | str], str]


class RefusedError(Exception):
    """What a client sent must not go on."""


class Relay:
    """Joins a client and a server. ``sent`` and ``received`` count from the client's side."""

    def __init__(self, client: socket.socket, server: socket.socket, idle_seconds: float) -> None:
        self.sent = 0
        self.received = 0
        self._client, self._server = client, server
        self._idle_seconds = idle_seconds
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, first: bytes, judge: Judge | None) -> None:
        """Carry bytes until both sides have ended. ``first`` is what the client has sent already.

        Raise `RefusedError` when the judge objects, `OSError` when a connection breaks, `TimeoutError` when nothing
        moved for too long. A server that speaks first is heard at once, whatever the client says later.
        """
        pumps = [
            self._loop.create_task(self._up(first, judge)),
            self._loop.create_task(self._pump(self._server, self._client)),
            self._loop.create_task(self._watch()),
        ]
        try:
            await _until_both(pumps)
        finally:
            if self._timer is not None:
                self._timer.cancel()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _up(self, first: bytes, judge: Judge | None) -> None:
        if judge is not None:
            first = await self._judged(first, judge)
        if first:
            await self._loop.sock_sendall(self._server, first)
            self.sent += len(first)
        await self._pump(self._client, self._server)

    async def _judged(self, first: bytes, judge: Judge) -> bytes:
        """Return what the client sent so far when it may go on."""
        if not first:
            first = await self._loop.sock_recv(self._client, _CHUNK)
        parts = 0
        async with asyncio.timeout(_HELLO_SECONDS):
            while first and (found := server_name(first)) is Hello.INCOMPLETE:
                more = await self._loop.sock_recv(self._client, _CHUNK)
                parts += 1
                first += more
                if not more or parts > _MOST_PARTS or len(first) > MOST_BYTES:
                    found = Hello.MALFORMED
                    break
        if first and found is not Hello.NOT_TLS and (reason := judge(found)):
            raise RefusedError(reason)
        return first

    async def _pump(self, source: socket.socket, target: socket.socket) -> None:
        """Carry bytes one way to their end, never more at a time than the other side takes."""
        up = source is self._client
        while data := await self._loop.sock_recv(source, _CHUNK):
            self._last = self._loop.time()
            await self._loop.sock_sendall(target, data)
            if up:
                self.sent += len(data)
            else:
                self.received += len(data)
            # Two fast sides would never wait, and nothing else would ever run.
            await asyncio.sleep(0)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    async def _watch(self) -> None:
        """Raise `TimeoutError` when nothing has moved for too long; cheap for those that carry bytes."""
        done = self._loop.create_future()

        def look() -> None:
            left = self._last + self._idle_seconds - self._loop.time()
            self._timer = self._loop.call_later(left, look) if left > 0 else None
            if left <= 0 and not done.done():
                done.set_exception(TimeoutError())

        look()
        await done


async def _until_both(pumps: list[asyncio.Task[None]]) -> None:
    """Wait for the first two; raise what any of them raises first."""
    waiting = set(pumps)
    while not (pumps[0].done() and pumps[1].done()):
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for pump in done:
            pump.result()


def reset(connection: socket.socket) -> None:
    """Close a connection so that the other side sees that it broke, rather than a proper end."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
