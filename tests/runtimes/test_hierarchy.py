"""Where groups may be made, from what the kernel says about hosts, containers, services and sessions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisord_mcp.runtimes.hierarchy import Hierarchy, detect, is_root, processes
from tests.kit.required import as_person

ALL = frozenset({"memory", "pids", "cpu"})


class Machine:
    """A file tree that looks like what a process sees of cgroups."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = ["21 1 0:20 / /proc rw - proc proc rw", "nonsense"]
        self.process = folder / "process"
        self.process.mkdir()

    def mount(self, point: str, kind: str, options: str = "rw", root: str = "/") -> Path:
        """Mount a hierarchy; return where."""
        path = self.folder / point
        path.mkdir(parents=True, exist_ok=True)
        shown = str(path).replace(" ", "\\040")
        self.lines.append(f"30 29 0:26 {root} {shown} rw,relatime shared:4 - {kind} cgroup {options}")
        return path

    def detect(self, own: str) -> Hierarchy | None:
        """Return what a process with that content of /proc/self/cgroup finds."""
        (self.process / "cgroup").write_text(own)
        (self.process / "mountinfo").write_text("\n".join(self.lines) + "\n")
        return detect(str(self.process))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without cgroups."""
    return Machine(tmp_path)


def group(path: Path, controllers: str = "cpu io memory pids", *pids: int, root: bool = False) -> Path:
    """Make a directory look like a group of version 2."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.controllers").write_text(f"{controllers}\n")
    (path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
    (path / "cgroup.subtree_control").write_text("")
    if not root:
        (path / "cgroup.type").write_text("domain\n")
    return path


def test_none_is_none(machine: Machine) -> None:
    assert machine.detect("0::/\n") is None
    assert detect("/nowhere") is None


def test_a_delegated_group_of_version_2(machine: Machine) -> None:
    own = group(machine.mount("fs", "cgroup2") / "user.slice/smcp.service", "cpu memory pids", os.getpid())
    found = machine.detect("0::/user.slice/smcp.service\n")
    assert found is not None
    assert (found.version, found.controllers, found.places) == (2, ALL, (str(own),))
    assert found.only(frozenset({"pids"})) == Hierarchy(2, (("pids", str(own)),))


def test_controllers_that_were_not_delegated_are_missing(machine: Machine) -> None:
    group(machine.mount("fs", "cgroup2") / "a", "io pids", os.getpid())
    found = machine.detect("0::/a\n")
    assert found is not None
    assert found.controllers == {"pids"}
    group(machine.folder / "fs/b", "io", os.getpid())
    assert machine.detect("0::/b\n") is None


def test_a_group_with_processes_of_others_is_not_ours(machine: Machine) -> None:
    group(machine.mount("fs", "cgroup2") / "session.scope", "memory pids", os.getpid(), 1)
    assert machine.detect("0::/session.scope\n") is None


def test_the_root_may_hold_processes(machine: Machine) -> None:
    top = group(machine.mount("fs", "cgroup2"), "memory pids cpu", 1, os.getpid(), root=True)
    assert is_root(str(top))
    found = machine.detect("0::/\n")
    assert found is not None
    assert found.places == (str(top),)


@as_person
def test_a_group_that_cannot_be_written_is_not_ours(machine: Machine) -> None:
    own = group(machine.mount("fs", "cgroup2") / "a", "memory", os.getpid())
    own.chmod(0o555)
    assert machine.detect("0::/a\n") is None


def test_a_daemon_after_another_one_is_in_the_leaf(machine: Machine) -> None:
    own = group(machine.mount("fs", "cgroup2") / "smcp.service", "memory pids")
    group(own / "supervisor", "", os.getpid())
    found = machine.detect("0::/smcp.service/supervisor\n")
    assert found is not None
    assert found.places == (str(own),)


def test_a_container_sees_a_part_of_the_tree(machine: Machine) -> None:
    point = machine.mount("fs with blank", "cgroup2", root="/docker/abc")
    own = group(point / "x", "memory", os.getpid())
    found = machine.detect("0::/docker/abc/x\n")
    assert found is not None
    assert found.places == (str(own),)
    for elsewhere in ("0::/docker/other\n", "0::/../..\n", "1:memory:/docker/abc\n", "0::/docker/abc/gone\n"):
        assert machine.detect(elsewhere) is None


def test_version_1_has_a_directory_for_each_controller(machine: Machine) -> None:
    machine.mount("unified", "cgroup2")
    (machine.mount("memory", "cgroup", "rw,memory") / "a").mkdir()
    together = machine.mount("cpu,cpuacct", "cgroup", "rw,cpu,cpuacct")
    machine.mount("pids", "cgroup", "rw,pids")
    machine.mount("systemd", "cgroup", "rw,xattr,name=systemd")
    found = machine.detect("4:memory:/a\n3:pids:/gone\n2:cpu,cpuacct:/\n1:name=systemd:/\n0::/\n")
    assert found == Hierarchy(1, (("memory", str(machine.folder / "memory/a")), ("cpu", str(together))))


def test_version_2_comes_before_version_1(machine: Machine) -> None:
    machine.mount("memory", "cgroup", "rw,memory")
    group(machine.mount("unified", "cgroup2") / "a", "memory", os.getpid())
    found = machine.detect("4:memory:/\n0::/a\n")
    assert found is not None
    assert found.version == 2


def test_processes_of_other_namespaces_are_left_out(tmp_path: Path) -> None:
    group(tmp_path / "a", "", 0, 5, 0, 7)
    assert processes(str(tmp_path / "a")) == [5, 7]
    assert processes(str(tmp_path / "gone")) == []


def test_a_unit_that_systemd_keeps_to_itself_is_no_place_for_root(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    group(machine.mount("fs", "cgroup2") / "a.service", "memory", os.getpid())
    marks = ["user.invocation_id", "trusted.invocation_id"]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "listxattr", lambda _: marks)
    assert machine.detect("0::/a.service\n") is None
    marks.append("trusted.delegate")
    assert machine.detect("0::/a.service\n") is not None
    monkeypatch.setattr(os, "listxattr", _refuse)
    assert machine.detect("0::/a.service\n") is not None, "where nothing is said it is tried"


def _refuse(_: str) -> list[str]:
    raise OSError(95, "Operation not supported")
