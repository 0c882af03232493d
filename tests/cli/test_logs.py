"""``smcp logs``, with and without a daemon."""

from __future__ import annotations

from pathlib import Path

from supervisord_mcp.protocol import control
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, Stream


def test_logs(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Logs] = Stream([control.LogLine(line="a [b]"), control.LogLine(line="\x1b[1mc")])
    ran = smcp("logs", "git", "-n", "5", "-f")
    assert (ran.status, ran.out) == (0, "a [b]\n\x1b[1mc\n")
    assert daemon.asked == [control.Logs(name="git", lines=5, follow=True)]


def test_logs_without_a_daemon_are_read_from_the_files(smcp: Smcp, home: Path) -> None:
    assert smcp("logs", "git").status == 4
    (home / "config").mkdir()
    (home / "config" / "config.toml").write_text('[servers.git]\ncommand = ["x"]\n')
    assert smcp("logs", "git").out == ""
    logs = home / "state" / "logs"
    logs.mkdir(parents=True)
    (logs / "git.log.2").write_text("a\n")
    (logs / "git.log.1").write_text("b\nc\n")
    (logs / "git.log").write_bytes(b"d \xff\ne\n")
    assert smcp("logs", "git").out == "a\nb\nc\nd \ufffd\ne\n"
    assert smcp("logs", "git", "-n", "3").out == "c\nd \ufffd\ne\n"
    assert smcp("logs", "git", "-n", "0").out == ""
    assert smcp("logs", "../../etc/passwd").status == 4
