"""Case 14 (c): a daemon without file descriptors does not spin, does not fill its log, and serves again when it can."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
from pathlib import Path

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import Daemon, bare, daemon

CLIENTS, LEFT = 40, 8
#: How often a daemon that has nothing to do may wake up in a second: its look around is every five.
WAKES = 20


def wakes(pid: int) -> int:
    """Return how often a process has gone to sleep so far; one that spins does so, or burns its whole slice."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def warnings(d: Daemon) -> list[str]:
    return [line for line in (d.home / "daemon.err").read_text().splitlines() if "WARNING" in line or "ERROR" in line]


async def said(client: socket.socket) -> str:
    """Return what the daemon said to a client, or nothing if it waits for its greeting."""
    try:
        return (await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 4096), 1.0)).decode()
    except TimeoutError:
        return ""


@bounded(60)
async def test_forty_who_come_while_there_is_room_for_eight() -> None:
    async with daemon(bare("s")) as d:
        host = await d.connected("s")
        await host.call("echo")
        pid = await d.pid()
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        limit = max(probe.fd_table(pid)) + 1 + LEFT
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, hard))
        clients = [socket.socket(socket.AF_UNIX) for _ in range(CLIENTS)]
        try:
            for client in clients:
                client.setblocking(False)
                await asyncio.get_running_loop().sock_connect(client, str(d.socket))
            told = [text for text in await asyncio.gather(*map(said, clients)) if text]
            assert len(told) >= CLIENTS - 2 * LEFT
            assert all("no file descriptors left" in text for text in told)
            before = wakes(pid)
            await asyncio.sleep(1)
            assert wakes(pid) - before <= WAKES, "it waits, and does not try again and again"
            assert (await host.call("echo", value="still here")).text == "still here"
            lines = [line for line in warnings(d) if "cannot be measured" not in line]  # which says it for itself
            assert len(lines) <= 2, "one line says it, whoever comes"
            assert sum("refused a connection" in line for line in lines) == 1
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
            late = await d.connected("s")
            assert (await late.call("echo", value="late")).text == "late"
        finally:
            for client in clients:
                client.close()
        assert json.dumps(await d.status()), "and so does the control socket"
