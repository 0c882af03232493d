"""Case 4: order of the first messages, and errors on the way back."""

from __future__ import annotations

import asyncio

import pytest

from tests.kit.bounded import bounded
from tests.kit.daemon import Daemon, daemon, fake
from tests.kit.fhost import Host, hello, line

pytestmark = pytest.mark.bwrap
LISTS = ("tools/list", "resources/list", "prompts/list")


def opening(calls: int = 20) -> bytes:
    """Return everything a host may write at once: the handshake, the lists and some calls."""
    lines = [line("initialize", hello(), "0"), line("notifications/initialized")]
    lines += [line(method, {}, str(number)) for number, method in enumerate(LISTS, 1)]
    for number in range(10, 10 + calls):
        lines.append(line("tools/call", {"name": "echo", "arguments": {"value": number}}, str(number)))
    return "\n".join(lines).encode() + b"\n"


async def check(host: Host, calls: int = 20) -> None:
    """Wait for one result for each request of the opening."""
    wanted = {str(number) for number in [*range(4), *range(10, 10 + calls)]}
    await host.wait(lambda: {frame.id for frame in host.answers} == wanted, "all answers", 20)
    assert len(host.answers) == len(wanted)
    for frame in host.answers:
        assert frame.result is not None


def reached(d: Daemon) -> list[int]:
    """Return the values of the echo calls in the order in which they reached the server."""
    return [event["params"]["arguments"]["value"] for event in d.journal("s").calls("echo")]


@pytest.mark.parametrize("pieces", [1, 7])
@bounded(60)
async def test_all_in_one_write_before_the_daemon_is_up(pieces: int) -> None:
    async with daemon(fake("s", strict_order=True), start=False) as d:
        host = d.host("s")
        data = opening()
        size = len(data) // pieces + 1
        for at in range(0, len(data), size):
            host.raw(data[at : at + size])
            await asyncio.sleep(0.05 if pieces > 1 else 0)
        await check(host)
        assert reached(d) == list(range(10, 30))
        events = d.journal("s").events("in")
        # The daemon asks for the era first; what hosts said waits for the end of that.
        methods = ["server/discover", "initialize", "notifications/initialized"]
        assert [event.get("method") for event in events[:3]] == methods


@bounded(60)
async def test_order_is_kept_for_many_hosts_that_open_at_once() -> None:
    async with daemon(fake("s", strict_order=True)) as d:
        hosts = [d.host("s") for _ in range(6)]
        for host in hosts:
            host.raw(opening())
        await asyncio.gather(*map(check, hosts))
        values = reached(d)
        assert sorted(values) == sorted([*range(10, 30)] * 6)


@bounded(40)
async def test_an_error_of_a_list_reaches_the_host_unchanged() -> None:
    error = {"code": -32055, "message": "no lists – today", "data": {"why": ["é", 1e300]}}
    async with daemon(fake("s", list_error=error)) as d:
        host = await d.connected("s")
        for method in LISTS:
            assert (await host.request(method)).error == error
        assert (await host.call("echo", value="fine")).text == "fine"


@bounded(40)
async def test_a_thousand_notifications_before_the_first_answer() -> None:
    async with daemon(fake("s", log_before_init=1000)) as d:
        host = d.host("s")
        host.raw(opening(5))
        await check(host, 5)
