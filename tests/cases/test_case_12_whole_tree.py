"""Case 12: stop means the whole tree."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import Daemon, Fake, daemon, fake

STUBBORN = {"ignore_eof": True, "ignore_term": True}
RUNTIMES = ["bare", pytest.param("bwrap", marks=pytest.mark.bwrap)]
#: Runs the command in the background with the shell's own stdin, which the shell would replace.
APART = "exec 3<&0; @CMD@ <&3 3<&- & exec 3<&-"
TREES: dict[str, dict[str, Any]] = {
    "a shell above": {"shell": "@CMD@; exit 0"},
    "two shells, nothing obeyed": {"shell": "sh -c '@CMD@; true'; true", **STUBBORN},
    "a daemonised child": {"spawn_child": "setsid", "child_ignores_term": True},
    "a child that holds stdout": {"spawn_child": ["holds_stdout", "group"], "child_ignores_term": True},
    "a fork on each TERM": {"fork_on_term": True, "ignore_eof": True},
    "a stopped child": {"stop_self": 200},
    "a shell that dies first": {
        "shell": f"{APART}; wait",
        **STUBBORN,
        "spawn_child": "setsid",
    },
}


def tree(name: str, runtime: str) -> Fake:
    """Return a server whose processes are hard to end."""
    told = dict(TREES[name])
    return fake("s", entry={"runtime": runtime, "stop_grace": "300ms"}, **told)


async def only_the_daemon(d: Daemon, *others: int) -> None:
    """Wait until nothing marked is left but the daemon and these."""
    kept = {await d.pid(), *others}
    for _ in range(150):
        left = [process for process in probe.find(d.marks) if process.pid not in kept and "shim" not in process.cmdline]
        if not left:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"left: {left}")


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", TREES)
@bounded(40)
async def test_after_stop_nothing_is_left(name: str, runtime: str) -> None:
    async with daemon(tree(name, runtime)) as d:
        await d.control("start", names=["s"])
        await d.journal("s").wait(lambda j: j.notes("notifications/initialized"))
        await asyncio.sleep(0.3 if name == "a stopped child" else 0)
        await d.control("stop", names=["s"], timeout=6)
        await only_the_daemon(d)
        assert (await d.server("s"))["state"] == "STOPPED"
        if name == "two shells, nothing obeyed":
            kinds = [(e["event"], e.get("signal")) for e in d.journal("s").events() if e["event"] in ("eof", "signal")]
            assert kinds == [("eof", None), ("signal", signal.SIGTERM)], "end of file, TERM, KILL"


@pytest.mark.parametrize("delay", [0.0, 0.002, 0.02])
@bounded(40)
async def test_stop_right_after_the_start(delay: float) -> None:
    async with daemon(tree("two shells, nothing obeyed", "bare")) as d:
        start = asyncio.create_task(d.control("start", names=["s"]))
        await asyncio.sleep(delay)
        await d.control("stop", names=["s"], timeout=8)
        await asyncio.wait([start])
        start.exception()
        await only_the_daemon(d)
        assert (await d.server("s"))["state"] == "STOPPED"


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", ["two shells, nothing obeyed", "a daemonised child"])
@bounded(60)
async def test_children_of_a_dead_daemon_are_ended_by_the_next(name: str, runtime: str) -> None:
    async with daemon(tree(name, runtime)) as d:
        await d.control("start", names=["s"])
        await d.journal("s").wait(lambda j: j.notes("notifications/initialized"))
        await d.kill()
        await d.start()
        await only_the_daemon(d)


@bounded(40)
async def test_the_daemon_survives_its_own_signals_to_groups() -> None:
    async with daemon(tree("a child that holds stdout", "bare")) as d:
        pid = await d.pid()
        for _ in range(3):
            await d.control("start", names=["s"])
            await d.control("stop", names=["s"])
        assert await d.pid() == pid
        groups = {event["pgid"] for event in d.journal("s").events("started")}
        found = probe.look(pid)
        assert found is not None
        assert found.pgid not in groups
