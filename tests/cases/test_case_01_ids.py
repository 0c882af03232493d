"""Case 1: two clients, same request id."""

from __future__ import annotations

import asyncio

import pytest

from tests.kit.bounded import bounded
from tests.kit.daemon import daemon, fake
from tests.kit.fhost import Host

pytestmark = pytest.mark.bwrap
HOSTS = 20
CALLS = 50


async def talk(host: Host) -> None:
    """Call with ids 0, 1, 2 … up to eight at a time, and check that each answer is our own."""
    gate = asyncio.Semaphore(8)

    async def one(number: int) -> None:
        async with gate:
            answer = await host.call("echo", id=number, value=f"{host.name}/{number}")
            assert (answer.id, answer.text) == (str(number), f"{host.name}/{number}")

    await asyncio.gather(*map(one, range(CALLS)))


@bounded(60)
async def test_hosts_with_the_same_ids_get_their_own_answers() -> None:
    async with daemon(fake("echo", delay=[0, 50])) as d:
        hosts = await asyncio.gather(*(d.connected("echo", name=f"nonce{n}") for n in range(HOSTS)))
        await asyncio.gather(*map(talk, hosts))
        for host in hosts:
            ids = [str(frame.id) for frame in host.answers if frame.id != '"hello"']
            assert sorted(ids) == sorted(map(str, range(CALLS))), host.show()
        journal = d.journal("echo")
        assert len(journal.runs()) == 1
        upstream = [event["id"] for event in journal.requests()]
        assert len(journal.calls("echo")) == HOSTS * CALLS
        assert len(set(upstream)) == len(upstream)
        assert all(type(id_) is int for id_ in upstream)
