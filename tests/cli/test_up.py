"""``up`` and ``down``."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from supervisord_mcp import shim
from supervisord_mcp.errors import SmcpError, UsageError
from supervisord_mcp.protocol import control
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon


def test_up_says_which_daemon_runs_already(smcp: Smcp, daemon: FakeDaemon) -> None:
    ran = smcp("up")
    assert (ran.status, ran.out) == (0, f"the daemon already runs, pid {os.getpid()}\n")
    assert daemon.asked == [control.Version(), control.Stay()]


def test_up_is_content_with_an_older_daemon(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Stay] = UsageError("unknown operation 'stay'")
    assert smcp("up").status == 0
    daemon.answers[control.Stay] = SmcpError("the daemon failed")
    assert smcp("up").status == 1


def test_down_waits_for_the_end(smcp: Smcp, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []

    def gone(process: int, timeout: float) -> bool:
        waited.append(process)
        return True

    monkeypatch.setattr("supervisord_mcp.cli.up._wait_gone", gone)
    ran = smcp("down")
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert daemon.asked == [control.Version(), control.Down()]
    assert len(waited) == 1


def test_down_says_so_if_the_daemon_stays(smcp: Smcp, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisord_mcp.cli.up.SLOW", 0.05)
    ran = smcp("down")
    assert ran.status == 1
    assert f"daemon pid {os.getpid()} has not ended" in ran.err


def test_up_starts_one_and_says_which(smcp: Smcp, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes: list[FakeDaemon] = []

    def reach(environ: object, uid: int) -> socket.socket:
        fakes.append(FakeDaemon(home))
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(fakes[0].path)
        return connection

    monkeypatch.setattr(shim, "reach_daemon", reach)
    ran = smcp("up")
    assert (ran.status, ran.out) == (0, f"the daemon runs, pid {os.getpid()}\n")
    fakes[0].close()


def test_down_where_the_process_cannot_be_seen(smcp: Smcp, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(pid: int) -> int:
        raise PermissionError

    def shut(_: control.Operation) -> bytes:
        return control.result_line(2)

    monkeypatch.setattr(os, "pidfd_open", hidden)
    monkeypatch.setattr("supervisord_mcp.cli.up.SLOW", 0.05)
    daemon.answers[control.Down] = shut
    assert smcp("down").status == 1
