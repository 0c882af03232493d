"""``smcp usage``: tables for people, JSON for programs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import pytest
from rich.text import Text

from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.usage import UsageResult
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, clean_lines
from tests.cli.figures import GIT, IDLE, RESULT


@pytest.fixture
def told(daemon: FakeDaemon) -> FakeDaemon:
    daemon.answers[control.Usage] = RESULT
    return daemon


def test_usage(smcp: Smcp, told: FakeDaemon) -> None:
    lines = clean_lines(smcp("usage").out)
    assert lines[1].split() == [
        *("git", "RUNNING", "42.5%", "91M", "130M", "2", "12", "33", "5.0M/7.0M", "1.0K/2.0K", "1h", "1m"),
    ]
    assert lines[2:5] == [
        "    limits exceeded: memory 2 times",
        "    held back by its limit of processors for 3.5s",
        "    waits for a processor 12 % of the time",
    ]
    assert lines[5].split() == ["idle", "STOPPED", *["-"] * 8, "0.0s"]
    assert lines[6] == "daemon: 0.2% of a processor, 38M, 40 open files"
    assert lines[9].split()[:9] == ["git", "120", "1", "3", "0", "1", "4.0ms", "20ms", "-"]
    assert lines[-1] == "saved by sharing: 4 processes and 160M (estimated; smcp usage NAME says how)"
    [asked] = told.asked
    assert asked == control.Usage(fresh=True)


def test_usage_fits_80_columns(smcp: Smcp, told: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TERM", "xterm"), ("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("COLUMNS", "80")):
        monkeypatch.setenv(name, value)
    calls = msgspec.structs.replace(GIT.total, p50=0.0123, p95=0.123, p99=0.456, last=1052.0)
    server = msgspec.structs.replace(GIT, name="memories", total=calls)
    told.answers[control.Usage] = msgspec.structs.replace(RESULT, servers=(server,))
    lines = [Text.from_ansi(line).plain for line in smcp("usage").out.splitlines()]
    assert max(map(len, lines)) <= 80
    assert [line.split()[-2:] for line in lines if line.startswith("memories")][1] == ["17m", "ago"]


def test_usage_of_one_server(smcp: Smcp, told: FakeDaemon) -> None:
    told.answers[control.Usage] = msgspec.structs.replace(RESULT, servers=(GIT,))
    out = smcp("usage", "git").out
    assert "git_log" in out
    assert "editor" in out
    assert "2 starts (1 for a call that waited, 1 after an end that nobody wanted), 1.5s each" in out
    assert "each with what was installed for it, the last one 1.0s" in out
    assert "process 4242 node: 90M, 12.5 s of a processor, 11 threads, 30 open files" in out
    assert "saved by sharing: 4 processes and 160M, estimated: a guess" in out
    assert isinstance(told.asked[0], control.Usage)
    assert told.asked[0].name == "git"


def test_usage_since(smcp: Smcp, told: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 5000.0)
    out = smcp("usage", "--since", "10m").out
    assert "git, last 10m: " in out
    assert "memory 50M to 169M" in out
    assert "2 starts" in out
    assert "idle, last 10m: nothing ran" in out
    out = smcp("usage", "--since", "1970-01-01T01:20").out
    assert "git, since 1970-01-01T01:20: " in out
    assert "idle, since 1970-01-01T01:20: nothing ran" in out
    smcp("usage", "--since", "1d")
    since = [asked.since for asked in told.asked if isinstance(asked, control.Usage)]
    assert since == [4400.0, 4800.0, 5000.0 - 86400]


def test_usage_since_tells_of_long_steps_only_the_most(smcp: Smcp, told: FakeDaemon) -> None:
    coarse = msgspec.structs.replace(GIT, step=60.0)
    told.answers[control.Usage] = msgspec.structs.replace(RESULT, servers=(coarse,))
    assert "memory up to 169M, disk" in smcp("usage", "--since", "6h").out
    even = msgspec.structs.replace(GIT, history=GIT.history[:1])
    told.answers[control.Usage] = msgspec.structs.replace(RESULT, servers=(even,))
    assert "memory 50M, disk" in smcp("usage", "--since", "10m").out


def test_a_limit_that_was_exceeded_once(smcp: Smcp, told: FakeDaemon) -> None:
    once = msgspec.structs.replace(GIT, breaches={"memory": 1, "pids": 2})
    told.answers[control.Usage] = msgspec.structs.replace(RESULT, servers=(once,))
    assert "limits exceeded: memory 1 time, pids 2 times" in smcp("usage").out


@pytest.mark.parametrize("text", ["soon", "0", "-5m", "", "2d", "2020-01-01", "9999-12-31"])
def test_usage_since_no_time(smcp: Smcp, told: FakeDaemon, text: str) -> None:
    ran = smcp("usage", "--since", text)
    assert (ran.status, told.asked) == (2, [])
    assert "--since" in ran.err


def test_usage_json_is_what_the_daemon_said(smcp: Smcp, told: FakeDaemon) -> None:
    answer = {**json.loads(msgspec.json.encode(RESULT)), "new": [1e400, 12345678901234567890123]}
    told.answers[control.Usage] = msgspec.Raw(json.dumps(answer).replace("Infinity", "1e400").encode())
    out = smcp("usage", "--json").out
    assert "1e400" in out
    assert json.loads(out)["servers"][0]["figures"]["memory"] == 91 << 20


def test_usage_without_servers(smcp: Smcp, told: FakeDaemon) -> None:
    told.answers[control.Usage] = UsageResult(at=1.0, problems=("observer x is not told any more: it failed",))
    out = smcp("usage").out
    assert "problem: observer x is not told any more: it failed" in out
    assert "no servers are configured" in out


def test_usage_of_what_never_ran(smcp: Smcp, told: FakeDaemon) -> None:
    told.answers[control.Usage] = msgspec.structs.replace(RESULT, servers=(IDLE,))
    assert smcp("usage", "idle").status == 0


def test_usage_draws(smcp: Smcp, told: FakeDaemon, home: Path) -> None:
    ran = smcp("usage", "--plot", "a.svg")
    assert (ran.status, ran.out) == (0, "")
    assert "<svg" in (home / "a.svg").read_text()
    [asked] = told.asked
    assert isinstance(asked, control.Usage)
    assert asked.since is not None
