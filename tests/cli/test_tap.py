"""``smcp tap``."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from supervisord_mcp.errors import SmcpError
from supervisord_mcp.protocol.tapping import Tap, TapRecord
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, HangUp, Stream, clean_lines

CALL = '{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","arguments":{"a":"\\u001b[31m"}}}'
ARGUMENTS = '{"name":"echo","arguments":{"a":"\\u001b[31m"}}'
TOLD = '{"jsonrpc":"2.0","id":4,"result":{"content":[]}}'
RECORDS = [
    TapRecord(
        time=0.25,
        direction="from-host",
        session=3,
        host="cursor",
        kind="request",
        method="tools/call",
        tool="echo",
        id="4",
        size=len(CALL),
        line=CALL,
    ),
    TapRecord(
        time=1.5,
        direction="to-host",
        session=3,
        host="cursor",
        kind="result",
        method="tools/call",
        tool="echo",
        id="4",
        size=len(TOLD),
        seconds=0.0012,
        line=TOLD,
    ),
    TapRecord(time=2.0, direction="from-server", instance="s", size=5_000_000, line="oh\x1b[2J no", cut=True),
]


@pytest.fixture
def tapped(daemon: FakeDaemon) -> FakeDaemon:
    daemon.answers[Tap] = Stream(RECORDS)
    return daemon


def test_messages_are_shown(smcp: Smcp, tapped: FakeDaemon) -> None:
    words = ("--method", "tools/*", "--method", "ping", "--host", "cursor", "--side", "both")
    lines = clean_lines(smcp("tap", "git", "-f", *words).out)
    assert lines == [
        "00:00:00.250Z  cursor#3          →  tools/call echo id=4  102B  " + ARGUMENTS,
        '00:00:01.500Z  cursor#3          ←  tools/call echo result id=4  48B  1.2ms  {"content":[]}',
        "00:00:02.000Z  s                 ⇐  noise  4.8M  oh\\x1b[2J no… (4.8M)",
    ]
    asked = Tap(name="git", follow=True, most=4096, methods=("tools/*", "ping"), hosts=("cursor",), side="both")
    assert tapped.asked == [asked]


def test_long_ones_are_cut(smcp: Smcp, daemon: FakeDaemon) -> None:
    line = '{"id":1,"error":{"code":1,"message":"%s"}}' % ("x" * 2000)
    daemon.answers[Tap] = Stream([TapRecord(time=0.0, direction="to-host", kind="error", size=2040, line=line)])
    [shown] = clean_lines(smcp("tap", "git").out)
    assert shown.endswith("xxx… (2.0K)")
    assert 'error  2.0K  {"code":1,' in shown
    assert len(shown) < 400


def test_no_name_makes_a_line_of_its_own(smcp: Smcp, daemon: FakeDaemon) -> None:
    odd = "x\n00:00:00.000Z  cursor#1  →  tools/call harmless"
    told = TapRecord(
        time=0.0, direction="from-host", session=1, host=odd, kind="request", method=odd, tool=odd, line=odd
    )
    daemon.answers[Tap] = Stream([told])
    [shown] = clean_lines(smcp("tap", "git").out)
    assert shown.count("harmless") == 4


def test_only_the_messages(smcp: Smcp, tapped: FakeDaemon) -> None:
    assert smcp("tap", "git", "--raw").out.splitlines()[:2] == [CALL, TOLD]
    assert tapped.asked == [Tap(name="git", most=None)]


def test_json(smcp: Smcp, tapped: FakeDaemon) -> None:
    found = [json.loads(line) for line in smcp("tap", "git", "--json").out.splitlines()]
    assert [record["direction"] for record in found] == ["from-host", "to-host", "from-server"]
    assert found[0]["line"] == CALL
    ran = smcp("tap", "git", "--json", "--raw")
    assert (ran.status, ran.err.splitlines()[0]) == (2, "error[usage]: give --raw or --json, not both")


def test_another_side_is_named_in_plain_words(smcp: Smcp) -> None:
    ran = smcp("tap", "git", "--side", "foo")
    assert ran.status == 2
    assert "Value error" not in ran.err
    assert "'foo'" in ran.err


def test_they_are_saved_too(smcp: Smcp, tapped: FakeDaemon, tmp_path: Path) -> None:
    file = tmp_path / "fault.jsonl"
    assert len(smcp("tap", "git", "--save", str(file)).out.splitlines()) == 3
    assert tapped.asked == [Tap(name="git", most=None)]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [json.loads(line)["line"] for line in file.read_text().splitlines()][:2] == [CALL, TOLD]
    again = smcp("tap", "git", "--save", str(file))
    assert again.status == 2
    assert again.err.splitlines()[0] == f"error[usage]: {file} exists already"
    assert len(file.read_text().splitlines()) == 3
    nowhere = smcp("tap", "git", "--save", str(tmp_path / "no" / "x"))
    assert nowhere.err.startswith(f"error[failed]: cannot write {tmp_path}/no/x: No such file")


def test_the_name_of_a_file_is_free_again_where_nothing_was_told(
    smcp: Smcp, daemon: FakeDaemon, tmp_path: Path
) -> None:
    file = tmp_path / "fault.jsonl"
    daemon.answers[Tap] = SmcpError("no messages of 'git' are kept")
    assert smcp("tap", "git", "--save", str(file)).status == 1
    assert not file.exists()
    daemon.answers[Tap] = Stream(RECORDS)
    daemon.answers[Tap].cut = True
    assert smcp("tap", "git", "--save", str(file)).status == 3
    assert len(file.read_text().splitlines()) == 3, "what was told is kept"


def test_the_end_of_the_daemon_is_told_also_where_nothing_passed(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[Tap] = HangUp()
    ran = smcp("tap", "git", "-f")
    assert (ran.status, ran.err.splitlines()[0]) == (3, "error[no-daemon]: the daemon ended, so nothing more comes")
    assert "before it answered" in smcp("tap", "git").err


def test_a_full_disk_is_told(smcp: Smcp, tapped: FakeDaemon, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    full = open("/dev/full", "wb", buffering=0)  # noqa: SIM115 - the command closes it
    monkeypatch.setattr("supervisord_mcp.cli.tap.open", lambda *_rest, **_more: full, raising=False)
    ran = smcp("tap", "git", "--save", str(tmp_path / "x"))
    assert ran.err.splitlines()[0] == f"error[failed]: cannot write {tmp_path / 'x'}: No space left on device"
    assert len(ran.out.splitlines()) == 0
