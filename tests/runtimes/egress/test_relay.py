"""Two connections joined: nothing is lost, nothing is kept, and each end is passed on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from supervisord_mcp.runtimes.egress.clienthello import Hello
from supervisord_mcp.runtimes.egress.relay import RefusedError, Relay, reset
from tests.kit.bounded import bounded
from tests.runtimes.egress.test_clienthello import hello, split


@dataclass
class Ends:
    """The far ends of the two connections, and the relay between the near ones."""

    client: socket.socket
    server: socket.socket
    relay: Relay
    task: asyncio.Task[None]


def pair() -> tuple[socket.socket, socket.socket]:
    """Return a connection of TCP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    one.setblocking(False)
    other.setblocking(False)
    return one, other


@contextlib.asynccontextmanager
async def joined(first: bytes = b"", says: str | None = None, idle: float = 60) -> AsyncIterator[Ends]:
    """Join two connections; a judge that says something objects with it, and the name that it heard."""
    client, near_client = pair()
    server, near_server = pair()
    relay = Relay(near_client, near_server, idle)

    def judge(asked: Hello | str) -> str:
        return f"{says}{asked}" if says else ""

    task = asyncio.create_task(relay.run(first, None if says is None else judge))
    try:
        yield Ends(client, server, relay, task)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for made in (client, near_client, server, near_server):
            made.close()


async def everything(connection: socket.socket) -> bytes:
    """Return what comes until the end."""
    data = b""
    while part := await asyncio.get_running_loop().sock_recv(connection, 1 << 16):
        data += part
    return data


@bounded(30)
async def test_both_ends_are_passed_on_by_themselves() -> None:
    loop = asyncio.get_running_loop()
    async with joined(b"first ") as ends:
        await loop.sock_sendall(ends.client, b"words")
        ends.client.shutdown(socket.SHUT_WR)
        assert await everything(ends.server) == b"first words"
        await loop.sock_sendall(ends.server, b"late answer")
        ends.server.shutdown(socket.SHUT_WR)
        assert await everything(ends.client) == b"late answer"
        await ends.task
        assert (ends.relay.sent, ends.relay.received) == (11, 11)


@bounded(30)
async def test_a_reader_that_stops_stops_the_writer() -> None:
    loop = asyncio.get_running_loop()
    async with joined() as ends:
        sent = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20):
                while sent < 64 << 20:
                    async with asyncio.timeout(0.3):
                        await loop.sock_sendall(ends.server, bytes(1 << 16))
                    sent += 1 << 16
        assert 0 < sent < 64 << 20


@bounded(30)
async def test_a_break_of_one_is_a_break() -> None:
    async with joined() as ends:
        reset(ends.server)
        with pytest.raises(ConnectionResetError):
            await ends.task


@bounded(30)
async def test_silence_ends_it() -> None:
    async with joined(idle=0.05) as ends:
        with pytest.raises(TimeoutError):
            await ends.task


@bounded(30)
async def test_the_first_message_of_tls_is_judged_before_it_goes_on() -> None:
    loop = asyncio.get_running_loop()
    async with joined(says="not ") as ends:
        whole = split(hello("evil.test"), 50)
        for at in range(0, len(whole), 20):
            await loop.sock_sendall(ends.client, whole[at : at + 20])
            await asyncio.sleep(0)
        with pytest.raises(RefusedError, match=r"not evil\.test"):
            await ends.task
        with pytest.raises(BlockingIOError):
            ends.server.recv(1)


@bounded(30)
async def test_what_passes_goes_on_as_it_came() -> None:
    loop = asyncio.get_running_loop()
    for message in (hello("ok.test"), b"GET / HTTP/1.1\r\n\r\n", b"\x16\x04"):
        async with joined(message[:1], says="") as ends:
            await loop.sock_sendall(ends.client, message[1:])
            ends.client.shutdown(socket.SHUT_WR)
            assert await everything(ends.server) == message


@pytest.mark.parametrize("whole", [False, True])
@bounded(30)
async def test_a_first_message_in_too_many_parts_is_refused(whole: bool) -> None:
    loop = asyncio.get_running_loop()
    async with joined(says="bad: ") as ends:
        if whole:
            await loop.sock_sendall(ends.client, hello("ok.test")[:100])
            ends.client.shutdown(socket.SHUT_WR)
        else:
            ends.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not ends.task.done():
                with contextlib.suppress(OSError):
                    await loop.sock_sendall(ends.client, b"\x16\x03\x01\x00\x01\x01")
                await asyncio.sleep(0.001)
        with pytest.raises(RefusedError, match="MALFORMED"):
            await ends.task
