"""``up`` and ``down``."""

from __future__ import annotations

import os

import pytest

from supervisord_mcp.protocol import control
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon


def test_up_says_which_daemon_runs_already(smcp: Smcp, daemon: FakeDaemon) -> None:
    ran = smcp("up")
    assert (ran.status, ran.out) == (0, f"the daemon already runs, pid {os.getpid()}\n")


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
