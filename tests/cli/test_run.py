"""``smcp run``."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import supervisord_mcp
from supervisord_mcp.errors import DaemonAliveError
from tests.cli.conftest import Smcp


def test_run_is_the_daemon(smcp: Smcp, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def daemon(*, on_demand: bool) -> int:
        calls.append(on_demand)
        return 7

    monkeypatch.setattr(supervisord_mcp, "daemon", SimpleNamespace(main=daemon), raising=False)
    assert smcp("run").status == 7
    assert smcp("run", "--on-demand").status == 7
    assert smcp("--debug", "run").status == 7
    assert calls == [False, True, False]


def test_a_daemon_that_breaks_leaves_the_cause_in_its_log(smcp: Smcp, monkeypatch: pytest.MonkeyPatch) -> None:
    def daemon(*, on_demand: bool) -> int:
        raise ZeroDivisionError("oh no")

    monkeypatch.setattr(supervisord_mcp, "daemon", SimpleNamespace(main=daemon), raising=False)
    ran = smcp("run", "--on-demand")
    assert ran.status == 1
    assert ran.err.startswith("Traceback")
    assert ran.err.endswith("ZeroDivisionError: oh no\n")


def test_a_daemon_that_cannot_run_says_why(smcp: Smcp, monkeypatch: pytest.MonkeyPatch) -> None:
    def daemon(*, on_demand: bool) -> int:
        raise DaemonAliveError("daemon pid 5 is alive")

    monkeypatch.setattr(supervisord_mcp, "daemon", SimpleNamespace(main=daemon), raising=False)
    ran = smcp("run")
    assert (ran.status, ran.err) == (1, "error[daemon-alive]: daemon pid 5 is alive\n")
