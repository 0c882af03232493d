"""Case 20: changed config entry while in use."""

from __future__ import annotations

import asyncio

import pytest

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import Daemon, daemon, fake

pytestmark = pytest.mark.bwrap
#: The daemon's own watch is tested by itself; elsewhere a test says when the files are read.
BY_HAND = {"reload": False}


async def settled(d: Daemon, name: str, runs: int) -> None:
    """Wait until a server has started so often and one process of it runs."""
    await d.journal(name).wait(lambda j: len(j.runs()) == runs, what=f"{runs} starts")
    await d.in_state(name, "RUNNING")


@bounded(90)
async def test_only_what_changed_is_touched() -> None:
    s1, s2, s3 = fake("s1"), fake("s2"), fake("s3")
    async with daemon(s1, s2, s3, settings=BY_HAND) as d:
        a, b, c = [await d.connected(name) for name in ("s1", "s2", "s3")]
        for host in (a, b, c):
            await host.call("echo")
        pid = (await d.instances("s3"))[0]["pid"]
        calls = [host.post_call("slow", seconds=1.5) for host in (a, b, c)]
        for name in ("s1", "s2", "s3"):
            await d.journal(name).wait(lambda j: j.calls("slow"))

        changed = fake("s1", tools_extra=1, entry={"args": ["--changed"]})
        d.configure(s3, changed, settings=BY_HAND)
        d.write_config("# another form\n" + d.config.read_text().replace("\n\n", "\n\n\n"))
        told = await d.control("reload")
        assert (told["changed"], told["removed"], told["added"]) == (["s1"], ["s2"], [])
        for _ in range(3):
            told = await d.control("reload")
            assert (told["changed"], told["removed"], told["added"]) == ([], [], [])

        ended = await b.answer_of(calls[1])
        assert ended.error is not None
        assert "removed" in ended.error["message"]
        first = await a.answer_of(calls[0])
        assert first.error is not None or first.text == "slow"
        assert (await c.answer_of(calls[2])).text == "slow"
        assert (await d.instances("s3"))[0]["pid"] == pid
        assert [one["name"] for one in (await d.status())["servers"] if one["name"] == "s2"] == []

        assert (await a.call("echo", value="new")).text == "new"
        await a.note("notifications/tools/list_changed")
        assert c.notes == []
        await settled(d, "s1", 2)
        assert len(d.journal("s3").runs()) == 1
        assert len(d.journal("s2").runs()) == 1
        left = [process for process in probe.find([d.marker]) if f"{d.work}/s2.json" in process.cmdline]
        assert left == []


@bounded(60)
async def test_a_change_that_is_taken_back_while_it_starts() -> None:
    plain = fake("s")
    async with daemon(plain, settings=BY_HAND) as d:
        host = await d.connected("s")
        await host.call("echo")
        d.configure(fake("s", entry={"args": ["--slow"]}, init_delay=1000), settings=BY_HAND)
        await d.control("reload")
        again = host.post_call("echo", value="x")
        await asyncio.sleep(0.3)
        d.configure(plain, settings=BY_HAND)
        await d.control("reload")
        await host.answer_of(again, timeout=15)
        assert (await host.call("echo", value="end", timeout=15)).text == "end"
        assert len(await d.instances("s")) == 1
        running = [p for p in probe.find([d.marker]) if "fserver.py" in p.cmdline and "bwrap" not in p.cmdline]
        assert len(running) == 1
        assert "--slow" not in running[0].cmdline


@pytest.mark.parametrize("text", ["[servers.s\n", "[servers.s]\ncommand = 5\n", "[servers.s]\ncomand = ['x']\n", ""])
@bounded(60)
async def test_a_bad_file_keeps_everything_running(text: str) -> None:
    async with daemon(fake("s"), settings=BY_HAND) as d:
        host = await d.connected("s")
        await host.call("echo")
        if not text:
            d.config.write_bytes(b"\xff\xfe[servers]")
        else:
            d.write_config(text)
        with pytest.raises(AssertionError, match=r"config"):
            await d.control("reload")
        problems = (await d.status())["daemon"]["problems"]
        assert problems
        assert "config.toml" in problems[0]
        assert (await host.call("echo", value="still")).text == "still"
        d.configure(fake("s"), settings=BY_HAND)
        await d.control("reload")
        assert (await d.status())["daemon"]["problems"] == []
        assert len(d.journal("s").runs()) == 1


@bounded(60)
async def test_the_daemon_sees_a_save_by_itself_and_counts_a_burst_once() -> None:
    async with daemon(fake("s", entry={"start": "eager"})) as d:
        await settled(d, "s", 1)
        for number in range(6):
            d.configure(fake("s", entry={"start": "eager", "args": [f"--save={number}"]}))
            await asyncio.sleep(0.02)
        await d.journal("s").wait(lambda j: len(j.runs()) >= 2, what="a restart")
        await asyncio.sleep(0.6)
        assert len(d.journal("s").runs()) == 2, "six saves within 200 ms are one change"
        for _ in range(20):
            d.config.touch()
        d.write_config("# a comment\n" + d.config.read_text())
        await asyncio.sleep(0.6)
        await settled(d, "s", 2)
