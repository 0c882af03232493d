"""The name server of one sandbox on its sockets."""

from __future__ import annotations

import asyncio
import socket

import pytest

from supervisord_mcp.runtimes.egress import resolver
from supervisord_mcp.runtimes.egress.meter import Contact, Meter
from supervisord_mcp.runtimes.egress.plan import Names
from supervisord_mcp.runtimes.egress.resolver import Resolver
from tests.kit.bounded import bounded
from tests.runtimes.egress.test_dns import query
from tests.runtimes.egress.test_relay import pair
from tests.runtimes.egress.world import egress


def made(told: list[Contact]) -> tuple[Resolver, socket.socket, Meter]:
    """Return a resolver, a client of it, and what it counts with."""
    server = socket.socket(type=socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    server.setblocking(False)
    client = socket.socket(type=socket.SOCK_DGRAM)
    client.connect(server.getsockname())
    client.setblocking(False)
    rules = egress("ok.test:443", "*.w.test:1")
    meter = Meter("x", told.append, asyncio.get_running_loop().time)
    return Resolver([server], rules, Names(rules), meter), client, meter


@bounded(30)
async def test_names_of_the_rules_and_no_others() -> None:
    loop = asyncio.get_running_loop()
    told: list[Contact] = []
    served, client, _ = made(told)
    codes = []
    for name in ("ok.test", "OK.TEST", "a.W.test", "no.test", "w.test", "8.8.8.8", "bad name.test"):
        client.send(query(name))
        codes.append((await loop.sock_recv(client, 4096))[3] & 15)
    assert codes == [0, 0, 0, 3, 3, 3, 3]
    assert [seen.host for seen in told] == ["no.test", "w.test", "8.8.8.8", "bad?name.test"]
    assert all(seen.outcome == "refused" and seen.reason for seen in told)
    served.close()
    served.close()
    client.close()


@bounded(30)
async def test_a_server_that_hurries_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver, "_AT_ONCE", 2)
    monkeypatch.setattr(resolver, "_PER_SECOND", 20)
    loop = asyncio.get_running_loop()
    served, client, meter = made([])
    for _ in range(4):
        client.send(query("ok.test"))
    for _ in range(2):
        await loop.sock_recv(client, 4096)
    assert meter.usage.names == 2
    for _ in range(2):
        await loop.sock_recv(client, 4096)
    client.close()
    served.close()


@bounded(30)
async def test_questions_on_a_connection() -> None:
    loop = asyncio.get_running_loop()
    served, client, _ = made([])
    ours, theirs = pair()
    task = asyncio.create_task(served.serve(theirs))
    packet = query("ok.test")
    framed = len(packet).to_bytes(2, "big") + packet
    await loop.sock_sendall(ours, framed + framed[:5])
    assert (await loop.sock_recv(ours, 4096))[5] & 15 == 0
    await loop.sock_sendall(ours, framed[5:])
    assert (await loop.sock_recv(ours, 4096))[5] & 15 == 0
    await loop.sock_sendall(ours, b"\0\1x")
    await task
    for made_ in (ours, theirs, client):
        made_.close()
    served.close()
