"""The machine's own network, as far as a machine without internet has one."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Any

import pytest

from supervisord_mcp.egress.addresses import Address
from supervisord_mcp.egress.proxies import Proxy
from supervisord_mcp.runtimes.egress.outside import Outside, connect_first, connect_through
from tests.kit.bounded import bounded

LOCAL = ipaddress.ip_address("127.0.0.1")


@bounded(30)
async def test_a_name_is_resolved_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def resolve(name: str, *rest: Any, **more: Any) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        asked.append(name)
        return [(2, 1, 6, "", (address, 0)) for address in ("1.2.3.4", "::ffff:1.2.3.4", "fe80::1%1", "1.2.3.4")]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert list(map(str, await Outside().resolve("a.test"))) == ["1.2.3.4", "fe80::1"]
    assert asked == ["a.test."]


def test_addresses_of_this_machine() -> None:
    assert Outside().is_here(LOCAL)
    for other in ("93.184.216.34", "2001:4860:4860::8888", "255.255.255.255"):
        assert not Outside().is_here(ipaddress.ip_address(other))


@bounded(30)
async def test_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = await Outside().connect(LOCAL, server.getsockname()[1])
        assert made.getpeername() == server.getsockname()
        made.close()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            await Outside().connect(LOCAL, closed.getsockname()[1])


class _Picky(Outside):
    def __init__(self) -> None:
        self.tried: list[str] = []

    async def connect(self, address: Address, port: int) -> socket.socket:
        self.tried.append(str(address))
        if str(address) != "1.0.0.3":
            raise ConnectionRefusedError(111, "Connection refused")
        return socket.socket()


@bounded(30)
async def test_the_first_address_that_takes_a_connection_is_used() -> None:
    outside = _Picky()
    (await connect_first(outside, tuple(ipaddress.ip_address(f"1.0.0.{n}") for n in range(1, 6)), 80)).close()
    assert outside.tried == ["1.0.0.1", "1.0.0.2", "1.0.0.3"]
    outside.tried.clear()
    with pytest.raises(ConnectionRefusedError):
        await connect_first(outside, tuple(ipaddress.ip_address(f"2.0.0.{n}") for n in range(9)), 80)
    assert len(outside.tried) == 4
    with pytest.raises(OSError, match="no address"):
        await connect_first(outside, (), 80)


async def _through(answer: bytes, host: str = "a.test") -> tuple[bytes, bytes]:
    """Return what a proxy with an answer was asked, and what came after the answer."""
    asked = b""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked = await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        proxy = Proxy("127.0.0.1", server.sockets[0].getsockname()[1], "Basic eDp5")
        made = await connect_through(Outside(), proxy, host, 443)
        try:
            return asked, await asyncio.get_running_loop().sock_recv(made, 100)
        finally:
            made.close()


@bounded(30)
async def test_a_tunnel_through_a_proxy_loses_nothing_of_what_follows() -> None:
    asked, rest = await _through(b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nhello")
    assert asked == b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nProxy-Authorization: Basic eDp5\r\n\r\n"
    assert rest == b"hello"
    asked, _ = await _through(b"HTTP/1.0 200\r\n\r\n.", "2001:db8::1")
    assert asked.startswith(b"CONNECT [2001:db8::1]:443 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 407 Who are you\r\n\r\n", "refused it: 407"),
        (b"HTTP/1.1 403 No\r\n\r\n", "refused it: 403"),
        (b"SSH-2.0-x\r\n\r\n", "refused it: nonsense"),
        (b"HTTP/1.1 200 OK\r\n", "gave no answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"x" * 20000, "gave no answer"),
    ],
)
@bounded(30)
async def test_a_proxy_that_makes_no_tunnel(answer: bytes, said: str) -> None:
    with pytest.raises(OSError, match=f"the proxy 127.0.0.1:[0-9]+ of the settings {said}"):
        await _through(answer)


@bounded(30)
async def test_a_proxy_that_is_not_there() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        proxy = Proxy("127.0.0.1", closed.getsockname()[1])
        with pytest.raises(OSError, match="of the settings cannot be reached"):
            await connect_through(Outside(), proxy, "a.test", 443)
