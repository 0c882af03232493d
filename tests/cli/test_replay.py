"""``smcp replay``."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from supervisord_mcp.errors import SmcpError
from supervisord_mcp.protocol.replay import Difference, Line, Replay, Replayed
from supervisord_mcp.protocol.tapping import TapRecord
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, Stream, clean_lines

RECORDS = [
    TapRecord(time=1.0, direction="from-host", session=3, kind="request", line='{"id":1,"method":"ping"}'),
    TapRecord(time=1.1, direction="to-server", kind="request", line="{}"),
    TapRecord(time=1.5, direction="to-host", session=3, kind="result", line='{"id":1,"result":{}}'),
]
LINES = (
    Line(time=1.0, session=3, direction="from-host", line='{"id":1,"method":"ping"}'),
    Line(time=1.5, session=3, direction="to-host", line='{"id":1,"result":{}}'),
)
SAME = Replayed(session=3, method="tools/call", tool="echo", id="1", verdict="same", before=0.5, now=0.0012)
AGAIN = Replayed(session=3, method="ping", id="9", verdict="unanswered")
OTHER = Replayed(
    session=3,
    method="tools/list",
    id="2",
    verdict="different",
    differences=(
        Difference(path="result.a", before='"x\x1b[2J"', now='"y"'),
        Difference(path="result.b\nsame", now="1"),
    ),
    before=1.0,
    now=1.0,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "fault.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in RECORDS))
    return path


def test_the_answers_are_compared(smcp: Smcp, daemon: FakeDaemon, file: Path) -> None:
    daemon.answers[Replay] = Stream([SAME, OTHER, AGAIN])
    ran = smcp("replay", str(file), "git", "--timeout", "5")
    assert clean_lines(ran.out) == [
        "same        #3 tools/call echo id=1  500ms -> 1.2ms",
        "different   #3 tools/list id=2  1.0s -> 1.0s",
        '    result.a: "x\\x1b[2J" -> "y"',
        "    result.b same: nothing -> 1",
        "unanswered  #3 ping id=9  - -> -",
        "3 requests: 1 the same answer, 1 another answer, 1 no answer again",
    ]
    assert ran.status == 1
    [asked] = daemon.asked
    assert asked == Replay(name="git", lines=LINES, patience=5.0)


def test_nothing_differs(smcp: Smcp, daemon: FakeDaemon, file: Path) -> None:
    daemon.answers[Replay] = Stream([SAME, AGAIN])
    assert smcp("replay", str(file), "git").status == 0
    daemon.answers[Replay] = Stream([])
    assert smcp("replay", str(file), "git").out == "0 requests: nothing to compare\n"


def test_json(smcp: Smcp, daemon: FakeDaemon, file: Path) -> None:
    daemon.answers[Replay] = Stream([SAME, OTHER])
    ran = smcp("replay", str(file), "git", "--json")
    assert [json.loads(line)["verdict"] for line in ran.out.splitlines()] == ["same", "different"]
    assert ran.status == 1


def test_what_the_daemon_refuses(smcp: Smcp, daemon: FakeDaemon, file: Path) -> None:
    daemon.answers[Replay] = SmcpError("a session was ended: no")
    ran = smcp("replay", str(file), "git")
    assert (ran.status, ran.err) == (1, "error[failed]: a session was ended: no\n")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "error[usage]: {} has nothing that a host said"),
        ('{"time":1,"direction":"to-server"}\n', "error[usage]: {} has nothing that a host said"),
        ('{"time":1,"direction":"from-host"}\nx\n', "error[usage]: {}:2: not a record of smcp tap: JSON is malformed"),
        ('{"x":' + "[" * 100_000, "error[usage]: {}:1: not a record of smcp tap: maximum recursion depth"),
        ('{"time":1,"direction":"up"}\n', "error[usage]: {}:1: not a record of smcp tap: Invalid enum value"),
        ('{"time":1,"direction":"from-host","cut":true}', "error[usage]: {}:1: only the beginning of a message"),
    ],
)
def test_what_is_no_recording(smcp: Smcp, tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    ran = smcp("replay", str(path), "git")
    assert ran.status == 2
    assert ran.err.startswith(error.format(path))


def test_what_cannot_be_read(smcp: Smcp, monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    def refuse(self: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert smcp("replay", str(file), "git").err == f"error[failed]: cannot read {file}: Permission denied\n"
