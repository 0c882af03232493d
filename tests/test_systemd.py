"""What a service manager gets to hear, on real sockets."""

from __future__ import annotations

import socket
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
