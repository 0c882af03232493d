"""Case 5: cancel."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.kit.bounded import bounded
from tests.kit.daemon import daemon, fake
from tests.kit.fhost import hello
from tests.kit.journal import Journal

pytestmark = pytest.mark.bwrap


def cancelled(journal: Journal) -> list[int]:
    """Return the upstream ids that were cancelled so far."""
    return [event["params"]["requestId"] for event in journal.notes("notifications/cancelled")]


@bounded(60)
async def test_a_cancel_reaches_the_call_of_its_own_host_only() -> None:
    async with daemon(fake("s", answer_after_cancel=True)) as d:
        a, b = await d.connected("s"), await d.connected("s")
        journal = d.journal("s")
        a.post_call("slow", id=101, seconds=10)
        await journal.wait(lambda j: len(j.calls("slow")) == 1)
        of_b = b.post_call("slow", id=101, seconds=1.5)
        await journal.wait(lambda j: len(j.calls("slow")) == 2)
        upstream = journal.calls("slow")[0]["id"]

        sent = time.monotonic()
        a.cancel(101, "enough")
        await journal.wait(cancelled)
        assert cancelled(journal) == [upstream]
        assert journal.notes("notifications/cancelled")[0]["at"] - sent < 0.5
        assert (await b.answer_of(of_b)).text == "slow"

        a.post_call("deaf", id=101, seconds=0.5)
        await journal.wait(lambda j: j.calls("deaf"))
        a.cancel(101)
        assert (await a.call("echo", id=101, value="new")).text == "new"
        await asyncio.sleep(0.7)
        assert (await a.request("ping")).result == {}
        assert len(a.answers_to("101")) == 1, "no answer of a cancelled call arrives, under whatever id"


@bounded(60)
async def test_a_host_that_leaves_cancels_what_it_waits_for() -> None:
    async with daemon(fake("s")) as d:
        a, b = await d.connected("s"), await d.connected("s")
        journal = d.journal("s")
        a.post_call("slow", seconds=30)
        a.post_call("deaf", seconds=30)
        await journal.wait(lambda j: len(j.calls()) == 2)
        a.close_stdin()
        assert await a.exit_status() == 0
        await journal.wait(lambda j: len(cancelled(j)) == 2)
        assert sorted(cancelled(journal)) == sorted(event["id"] for event in journal.calls())

        c = await d.connected("s")
        c.post_call("slow", seconds=30)
        await journal.wait(lambda j: len(j.calls()) == 3)
        c.kill()
        await journal.wait(lambda j: len(cancelled(j)) == 3)
        assert (await b.call("echo", value="b")).text == "b"


@bounded(60)
async def test_cancels_of_nothing_and_of_initialize_go_nowhere() -> None:
    async with daemon(fake("s", init_delay=500)) as d:
        host = d.host("s")
        answer = host.post("initialize", hello(), id=0)
        host.notify("notifications/cancelled", {"requestId": 0})
        assert (await host.answer_of(answer, timeout=20)).result
        host.notify("notifications/initialized")
        for nothing in (99, "0", 0, None, {"a": 1}):
            host.notify("notifications/cancelled", {"requestId": nothing})
        host.notify("notifications/cancelled")
        assert (await host.call("echo", value="fine")).text == "fine"
        assert cancelled(d.journal("s")) == []
