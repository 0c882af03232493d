"""Listeners in a network that is not the machine's, and the program that makes them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator

import anyio
import pytest

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.egress import listeners
from supervisord_mcp.runtimes.egress.listeners import NamespaceAgent, open_namespace
from supervisord_mcp.runtimes.egress.plan import Listener, Plan, plan
from tests.kit.bounded import bounded
from tests.kit.probe import alive
from tests.runtimes.egress.world import egress

pytestmark = [pytest.mark.bwrap, pytest.mark.usefixtures("subreaper")]


@contextlib.contextmanager
def network() -> Iterator[int]:
    """Have a network with nothing in it; give a descriptor of it."""
    line = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", "ip link set lo up && echo up && read word"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        namespace = open_namespace(process.pid)
        try:
            yield namespace
        finally:
            os.close(namespace)
            process.communicate(b"\n", timeout=10)


def places(sockets: list[socket.socket]) -> list[tuple[str, int]]:
    """Return where sockets listen, and close them."""
    found = [made.getsockname()[:2] for made in sockets]
    for made in sockets:
        made.close()
    return found


@bounded(60)
async def test_a_plan_becomes_listeners_and_the_program_is_kept() -> None:
    wanted = plan(egress("a.test:443", "*.b.test:80", "8.8.8.8:53"))
    agent = NamespaceAgent()
    with network() as one, network() as other:
        async with agent.ready():
            first = agent._child
            for namespace in (one, other):
                made = await agent.listeners(namespace, wanted)
                assert places(made) == [(listener.address, listener.port) for listener in wanted.listeners]
            assert os.stat("/proc/self/ns/net").st_ino != os.fstat(one).st_ino
        async with agent.ready():
            assert agent._child is first
    await agent.aclose()


@bounded(60)
async def test_many_listeners_come_in_parts() -> None:
    wanted = Plan(tuple(Listener("127.0.0.1", 1000 + number) for number in range(450)), (), ())
    agent = NamespaceAgent()
    with network() as namespace:
        async with agent.ready():
            assert len(places(await agent.listeners(namespace, wanted))) == 450
    await agent.aclose()


@bounded(60)
async def test_what_cannot_be_made_is_named_and_nothing_is_left() -> None:
    taken = Plan((Listener("127.0.0.1", 53), Listener("127.0.0.1", 53)), (), ())
    elsewhere = Plan((Listener("192.0.2.1", 53),), (), ())
    agent = NamespaceAgent()
    with network() as namespace:
        async with agent.ready():
            with pytest.raises(IsolationError, match=r"tcp 127\.0\.0\.1 53: Address already in use"):
                await agent.listeners(namespace, taken)
            with pytest.raises(IsolationError, match=r"tcp 192\.0\.2\.1 53: Cannot assign"):
                await agent.listeners(namespace, elsewhere)
    await agent.aclose()


@bounded(60)
async def test_the_network_of_the_machine_is_refused() -> None:
    agent = NamespaceAgent()
    own = open_namespace(os.getpid())
    async with agent.ready():
        with pytest.raises(IsolationError, match="the sandbox has the network of the machine"):
            await agent.listeners(own, plan(egress("a.test:443")))
    os.close(own)
    await agent.aclose()


@bounded(60)
async def test_a_program_that_has_ended_is_started_again() -> None:
    agent = NamespaceAgent()
    with network() as namespace:
        async with agent.ready():
            assert agent._child is not None
            first = agent._child
            first.kill()
            await first.wait()
            with pytest.raises(IsolationError):
                await agent.listeners(namespace, plan(egress("a.test:443")))
        async with agent.ready():
            assert agent._child is not first
            assert len(places(await agent.listeners(namespace, plan(egress("a.test:443"))))) == 5
    await agent.aclose()


@bounded(60)
async def test_the_program_goes_when_there_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "_KEPT_SECONDS", 0.01)
    agent = NamespaceAgent()
    async with agent.ready():
        assert agent._child is not None
        pid = agent._child.pid
    with anyio.fail_after(20):
        while alive(pid):
            await asyncio.sleep(0.01)
    await agent.aclose()


def test_a_process_that_is_gone_has_no_network() -> None:
    with pytest.raises(IsolationError):
        open_namespace(1 << 22)
