"""What a proxy makes of its clients: refusals, bounds, and the first bytes they send."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from supervisord_mcp.egress.addresses import Address
from supervisord_mcp.egress.rules import parse_rule
from supervisord_mcp.runtimes.egress import proxy
from supervisord_mcp.runtimes.egress.clienthello import Hello
from supervisord_mcp.runtimes.egress.heads import HeadError, Target
from supervisord_mcp.runtimes.egress.proxy import EgressProxy, read_http, read_socks, tls_objection
from tests.kit.bounded import bounded
from tests.runtimes.egress.test_relay import everything, pair
from tests.runtimes.egress.world import PUBLIC, World, echo, egress, serving


@pytest.mark.parametrize(
    ("rule", "host", "asked", "objects"),
    [
        ("a.test:443", "a.test", "a.test", False),
        ("a.test:443", "a.test", "A.Test.", False),
        ("a.test:443", "a.test", "b.test", True),
        ("a.test:443", "a.test", "a.test.evil.test", True),
        ("a.test:443", "a.test", Hello.NAMELESS, True),
        ("a.test:443", "a.test", Hello.MALFORMED, True),
        ("a.test:443", "a.test", "127.1", True),
        ("*.w.test:443", "a.w.test", "b.w.test", False),
        ("*.w.test:443", "a.w.test", "w.test", True),
        ("internet", "a.test", "b.test", False),
        ("internet", "a.test", Hello.NAMELESS, False),
        ("internet", "a.test", Hello.MALFORMED, True),
        ("8.8.8.8:443", "8.8.8.8", Hello.NAMELESS, False),
        ("8.8.8.8:443", "8.8.8.8", "dns.test", False),
        ("host-loopback:1", "host-loopback", "dev.test", False),
    ],
)
def test_who_may_be_asked_for(rule: str, host: str, asked: Hello | str, objects: bool) -> None:
    assert bool(tls_objection(parse_rule(rule), host, asked)) == objects


@bounded(30)
async def test_a_head_in_parts_with_what_follows_it() -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = pair()
    reading = asyncio.create_task(read_http(theirs))
    for part in (b"CONN", b"ECT a.test:443 HTTP/1.1\r\n\r", b"\nearly"):
        await loop.sock_sendall(ours, part)
        await asyncio.sleep(0.01)
    assert await reading == Target("a.test", 443, b"early")
    ours.close()
    theirs.close()


@bounded(30)
async def test_a_head_without_end_is_refused() -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = pair()
    reading = asyncio.create_task(read_http(theirs))
    await loop.sock_sendall(ours, b"GET http://a.test/ HTTP/1.1\r\n" + b"x: y\r\n" * 20000)
    with pytest.raises(HeadError):
        await reading
    ours.close()
    theirs.close()


@bounded(30)
async def test_socks() -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = pair()
    reading = asyncio.create_task(read_socks(theirs))
    for part in (b"\x05\x02\x02\x00", b"\x05\x01\x00\x03\x06a.t", b"est\x01\xbb"):
        await loop.sock_sendall(ours, part)
        await asyncio.sleep(0.01)
    assert await reading == Target("a.test", 443)
    assert await loop.sock_recv(ours, 10) == b"\x05\x00"
    ours.close()
    theirs.close()


@pytest.mark.parametrize(("said", "answer"), [(b"\x05\x01\x02", b"\x05\xff"), (b"\x04\x01\x00", b""), (b"", b"")])
@bounded(30)
async def test_other_socks(said: bytes, answer: bytes) -> None:
    ours, theirs = pair()
    ours.send(said)
    ours.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionResetError):
        await read_socks(theirs)
    theirs.close()
    assert await everything(ours) == answer
    ours.close()


@contextlib.asynccontextmanager
async def served(world: World, idle: float = 60, **limits: int) -> AsyncIterator[tuple[EgressProxy, int]]:
    """Serve a listener on the loopback whose connections mean the loopback; give the proxy and its port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    listener.setblocking(False)
    port = listener.getsockname()[1]
    made = EgressProxy("x", egress(f"host-loopback:{port}", **limits), [listener], world.around(idle))
    async with serving(echo) as target:
        world.ports[port] = target
        try:
            yield made, port
        finally:
            await made.aclose()


@bounded(30)
async def test_bytes_are_counted_and_silence_ends() -> None:
    world = World()
    async with served(world, idle=0.2) as (made, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        # Counted while the connection goes on, which may be for days.
        assert (made.traffic()[0], made.usage.sent) == (5, 0)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        assert (made.usage.connections, made.usage.sent, made.usage.received) == (1, 5, 5)
        assert made.traffic() == (5, 5)
    assert [(seen.host, seen.outcome, seen.sent, seen.received) for seen in world.contacts] == [
        ("host-loopback", "passed", 5, 5)
    ]


@bounded(30)
async def test_more_than_the_most_are_reset_and_more_than_the_rate_wait() -> None:
    world = World()
    async with served(world, most_connections=2, connects_per_second=3) as (made, port):
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in held:
            writer.write(b"a")
            assert await reader.readexactly(1) == b"a"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        assert made.usage.waiting == 0
        late, last = await asyncio.open_connection("127.0.0.1", port)
        held[0][1].close()
        last.write(b"b")
        with contextlib.suppress(ConnectionResetError):
            assert await late.readexactly(1) == b"b"
        assert made.usage.waiting >= 1
        for _, open_writer in (*held, (late, last)):
            open_writer.close()
    assert "more than 2 connections at a time" in [seen.reason for seen in world.contacts]


@bounded(30)
async def test_a_server_that_is_not_there_is_a_failure_and_no_refusal() -> None:
    world = World()
    async with served(world) as (made, port):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            world.ports[port] = closed.getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()
        assert (made.usage.failed, made.usage.refused) == (1, 0)
    assert [(seen.outcome, "refused" in seen.reason) for seen in world.contacts] == [("failed", True)]


@bounded(30)
async def test_an_end_ends_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "_FAREWELL_SECONDS", 0.1)
    world = World()
    async with served(world) as (made, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"a")
        await reader.readexactly(1)
        await made.aclose()
        made.close()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
    assert made.usage.open == 0


class _Here(World):
    """A world in which the public address is one of this machine."""

    def is_here(self, address: Address) -> bool:
        return address == PUBLIC


@pytest.mark.parametrize("place", ["here.test:80", f"{PUBLIC}:80"])
@bounded(30)
async def test_the_internet_has_no_part_of_this_machine(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # What listens on all addresses of a machine often trusts who comes from it.
    world = _Here()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    port = listener.getsockname()[1]
    monkeypatch.setattr(proxy, "PROXY", port)
    made = EgressProxy("x", egress("internet"), [listener], world.around())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"CONNECT {place} HTTP/1.1\r\n\r\n".encode())
    assert b"an address of this machine" in await reader.readline()
    writer.close()
    await made.aclose()
    assert world.connected == []
