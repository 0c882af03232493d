"""Case 21 in the long run: a server ends when it is idle, and comes back after an exit as configured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisord_mcp.runtimes.base import ExitStatus
from tests.kit.estate import estate
from tests.kit.fruntime import FakeRuntime, Script
from tests.kit.virtual import virtual

#: Its era is known, so no start is spent on the question for it.
PLAIN: Mapping[str, Any] = {"command": ["/bin/true"], "runtime": "bare", "era": "legacy"}
DAY = 24 * 3600.0
#: The idle time-out of a server that is started on demand.
IDLE = 600.0


@virtual(DAY)
async def test_an_idle_server_ends_after_ten_minutes_and_the_next_call_starts_it(tmp_path: Path) -> None:
    runtime = FakeRuntime()
    async with estate(tmp_path, {"s": PLAIN}, runtimes={"bare": runtime}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        for _ in range(20):
            await anyio.sleep(IDLE - 10)
            await guest.call("echo")
        assert len(runtime.launches) == 1, "who is used is not idle"
        await anyio.sleep(IDLE - 1)
        assert one.instance("s").state == "RUNNING"
        await anyio.sleep(IDLE / 300)
        assert (one.instance("s").state, runtime.living) == ("STOPPED", [])
        await anyio.sleep(3600)
        assert len(runtime.launches) == 1
        assert "result" in await guest.call("echo")
        assert (len(runtime.launches), one.instance("s").restarts) == (2, 0)


@virtual(DAY)
async def test_an_eager_server_is_never_idle(tmp_path: Path) -> None:
    runtime = FakeRuntime()
    async with estate(tmp_path, {"s": {**PLAIN, "start": "eager"}}, runtimes={"bare": runtime}) as one:
        one.supervisor.start_eager(["s"])
        await anyio.sleep(DAY / 2)
        assert (one.instance("s").state, len(runtime.launches)) == ("RUNNING", 1)


@pytest.mark.parametrize(
    ("restart", "code", "state", "starts"),
    [
        ("always", 0, "RUNNING", 2),
        ("always", 1, "RUNNING", 2),
        ("on-failure", 0, "EXITED", 1),
        ("on-failure", 1, "RUNNING", 2),
        ("never", 0, "EXITED", 1),
        ("never", 1, "EXITED", 1),
    ],
)
@virtual(DAY)
async def test_what_follows_an_exit_is_configured(
    restart: str, code: int, state: str, starts: int, tmp_path: Path
) -> None:
    runtime = FakeRuntime()
    async with estate(tmp_path, {"s": {**PLAIN, "restart": restart}}, runtimes={"bare": runtime}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        await anyio.sleep(300)
        runtime.living[0].exit(ExitStatus(code=code))
        await anyio.sleep(60)
        assert (one.instance("s").state, len(runtime.launches)) == (state, starts)
        assert "result" in await guest.call("echo"), "whoever needs it gets it"
        assert len(runtime.launches) == 2


@virtual(DAY)
async def test_the_steps_of_a_stop_have_their_grace(tmp_path: Path) -> None:
    runtime = FakeRuntime()
    runtime.script = lambda _: Script(deaf=2)
    async with estate(tmp_path, {"s": {**PLAIN, "stop_grace": "7s"}}, runtimes={"bare": runtime}) as one:
        await one.supervisor.start(["s"])
        begin = anyio.current_time()
        await one.supervisor.stop(["s"])
        assert round(anyio.current_time() - begin, 2) == 14.0, "end of input, SIGTERM, and then SIGKILL"
        assert runtime.living == []
