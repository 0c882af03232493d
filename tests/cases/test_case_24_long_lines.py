"""Case 24: long lines."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import daemon, fake
from tests.kit.effort import effort
from tests.kit.fhost import Frame, Host

pytestmark = pytest.mark.bwrap
MIB = 1 << 20
SETTINGS = {"max_message": "1M"}
#: How long a line without end is, in bytes.
ENDLESS = effort(64, 1024) * MIB
SIZES = [65_535, 65_536, 65_537, 131_072, MIB]


def intact(answer: Frame) -> bool:
    """Whether a long answer is the pattern that the server sent, to the last byte."""
    text = answer.text
    return text == ("0123456789abcdef" * (len(text) // 16 + 1))[: len(text)]


@pytest.mark.parametrize("newline", ["same", "later"])
@bounded(60)
async def test_lines_up_to_the_limit_arrive_whole(newline: str) -> None:
    async with daemon(fake("s"), settings=SETTINGS) as d:
        host = await d.connected("s")
        await host.request("logging/setLevel", {"level": "debug"})
        for size in SIZES:
            answer = await host.call("big", bytes=size, newline=newline, then=True)
            sent = [event for event in d.journal("s").events("out") if event.get("size") == size][-1]
            assert intact(answer)
            around = len(json.dumps({"jsonrpc": "2.0", "id": sent["id"], "result": {}}))
            assert len(answer.parts["result"]) == size - around + 2, "the result has its very bytes"
        for answer in await asyncio.gather(*(host.call("big", bytes=100_000) for _ in range(10))):
            assert intact(answer)


@pytest.mark.parametrize("newline", ["same", "later"])
@pytest.mark.parametrize("size", [MIB + 1, 5 * MIB])
@bounded(60)
async def test_a_longer_line_costs_one_error_and_not_the_stream(size: int, newline: str) -> None:
    async with daemon(fake("s"), settings=SETTINGS) as d:
        host, other = await d.connected("s"), await d.connected("s")
        waiting = other.post_call("echo", value="other", delay=0.5)
        failed = await host.call("big", bytes=size, newline=newline, then=True)
        assert failed.error is not None
        assert "max_message" in failed.error["message"]
        assert (await host.call("echo", value="next")).text == "next"
        assert (await other.answer_of(waiting)).text == "other"
        assert len(d.journal("s").runs()) == 1


@bounded(60)
async def test_the_tail_of_a_long_line_is_not_a_message() -> None:
    async with daemon(fake("s"), settings=SETTINGS) as d:
        host = await d.connected("s")
        waiting = host.post_call("slow", seconds=1)
        await d.journal("s").wait(lambda j: j.calls("slow"))
        upstream = d.journal("s").calls("slow")[0]["id"]
        trap = f',"id":{upstream},"result":{{"content":[{{"type":"text","text":"trap"}}]}}}}'
        head = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"' + "x" * (2 * MIB)
        await host.call("emit", data=head + '"}' + trap + "\n")
        await host.call("emit", data="y" * (2 * MIB) + '{"jsonrpc":"2.0"' + trap + "\n")
        answer = await host.answer_of(waiting)
        assert answer.error is not None or answer.text == "slow"
        assert len(host.answers_to(str(answer.id))) == 1


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@bounded(effort(60, 300))
async def test_a_line_without_end_costs_no_memory(stream: str) -> None:
    async with daemon(fake("s"), settings=SETTINGS) as d:
        host, other = await d.connected("s"), await d.connected("s")
        await host.call("echo")
        before = probe.rss(await d.pid())
        if stream == "stderr":
            await host.call("stderr", bytes=ENDLESS, newline=False, timeout=effort(30, 200))
        else:
            host.post_call("big", id=5, bytes=ENDLESS, newline="never")
            await d.journal("s").wait(lambda j: any(e.get("size") == ENDLESS for e in j.events("out")), effort(30, 200))
        begin = time.monotonic()
        assert (await other.request("ping")).result == {}
        assert time.monotonic() - begin < 1
        assert probe.rss(await d.pid()) - before < 16 * MIB
        await host.call("emit", data="\n")
        assert (await other.call("echo", value="fine")).text == "fine"


@bounded(60)
async def test_a_whole_message_without_newline_at_the_end_arrives() -> None:
    async with daemon(fake("s"), settings=SETTINGS) as d:
        host = await d.connected("s")
        last = '{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":"last"}]}}'
        call = host.post_call("emit", data=last, answer=False)
        await d.journal("s").wait(lambda j: j.calls("emit"))
        await host.call("crash", code=0)
        assert (await host.answer_of(call)).text == "last"
        half = host.post_call("emit", data=last[:-10], answer=False)
        await d.journal("s").wait(lambda j: len(j.calls("emit")) == 2)
        await host.call("crash", code=0)
        assert (await host.answer_of(half)).error is not None
        assert host.garbage == []


async def send_long(host: Host, size: int) -> Frame:
    """Send a call whose line has exactly so many bytes, and return the answer."""
    head = '{"jsonrpc":"2.0","id":"long","method":"tools/call","params":{"name":"echo","arguments":{"value":"'
    tail = '"}}}'
    future = host.expect('"long"')
    host.send(head + "p" * (size - len(head) - len(tail)) + tail)
    return await host.answer_of(future)


@bounded(60)
async def test_long_lines_of_a_host() -> None:
    async with daemon(fake("s"), settings=SETTINGS) as d:
        host = await d.connected("s")
        for size in (65_535, 65_536, 65_537, 500_000, MIB):
            answer = await send_long(host, size)
            assert set(answer.text) == {"p"}
        failed = await send_long(host, MIB + 1)
        assert failed.error is not None
        assert failed.error["code"] == -32600
        failed = await send_long(host, 5 * MIB)
        assert failed.error is not None
        assert (await host.call("echo", value="next")).text == "next"
        assert len(d.journal("s").calls()) == 6


@bounded(effort(60, 200))
async def test_a_line_of_the_default_limit_passes() -> None:
    async with daemon(fake("s")) as d:
        host = await d.connected("s")
        answer = await host.call("big", bytes=effort(12, 64) * MIB, timeout=effort(20, 100))
        assert intact(answer)
