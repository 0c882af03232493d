"""Case 21: restart storm and breaker."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.kit.bounded import bounded
from tests.kit.daemon import Daemon, daemon, fake
from tests.kit.fhost import Host, hello

pytestmark = pytest.mark.bwrap
#: Three tries in all: the first, and the two that the budget allows.
BUDGET = {"budget": {"restarts": 2, "within": "60s"}, "backoff": {"first": "100ms", "most": "400ms"}}
WHY = "cannot find module 'left-pad'"


async def burst(d: Daemon, count: int = 12) -> list[Host]:
    """Start hosts that all want the server at once, and wait until each has an answer."""
    hosts = [d.host("s") for _ in range(count)]
    answers = [host.post("initialize", hello(), id=0) for host in hosts]
    for host, answer in zip(hosts, answers, strict=True):
        await host.answer_of(answer, timeout=25)
    return hosts


@bounded(60)
async def test_a_slow_start_is_one_start() -> None:
    async with daemon(fake("s", sleep_start=700, init_delay=300, entry=BUDGET)) as d:
        hosts = await burst(d)
        assert all(host.answers[0].error is None for host in hosts)
        calls = [host.post_call("echo", value=host.name) for host in hosts for _ in range(3)]
        for call in calls:
            await hosts[0].answer_of(call)
        assert len(d.journal("s").runs()) == 1


@pytest.mark.parametrize("code", [1, 0])
@bounded(60)
async def test_an_exit_before_the_handshake_spends_the_budget_and_then_rests(code: int) -> None:
    failing: dict[str, Any] = {"exit_before_init": {"code": code, "stderr": WHY}}
    async with daemon(fake("s", entry={**BUDGET, "restart": "always"}, **failing), fake("healthy")) as d:
        good = await d.connected("healthy")
        hosts = await burst(d)
        assert all(host.answers[0].error for host in hosts)
        await d.in_state("s", "FATAL")
        journal = d.journal("s")
        starts = [event["at"] for event in journal.events("started")]
        assert len(starts) == 3
        assert starts[1] - starts[0] > 0.05
        assert starts[2] - starts[1] > 0.1, "the delay grows"

        begin = time.monotonic()
        late = (await burst(d, 3))[0].answers[0].error
        assert time.monotonic() - begin < 3
        assert late is not None
        said = str(late)
        assert WHY in said, "the last lines of stderr"
        assert f"exit {code}" in said
        assert "smcp" in said, "the remedy"
        assert len(journal.runs()) == 3, "nothing is started for later hosts"
        status = await d.server("s")
        assert WHY in status["last_error"]
        assert sum(path.stat().st_size for path in d.log_files()) < 200_000
        assert (await good.call("echo", value="fine")).text == "fine"

        d.switch("s", {})
        await d.control("start", names=["s"])
        assert (await burst(d, 1))[0].answers[0].error is None, "a person's start clears the budget"


@pytest.mark.parametrize("program", ["no-such-program-anywhere", "/etc/passwd"])
@bounded(60)
async def test_a_command_that_cannot_run_is_tried_once(program: str) -> None:
    async with daemon(fake("s", entry={**BUDGET, "command": [program]})) as d:
        hosts = await burst(d, 4)
        error = hosts[0].answers[0].error
        assert error is not None
        assert program in error["message"]
        status = await d.in_state("s", "FATAL")
        assert status["restarts"] == 0
        later = (await burst(d, 1))[0].answers[0].error
        assert later is not None
        assert program in later["message"]
        if program.startswith("no-such"):
            assert "/usr/bin" in error["message"], "the PATH that was searched"


@pytest.mark.parametrize("scope", ["global", "session"])
@bounded(60)
async def test_flapping_trips_the_breaker_and_requests_do_not_start_more(scope: str) -> None:
    entry: dict[str, Any] = {**BUDGET, "scope": scope}
    async with daemon(fake("s", exit_after={"ms": 150, "code": 1, "stderr": WHY}, entry=entry)) as d:
        host = await d.connected("s")
        end = time.monotonic() + 10
        while (await d.server("s"))["state"] != "FATAL":
            assert time.monotonic() < end
            await host.call("echo", timeout=10)
        starts = len(d.journal("s").runs())
        assert starts == 3
        for _ in range(10):
            assert (await host.call("echo", timeout=2)).error is not None
        assert len(d.journal("s").runs()) == starts


@bounded(60)
async def test_a_good_run_gives_the_budget_back() -> None:
    budget = {"budget": {"restarts": 2, "within": "1500ms"}, "backoff": {"first": "50ms", "reset_after": "1s"}}
    async with daemon(fake("s", entry=budget)) as d:
        host = await d.connected("s")
        for _ in range(4):
            assert (await host.call("crash")).error is not None
            assert (await host.call("echo", value="up")).text == "up"
            await asyncio.sleep(1.1)
        assert (await d.server("s"))["state"] == "RUNNING"


@bounded(60)
async def test_one_crash_is_not_the_end() -> None:
    async with daemon(fake("s", entry=BUDGET)) as d:
        host = await d.connected("s")
        failed = await host.call("crash", code=9, stderr=WHY)
        assert failed.error is not None
        data = failed.error["data"]
        assert (data["reason"], data["exitCode"]) == ("server_exited", 9)
        assert WHY in str(data["stderrTail"])
        assert "s" in failed.error["message"]
        begin = time.monotonic()
        assert (await host.call("echo", value="up")).text == "up"
        assert time.monotonic() - begin < 3
        assert (await d.server("s"))["restarts"] == 1


@bounded(60)
async def test_a_start_that_hangs_is_ended_and_told() -> None:
    entry = {**BUDGET, "start_timeout": "500ms", "stop_grace": "100ms", "budget": {"restarts": 1}}
    async with daemon(fake("s", init_delay=60_000, entry=entry)) as d:
        error = (await burst(d, 2))[0].answers[0].error
        assert error is not None
        assert "500ms" in error["message"] or "0.5" in error["message"]
        await d.in_state("s", "FATAL")
        assert len(d.journal("s").runs()) == 2
