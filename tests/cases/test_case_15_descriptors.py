"""Case 15: file descriptors that travel."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import RUN, Daemon, bare, daemon, shim

SERVERS = 5
SYSTEMD = ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "INVOCATION_ID")


async def check(d: Daemon) -> None:
    """Start the servers at the same time and look at their descriptors, variables and ends of file."""
    names = sorted(d.fakes)
    hosts = await asyncio.gather(*(d.connected(name) for name in names))
    variables = await asyncio.gather(*(host.call("env") for host in hosts))
    for name, env in zip(names, variables, strict=True):
        assert d.journal(name).events("started")[0]["fds"] == [0, 1, 2], name
        assert not set(SYSTEMD) & set(env.value["env"])
        assert "SMCP_HOME" not in env.value["env"], "nothing of the daemon's environment"
    pids = [(await d.instances(name))[0]["pid"] for name in names]
    pipes = [probe.fd_table(pid) for pid in pids]
    ends = [table[fd] for table in pipes for fd in (0, 1, 2)]
    assert len(set(ends)) == len(ends), "no end is shared"
    await d.control("stop", names=[names[0]])
    assert len(d.journal(names[0]).events("eof")) == 1
    await asyncio.sleep(0.1)
    for name, host in zip(names[1:], hosts[1:], strict=True):
        assert d.journal(name).events("eof") == []
        assert (await host.call("echo", value=name)).text == name


def close_standard() -> None:
    """Leave the daemon without descriptors 0 to 2."""
    os.closerange(0, 3)


def open_many() -> None:
    """Leave the daemon with many inheritable descriptors."""
    for _ in range(18):
        os.set_inheritable(os.dup2(os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_RDONLY)), True)


WAYS: dict[str, dict[str, Any]] = {
    "normally": {},
    "without 0 to 2": {"preexec_fn": close_standard},
    "with many open": {"preexec_fn": open_many, "close_fds": False},
}


@pytest.mark.filterwarnings("ignore:.*preexec_fn.*:DeprecationWarning")
@pytest.mark.parametrize("way", WAYS)
@bounded(60)
async def test_each_server_has_its_three_pipes_and_nothing_else(way: str) -> None:
    async with daemon(*(bare(f"s{n}") for n in range(SERVERS)), **WAYS[way]) as d:
        await check(d)


@bounded(60)
async def test_activation_stays_with_the_daemon() -> None:
    async with daemon(*(bare(f"s{n}") for n in range(SERVERS)), start=False) as d:
        (d.home / "run").mkdir(mode=0o700)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(d.socket))
            listener.listen()
            activated = listener.fileno()

            def as_systemd() -> None:
                os.dup2(activated, 3)

            more = {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "smcp", "INVOCATION_ID": "i", "NOTIFY_SOCKET": "@nobody"}
            await started(d, as_systemd, more)
            await check(d)


async def started(d: Daemon, prepare: Callable[[], None], more: dict[str, str]) -> None:
    """Start the daemon through a shell that tells it its own pid, as systemd does."""
    argv = ["/bin/sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh", *RUN]
    await d.start(args=argv, env=d.env | more, preexec_fn=prepare, close_fds=False)


@bounded(60)
async def test_the_exit_is_reported_while_a_background_child_holds_stdout() -> None:
    async with daemon(bare("s", spawn_child="holds_stdout", child_ignores_term=True), bare("other")) as d:
        host, other = await d.connected("s"), await d.connected("other")
        await other.call("echo")
        answer = await host.call("crash", code=4, timeout=3)
        assert answer.error is not None
        assert "exit 4" in str(answer.error)
        assert (await other.call("echo", value="fine")).text == "fine"


@bounded(60)
async def test_a_shell_with_the_shim_sees_the_end_of_its_output() -> None:
    async with daemon(bare("s"), start=False) as d:
        argv = shim("s")
        done = await asyncio.to_thread(
            subprocess.run, argv, input=b"", capture_output=True, env=d.env, cwd=d.user, timeout=20, check=False
        )
        assert (done.returncode, done.stdout) == (0, b"")
