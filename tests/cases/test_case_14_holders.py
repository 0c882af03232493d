"""Case 14 (a): an exit is seen although a grandchild holds a pipe, or much output is unread."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import bare, daemon


@pytest.mark.parametrize("kind", ["holds_stdout", "setsid"])
@bounded(40)
async def test_the_exit_is_seen_while_a_grandchild_holds_stdout(kind: str) -> None:
    async with daemon(bare("s", spawn_child=kind, child_ignores_term=True)) as d:
        host = await d.connected("s")
        await host.call("echo")
        first = (await d.instances("s"))[0]
        call = host.post_call("slow", seconds=30)
        await d.journal("s").wait(lambda j: j.calls("slow"))
        begin = time.monotonic()
        os.kill(first["pid"], signal.SIGKILL)
        answer = await host.answer_of(call, timeout=5)
        assert time.monotonic() - begin < 1.0
        assert answer.error is not None
        assert answer.error["code"] == -32603
        assert (await host.call("echo", value="again")).text == "again"
        second = (await d.instances("s"))[0]
        assert (second["generation"] > first["generation"], second["pid"] != first["pid"]) == (True, True)
        await asyncio.sleep(0.1)
        old = d.journal("s").runs()[0]
        left = [process for process in probe.find([d.marker]) if "fserver" in process.cmdline]
        assert len(left) <= 2, f"the tree of the first process ({old}) is gone: {left}"


@bounded(40)
async def test_the_exit_is_seen_while_much_output_is_unread() -> None:
    async with daemon(bare("s"), settings={"max_message": "1M", "client_buffer": "64K"}) as d:
        host = await d.connected("s")
        await host.call("echo")
        pid = (await d.instances("s"))[0]["pid"]
        host.stop_read()
        host.post_call("flood", bytes=1 << 20, kind="log")
        host.post_call("crash", code=7)
        await d.journal("s").wait(lambda j: [e for e in j.events("leaving") if e["why"] == "crash"])
        await d.until("s", lambda found: found["restarts"] >= 1 or found["last_error"], "the exit", 3)
        assert not probe.alive(pid)
        assert "exit 7" in str((await d.server("s"))["last_error"])


@bounded(60)
async def test_exit_codes_are_not_lost() -> None:
    budget = {"budget": {"restarts": 50}, "backoff": {"first": "10ms", "most": "10ms"}}
    async with daemon(bare("s", entry=budget)) as d:
        host = await d.connected("s")
        for number in range(1, 21):
            answer = await host.call("crash", code=number)
            assert answer.error is not None
            assert f"exit {number}" in str(answer.error), host.show()
