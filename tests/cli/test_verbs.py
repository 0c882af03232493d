"""``start``, ``stop``, ``restart``, ``reload``, and what every command does with the errors of the daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.errors import (
    ConfigError,
    FatalServerError,
    IsolationError,
    NotRunningError,
    Problem,
    SmcpError,
    UnknownServerError,
)
from supervisord_mcp.protocol import control
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon


@pytest.mark.parametrize(
    ("words", "operation"),
    [
        (("start", "git"), control.Start(names=("git",))),
        (("start", "--all"), control.Start(all=True)),
        (("stop", "git", "time"), control.Stop(names=("git", "time"))),
        (("restart", "git"), control.Restart(names=("git",))),
        (("reload",), control.Reload()),
    ],
)
def test_verbs_succeed_in_silence(
    smcp: Smcp, daemon: FakeDaemon, words: tuple[str, ...], operation: control.Operation
) -> None:
    ran = smcp(*words)
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert daemon.asked == [operation]


VERBS = {"start": control.Start, "stop": control.Stop, "restart": control.Restart}


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_know_the_project(
    smcp: Smcp, daemon: FakeDaemon, home: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    below = home / "site" / "src"
    below.mkdir(parents=True)
    (home / "site" / ".git").mkdir()
    monkeypatch.chdir(below)
    monkeypatch.setenv("TOKEN", "mine")
    assert smcp(verb, "a").status == 0
    assert smcp(verb, "a", "--project", str(home)).status == 0
    found = None if verb == "stop" else str(home / "site")
    assert daemon.asked == [
        VERBS[verb](names=("a",), project=found),
        VERBS[verb](names=("a",), project=str(home), narrow=True),
    ]
    assert ("TOKEN" in daemon.hellos[0].environ) == (verb != "stop")
    assert smcp(verb, "a", "--project", "nowhere").status == 2


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
def test_verbs_want_names_or_all(smcp: Smcp, daemon: FakeDaemon, verb: str) -> None:
    for words in ((verb,), (verb, "git", "--all")):
        ran = smcp(*words)
        assert ran.status == 2
        assert "error[usage]" in ran.err
    assert not daemon.asked


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SmcpError("x"), 1),
        (ConfigError((Problem("/c.toml", 3, "servers.a.command", "is missing"),)), 2),
        (UnknownServerError("no server x", remedy="did you mean y?"), 4),
        (NotRunningError("x"), 5),
        (FatalServerError("x"), 6),
        (IsolationError("x"), 7),
        (control.Failure(code="not-trusted", message="x", exit=8).error(), 8),
    ],
)
def test_exit_status_is_that_of_the_error(smcp: Smcp, daemon: FakeDaemon, error: SmcpError, status: int) -> None:
    daemon.answers[control.Start] = error
    ran = smcp("start", "x")
    assert ran.status == status
    assert ran.out == ""
    assert ran.err.startswith(f"error[{error.code}]:")
    assert error.message in ran.err
    assert error.remedy in ran.err


@pytest.mark.parametrize(
    "words",
    [("status",), ("stop", "a"), ("events",), ("logs", "a", "-f"), ("down",), ("reload",), ("status", "--json")],
)
def test_without_a_daemon(smcp: Smcp, words: tuple[str, ...]) -> None:
    ran = smcp(*words)
    assert ran.status == 3
    assert ran.out == ""
    assert ran.err.startswith("error[no-daemon]: no daemon runs")
    assert "smcp up" in ran.err


def test_faults_of_the_configuration_begin_their_lines(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Reload] = ConfigError((Problem("/c", 3, "a", "bad"), Problem("/d", None, "", "worse")))
    assert smcp("reload").err == "error[config]:\n/c:3: a: bad\n/d: worse\n"
