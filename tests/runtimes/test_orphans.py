"""Adopting what children leave behind, and reaping nothing that somebody waits for."""

from __future__ import annotations

import asyncio
import os
import subprocess

import pytest

from supervisord_mcp.runtimes import orphans, proctable
from tests.kit.bounded import bounded

ORPHAN = "setsid sh -c 'echo $$; exec sleep {}' & exit 0"


def _orphan(seconds: str) -> int:
    with subprocess.Popen(
        ["sh", "-c", ORPHAN.format(seconds)], stdout=subprocess.PIPE, start_new_session=True
    ) as leader:
        orphans.own(leader.pid)
        assert leader.stdout is not None
        pid = int(leader.stdout.readline())
        leader.wait()
        orphans.disown(leader.pid)
    return pid


def _owned() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["sh", "-c", "read x; exit 8"], start_new_session=True, stdin=subprocess.PIPE)
    orphans.own(process.pid)
    process.communicate(b"\n")
    return process


@pytest.mark.usefixtures("subreaper")
@bounded(20)
async def test_strangers_are_reaped_when_they_end() -> None:
    stop = orphans.watch_strangers(asyncio.get_running_loop())
    pid = await asyncio.to_thread(_orphan, "0.05")
    while proctable.read_entry(pid) is not None:
        await asyncio.sleep(0.01)
    stop()


@pytest.mark.usefixtures("subreaper")
@bounded(20)
async def test_what_others_wait_for_is_left_to_them() -> None:
    stop = orphans.watch_strangers(asyncio.get_running_loop())
    done = await asyncio.to_thread(subprocess.run, ["sh", "-c", "exit 7"], check=False)
    owned = await asyncio.to_thread(_owned)
    orphans.reap_strangers()
    assert done.returncode == 7
    assert owned.returncode == 8
    orphans.disown(owned.pid)
    stop()


@pytest.mark.usefixtures("subreaper")
def test_a_living_stranger_is_not_reaped() -> None:
    pid = _orphan("100")
    entry = proctable.read_entry(pid)
    assert entry is not None
    assert entry.ppid == os.getpid()
    assert orphans.is_stranger(entry)
    assert orphans.reap_strangers() == 0
    os.kill(pid, 9)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert orphans.reap_strangers() == 1


def test_confined_children_make_no_strangers() -> None:
    orphans.own(-5)
    orphans.own(-6)
    assert not orphans.is_only_one(-5)
    orphans.confine(-6)
    assert orphans.is_only_one(-5)
    orphans.disown(-5)
    orphans.disown(-6)
    assert orphans.is_only_one(-7)
