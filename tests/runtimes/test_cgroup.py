"""Control groups: version 2 against a tree that behaves like the kernel's, and with the kernel where there is one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes import cgroup, hierarchy
from supervisord_mcp.runtimes.accounting import GroupFigures
from supervisord_mcp.runtimes.cgroup import Group, Groups, clear_leftovers, prepare, settings
from supervisord_mcp.runtimes.hierarchy import Hierarchy
from supervisord_mcp.runtimes.limits import CONTROLLERS, Limits
from tests.kit.required import need

ALL = frozenset(CONTROLLERS)
HERE = Path("/proc/self/ns/pid").stat().st_ino
DEAD = f"smcp-1-5-n{HERE}-3-dead"
FILES = {
    "memory": {"memory.max": "max", "memory.swap.max": "max", "memory.oom.group": "0", "memory.events": "oom_kill 0"},
    "pids": {"pids.max": "max", "pids.events": "max 0"},
    "cpu": {"cpu.max": "max 100000"},
}


class Kernel:
    """Gives a new directory the files that the kernel would give it, and takes them away with it."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch, controllers: str = "cpu memory pids") -> None:
        self.top = top
        self.lacks: set[str] = set()
        self._mkdir, self._rmdir = os.mkdir, os.rmdir
        self.fill(top, controllers)
        monkeypatch.setattr(os, "mkdir", self.mkdir)
        monkeypatch.setattr(os, "rmdir", self.rmdir)
        monkeypatch.setattr(cgroup, "_put", self.put)

    def fill(self, path: Path, controllers: str) -> None:
        """Make the files of a group with some controllers."""
        core = {"cgroup.controllers": controllers, "cgroup.procs": "", "cgroup.subtree_control": "", "cgroup.kill": ""}
        files = [core, {"cgroup.type": "domain"}, *(FILES.get(name, {}) for name in controllers.split())]
        for name, content in (item for some in files for item in some.items()):
            if name not in self.lacks:
                (path / name).write_text(f"{content}\n")

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        place = Path(path)
        self._mkdir(path, mode)
        self.fill(place, (place.parent / "cgroup.subtree_control").read_text().replace("+", "").strip())

    def rmdir(self, path: str) -> None:
        if not os.path.isdir(path):
            raise FileNotFoundError(2, "No such file or directory")
        if hierarchy.processes(path):
            raise OSError(16, "Device or resource busy")
        for file in Path(path).iterdir():
            file.unlink()
        self._rmdir(path)

    def put(self, path: str, value: str) -> None:
        place = Path(path)
        if not place.exists():
            raise FileNotFoundError(2, "No such file or directory")
        match place.name:
            case "cgroup.procs":
                for other in (self.top, *self.top.glob("*/")):
                    procs = other / "cgroup.procs"
                    procs.write_text(
                        "".join(f"{pid}\n" for pid in hierarchy.processes(str(other)) if pid != int(value))
                    )
                place.write_text(f"{place.read_text()}{value}\n")
            case "cgroup.subtree_control":
                if hierarchy.processes(str(place.parent)):
                    raise OSError(16, "Device or resource busy")
                place.write_text(f"{place.read_text().strip()} {value}")
            case "cgroup.kill":
                (place.parent / "cgroup.procs").write_text("")
            case _:
                place.write_text(f"{value}\n")

    @property
    def hierarchy(self) -> Hierarchy:
        """What would be detected."""
        return Hierarchy(2, tuple((name, str(self.top)) for name in CONTROLLERS))


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """A group that is delegated to this process, which is in it."""
    made = Kernel(tmp_path, monkeypatch)
    (tmp_path / "cgroup.procs").write_text(f"{os.getpid()}\n")
    return made


def test_the_daemon_makes_room_for_its_children(kernel: Kernel) -> None:
    groups = prepare(kernel.hierarchy)
    assert groups is not None
    assert (groups.version, groups.controllers) == (2, ALL)
    assert hierarchy.processes(str(kernel.top / "supervisor")) == [os.getpid()]
    assert hierarchy.processes(str(kernel.top)) == []
    assert sorted(path.name for path in kernel.top.glob("*/")) == ["supervisor"]
    assert prepare(kernel.hierarchy) is not None


def test_a_group_has_its_limits_and_is_removed(kernel: Kernel) -> None:
    groups = prepare(kernel.hierarchy)
    assert groups is not None
    group = groups.make("a server/x", Limits(memory=(64 << 20) + 5, pids=10, cpu=0.5), ALL)
    place = kernel.top / group.name
    assert group.name.startswith(f"smcp-{os.getpid()}-")
    assert group.name.endswith("-a_server_x")
    found = {name: (place / name).read_text().strip() for name in ("memory.swap.max", "memory.oom.group", "pids.max")}
    assert found == {"memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "10"}
    assert (place / "cpu.max").read_text() == "50000 100000\n"
    group.attach(77)
    assert group.members() == [77]
    assert (group.memory_event(), group.memory_kills(), group.refused_processes()) == (-1, 0, 0)
    (place / "memory.events").write_text("low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\noom_group_kill 1\n")
    (place / "pids.events").write_text("max 4\n")
    assert (group.memory_kills(), group.refused_processes()) == (2, 4)
    groups.drop(group)
    assert place.exists()
    assert not group.kill()
    assert group.kill()
    groups.close()
    assert not place.exists()
    groups.drop(group)
    assert (group.memory_kills(), group.members()) == (0, [])


def test_a_kernel_may_lack_what_is_not_needed(kernel: Kernel) -> None:
    kernel.lacks = {"memory.swap.max", "memory.oom.group"}
    groups = prepare(kernel.hierarchy)
    assert groups is not None
    groups.drop(groups.make("x", Limits(), ALL))


def test_a_controller_that_was_not_given_is_not_used(kernel: Kernel) -> None:
    kernel.lacks = {"cpu.max"}
    groups = prepare(kernel.hierarchy)
    assert groups is not None
    assert groups.controllers == {"memory", "pids"}
    kernel.lacks |= {"memory.max", "pids.max"}
    assert prepare(kernel.hierarchy) is None


def test_a_group_that_cannot_be_shared_out_is_not_used(kernel: Kernel) -> None:
    kernel.put(str(kernel.top / "cgroup.procs"), "1")
    assert prepare(kernel.hierarchy) is None


def test_a_limit_that_does_not_hold_is_an_error(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = prepare(kernel.hierarchy)
    assert groups is not None
    monkeypatch.setattr(cgroup, "_get", lambda _: "max\n")
    with pytest.raises(IsolationError, match=r"memory\.max: the kernel holds max instead of 4096"):
        groups.make("x", Limits(memory=4096), ALL)
    assert sorted(path.name for path in kernel.top.glob("*/")) == ["supervisor"]


def test_leftovers_of_a_dead_daemon_are_cleared_away(kernel: Kernel) -> None:
    groups = prepare(kernel.hierarchy)
    assert groups is not None
    own = groups.make("x", Limits(), ALL)
    foreign = f"smcp-1-5-n{HERE + 1}-3-x"  # its daemon has another pid in its own namespace, and may live
    for name in (DEAD, f"smcp-{os.getpid()}-1-n{HERE}-1-reused", foreign, "smcp-x", "other"):
        kernel.mkdir(str(kernel.top / name))
    kernel.put(str(kernel.top / DEAD / "cgroup.procs"), "4000000")
    assert clear_leftovers(kernel.hierarchy) == 2
    assert {path.name for path in kernel.top.glob("*/")} == {own.name, foreign, "smcp-x", "other", "supervisor"}


IN_A_CONTAINER = """
import subprocess, sys
from supervisord_mcp.runtimes.cgroup import prepare
from supervisord_mcp.runtimes.limits import Limits
groups = prepare()
group = groups.make("x", Limits(memory=64 << 20), groups.controllers)
with subprocess.Popen(["/bin/sleep", "60"]) as process:
    group.attach(process.pid)
    print("ready", flush=True)
    sys.stdin.readline()
    print(process.poll(), group.members() == [process.pid], flush=True)
    process.kill()
groups.drop(group)
"""


def test_a_daemon_in_another_pid_namespace_is_not_taken_for_dead(real: Groups) -> None:
    """Two daemons, one of them in a container that shares the control groups: neither ends the servers of the other."""
    plain = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *plain, "--pid", "--fork", "--mount-proc", sys.executable, "-c", IN_A_CONTAINER]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        clear_leftovers(real.hierarchy)
        assert other.communicate("\n", timeout=30)[0] == "None True\n"


def test_leftovers_that_cannot_be_killed_are_given_up(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.mkdir(str(kernel.top / DEAD))
    kernel.put(str(kernel.top / DEAD / "cgroup.procs"), "4000000")
    monkeypatch.setattr(cgroup, "_LEFTOVER_SECONDS", 0.02)
    monkeypatch.setattr(Group, "kill", lambda _: False)
    assert clear_leftovers(kernel.hierarchy) == 0
    assert clear_leftovers(Hierarchy(2, (("memory", "/nowhere"),))) == 0


@given(st.sampled_from([1, 2]), st.none() | st.integers(1, 1 << 40), st.floats(0.0001, 100))
def test_settings_are_whole_and_no_less_than_the_kernel_takes(version: int, memory: int | None, cpu: float) -> None:
    found = {file: value for _, file, value in settings(version, Limits(memory=memory, pids=None, cpu=cpu))}
    quota = found["cpu.max"].split()[0] if version == 2 else found["cpu.cfs_quota_us"]
    assert int(quota) >= 1000
    assert ("memory.max" in found or "memory.limit_in_bytes" in found) == (memory is not None)
    assert not any(file.startswith("pids") for file in found)


@pytest.fixture
def real() -> Iterator[Groups]:
    """Real groups."""
    groups = prepare()
    need(groups, "cgroups that may be made")
    assert groups is not None
    yield groups
    groups.close()
    assert not [
        name
        for place in groups.hierarchy.places
        for name in os.listdir(place)
        if name.startswith(f"smcp-{os.getpid()}-")
    ]


def test_the_kernel_plays_along(real: Groups) -> None:
    group = real.make("x", Limits(memory=64 << 20, pids=10, cpu=0.5), real.controllers)
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        group.attach(process.pid)
        assert group.members() == [process.pid]
        assert not group.kill()
        assert process.wait(10) == -signal.SIGKILL
    assert group.kill()
    real.drop(group)


def test_a_process_that_is_gone_cannot_be_attached(real: Groups) -> None:
    group = real.make("x", Limits(), real.controllers)
    with pytest.raises(IsolationError, match="No such process"):
        group.attach(2**22 + 1)
    real.drop(group)


def test_what_a_killed_daemon_left_is_ended(real: Groups) -> None:
    group = real.make("x", Limits(), real.controllers)
    renamed = group.name.replace(str(os.getpid()), "1", 1)
    left = Group(real.version, renamed, tuple((c, f"{p}/{renamed}") for c, p in real.hierarchy.directories))
    real.drop(group)
    for place in dict.fromkeys(f"{p}/{renamed}" for p in real.hierarchy.places):
        os.mkdir(place)
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        left.attach(process.pid)
        # Nobody but this test reaps what is killed, which a group does not wait for.
        assert clear_leftovers(real.hierarchy) == 1
        assert process.wait(10) == -signal.SIGKILL


@pytest.fixture
def unified() -> Iterator[Path]:
    """A real group of version 2, without controllers where version 1 has them."""
    found = hierarchy.detect()
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    places = [Path(words[1]) for words in mounts if words[2] == "cgroup2"]
    if found is not None and found.version == 2:
        places = [Path(found.places[0])]
    need(places and os.access(places[0], os.W_OK), "cgroups of version 2 that may be made")
    made = places[0] / f"test-{os.getpid()}"
    made.mkdir()
    yield made
    for place in (*made.glob("*/"), made):
        place.rmdir()


def test_version_2_kills_all_at_once(unified: Path) -> None:
    place = unified / "child"
    place.mkdir()
    group = Group(2, "child", (("memory", str(place)),))
    script = "read x; i=0; while [ $i -lt 30 ]; do setsid sleep 60 & i=$((i+1)); done; echo ready; wait"
    with subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        group.attach(process.pid)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        assert len(group.members()) == 31
        assert not group.remove()
        assert not group.kill()
        assert process.wait(10) == -signal.SIGKILL
        assert process.stdout.read() == b""
    while not group.kill():
        pass
    assert group.remove()


#: Works for half a second of a processor, in itself and in a child, and says what the kernel counted for both.
BURN = """
import os, resource, sys, time
sys.stdin.readline()
if os.fork() == 0:
    while time.process_time() < 0.25: pass
    os._exit(0)
os.wait()
while time.process_time() < 0.25: pass
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(sum(one.ru_utime + one.ru_stime for one in used), flush=True)
sys.stdin.readline()
"""


@contextmanager
def burning(group: Group) -> Iterator[float]:
    """Let a process in the group work; give the seconds of a processor that it used, and let it end."""
    command = [sys.executable, "-I", "-S", "-c", BURN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        group.attach(process.pid)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        yield float(process.stdout.readline())
        process.stdin.close()


def test_version_2_tells_what_its_processes_used(unified: Path) -> None:
    place = unified / "child"
    place.mkdir()
    group = Group(2, "child", (("memory", str(place)),))
    with burning(group) as used:
        figures = group.figures()
    assert figures.cpu is not None
    # What the interpreter needed before it was in the group is not counted there.
    assert figures.cpu == pytest.approx(used, rel=0.05, abs=0.05)
    need((place / "cpu.pressure").exists(), "a kernel that measures pressure (PSI)")
    for value in (figures.cpu_pressure, figures.memory_pressure, figures.disk_pressure):
        assert value is not None
        assert 0 <= value <= 100


def test_what_a_limit_of_processors_holds_back_is_told(real: Groups) -> None:
    need("cpu" in real.controllers, "cgroups that limit processors")
    group = real.make("x", Limits(cpu=0.2), real.controllers)
    place = Path(group._directories["cpu"])

    def counted() -> float:
        words = (place / "cpu.stat").read_text().split()
        told = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        return told.get("throttled_usec", 0) / 1e6 + told.get("throttled_time", 0) / 1e9

    with burning(group):
        before = counted()
        throttled = group.figures().throttled
        assert throttled is not None
        assert 0 < before <= throttled <= counted()
    assert group.kill()
    real.drop(group)


def test_a_group_of_version_2_tells_what_is_used_in_it(tmp_path: Path) -> None:
    group = Group(2, "g", (("memory", str(tmp_path)), ("pids", str(tmp_path))))
    assert group.figures() == GroupFigures(oom_kills=0, refused=0)
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\nnr_throttled 4\nthrottled_usec 750000\n")
    (tmp_path / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (tmp_path / "pids.events").write_text("max 7\n")
    for name, value in (("cpu", 1.5), ("memory", 0.0), ("io", 99.25)):
        lines = f"some avg10={value:.2f} avg60=0.10 avg300=0.05 total=9\nfull avg10=0.00 avg60=0 avg300=0 total=0\n"
        (tmp_path / f"{name}.pressure").write_text(lines)
    assert group.figures() == GroupFigures(2.5, 2, 7, 0.75, 1.5, 0.0, 99.25)
    (tmp_path / "cpu.pressure").write_text("some avg10=lots\n")
    (tmp_path / "cpu.stat").write_text("nonsense\n")
    assert group.figures() == GroupFigures(None, 2, 7, None, None, 0.0, 99.25)


def test_a_group_of_version_1_tells_how_long_it_was_held_back(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("nr_periods 10\nnr_throttled 4\nthrottled_time 250000000\n")
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    whole = Group(1, "g", (("cpu", str(tmp_path)), ("memory", str(tmp_path))))
    assert whole.figures() == GroupFigures(oom_kills=1, throttled=0.25)
    assert Group(1, "g", (("pids", str(tmp_path)),)).figures() == GroupFigures(refused=0)
