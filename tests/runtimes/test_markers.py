"""What processes carry is asked for once, and no process makes anybody wait for it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisord_mcp.runtimes import markers, proctable
from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.base import LaunchSpec
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.proctable import Entry
from tests.kit.bounded import bounded
from tests.runtimes.conformance import ended, read, running


@pytest.fixture
def crowd() -> Iterator[list[Entry]]:
    """Three processes with the markers m-0 to m-2."""
    started = [subprocess.Popen(["/bin/sleep", "100"], env={"SMCP_INSTANCE": f"m-{n}"}) for n in range(3)]
    for process in started:
        while not proctable.environment(process.pid):
            time.sleep(0.001)
    yield [entry for process in started if (entry := proctable.read_entry(process.pid)) is not None]
    for process in started:
        process.kill()
        process.wait()


def test_every_process_is_asked_once(crowd: list[Entry], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {entry.pid: (f"m-{n}",) for n, entry in enumerate(crowd)}
    assert markers.markers(crowd) == expected
    monkeypatch.setattr(proctable, "environment", lambda pid: pytest.fail(f"{pid} is asked again"))
    assert markers.markers(crowd) == expected
    markers.forget(crowd[:1])
    markers.forget([])
    monkeypatch.setattr(proctable, "environment", lambda _: None)
    assert markers.markers(crowd) == {}


def test_who_cannot_be_read_holds_up_nobody(crowd: list[Entry], monkeypatch: pytest.MonkeyPatch) -> None:
    released, usual, reads = threading.Event(), proctable.environment, []

    def stalls(pid: int) -> bytes | None:
        reads.append(pid)
        if pid == crowd[1].pid:
            released.wait(30)
        return usual(pid)

    monkeypatch.setattr(proctable, "environment", stalls)
    first, second, third = (entry.pid for entry in crowd)
    assert markers.markers(crowd) == {first: ("m-0",), second: None, third: None}
    monkeypatch.setattr(markers, "PATIENCE", 30.0)
    assert markers.markers(crowd) == {first: ("m-0",), second: None, third: ("m-2",)}
    assert reads == [first, second, third]
    released.set()
    (thread,) = markers._stuck.values()
    thread.join()
    assert markers.markers(crowd)[second] == ("m-1",)
    assert not markers._stuck


def test_a_number_that_changed_hands_is_nobody_s(crowd: list[Entry]) -> None:
    first = crowd[0]
    before = Entry(first.pid, first.ppid, first.pgrp, first.session, "S", first.started - 1)
    assert markers.markers([before]) == {first.pid: None}


@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@bounded(60)
async def test_nobody_asks_what_is_in_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    usual = proctable.environment

    def environment(pid: int) -> bytes | None:
        asked.append(pid)
        return usual(pid)

    monkeypatch.setattr(proctable, "environment", environment)
    script = "(setsid env -i sleep 100 >/dev/null 2>&1 &); echo; exec cat"
    spec = LaunchSpec("x", ("/bin/sh", "-c", script), env=(("PATH", "/usr/bin:/bin"),), marker=f"t-{uuid.uuid4()}")
    async with running(BwrapRuntime(), spec) as child, running(BareRuntime(), spec) as other:
        await read(child.stdout, b"\n")
        await read(other.stdout, b"\n")
        inside = set(proctable.descendants(child.pid))
        assert len(inside) >= 4
        other.kill()
        await ended(other)
        assert not inside & set(asked)
        asked.clear()
        child.kill()
        await ended(child)
        assert asked == []
    assert all((entry := proctable.read_entry(pid)) is None or not entry.alive for pid in inside)


@pytest.mark.usefixtures("subreaper")
@bounded(60)
async def test_nobody_hides_behind_the_marker_of_somebody_else(tmp_path: Path) -> None:
    script = f"(setsid env -i SMCP_INSTANCE=other /bin/sh -c 'echo $$ > {tmp_path}/pid; exec sleep 100' &) ; exec cat"
    spec = LaunchSpec("x", ("/bin/sh", "-c", script), env=(("PATH", "/usr/bin:/bin"),), marker=f"t-{uuid.uuid4()}")
    async with running(BareRuntime(), spec) as child:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.001)
        child.kill()
        await ended(child)
    entry = proctable.read_entry(int((tmp_path / "pid").read_text()))
    if entry is not None and entry.alive:
        os.kill(entry.pid, signal.SIGKILL)
        pytest.fail("it lives on")
