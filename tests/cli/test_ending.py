"""How commands end, whatever happens to them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import supervisord_mcp
from supervisord_mcp.cli.ending import ended
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.news import LogLine, LogMark
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, Stream

ROOT = Path(__file__).parents[2]


def test_an_unexpected_error_is_one_line_and_where_to_look(
    smcp: Smcp, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("oh no")

    monkeypatch.setattr("supervisord_mcp.cli.listing.connected", broken)
    ran = smcp("list")
    assert ran.status == 1
    assert ran.err.splitlines()[0] == "error[internal]: unexpected ZeroDivisionError: oh no"
    assert str(home / "state" / "daemon.log") in ran.err
    assert "smcp --debug" in ran.err
    assert "Traceback" not in ran.err
    assert "Traceback" in smcp("--debug", "list").err


def test_debug_shows_where_our_own_errors_come_from(smcp: Smcp) -> None:
    ran = smcp("--debug", "status")
    assert ran.status == 3
    assert "Traceback" in ran.err
    assert "error[no-daemon]" in ran.err


@pytest.mark.parametrize("words", [("status",), ("run",)])
def test_ctrl_c(smcp: Smcp, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("supervisord_mcp.cli.status.connected", interrupted)
    monkeypatch.setattr(supervisord_mcp, "daemon", SimpleNamespace(main=interrupted), raising=False)
    ran = smcp(*words)
    assert (ran.status, ran.out) == (130, "")
    assert "Traceback" not in ran.err


def test_a_reader_that_leaves_is_no_news(daemon: FakeDaemon, home: Path) -> None:
    daemon.answers[control.Logs] = Stream([LogMark(path="/nowhere"), *[LogLine(line="x" * 1000)] * 1000])
    script = f"{sys.executable} -m supervisord_mcp logs git | head -n 1"
    ran = subprocess.run(
        ["/bin/sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "SMCP_HOME": str(home)},
        check=False,
    )
    assert ran.stderr == ""
    assert len(ran.stdout) == 1001


@pytest.mark.parametrize("words", ["logs git", "config sample", "status --json", "--help"])
def test_output_without_room_is_an_ordinary_error(daemon: FakeDaemon, home: Path, words: str) -> None:
    daemon.answers[control.Logs] = Stream([LogMark(path="/nowhere"), *[LogLine(line="x" * 1000)] * 100])
    ran = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m supervisord_mcp {words} > /dev/full"],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "SMCP_HOME": str(home)},
        check=False,
    )
    told = "error[failed]: cannot write the output: No space left on device\n"
    assert (ran.returncode, ran.stderr) == (1, told)


def test_an_error_of_the_system_elsewhere_is_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> int:
        raise OSError(5, "Input/output error", "/some/file")

    assert ended(broken) == 1
    assert "/some/file" in capsys.readouterr().err


def test_without_any_output_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert ended(lambda: 5) == 5
