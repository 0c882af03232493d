"""The name server of one sandbox on its sockets: at a bounded pace, with no answer from anywhere else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from supervisord_mcp.egress.rules import Egress, normal
from supervisord_mcp.runtimes.egress import dns
from supervisord_mcp.runtimes.egress.meter import Bucket, Meter
from supervisord_mcp.runtimes.egress.plan import Names

_PER_SECOND, _AT_ONCE = 200, 400
_AT_A_TIME = 32
_MOST_BYTES = 4096
_IDLE_SECONDS = 30.0


class Resolver:
    """Answers questions for names. Owns its sockets."""

    def __init__(self, sockets: Iterable[socket.socket], egress: Egress, names: Names, meter: Meter) -> None:
        self._sockets = list(sockets)
        self._egress, self._names, self._meter = egress, names, meter
        self._loop = asyncio.get_running_loop()
        self._bucket = Bucket(_PER_SECOND, _AT_ONCE)
        self._timer: asyncio.TimerHandle | None = None
        self._watch()

    def close(self) -> None:
        """Answer nothing any more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for made in self._sockets:
            self._loop.remove_reader(made)
            made.close()
        self._sockets.clear()

    async def serve(self, connection: socket.socket) -> None:
        """Answer questions on a connection until it ends, or is silent for too long. Raise `OSError` when it breaks."""
        waiting = b""
        while True:
            async with asyncio.timeout(_IDLE_SECONDS):
                part = await self._loop.sock_recv(connection, _MOST_BYTES)
            if not part:
                return
            waiting += part
            while len(waiting) >= 2 and len(waiting) >= 2 + (size := int.from_bytes(waiting[:2], "big")):
                packet, waiting = waiting[2 : 2 + size], waiting[2 + size :]
                if (pause := self._bucket.take(self._loop.time())) > 0:
                    await asyncio.sleep(pause)
                if (response := self._answer(packet)) is None:
                    return
                async with asyncio.timeout(_IDLE_SECONDS):
                    await self._loop.sock_sendall(connection, len(response).to_bytes(2, "big") + response)

    def _watch(self) -> None:
        self._timer = None
        for made in self._sockets:
            self._loop.add_reader(made, self._read, made)

    def _read(self, made: socket.socket) -> None:
        for _ in range(_AT_A_TIME):
            if (pause := self._bucket.take(self._loop.time())) > 0:
                # What does not fit into the kernel's queue meanwhile is lost, at no cost to anybody else.
                for other in self._sockets:
                    self._loop.remove_reader(other)
                self._timer = self._loop.call_later(pause, self._watch)
                return
            try:
                packet, sender = made.recvfrom(_MOST_BYTES)
                if (response := self._answer(packet)) is not None:
                    made.sendto(response, sender)
            except OSError:
                # Nothing is there, or nobody waits for the answer any more.
                self._bucket.give_back()
                return

    def _answer(self, packet: bytes) -> bytes | None:
        self._meter.usage.names += 1
        return dns.answer(packet, self._address)

    def _address(self, name: str) -> str | None:
        try:
            address = self._names.address(normal(name))
        except ValueError:
            address = None
        if address is None:
            self._meter.note(name, 0, "refused", self._egress.match(name, 443).reason or "it is not a name")
        return address
