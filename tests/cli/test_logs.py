"""``smcp logs``, with and without a daemon."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisord_mcp.loglines import parse
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.news import LogLine, LogMark
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, Stream

LINES = [
    "2026-11-30T08:00:00.000Z smcp[session-3] session opened of pid 77",
    "2026-11-30T08:00:01.000Z stderr boom [x]",
    "2026-11-30T08:00:03.000Z smcp last line repeated 4 times since 2026-11-30T08:00:01.500Z",
    "2026-11-30T08:00:04.000Z stderr[/src/site session-3] \x1b[1mbold",
    "2026-11-30T08:00:05.000Z message[session-4] info db: up",
]


@pytest.fixture
def log(home: Path) -> Path:
    """The newest file of a log."""
    (home / "config").mkdir(exist_ok=True)
    (home / "config" / "config.toml").write_text('[servers.git]\ncommand = ["x"]\n')
    directory = home / "state" / "logs"
    directory.mkdir(parents=True)
    file = directory / "git.log"
    file.write_text("".join(f"{line}\n" for line in LINES))
    return file


def mark(file: Path) -> LogMark:
    status = file.stat()
    return LogMark(path=str(file), inode=status.st_ino, size=status.st_size)


def test_logs_are_read_up_to_the_mark_and_followed_from_there(smcp: Smcp, daemon: FakeDaemon, log: Path) -> None:
    following = parse(["2026-11-30T08:00:06.000Z stderr from now on"], "git")
    daemon.answers[control.Logs] = Stream([mark(log), *following])
    with log.open("a") as file:
        file.write("2026-11-30T08:00:06.000Z stderr from now on\n")
    ran = smcp("logs", "git", "-n", "2", "-f")
    assert (ran.status, ran.out.splitlines()) == (0, [*LINES[-2:], "2026-11-30T08:00:06.000Z stderr from now on"])
    assert daemon.asked == [control.Logs(name="git", follow=True, mark=True)]


def test_files_that_were_rotated_since_the_mark_are_told_apart(smcp: Smcp, daemon: FakeDaemon, log: Path) -> None:
    daemon.answers[control.Logs] = Stream([mark(log)])
    (log.parent / "git.log.1").write_text("2026-11-30T07:00:00.000Z stderr older\n")
    (log.parent / "git.log.1").rename(log.parent / "git.log.2")
    log.rename(log.parent / "git.log.1")
    log.write_text("2026-11-30T09:00:00.000Z stderr newer\n")
    assert smcp("logs", "git").out.splitlines() == ["2026-11-30T07:00:00.000Z stderr older", *LINES]
    (log.parent / "git.log.1").unlink()
    log.unlink()
    assert smcp("logs", "git").out.splitlines() == ["2026-11-30T07:00:00.000Z stderr older"]


def test_a_log_that_is_not_there_yet_is_followed(smcp: Smcp, daemon: FakeDaemon, home: Path) -> None:
    daemon.answers[control.Logs] = Stream([LogMark(path=str(home / "none.log")), LogLine(line="a [b]", text="a [b]")])
    assert smcp("logs", "git", "-f").out == "a [b]\n"


def test_lines_are_chosen_by_time_text_and_session(smcp: Smcp, log: Path) -> None:
    assert smcp("logs", "git", "--since", "2026-11-30T08:00:03").out.splitlines() == LINES[2:]
    assert smcp("logs", "git", "--grep", r"boom \[").out.splitlines() == LINES[1:3], "also that it came again"
    assert smcp("logs", "git", "--session", "3").out.splitlines() == [LINES[0], LINES[3]]
    assert smcp("logs", "git", "--session", "3", "-n", "1").out.splitlines() == [LINES[3]]
    assert smcp("logs", "git", "--grep", "ol", "--since", "2026-11-30T08:00:04").out.splitlines() == [LINES[3]]


def test_what_follows_is_chosen_as_well(smcp: Smcp, daemon: FakeDaemon, log: Path) -> None:
    daemon.answers[control.Logs] = Stream([mark(log), *parse(LINES, "git")])
    assert smcp("logs", "git", "-f", "-n", "0", "--grep", "boom").out.splitlines() == LINES[1:3]


def test_json_has_the_parts(smcp: Smcp, log: Path) -> None:
    found = [json.loads(line) for line in smcp("logs", "git", "--json").out.splitlines()]
    assert found[2] == {
        "time": 1796025603.0,
        "server": "git",
        "source": "stderr",
        "instance": "",
        "session": 0,
        "text": "boom [x]",
        "repeated": 4,
        "since": 1796025601.5,
    }
    assert [(one["source"], one["instance"], one["session"]) for one in found] == [
        ("smcp", "", 3),
        ("stderr", "", 0),
        ("stderr", "", 0),
        ("stderr", "/src/site", 3),
        ("message", "", 4),
    ]


def test_bad_choices_are_refused(smcp: Smcp) -> None:
    ran = smcp("logs", "git", "--grep", "(")
    assert (ran.status, ran.err.splitlines()[0][:24]) == (2, "error[usage]: --grep (: ")
    assert smcp("logs", "git", "--since", "yesterday").status == 2
    assert smcp("logs", "git", "--session", "0").status == 2


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
    assert smcp("logs", "git", "-f").status == 3
    assert smcp("logs", "../../etc/passwd").status == 4
