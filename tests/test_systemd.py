"""What a service manager gets to hear, on real sockets, and whom the daemon asks for a group and what comes of it.

A real manager of real groups is in the virtual machine (`tests.vm`); here those are that misbehave.
"""

from __future__ import annotations

import os
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisord_mcp import systemd
from tests.kit.probe import LeakGuard


@contextmanager
def manager(address: str) -> Iterator[socket.socket]:
    """A service manager's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(address)
        sock.settimeout(5)
        yield sock


def test_a_socket_in_the_file_system_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    with manager(path) as sock, LeakGuard():
        systemd.notify("READY=1")
        systemd.notify("STOPPING=1")
        assert [sock.recv(100), sock.recv(100)] == [b"READY=1", b"STOPPING=1"]


def test_an_abstract_socket_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"smcp-{uuid.uuid4().hex}"
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    with manager(f"\0{name}") as sock:
        systemd.notify("READY=1")
        assert sock.recv(100) == b"READY=1"


@pytest.mark.parametrize("address", ["", "/nowhere/notify", "/" + "long" * 50, "relative", "vsock:2:1234"])
def test_where_nobody_listens_nothing_happens(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with LeakGuard():
        systemd.notify("READY=1")


def test_without_a_service_manager_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    systemd.notify("READY=1")


def test_a_service_manager_that_does_not_read_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    with manager(path) as sock:
        # The kernel keeps only a few datagrams for a socket.
        for number in range(int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text()) + 100):
            systemd.notify(f"STATUS={number}")
        assert sock.recv(100) == b"STATUS=0"


# Control groups


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with control groups of version 2, and a service manager for this user."""
    for file in ("sys/fs/cgroup/cgroup.controllers", f"run/user/{os.geteuid()}/bus", "bin/busctl"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / f"run/user/{os.geteuid()}/systemd").mkdir()
    (tmp_path / "bin/busctl").chmod(0o755)
    return tmp_path


def found(root: Path, **environ: str) -> systemd.Bus | None:
    """Return where a daemon on a machine would ask."""
    return systemd.find_bus({"PATH": str(root / "bin"), **environ}, str(root))


def test_the_manager_of_a_person_is_asked_for_a_group(root: Path) -> None:
    runtime = str(root / f"run/user/{os.geteuid()}")
    bus = systemd.Bus(str(root / "bin/busctl"), runtime)
    assert found(root) == found(root, XDG_RUNTIME_DIR=runtime) == found(root, XDG_RUNTIME_DIR="/nowhere") == bus
    assert bus.environ == {"XDG_RUNTIME_DIR": runtime}
    command = bus.scope_command("smcp-1.scope", 77)
    assert command[:2] == [bus.program, "--user"]
    assert "StartTransientUnit" in command
    assert command[command.index("PIDs") :][:4] == ["PIDs", "au", "1", "77"]


def test_what_a_unit_started_stays_in_its_group(root: Path) -> None:
    assert found(root, NOTIFY_SOCKET="/run/notify") is None
    assert found(root, SYSTEMD_EXEC_PID=str(os.getpid())) is None
    assert found(root, SYSTEMD_EXEC_PID=str(os.getppid())) is not None, "a terminal in a unit is none itself"


def test_with_version_1_a_scope_would_limit_nothing(root: Path) -> None:
    (root / "sys/fs/cgroup/cgroup.controllers").unlink()
    assert found(root) is None


def test_without_a_bus_of_this_user_nobody_is_asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bus = root / f"run/user/{os.geteuid()}/bus"
    bus.unlink()
    assert found(root) is None
    bus.touch()
    (bus.parent / "systemd").rmdir()
    assert found(root) is None
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert found(root, XDG_RUNTIME_DIR=str(bus.parent)) is None, "it is the bus of somebody else"


def test_the_superuser_without_a_login_asks_the_manager_of_the_machine(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / f"run/user/{os.geteuid()}/bus").unlink()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert found(root) is None
    for path in ("run/dbus/system_bus_socket", "run/systemd/system"):
        (root / path).mkdir(parents=True)
    bus = found(root)
    assert bus is not None
    assert (bus.environ, bus.scope_command("x", 1)[1]) == ({}, "--system")
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert found(root) is None


def test_without_the_program_nobody_is_asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisord_mcp.systemd.shutil.which", lambda *_, **__: None)
    assert found(root) is None


def answering(tmp_path: Path, script: str) -> systemd.Bus:
    """Return the bus of a manager that misbehaves."""
    program = tmp_path / "busctl"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\n{script}\n")
    program.chmod(0o755)
    return systemd.Bus(str(program), str(tmp_path))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'Call failed: Access denied' >&2; exit 1", "Call failed: Access denied"),
        ("exit 3", "ended with status 3"),
        ("exec sleep 100", "timed out"),
        ("exit 0", "did not move the daemon to smcp-"),
    ],
    ids=["refuses", "fails", "hangs", "does nothing"],
)
def test_a_manager_that_misbehaves_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    monkeypatch.setattr(systemd, "PATIENCE", 0.3)
    with LeakGuard():
        assert said in systemd.enter_scope(answering(tmp_path, script))
    assert subprocess.run(["kill", "-0", (tmp_path / "pid").read_text().strip()], check=False).returncode != 0


def test_a_manager_that_cannot_be_run_is_left_alone() -> None:
    assert "No such file" in systemd.enter_scope(systemd.Bus("/nowhere/busctl"))
