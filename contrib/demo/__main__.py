"""The main job, shown: ten clients for each of three real servers, and one process per server.

Run by ``contrib/demo.sh``. With ``--thirty`` the separate servers are all started and measured instead of one of each.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TextIO

import anyio
import psutil

from contrib.demo import memory, show
from contrib.demo.hosts import Host, Seat, ask_all, connected
from contrib.demo.memory import Cost
from contrib.demo.servers import Server, build
from contrib.demo.stage import Stage, StageError, server_process
from supervisord_mcp.runtimes.bwrap import BwrapRuntime

CLIENTS = 10
#: The server that is killed.
CRASHING = "git"
#: Seconds for the daemon to notice that a server died.
NOTICE = 15.0


async def main(thirty: bool) -> int:
    """Play the demo and return its exit status; whatever happens, leave nothing behind."""
    show.title("smcp: many hosts, one sandboxed process per server")
    show.detail("This takes a minute or two; the first time longer, until the servers are downloaded.")
    show.detail("Memory is PSS: shared pages count in fair shares. The figures of shared servers include the processes")
    show.detail("of their sandboxes, and the sums also the daemon and the waiting shims.")
    show.console.print()
    stage = Stage.build()
    failed = False
    stderr_path = stage.place / "clients-stderr.log"
    with stderr_path.open("w") as stderr:
        try:
            await play(stage, stderr, thirty)
        except* Exception as group:  # noqa: BLE001 - a person sees what failed, not where in this file
            failed = True
            errors = dict.fromkeys(f"{type(error).__name__}: {error}" for error in leaves(group))
            show.failure(errors, [stderr_path, *stage.logs()])
        finally:
            stage.remove()
    return int(failed)


async def play(stage: Stage, stderr: TextIO, thirty: bool) -> None:
    """The story, in order."""
    servers, runtime = prepare(stage)
    show.step("What it costs when every host starts its own servers, as hosts do:")
    apart = {server.name: await measure_apart(stage, server, stderr, CLIENTS if thirty else 1) for server in servers}
    async with running_daemon(stage, servers, runtime):
        seats = [Seat(server, number, stage.shared(server)) for server in servers for number in range(CLIENTS)]
        show.step(f"{len(seats)} clients of the official Python SDK connect at once, {CLIENTS} to each server:")
        started = time.monotonic()
        async with connected(seats, stderr) as hosts:
            await ask_all(hosts)
            spent = time.monotonic() - started
            show.detail(
                f"{len(hosts)} sessions, {len(hosts)} different questions, {len(hosts)} right answers in {spent:.1f} s"
            )
            await show_costs(stage, servers, apart, hosts)
            await show_crash(stage, hosts)
        show.step("The clients leave and the daemon is told to go:")
    await show_nothing_left(stage)
    show.step("Next: the quick start in README.md installs smcp and connects your own hosts. It begins with")
    show.detail("pipx install .    # in this clone; or: uv tool install .")


def prepare(stage: Stage) -> tuple[list[Server], str]:
    """Say what this machine lacks, and return the servers that can be shown and the runtime to show them in."""
    stage.scratch.mkdir()
    servers = build(stage.scratch, CLIENTS)
    if len(servers) < 3:
        show.problem("Node (npx) is not installed, so the demo goes on with the two Python servers.")
    lacks = BwrapRuntime().check()
    for lack in lacks:
        show.problem(f"No sandbox here: {lack.cause}.")
        show.detail(lack.remedy)
    if lacks:
        show.problem(
            'The configuration of the demo therefore names runtime = "bare": the servers run WITHOUT a sandbox.'
        )
    return servers, "bare" if lacks else "bwrap"


async def measure_apart(stage: Stage, server: Server, stderr: TextIO, count: int) -> Cost:
    """Start a server as hosts do, once for each of some clients, use it, and return what ``CLIENTS`` of it cost."""
    before = set(memory.tree(psutil.Process().pid))
    seats = [Seat(server, number, stage.direct(server)) for number in range(count)]
    async with connected(seats, stderr) as hosts:
        await ask_all(hosts)
        own = stage.watch(set(memory.tree(psutil.Process().pid)) - before)
        measured = memory.cost(own)
    total = measured if count == CLIENTS else measured.times(CLIENTS)
    basis = (
        "measured"
        if count == CLIENTS
        else f"(estimate: one takes {show.mebibytes(measured)}, what they share counts once)"
    )
    each = measured.processes // count
    show.detail(f"{server.name:6} {CLIENTS} × {each} processes, {show.mebibytes(total)} {basis}")
    return total


@asynccontextmanager
async def running_daemon(stage: Stage, servers: Sequence[Server], runtime: str) -> AsyncIterator[None]:
    """Start the daemon as a person does and end it as a person does."""
    path = stage.configure(servers, runtime)
    show.step(f"smcp up, with {len(servers)} servers in {path}:")
    await stage.run("up")
    status = await stage.status()
    pid = status["daemon"]["pid"]
    stage.watch(memory.tree(pid))
    show.detail(
        f"daemon {status['daemon']['version']} runs as process {pid}; no server runs yet, the first call starts it"
    )
    yield
    await stage.run("down")


async def show_costs(stage: Stage, servers: Sequence[Server], apart: dict[str, Cost], hosts: Sequence[Host]) -> None:
    """Print the table: one process per server."""
    rows = []
    for server in servers:
        instances = await stage.instances(server.name)
        processes = stage.watch(process for instance in instances for process in memory.tree(instance["pid"]))
        clients = sum(host.server is server for host in hosts)
        pids = ", ".join(str(server_process(instance["pid"]).pid) for instance in instances)
        rows.append(show.Row(server.name, clients, apart[server.name], len(instances), memory.cost(processes), pids))
    daemon = psutil.Process((await stage.status())["daemon"]["pid"])
    shims = stage.watch(psutil.Process().children(recursive=True))
    show.costs(rows, [("daemon", memory.cost([daemon])), (f"{len(shims)} waiting shims", memory.cost(shims))])
    show.console.print()


async def show_crash(stage: Stage, hosts: Sequence[Host]) -> None:
    """Kill a server and show the next call working, on the connections that are open."""
    name = CRASHING
    [before] = await stage.instances(name)
    victim = server_process(before["pid"])
    show.step(f"kill -9 {victim.pid} (the server {name!r}):")
    victim.kill()
    await noticed(stage, name, before)
    own = [host for host in hosts if host.server.name == name]
    started = time.monotonic()
    await own[0].ask()
    spent = time.monotonic() - started
    await ask_all(own)
    [after] = await stage.instances(name)
    stage.watch(memory.tree(after["pid"]))
    pid = server_process(after["pid"]).pid
    show.detail(f"the next call was answered after {spent:.2f} s by process {pid}, generation {after['generation']}")
    show.detail(f"all {len(own)} clients kept their connection and were answered again")


async def noticed(stage: Stage, name: str, before: dict[str, object]) -> None:
    """Return once the daemon no longer shows the copy that was killed."""
    with anyio.fail_after(NOTICE):
        while any(
            (instance["pid"], instance["state"]) == (before["pid"], "RUNNING")
            for instance in await stage.instances(name)
        ):
            await anyio.sleep(0.05)


async def show_nothing_left(stage: Stage) -> None:
    """Look for everything that was ever started. Raise `StageError` if something still runs."""
    if left := await anyio.to_thread.run_sync(stage.left):
        names = ", ".join(f"{process.pid} {' '.join(process.cmdline())}" for process in left)
        raise StageError(f"processes are left: {names}")
    show.detail(f"none of the {len(stage.seen)} processes of this demo is left; its files in {stage.place} are removed")


def leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return the errors of a group without the nesting."""
    found: list[BaseException] = []
    for error in group.exceptions:
        found.extend(leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="contrib/demo.sh", description="Show the main job of smcp.")
    parser.add_argument(
        "--thirty", action="store_true", help="start all thirty separate servers instead of one of each"
    )
    sys.exit(anyio.run(main, parser.parse_args().thirty))
