"""Case 23: the shim outlives the daemon."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import daemon, fake
from tests.kit.fhost import hello

pytestmark = pytest.mark.bwrap
BACK = 8.0


@bounded(60)
async def test_killed_while_idle_the_next_call_works() -> None:
    async with daemon(fake("s", strict_init=True, strict_order=True)) as d:
        hosts = [await d.connected("s") for _ in range(3)]
        for host in hosts:
            assert (await host.call("echo", value="before")).text == "before"
        before = await d.pid()
        await d.kill()
        begin = time.monotonic()
        answers = await asyncio.gather(*(host.call("echo", value=host.name, timeout=BACK) for host in hosts))
        assert [answer.text for answer in answers] == [host.name for host in hosts]
        assert time.monotonic() - begin < BACK
        assert await d.pid() != before
        for host in hosts:
            assert [frame.id for frame in host.answers] == ['"hello"', "1", "2"]
            assert {frame.method for frame in host.notes} <= {"notifications/tools/list_changed"}
        assert len(d.journal("s").runs()) == 2
        assert (await d.server("s"))["sessions"] == 3


@bounded(60)
async def test_calls_in_flight_get_an_error_and_run_once() -> None:
    async with daemon(fake("s")) as d:
        host = await d.connected("s")
        calls = [host.post_call("slow", id=f'"call-{n}"', seconds=30) for n in range(3)]
        await d.journal("s").wait(lambda j: len(j.calls("slow")) == 3)
        await d.kill()
        for call in calls:
            answer = await host.answer_of(call, timeout=BACK)
            assert answer.error is not None
            assert "restart" in answer.error["message"]
        assert (await host.call("echo", value="after", timeout=BACK)).text == "after"
        assert len(d.journal("s").calls("slow")) == 3, "nothing is executed twice"
        assert len(host.answers) == 5


@bounded(60)
async def test_requests_written_while_there_is_no_daemon_are_answered_later() -> None:
    async with daemon(fake("s")) as d:
        host = await d.connected("s")
        await host.call("echo")
        await d.kill()
        calls = [host.post_call("echo", value=number) for number in range(20)]
        for number, call in enumerate(calls):
            answer = await host.answer_of(call, timeout=BACK)
            assert answer.error is not None or answer.text == str(number)
        sent = [event["params"]["arguments"] for event in d.journal("s").calls()]
        executed = [arguments["value"] for arguments in sent if arguments]
        assert len(set(executed)) == len(executed)


@bounded(90)
async def test_subscriptions_and_levels_come_back() -> None:
    async with daemon(fake("s")) as d:
        a, b = await d.connected("s"), await d.connected("s")
        await a.request("resources/subscribe", {"uri": "res://r1"})
        await a.request("logging/setLevel", {"level": "critical"})
        await b.request("logging/setLevel", {"level": "emergency"})
        await d.kill()
        await b.call("echo", timeout=BACK)
        await a.call("echo", timeout=BACK)
        run = d.journal("s").runs()[-1]
        await d.journal("s").wait(lambda j: j.requests("resources/subscribe", run), BACK)
        await b.call("touch", uri="res://r1")
        await a.wait(lambda: "res://r1" in [f.params["uri"] for f in a.notes_of("notifications/resources/updated")])
        assert b.notes_of("notifications/resources/updated") == []
        assert [e["params"]["level"] for e in d.journal("s").requests("logging/setLevel", run)] == ["critical"]


@bounded(120)
async def test_restarts_in_a_row_leave_nothing_in_the_shim() -> None:
    async with daemon(fake("s")) as d:
        host = await d.connected("s")
        sizes = []
        for number in range(5):
            assert (await host.call("echo", value=number, timeout=BACK)).text == str(number)
            sizes.append((len(probe.fd_table(host.pid)), len(probe.children(host.pid)), probe.private(host.pid)))
            await d.kill()
        assert (await host.call("echo", value="end", timeout=BACK)).text == "end"
        assert len({size[:2] for size in sizes}) == 1, sizes
        assert max(size[2] for size in sizes) <= 300 * 1024, "private memory of a waiting shim"


@bounded(60)
async def test_an_orderly_end_is_an_end() -> None:
    async with daemon(fake("s")) as d:
        host = await d.connected("s")
        await host.call("echo")
        await d.control("down")
        assert await host.exit_status() == 0
        await asyncio.sleep(0.5)
        await probe.nothing_left(d.marks)


@bounded(60)
async def test_a_host_that_ends_while_there_is_no_daemon() -> None:
    async with daemon(fake("s")) as d:
        host = await d.connected("s")
        await host.call("echo")
        await d.kill()
        host.close_stdin()
        assert await host.exit_status(BACK) == 0


@pytest.mark.parametrize("hasty", [False, True])
@bounded(90)
async def test_a_handshake_that_is_open_is_answered_by_the_next_daemon(hasty: bool) -> None:
    slow: dict[str, Any] = {"init_delay": 2000, "strict_init": True, "strict_order": True}
    async with daemon(fake("s", scripts=[slow, slow, {}], **slow)) as d:
        host = d.host("s")
        greeting = host.post("initialize", hello())
        if hasty:
            host.notify("notifications/initialized")
        await d.journal("s").wait(lambda j: j.requests("initialize"), 20)
        await d.kill()
        await d.journal("s").wait(lambda j: len(j.requests("initialize")) == 2, 20)
        await d.kill()
        answer = await host.answer_of(greeting, timeout=30)
        assert answer.error is None, answer.error
        if not hasty:
            host.notify("notifications/initialized")
        assert (await host.call("echo", value="on", timeout=BACK)).text == "on"
        assert len(host.answers) == 2
