"""The machine's own network, as far as a machine without internet has one."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest

from supervisord_mcp.egress.addresses import Address
from supervisord_mcp.runtimes.egress.outside import Outside, connect_first
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
