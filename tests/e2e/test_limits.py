"""Limits of servers that a daemon runs: what keeps each of them, what an excess says, and that nobody else feels it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import tomli_w

from supervisord_mcp import systemd
from supervisord_mcp.runtimes import hierarchy
from tests.kit.bounded import bounded
from tests.kit.daemon import RUN, START, Daemon, daemon
from tests.kit.required import as_root, need
from tests.kit.stranger import stranger

pytestmark = [pytest.mark.bwrap, pytest.mark.slow]

LIMITS = {"memory": "64M", "pids": 40, "cpu": 0.5, "nofile": 200}
#: How a daemon is run that sees no control groups, as in most containers.
HIDDEN = ("unshare", "--mount", "/bin/sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh")
#: More than the limit, and less than what a process without a group is refused; the watcher has time to look.
HOG = "(b'x' * (100 << 20), __import__('time').sleep(60))"
#: How often it can fork; each child lives until the server ends.
FORKS = """(lambda os, time: [(time.sleep(60), os._exit(0)) if os.fork() == 0 else number for number in range(60)])(
    __import__('os'), __import__('time'))"""
#: The part of a processor that two seconds of work get; nothing piles up meanwhile.
SPIN = """(lambda t: (lambda begun, used: (any(None for _ in iter(lambda: t.monotonic() < begun + 2, False)),
    (t.process_time() - used) / (t.monotonic() - begun))[1])(t.monotonic(), t.process_time()))(__import__('time'))"""


@asynccontextmanager
async def limited(*command: str) -> AsyncIterator[Daemon]:
    """Run a daemon with a server within limits and a neighbour of it."""
    async with daemon(start=False) as d:
        d.write_config(tomli_w.dumps({"servers": {"s": stranger(limits=LIMITS), "neighbour": stranger()}}))
        await d.start(args=[*command, *RUN])
        yield d


async def means(d: Daemon) -> dict[str, str]:
    """Return by what each limit of the server is enforced, as status says."""
    [instance] = await d.instances("s")
    return dict(limit.split(" ", 1) for limit in instance["limits"])


async def excess(d: Daemon, expression: str, said: str) -> None:
    """Let the server take too much: it ends and says of what, and neither its neighbour nor the daemon notice."""
    pid = await d.pid()
    neighbour = await d.connected("neighbour")
    host = await d.connected("s")
    assert (await host.call("evaluate", text="6 * 7", timeout=START)).text == "42"
    assert (await neighbour.call("evaluate", text="__import__('os').getpid()", timeout=START)).text
    [before] = await d.instances("neighbour")
    answer = await host.call("evaluate", text=expression, timeout=START)
    assert answer.error is not None, answer
    assert said in answer.error["message"]
    assert said in (await d.until("s", lambda found: found["last_error"], "error", START))["last_error"]
    assert (await neighbour.call("evaluate", text="6 * 7", timeout=START)).text == "42"
    [after] = await d.instances("neighbour")
    assert (after["pid"], after["generation"]) == (before["pid"], before["generation"])
    assert await d.pid() == pid


async def _in_groups(d: Daemon, version: int) -> None:
    host = await d.connected("s")
    assert (await host.call("evaluate", text="6 * 7", timeout=START)).text == "42"
    kind = f"by cgroup v{version}"
    assert await means(d) | {"memory": f"64M {kind}", "pids": f"40 {kind}", "cpu": f"0.5 {kind}"} == await means(d)
    assert (await means(d))["nofile"] == "200 by rlimit"
    assert float((await host.call("evaluate", text=SPIN, timeout=START)).text) < 0.75
    answer = await host.call("evaluate", text=FORKS, timeout=START)
    assert "BlockingIOError" in answer.text
    await excess(d, HOG, "memory limit 64M")


@bounded(180)
async def test_control_groups_keep_limits() -> None:
    found = hierarchy.detect()
    whole = found is not None and len(found.controllers) == 3
    need(whole or systemd.find_bus(os.environ), "control groups that may be made")
    async with limited() as d:
        await _in_groups(d, found.version if found is not None else 2)


@as_root
@bounded(180)
async def test_without_control_groups_others_keep_them() -> None:
    async with limited(*HIDDEN) as d:
        host = await d.connected("s")
        assert (await host.call("evaluate", text="6 * 7", timeout=START)).text == "42"
        assert await means(d) | {
            "memory": "64M by watcher",
            "pids": "40 by rlimit",
            "cpu": "0.5 by watcher",
            "nofile": "200 by rlimit",
            "core": "0 by rlimit",
        } == await means(d)
        spaces = await host.call("evaluate", text="__import__('resource').getrlimit(9)", timeout=START)
        assert spaces.text == "(-1, -1)", "address space is never limited"
        assert "BlockingIOError" in (await host.call("evaluate", text=FORKS, timeout=START)).text
        await excess(d, HOG, "memory limit 64M")
