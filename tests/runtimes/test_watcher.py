"""The watcher: what it decides from a sample, how often it looks, and that it counts what is really there."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.runtimes import watcher
from supervisord_mcp.runtimes.watcher import Bounds, Sample, Watcher, excess, pause, take
from tests.kit.bounded import bounded
from tests.runtimes.hogs import PYTHON

MIB = 1 << 20
BOUNDS = st.builds(
    Bounds, memory=st.none() | st.integers(1, 1 << 40), pids=st.none() | st.integers(1, 1000), kept=st.booleans()
)
SAMPLES = st.builds(Sample, memory=st.integers(0, 1 << 41), pids=st.integers(0, 2000))


def test_an_excess_is_named() -> None:
    bounds = Bounds(512 * MIB, 64)
    assert excess(Sample(512 * MIB, 64), bounds) == ""
    assert excess(Sample(512 * MIB + 1, 65), bounds) == "memory limit 512M"
    assert excess(Sample(0, 65), bounds) == "process limit 64"
    assert excess(Sample(0, 65), Bounds(512 * MIB, 64, kept=True)) == ""
    assert excess(Sample(1 << 50, 5000), Bounds()) == ""


@given(SAMPLES, BOUNDS)
def test_the_nearer_the_limit_the_shorter_the_pause(sample: Sample, bounds: Bounds) -> None:
    waits = pause(sample, bounds)
    assert 0.02 <= waits <= 1
    assert pause(Sample(sample.memory + MIB, sample.pids + 1), bounds) <= waits
    if bounds.memory is not None and waits > 0.02:
        # Whatever grows at the speed that is reckoned with is seen before it is beyond the limit.
        assert sample.memory + waits * (1 << 30) <= bounds.memory + 1


def test_processes_and_memory_are_counted() -> None:
    script = "kept = b'x' * (50 << 20); print(1, flush=True); input()"
    processes = [
        subprocess.Popen([PYTHON, "-I", "-S", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        pids = [process.pid for process in processes]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"1\n"
        cheap = take(pids, Bounds(1 << 40, 10))
        dear = take(pids, Bounds(10 * MIB, 10))
        assert cheap.pids == dear.pids == 2
        assert 100 * MIB < dear.memory < cheap.memory < 200 * MIB
        assert take(pids, Bounds(None, 10)).memory == 0
    finally:
        for process in processes:
            process.communicate(b"\n", timeout=10)
    assert take([2**22 + 1], Bounds(0, 10)) == Sample(0, 0)


def test_a_process_that_hides_its_shares_counts_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    full = take([os.getpid()], Bounds(1 << 40)).memory
    monkeypatch.setattr(watcher, "content", _closed)
    monkeypatch.setattr(watcher, "_resident", lambda _: full)
    assert take([os.getpid()], Bounds(1)).memory == full


def _own_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _closed(*_: object, **__: object) -> None:
    raise PermissionError


@bounded(20)
async def test_it_calls_once_and_looks_no_more() -> None:
    said: list[str] = []
    looked = 0
    told = asyncio.Event()

    def pids() -> list[int]:
        nonlocal looked
        looked += 1
        return [os.getpid()] * (3 if looked == 3 else 0)

    def exceeded(reason: str) -> None:
        said.append(reason)
        told.set()

    threads = _own_threads()
    watching = Watcher(Bounds(pids=3 * threads - 1), pids, exceeded)
    watching.start()
    await told.wait()
    assert (said, looked) == ([f"process limit {3 * threads - 1}"], 3)
    assert watching.crowded
    watching.stop()
    watching.stop()


@bounded(20)
async def test_being_near_is_noted() -> None:
    threads = _own_threads()
    watching = Watcher(Bounds(pids=threads + 1, kept=True), lambda: [os.getpid()], lambda _: None)
    watching.start()
    assert watching.crowded
    watching.stop()
