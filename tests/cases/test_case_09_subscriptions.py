"""Case 9: subscriptions and list changes."""

from __future__ import annotations

import asyncio

import pytest

from tests.kit.bounded import bounded
from tests.kit.daemon import Daemon, daemon, fake
from tests.kit.fhost import Host

pytestmark = pytest.mark.bwrap
R1, R2 = "res://r1", "res://r2"


def updates(host: Host) -> list[str]:
    """Return the resources of the updates that a host got."""
    return [frame.params["uri"] for frame in host.notes_of("notifications/resources/updated")]


async def touch(by: Host, *uris: str, sub: str = "") -> None:
    """Touch resources, and give what follows from it time to arrive everywhere."""
    for uri in uris:
        await by.call("touch", uri=uri, sub=sub)
    await asyncio.sleep(0.05)


def upstream(d: Daemon, run: str | None = None) -> list[tuple[str, str]]:
    """Return the subscribes and unsubscribes that reached the server."""
    events = d.journal("s").requests(run=run)
    return [(e["method"].split("/")[1], e["params"]["uri"]) for e in events if "subscribe" in e["method"]]


@bounded(60)
async def test_updates_go_to_subscribers_and_only_to_them() -> None:
    async with daemon(fake("s")) as d:
        a, b, c = [await d.connected("s") for _ in range(3)]
        for host, uri in ((a, R1), (a, R1), (b, R1), (b, R2)):
            assert (await host.request("resources/subscribe", {"uri": uri})).result == {}
        assert upstream(d) == [("subscribe", R1), ("subscribe", R2)]
        await touch(c, R1, R2)
        assert (updates(a), sorted(updates(b)), updates(c)) == ([R1], [R1, R2], [])
        await touch(c, R1, sub="/part")
        assert updates(a)[-1] == updates(b)[-1] == f"{R1}/part", "a part of the resource is an update of it"

        assert (await a.request("resources/unsubscribe", {"uri": R1})).result == {}
        await touch(c, R1)
        assert (len(updates(a)), len(updates(b))) == (2, 4)
        assert len(upstream(d)) == 2, "b still holds it"

        b.close_stdin()
        assert await b.exit_status() == 0
        await d.journal("s").wait(lambda _: len(upstream(d)) == 4)
        assert sorted(upstream(d)[2:]) == [("unsubscribe", R1), ("unsubscribe", R2)]
        await touch(c, R1, R2)
        assert len(updates(a)) == 2
        assert updates(c) == []


@bounded(60)
async def test_subscriptions_and_levels_survive_a_restart() -> None:
    async with daemon(fake("s")) as d:
        a, b = await d.connected("s"), await d.connected("s")
        await a.request("resources/subscribe", {"uri": R1})
        await a.request("logging/setLevel", {"level": "warning"})
        await b.request("logging/setLevel", {"level": "error"})
        assert (await b.call("crash", code=3)).error is not None
        assert (await b.call("echo", value="back")).text == "back"
        first, second = d.journal("s").runs()
        assert first != second
        await d.journal("s").wait(lambda _: upstream(d, second) == [("subscribe", R1)], what="the subscription again")
        levels = [e["params"]["level"] for e in d.journal("s").requests("logging/setLevel", second)]
        assert levels == ["warning"]
        await touch(b, R1)
        assert (R1 in updates(a), updates(b)) == (True, [])


@bounded(60)
async def test_each_host_that_saw_the_old_list_is_told_once() -> None:
    changed = "notifications/tools/list_changed"
    async with daemon(fake("s", list_pages=2)) as d:
        a, b = await d.connected("s"), await d.connected("s")
        for host in (a, b):
            await host.request("tools/list")
        await a.call("change_tools")
        await b.note(changed)
        late = await d.connected("s")
        await asyncio.sleep(0.3)
        assert [len(host.notes_of(changed)) for host in (a, b, late)] == [1, 1, 0]
        for host in (a, b, late):
            first = (await host.request("tools/list")).result
            second = (await host.request("tools/list", {"cursor": first["nextCursor"]})).result
            names = [tool["name"] for tool in first["tools"] + second["tools"]]
            assert (len(names), names[-1]) == (17, "extra0")
            assert "nextCursor" not in second
        await a.call("change_tools")
        for host in (a, b, late):
            await host.wait(lambda: host.notes_of(changed)[-1:], changed)  # noqa: B023
        await asyncio.sleep(0.2)
        assert [len(host.notes_of(changed)) for host in (a, b, late)] == [2, 2, 1]


@bounded(60)
async def test_after_a_restart_only_a_real_change_is_announced() -> None:
    changed = "notifications/tools/list_changed"
    async with daemon(fake("s", scripts=[{}, {}, {"tools_extra": 1}])) as d:
        host = await d.connected("s")
        await host.request("tools/list")
        await host.call("crash", code=3)
        assert (await host.call("echo", value=2)).text == "2"
        await asyncio.sleep(0.3)
        assert host.notes_of(changed) == []
        await host.call("crash", code=3)
        assert (await host.call("echo", value=3)).text == "3"
        await host.note(changed)
        names = [tool["name"] for tool in (await host.request("tools/list")).result["tools"]]
        assert names[-1] == "extra0"
        assert [len(host.notes_of(f"notifications/{kind}/list_changed")) for kind in ("prompts", "resources")] == [0, 0]
