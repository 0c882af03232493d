"""Case 18 (a, b): hosts that come while the daemon leaves, and many that come where none runs."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import Daemon, bare, daemon
from tests.kit.effort import effort

IDLE = 0.2
#: How long after one host the next come, in seconds: the daemon looks every 0.2 s, and ends after one or two looks.
OFFSETS = [0.1 + 0.36 * number / effort(30, 500) for number in range(effort(30, 500))]


def living(d: Daemon) -> list[int]:
    """Return the pids of the daemons of this home."""
    found = [process for process in probe.find([str(d.home)]) if "--on-demand" in process.cmdline]
    return [process.pid for process in found if process.state != "Z"]


async def visit(d: Daemon) -> int:
    """Let a host come, be answered, and go; return the pid of the daemon it met."""
    host = await d.connected("s")
    pid = await d.pid()
    host.close_stdin()
    assert await host.exit_status(20) == 0, host.show()
    return pid


@bounded(effort(150, 1200))
async def test_hosts_that_come_while_the_daemon_leaves() -> None:
    settings = {"idle_exit": f"{IDLE * 1000:.0f}ms", "reload": False}
    async with daemon(bare("s", entry={"idle_timeout": "50ms"}), settings=settings, start=False) as d:
        first = await d.connected("s")
        await first.call("echo")  # from now on the catalogue answers, and no child keeps the daemon alive
        first.close_stdin()
        await first.exit_status()
        met: set[int] = set()
        for offset in OFFSETS:
            await asyncio.sleep(offset)
            met.update(await asyncio.gather(visit(d), visit(d)))
            assert 1 <= len(living(d)) <= 2, "one, and one that is leaving"
        assert len(met) > 1, "daemons did leave"


@pytest.mark.parametrize("run", range(effort(4, 200)))
@bounded(60)
async def test_ten_hosts_where_no_daemon_runs(run: int) -> None:
    async with daemon(bare("s"), start=False) as d:
        hosts = [d.host("s", name=f"{run}.{number}") for number in range(10)]
        await asyncio.gather(*(host.handshake("2025-11-25", None, id=0, timeout=30) for host in hosts))
        answers = await asyncio.gather(*(host.call("echo", value=host.name, timeout=20) for host in hosts))
        assert [answer.text for answer in answers] == [host.name for host in hosts]
        assert living(d) == [await d.pid()]
        assert (await d.server("s"))["sessions"] == 10
        assert len(d.journal("s").runs()) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
@bounded(60)
async def test_a_signal_to_the_group_of_a_host_ends_its_session_and_nothing_else(number: signal.Signals) -> None:
    async with daemon(bare("s"), start=False) as d:
        # The first host starts the daemon, and is in the group that is interrupted, as at a terminal.
        first = await d.connected("s", own_group=True)
        await first.call("echo")
        second = await d.connected("s")
        daemon_pid, server_pid = await d.pid(), (await d.instances("s"))[0]["pid"]
        os.killpg(first.pid, number)
        await first.exit_status(20)
        await d.until("s", lambda found: found["sessions"] == 1, "one session less")
        assert (await second.call("echo", value="still here")).text == "still here"
        assert (await d.pid(), (await d.instances("s"))[0]["pid"]) == (daemon_pid, server_pid)
