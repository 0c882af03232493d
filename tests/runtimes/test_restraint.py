"""Limits that really hold: hogs end or are refused, each with the name of its limit, and their neighbours live."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes import cgroup, proctable, tree
from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.base import ExitStatus, LaunchSpec, Runtime
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.cgroup import Group, Groups
from supervisord_mcp.runtimes.limits import UNLIMITED, Available, Limits
from supervisord_mcp.runtimes.restraint import Restraint
from tests.kit.bounded import bounded
from tests.kit.required import need, not_here
from tests.runtimes.conformance import ended, exists, read, running, shell
from tests.runtimes.hogs import CHILD_MEMORY, FORKS, MEMORY, hog
from tests.runtimes.test_bwrap import as_person

pytestmark = [pytest.mark.bwrap, pytest.mark.usefixtures("subreaper")]

MIB = 1 << 20
KINDS = pytest.mark.parametrize("kind", [BareRuntime, BwrapRuntime])


@pytest.fixture
def groups() -> Iterator[Groups]:
    """The cgroups of this machine; nothing may be left in them."""
    found = cgroup.prepare()
    need(found is not None and {"memory", "pids", "cpu"} <= found.controllers, "cgroups that may be made")
    assert found is not None
    yield found
    found.close()
    left = [
        name
        for place in found.hierarchy.places
        for name in os.listdir(place)
        if name.startswith(f"smcp-{os.getpid()}-")
    ]
    assert left == []


async def _ends_of_memory(runtime: Runtime, script: str, limits: Limits) -> None:
    async with running(runtime, shell("cat")) as neighbour, running(runtime, hog(script, limits)) as child:
        status = await ended(child)
        assert status.cause == f"memory limit {(limits.memory or 0) // MIB}M"
        assert not status.success
        assert b"all" not in await read(child.stdout)
        os.write(neighbour.stdin, b"here\n")
        assert await read(neighbour.stdout, b"here\n") == b"here\n"


@KINDS
@pytest.mark.parametrize("script", [MEMORY, CHILD_MEMORY], ids=["itself", "its child"])
@bounded(60)
async def test_memory_in_a_cgroup(groups: Groups, kind: type[Any], script: str) -> None:
    await _ends_of_memory(kind(groups=groups), script, Limits(memory=64 * MIB))


@KINDS
@bounded(60)
async def test_what_the_kernel_ended_is_known_after_the_end(
    groups: Groups, kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    real = Group.memory_kills

    def noted(self: Group) -> int:
        # The daemon may be faster than the kernel, which then ends none.
        told.append(real(self) + 3)
        return told[-1]

    monkeypatch.setattr(Group, "memory_kills", noted)
    async with running(kind(groups=groups), hog(MEMORY, Limits(memory=64 * MIB))) as child:
        meter = child.meter()
        assert meter is not None
        assert meter.final() is None
        await ended(child)
        final = meter.final()
        assert final is not None
        assert final.oom_kills in told


@bounded(60)
async def test_what_a_child_used_is_known_after_its_end() -> None:
    script = "import time\nwhile time.process_time() < 0.5: pass"
    async with running(BareRuntime(), hog(script, UNLIMITED)) as child:
        meter = child.meter()
        assert meter is not None
        child.close_stdin()
        await ended(child)
        final = meter.final()
        assert final is not None
        assert 0.5 <= final.cpu < 0.8
        assert final.oom_kills is None


@KINDS
@pytest.mark.parametrize("script", [MEMORY, CHILD_MEMORY], ids=["itself", "its child"])
@bounded(60)
async def test_memory_under_a_watcher(kind: type[Any], script: str) -> None:
    await _ends_of_memory(kind(), script, Limits(memory=128 * MIB))


@KINDS
@bounded(60)
async def test_a_server_within_its_limit_runs(groups: Groups, kind: type[Any]) -> None:
    script = "kept = b'x' * (100 << 20); print(len(kept)); input()"
    for runtime in (kind(), kind(groups=groups)):
        async with running(runtime, hog(script, Limits(memory=256 * MIB, pids=20))) as child:
            assert await read(child.stdout, b"\n") == b"104857600\n"
            os.write(child.stdin, b"\n")
            child.close_stdin()
            assert await ended(child) == ExitStatus(code=0)


@KINDS
@bounded(60)
async def test_processes_in_a_cgroup(groups: Groups, kind: type[Any]) -> None:
    async with running(kind(groups=groups), hog(FORKS, Limits(pids=40))) as child:
        word, count = (await read(child.stdout, b"\n")).split()
        assert word == b"refused"
        assert 30 <= int(count) < 40
        os.write(child.stdin, b"\n")
        assert await ended(child) == ExitStatus(code=3, cause="process limit 40")


@bounded(60)
async def test_processes_under_a_watcher() -> None:
    # In a sandbox the kernel counts, under a daemon of root as well: it has a user of its own.
    async with running(BareRuntime(), hog(FORKS, Limits(pids=40))) as child:
        assert await ended(child) == ExitStatus(signal=9, cause="process limit 40")


async def _forks_of_a_person() -> None:
    others = [await asyncio.create_subprocess_exec("/bin/sleep", "60", close_fds=True) for _ in range(80)]
    try:
        spec = hog(FORKS, Limits(pids=40))
        async with running(BwrapRuntime(), spec) as child:
            assert "pids 40 by rlimit" in child.limits
            word, count = (await read(child.stdout, b"\n")).split()
            assert word == b"refused"
            assert 30 <= int(count) < 40
    finally:
        for other in others:
            other.kill()
            await other.wait()


def test_processes_of_a_person_are_counted_for_the_sandbox_alone() -> None:
    as_person(_forks_of_a_person)


@KINDS
@bounded(60)
async def test_descriptors(kind: type[Any]) -> None:
    script = "import os\ntry:\n    while True: last = os.dup(0)\nexcept OSError as error: print(last, error.errno)"
    async with running(kind(), hog(script, Limits(nofile=64))) as child:
        assert await read(child.stdout) == b"63 24\n"


@KINDS
@bounded(60)
async def test_the_size_of_a_file(kind: type[Any], tmp_path: Path) -> None:
    spec = shell(f"exec head -c 3000000 /dev/zero > {'$HOME' if kind is BwrapRuntime else tmp_path}/file")
    async with running(kind(), replace(spec, limits=Limits(fsize=MIB))) as child:
        assert await ended(child) == ExitStatus(signal=signal.SIGXFSZ, cause="file size limit 1M")


@pytest.mark.parametrize(("place", "limit"), [("/tmp", "tmp"), ("/dev/shm", "shm"), ("/home/mcp", "home")])
@bounded(60)
async def test_a_private_place_fills_up(place: str, limit: str) -> None:
    spec = shell(f"head -c 3000000 /dev/zero > {place}/file; wc -c < {place}/file")
    async with running(BwrapRuntime(), replace(spec, limits=replace(Limits(), **{limit: MIB}))) as child:
        assert await read(child.stdout) == b"%d\n" % MIB
        assert b"No space left" in await read(child.stderr)


@KINDS
@bounded(60)
async def test_processor_time(groups: Groups, kind: type[Any]) -> None:
    script = """
import time
begin, used = time.monotonic(), time.process_time()
while time.monotonic() < begin + 1: pass
print((time.process_time() - used) / (time.monotonic() - begin))
"""
    async with running(kind(groups=groups), hog(script, Limits(cpu=0.2))) as child:
        assert float(await read(child.stdout)) < 0.45


@KINDS
@bounded(60)
async def test_many_processes_have_the_share_of_one(groups: Groups, kind: type[Any]) -> None:
    # Without it a hundred that never rest keep the daemon and every neighbour from running, for minutes.
    spec = replace(shell("cat /proc/self/cgroup"), limits=Limits(cpu=None))
    async with running(kind(groups=groups), spec) as child:
        lines = [line.split(":") for line in (await read(child.stdout)).decode().splitlines()]
    (path,) = [path for _, names, path in lines if ("cpu" if groups.version == 1 else "") in names.split(",")]
    assert f"/smcp-{os.getpid()}-" in path


@KINDS
@bounded(60)
async def test_what_a_server_sees_of_its_limits(kind: type[Any]) -> None:
    script = "cat /proc/self/limits /proc/self/oom_score_adj; ulimit -c unlimited || echo kept"
    async with running(kind(), replace(shell(script), limits=Limits(memory=100 * MIB, fsize=MIB))) as child:
        lines = (await read(child.stdout)).decode().splitlines()
    found = {line[:26].strip(): line[26:].split()[:2] for line in lines if line.startswith("Max ")}
    assert found["Max core file size"] == found["Max locked memory"] == ["0", "0"]
    assert found["Max data size"] == [str(200 * MIB)] * 2
    assert found["Max file size"] == [str(MIB)] * 2
    assert found["Max open files"] == ["1024", "1024"]
    assert found["Max address space"] == ["unlimited", "unlimited"]
    # Bare is with all rights of the daemon, and one of root's is to raise limits; not every container leaves it that.
    raises = kind is BareRuntime and _may_raise_limits()
    assert lines[lines.index("500") + 1 :] == ([] if raises else ["kept"])


def _may_raise_limits() -> bool:
    effective = Path("/proc/self/status").read_text().split("CapEff:")[1].split()[0]
    return bool(int(effective, 16) >> 24 & 1)  # CAP_SYS_RESOURCE


@KINDS
@bounded(60)
async def test_without_limits_nothing_is_changed(groups: Groups, kind: type[Any]) -> None:
    spec = replace(shell("ulimit -a; cat /proc/self/oom_score_adj /proc/self/cgroup"), limits=UNLIMITED)
    own = await _output("ulimit -a; cat /proc/self/oom_score_adj")
    async with running(kind(groups=groups), spec) as child:
        assert child.limits == ()
        output = await read(child.stdout)
        assert output.startswith(own)
        assert b"smcp-" not in output


async def _output(script: str) -> bytes:
    started = await asyncio.create_subprocess_exec("/bin/sh", "-c", script, stdout=subprocess.PIPE)
    output, _ = await started.communicate()
    return output


@KINDS
@bounded(60)
async def test_nothing_escapes_from_a_cgroup(groups: Groups, kind: type[Any]) -> None:
    long = f"100.{os.getpid()}"
    script = f"for i in 1 2 3; do (setsid env -i /bin/sh -c '(sleep {long} & sleep {long})' &); done; echo ready; cat"
    async with running(kind(groups=groups), shell(script)) as child:
        await read(child.stdout, b"ready\n")
        child.kill()
        assert (await ended(child)).signal == 9
    assert not any(f"sleep\0{long}\0".encode() in _words(entry.pid) for entry in proctable.entries())


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


STEPS = [
    ("supervisord_mcp.runtimes.rlimits.resource.prlimit", OSError(1, "Operation not permitted"), "limit core"),
    ("supervisord_mcp.runtimes.restraint.raise_oom_score", IsolationError("limit oom score: no"), "oom score"),
    ("supervisord_mcp.runtimes.cgroup._put", OSError(28, "No space left on device"), "cgroup"),
    ("supervisord_mcp.runtimes.cgroup.Group.attach", IsolationError("cgroup x: no"), "cgroup x"),
    ("supervisord_mcp.runtimes.cgroup.processes", None, "is not in it"),
    ("supervisord_mcp.runtimes.cgroup.os.mkdir", OSError(13, "Permission denied"), "cgroup"),
]


@KINDS
@pytest.mark.parametrize(("place", "error", "said"), STEPS)
@bounded(60)
async def test_a_limit_that_does_not_hold_starts_nothing(
    groups: Groups, kind: type[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *,
    place: str, error: Exception | None, said: str,
) -> None:  # fmt: skip
    def fail(*_: object, **__: object) -> list[int]:
        if error is None:
            return []
        raise error

    canary = tmp_path / "canary"
    spec = LaunchSpec(
        "files", ("/usr/bin/touch", str(canary)), marker="t-canary", limits=Limits(nofile=None, fsize=None)
    )
    with monkeypatch.context() as patch:
        patch.setattr(place, fail)
        with pytest.raises(IsolationError, match="server files was not started") as caught:
            await kind(groups=groups).launch(spec)
    assert said in caught.value.message or (said == "limit core" and "limit locked memory" in caught.value.message)
    assert not exists(canary)
    assert tree.marked(spec.marker) == []


@bounded(20)
async def test_a_kernel_that_does_not_tell_of_an_excess_starts_nothing(
    groups: Groups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if groups.version == 2:
        not_here("version 2 ends the whole group")
    monkeypatch.setattr(Group, "memory_event", _refuse)
    spec = LaunchSpec("files", ("/usr/bin/touch", str(tmp_path / "canary")), marker="t-canary")
    with pytest.raises(IsolationError, match="server files was not started: event"):
        await BareRuntime(groups).launch(spec)
    assert not exists(tmp_path / "canary")


def _refuse(group: Group) -> int:
    raise IsolationError("event")


@bounded(20)
async def test_what_a_child_died_of() -> None:
    limits = Limits(memory=100 * MIB, fsize=None)
    restraint = Restraint(LaunchSpec("x", ("/bin/true",), limits=limits), Available(), None)
    assert restraint.cause(ExitStatus(code=0), 500 * MIB) == ""
    assert restraint.cause(ExitStatus(code=1), 100 * MIB) == ""
    assert restraint.cause(ExitStatus(code=1), 190 * MIB) == "memory limit 100M"
    assert restraint.cause(ExitStatus(signal=signal.SIGXFSZ), 0) == ""
    restraint.close()
    restraint.close()
    with pytest.raises(IsolationError, match="server x was not started: limit tmp"):
        Restraint(LaunchSpec("x", ("/bin/true",)), Available(places=True), None)
