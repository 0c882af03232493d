"""Case 10: slow reader, and both pipes full."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import bare, daemon, fake
from tests.kit.effort import effort
from tests.kit.fhost import Host

pytestmark = pytest.mark.bwrap
MIB = 1 << 20
#: What is sent to a host that does not read, in bytes; and how many hosts there are with moderate traffic.
FLOOD, HOSTS = effort(40, 1024) * MIB, effort(20, 50)
#: Far below the write time-out, after which a server that does not read is ended.
SOON = 10.0
#: What an allocator and the pipes themselves may hold beside the two limits.
SLACK = 12 * MIB
SETTINGS = {"max_message": "1M", "client_buffer": "1M"}


async def latency(host: Host, calls: int = 60) -> float:
    """Return the 95th percentile of the time of a small call."""
    times = []
    for number in range(calls):
        begin = time.monotonic()
        assert (await host.call("echo", value=number)).text == str(number)
        times.append(time.monotonic() - begin)
    return sorted(times)[int(calls * 0.95)]


@pytest.mark.parametrize("kind", ["progress", "log"])
@bounded(effort(60, 300))
async def test_a_host_that_stops_reading_hurts_nobody(kind: str) -> None:
    async with daemon(fake("s"), settings=SETTINGS) as d:
        a, b = await d.connected("s"), await d.connected("s")
        await b.request("logging/setLevel", {"level": "error"})
        await a.request("logging/setLevel", {"level": "debug"})
        base = await latency(b)
        before = probe.rss(await d.pid())
        a.stop_read()
        a.post_call("flood", meta={"progressToken": 1}, bytes=FLOOD, kind=kind)
        journal = d.journal("s")
        await journal.wait(lambda j: j.calls("flood"))
        flood = journal.calls("flood")[0]["id"]
        limit = effort(30, 200)
        await journal.wait(lambda j: [event for event in j.events("out") if event["id"] == flood], limit, "its end")
        assert await latency(b) < base + 0.25
        assert probe.rss(await d.pid()) - before < 2 * MIB + SLACK
        assert b.notes == []


@bounded(60)
async def test_answers_that_do_not_fit_end_the_session_of_that_host_with_a_reason() -> None:
    async with daemon(fake("s"), settings=SETTINGS) as d:
        a, b = await d.connected("s"), await d.connected("s")
        await b.call("echo")
        before = probe.rss(await d.pid())
        a.stop_read()
        for _ in range(40):
            a.post_call("big", bytes=200_000)
        await a.exit_status(20)
        assert probe.rss(await d.pid()) - before < 2 * MIB + SLACK
        assert b"read" in a.stderr, a.show()
        assert (await b.call("echo", value="b")).text == "b"
        assert (await d.server("s"))["sessions"] == 1
        assert len(d.journal("s").runs()) == 1


@bounded(60)
async def test_a_server_that_stops_reading_hurts_only_its_own_hosts() -> None:
    settings = {**SETTINGS, "write_timeout": "2s"}
    async with daemon(fake("stuck", not_reading={"after": 8}), fake("s"), settings=settings) as d:
        a, b = await d.connected("stuck"), await d.connected("s")
        base = await latency(b)
        before = probe.rss(await d.pid())
        for number in range(effort(200, 500)):
            a.post_call("echo", id=number, value="x" * 100_000)
        assert await latency(b) < base + 0.25
        assert probe.rss(await d.pid()) - before < 2 * MIB + SLACK
        await a.wait(lambda: [f for f in a.answers if f.error and "not reading" in f.error["message"]], "an error", 30)
        assert (await b.call("echo", value="b")).text == "b"


@bounded(90)
async def test_many_hosts_with_moderate_traffic() -> None:
    async with daemon(fake("s", delay=[0, 5])) as d:
        hosts = await asyncio.gather(*(d.connected("s") for _ in range(HOSTS)))
        before = probe.fd_table(await d.pid())
        await asyncio.gather(*(latency(host, 25) for host in hosts))
        after = probe.fd_table(await d.pid())
        assert abs(len(after) - len(before)) <= 1
        assert (await d.server("s"))["sessions"] == HOSTS


@bounded(60)
async def test_a_server_that_stops_reading_holds_back_only_the_host_that_fills_its_pipe() -> None:
    # Without a sandbox, whose first process is not the server that is to be stopped.
    async with daemon(bare("s")) as d:
        c, e, g = await d.connected("s"), await d.connected("s"), await d.connected("s")
        stopped = (await d.instances("s"))[0]["pid"]
        os.kill(stopped, signal.SIGSTOP)
        try:
            for number in range(40):
                c.post_call("echo", id=number + 10, value="z" * 200_000)
            await e.wait(lambda: c.unsent < 36 * 200_000, "that the first calls are taken")
            assert (await e.request("ping", timeout=SOON)).result == {}
            assert (await e.request("logging/setLevel", {"level": "info"}, timeout=SOON)).result == {}
            waiting = e.post_call("echo", id=77, value="waits")
            e.notify("notifications/cancelled", {"requestId": 77})
            assert (await e.request("ping", timeout=SOON)).result == {}
            g.close_stdin()
            assert await g.exit_status(SOON) == 0
            newcomer = d.host("s")
            await newcomer.handshake(timeout=SOON)
            assert (await newcomer.request("ping", timeout=SOON)).result == {}
            c.close_stdin()
            assert await c.exit_status(SOON) == 0
            assert (await d.server("s"))["sessions"] == 2
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert (await newcomer.call("echo", value="on")).text == "on"
        assert not waiting.done()
        assert len(d.journal("s").runs()) == 1
