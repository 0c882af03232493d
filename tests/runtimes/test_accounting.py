"""The figures of a tree are those of the kernel, in every runtime; psutil is the independent witness."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from supervisord_mcp.runtimes.accounting import GroupFigures, TreeMeter
from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.base import Child, Container, LaunchSpec, Runtime
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.container.child import ContainerChild
from supervisord_mcp.runtimes.container.engine import Engines
from supervisord_mcp.runtimes.container.runtime import ContainerRuntime
from supervisord_mcp.runtimes.container.stats import StatsMeter
from supervisord_mcp.runtimes.identity import Identities
from supervisord_mcp.runtimes.landlock.runtime import LandlockRuntime
from supervisord_mcp.runtimes.reading import Reading
from tests.kit.bounded import bounded
from tests.kit.engine import SHELL, Dockerd
from tests.kit.required import need
from tests.runtimes.conformance import python, read, running

MIB = 1 << 20
WITHIN = 0.05

#: Does what it is told on stdin, a word a line, and answers with what the kernel says of itself.
GREEDY = """
import json, os, resource, socket, sys, time
kept = []
for line in sys.stdin:
    said = {}
    match line.split():
        case ["burn"]:
            before = time.process_time()
            while time.process_time() < before + 0.6: pass
            said["cpu"] = time.process_time() - before
        case ["leak"]:
            kept.append(b"x" * (48 << 20))
            kept.append(bytearray(b"y" * (16 << 20)))
        case ["fork"]:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            for _ in range(4):
                if os.fork() == 0:
                    begun = time.process_time()
                    while time.process_time() < begun + 0.15: pass
                    os._exit(0)
            for _ in range(4): os.wait()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            said["cpu"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            ends = os.pipe()
            for _ in range(7):
                if os.fork() == 0:
                    os.close(ends[1]); os.read(ends[0], 1); os._exit(0)
            kept.append(ends)
        case ["open"]:
            kept.append([open("/dev/null") for _ in range(40)])
            kept.append([socket.socketpair() for _ in range(5)])
    print(json.dumps(said), flush=True)
"""


@pytest.fixture(params=["bare", "bwrap", "landlock"])
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Runtime:
    """Every native runtime."""
    made: dict[str, Runtime] = {
        "bare": BareRuntime(),
        "bwrap": BwrapRuntime(),
        "landlock": LandlockRuntime(str(tmp_path / "private"), None, Identities()),
    }
    chosen = made[request.param]
    need(not chosen.check(), f"the runtime {request.param}")
    return chosen


async def told(child: Child, word: str) -> dict[str, Any]:
    """Let the server do something, and return what it says of it."""
    os.write(child.stdin, word.encode() + b"\n")
    answer: dict[str, Any] = json.loads(await read(child.stdout, b"\n"))
    return answer


def looked(meter: TreeMeter) -> Reading:
    """Return what a tree uses now."""
    reading = meter.read(time.monotonic(), thorough=True)
    assert reading is not None
    return reading


def witnessed(child: Child) -> list[psutil.Process]:
    """Return the processes of a tree as psutil finds them."""
    leader = psutil.Process(child.pid)
    return [leader, *leader.children(recursive=True)]


@pytest.mark.usefixtures("subreaper")
@bounded(60)
async def test_the_figures_are_those_of_the_kernel(runtime: Runtime) -> None:
    await compare(runtime, python(GREEDY))


@bounded(60)
async def test_the_figures_of_a_container_are_those_of_the_kernel(engine: Dockerd, tmp_path: Path) -> None:
    runtime = ContainerRuntime(tmp_path, Engines({"DOCKER_HOST": engine.url}))
    async with aclosing(runtime):
        # It is shown the Python of these tests.
        await compare(runtime, replace(python(GREEDY, marker="daemon:test:greedy"), container=Container(SHELL)))


@bounded(60)
async def test_what_an_engine_tells_of_a_container_is_what_the_kernel_counts(engine: Dockerd, tmp_path: Path) -> None:
    runtime = ContainerRuntime(tmp_path, Engines({"DOCKER_HOST": engine.url}))
    spec = replace(python(GREEDY, marker="daemon:test:told"), container=Container(SHELL))
    async with aclosing(runtime), running(runtime, spec) as child:
        assert isinstance(child, ContainerChild)
        # As for an engine on another machine, whose processes nobody here can look at.
        meter = StatsMeter(child._engine, child._running.name)
        await told(child, "ready")
        before = await asyncio.to_thread(meter.read, 0.0)
        said = await told(child, "burn")
        burnt = await asyncio.to_thread(meter.read, 1.0)
        await told(child, "leak")
        leaked = await asyncio.to_thread(meter.read, 2.0)
        assert before is not None
        assert burnt is not None
        assert leaked is not None
        assert burnt.cpu - before.cpu == pytest.approx(said["cpu"], rel=WITHIN, abs=0.03)
        assert leaked.memory - burnt.memory == pytest.approx(64 * MIB, rel=WITHIN)


async def compare(runtime: Runtime, spec: LaunchSpec) -> None:
    """Let a server take much of everything, and compare what is read of it with what the kernel says."""
    async with running(runtime, spec) as child:
        meter = child.meter()
        assert isinstance(meter, TreeMeter)
        await told(child, "ready")
        before = looked(meter)

        said = await told(child, "burn")
        burnt = looked(meter)
        # The kernel counts the time of others in ticks of 10 ms, and once for each process.
        assert burnt.cpu - before.cpu == pytest.approx(said["cpu"], rel=WITHIN, abs=0.03)

        await told(child, "leak")
        leaked = looked(meter)
        assert leaked.private - burnt.private == pytest.approx(64 * MIB, rel=WITHIN)
        witnesses = [process.memory_full_info() for process in witnessed(child)]
        assert leaked.memory == pytest.approx(sum(memory.pss for memory in witnesses), rel=WITHIN)
        assert leaked.resident == pytest.approx(sum(memory.rss for memory in witnesses), rel=WITHIN)
        assert leaked.private == pytest.approx(sum(memory.uss for memory in witnesses), rel=WITHIN)

        said = await told(child, "fork")
        forked = looked(meter)
        assert forked.cpu - leaked.cpu == pytest.approx(said["cpu"], rel=WITHIN, abs=0.05)
        assert len(forked.processes) == len(leaked.processes) + 7 == len(witnessed(child))
        assert forked.threads == sum(process.num_threads() for process in witnessed(child))
        # Seven more that share everything take hardly any memory, whatever their RSS says.
        assert forked.memory == pytest.approx(
            sum(process.memory_full_info().pss for process in witnessed(child)), rel=WITHIN
        )

        await told(child, "open")
        opened = looked(meter)
        assert opened.most_files >= 50
        assert opened.files == sum(process.num_fds() for process in witnessed(child))
        assert opened.sockets - forked.sockets == 10
        assert opened.most_files == max(process.files for process in opened.processes)


@pytest.mark.usefixtures("subreaper")
@bounded(30)
async def test_nothing_is_read_of_what_has_ended() -> None:
    async with running(BareRuntime(), python("pass")) as child:
        meter = child.meter()
        assert meter is not None
        await child.wait()
        assert meter.read(1.0) is None


class Trees:
    """Processes of this test."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, program: str) -> int:
        """Start a program of Python that says something, and return its pid once it did."""
        pipe = subprocess.PIPE
        process = subprocess.Popen([sys.executable, "-I", "-S", "-uc", program], stdin=pipe, stdout=pipe)
        self.started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process.pid


@pytest.fixture
def trees() -> Iterator[Trees]:
    """Processes that are gone after the test."""
    made = Trees()
    yield made
    for process in made.started:
        with process:
            process.kill()


def test_what_is_dear_is_looked_up_only_where_it_can_have_changed(
    trees: Trees, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = trees.start("import sys; print(); sys.stdin.read()")
    meter = TreeMeter(lambda held: [pid], lambda: None, lambda: None)
    looks: list[str] = []
    real = os.open

    def noted(path: str, *rest: Any) -> int:
        looks.append(str(path).rpartition("/")[2])
        return real(path, *rest)

    monkeypatch.setattr(os, "open", noted)
    for now, thorough in ((0.0, False), (5.0, False), (10.0, False), (10.2, True), (11.0, True), (12.0, False)):
        assert meter.read(now, thorough=thorough) is not None
    assert looks.count("stat") == 6
    assert looks.count("smaps_rollup") == 3
    meter.read(80.0)
    assert looks.count("smaps_rollup") == 4


def test_what_was_counted_is_not_lost_with_a_process(trees: Trees) -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint()\nimport sys; sys.stdin.read()"
    pids = [trees.start(burn), trees.start("import sys; print(); sys.stdin.read()")]
    meter = TreeMeter(lambda held: pids, lambda: None, lambda: (3, 4))
    before = looked(meter)
    assert before.cpu >= 0.25
    assert (before.sent, before.received) == (3, 4)
    gone = trees.started[0]
    gone.kill()
    gone.wait()
    assert looked(meter).cpu >= before.cpu


def test_who_was_in_the_tree_stays_in_it(trees: Trees) -> None:
    pids = [trees.start("import sys; print(); sys.stdin.read()") for _ in range(2)]
    meter = TreeMeter(lambda held: pids, lambda: None, lambda: None)
    assert len(looked(meter).processes) == 2
    left = pids.pop()
    assert {process.pid for process in looked(meter).processes} == {*pids, left}
    trees.started[1].kill()
    trees.started[1].wait()
    assert {process.pid for process in looked(meter).processes} == set(pids)


def test_a_group_tells_what_the_processes_do_not(trees: Trees) -> None:
    pid = trees.start("import sys; print(); sys.stdin.read()")

    class Gauge:
        def held(self) -> list[int]:
            return [pid]

        def figures(self) -> GroupFigures:
            return GroupFigures(7.5, 1, 2, 0.25, 10.0, 20.0, 30.0)

    reading = looked(TreeMeter(lambda held: [], Gauge, lambda: None))
    assert [process.pid for process in reading.processes] == [pid]
    assert reading.cpu == 7.5
    assert (reading.oom_kills, reading.refused, reading.throttled) == (1, 2, 0.25)
    assert (reading.cpu_pressure, reading.memory_pressure, reading.disk_pressure) == (10.0, 20.0, 30.0)


def test_a_zombie_holds_nothing_but_its_time(trees: Trees) -> None:
    pid = trees.start("print(); import time\nwhile time.process_time() < 0.1: pass")
    # Not reaped: it stays in the table until somebody waits for it.
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    reading = looked(TreeMeter(lambda held: [pid], lambda: None, lambda: None))
    assert reading.processes == ()
    assert (reading.memory, reading.resident, reading.files) == (0, 0, 0)
    assert reading.cpu >= 0.05


@pytest.mark.parametrize("reaped", [True, False])
def test_what_its_children_used_is_left_out_where_that_is_wanted(trees: Trees, tmp_path: Path, reaped: bool) -> None:
    file = tmp_path / "written"
    work = "import os, time\nif os.fork() == 0:\n while time.process_time() < 0.3: pass\n"
    work += f" with open({str(file)!r}, 'wb') as f: f.write(bytes(1 << 20)); os.fsync(f.fileno())\n os._exit(0)\n"
    pid = trees.start(work + "os.wait(); print()\nimport sys; sys.stdin.read()")
    reading = looked(TreeMeter(lambda held: [pid], lambda: None, lambda: None, reaped=reaped))
    assert (reading.cpu >= 0.25) is reaped
    if (counted := psutil.Process(pid).io_counters().write_bytes) >= MIB:  # a file system in memory writes nothing
        assert reading.written == counted if reaped else reading.written < MIB


def test_files_are_counted_where_their_directory_has_no_size(trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = trees.start("import sys; print(); sys.stdin.read()")
    meter = TreeMeter(lambda held: [pid], lambda: None, lambda: None)
    files = looked(meter).files
    assert files == len(os.listdir(f"/proc/{pid}/fd"))
    real = os.stat
    # As before Linux 6.2.
    monkeypatch.setattr(os, "stat", lambda path: os.stat_result((*real(path)[:6], 0, *real(path)[7:])))
    assert looked(meter).files == files
