"""``smcp wrap``: once registered, for ever the same server, and every refusal reaches the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp import shim
from supervisord_mcp.cli import wrap
from supervisord_mcp.config import edit
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.errors import ConfigError, Problem, UsageError
from supervisord_mcp.protocol import control
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that can be found, wherever these tests run."""
    place = tmp_path / "programs"
    place.mkdir()
    for name in ("uvx", "weather", "python3"):
        (place / name).write_text("#!/bin/sh\n")
        (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the shim was called with."""
    calls: list[list[str]] = []

    def main(argv: list[str]) -> int:
        calls.append(argv)
        return 0

    monkeypatch.setattr(shim, "main", main)
    return calls


def wrapped(home: Path) -> dict[str, Any]:
    found = tomllib.loads((home / "config" / "conf.d" / "wrapped.toml").read_text())["servers"]
    assert isinstance(found, dict)
    return found


def grow_old(home: Path) -> None:
    os.utime(home / "config" / "conf.d" / "wrapped.toml", (0, 0))


def test_registers_tells_the_daemon_and_connects(
    smcp: Smcp, home: Path, daemon: FakeDaemon, connected: list[list[str]]
) -> None:
    ran = smcp("wrap", "--", "uvx", "weather-mcp", "--key", "$x")
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    (name,) = wrapped(home)
    assert "weather" in name
    assert connected == [[name]]
    assert daemon.asked == [control.Reload()]


def test_registers_once(smcp: Smcp, home: Path, daemon: FakeDaemon, connected: list[list[str]]) -> None:
    words = ("wrap", "--project", "/src/a", "--inherit", "TOKEN", "--", "uvx", "weather", "$x", "~")
    smcp(*words)
    grow_old(home)
    before = (home / "config" / "conf.d" / "wrapped.toml").read_bytes()
    for _ in range(3):
        assert smcp(*words).status == 0
    assert (home / "config" / "conf.d" / "wrapped.toml").read_bytes() == before
    assert connected == [["weather", "--project", "/src/a"]] * 4
    assert len(daemon.asked) == 1


@pytest.mark.parametrize("name", [(), ("--name", "sky")])
def test_a_command_that_is_not_there_leaves_no_entry(
    name: tuple[str, ...], smcp: Smcp, home: Path, connected: list[list[str]]
) -> None:
    ran = smcp("wrap", *name, "--", "nosuchprogram", "x")
    assert (ran.status, ran.out, connected) == (6, "", [])
    assert ran.err.startswith("error[launch]: nothing was registered, command not found: nosuchprogram (searched in ")
    assert list((home / "config").rglob("*.toml")) == []
    place = home / "elsewhere"
    place.mkdir()
    (place / "nosuchprogram").write_text("#!/bin/sh\n")
    (place / "nosuchprogram").chmod(0o755)
    (home / "config").mkdir(exist_ok=True)
    (home / "config" / "config.toml").write_text(f'[daemon]\npath = ["{place}"]\n')
    assert smcp("wrap", *name, "--", "nosuchprogram", "x").status == 0


def test_what_was_registered_a_moment_ago_is_told_again(
    smcp: Smcp, home: Path, daemon: FakeDaemon, connected: list[list[str]]
) -> None:
    smcp("wrap", "--", "weather")
    smcp("wrap", "--", "weather")
    assert daemon.asked == [control.Reload(), control.Reload()]


def test_more_to_inherit_changes_the_entry(smcp: Smcp, home: Path, connected: list[list[str]]) -> None:
    smcp("wrap", "--inherit", "A", "--", "weather")
    grow_old(home)
    smcp("wrap", "--inherit=B", "--", "weather")
    assert wrapped(home)["weather"]["inherit"] == ["A", "B"]
    assert connected == [["weather"]] * 2


def test_other_words_are_another_server(smcp: Smcp, home: Path, connected: list[list[str]]) -> None:
    smcp("wrap", "--", "weather", "a")
    smcp("wrap", "--", "weather", "b")
    assert len(wrapped(home)) == 2
    assert connected[0] != connected[1]


def test_settings_of_a_new_server(smcp: Smcp, home: Path, connected: list[list[str]]) -> None:
    smcp("wrap", "--network", "host", "--mount", "/data:rw", "--runtime=bare", "--profile", "strict", "--", "weather")
    assert wrapped(home)["weather"] == {
        "command": ["weather"],
        "network": "host",
        "mounts": [{"path": "/data", "access": "rw"}],
        "runtime": "bare",
        "profile": "strict",
    }


def test_a_relative_program_is_that_of_the_host(smcp: Smcp, home: Path, connected: list[list[str]]) -> None:
    (home / "weather.py").touch()
    smcp("wrap", "--", "./weather.py", "./data")
    assert wrapped(home)["weather"]["command"] == [str(home / "weather.py"), "./data"]


@pytest.mark.parametrize("script", ["srv.py", "build/srv.py", "./srv.py"])
def test_a_relative_script_is_that_of_the_host(smcp: Smcp, home: Path, connected: list[list[str]], script: str) -> None:
    (home / "build").mkdir(exist_ok=True)
    (home / script).touch()
    smcp("wrap", "--", "python3", script, "data.py")
    assert wrapped(home)["srv"]["command"] == ["python3", str((home / script).absolute()), "data.py"]


def test_a_name(smcp: Smcp, home: Path, connected: list[list[str]]) -> None:
    for _ in range(2):
        assert smcp("wrap", "--name", "sky", "--network", "host", "--", "weather", "$x").status == 0
    assert connected == [["sky"]] * 2
    found = tomllib.loads(smcp("config", "show", "sky").out)["servers"]["sky"]
    assert found["command"] == ["weather", "$$x"]
    assert found["network"] == "host"


@pytest.mark.parametrize(("theirs", "status"), [("weather", 0), ("other", 2)])
def test_a_name_that_somebody_registers_meanwhile(
    smcp: Smcp,
    connected: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    theirs: str,
    status: int,
) -> None:
    add_server = edit.add_server

    def too_late(paths: Paths, name: str, entry: dict[str, Any]) -> Path:
        add_server(paths, name, {"command": [theirs]})
        return add_server(paths, name, entry)

    monkeypatch.setattr(edit, "add_server", too_late)
    assert smcp("wrap", "--name", "sky", "--", "weather").status == status
    assert connected == [["sky"]][status:]


def test_a_name_that_runs_something_else(smcp: Smcp, home: Path, connected: list[list[str]]) -> None:
    (home / "config").mkdir()
    (home / "config" / "config.toml").write_text('[servers.sky]\ncommand = ["other"]\n')
    ran = smcp("wrap", "--name", "sky", "--", "weather")
    assert ran.status == 2
    assert "runs another command" in ran.err
    assert "smcp connect sky" in ran.err
    assert not connected


@pytest.mark.parametrize(
    "words",
    [(), ("weather",), ("--",), ("--name",), ("--name", "--", "x"), ("--colour", "red", "--", "x"), ("x", "--", "y")],
)
def test_words_that_make_no_sense(smcp: Smcp, connected: list[list[str]], words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"smcp wrap \[--name"):
        wrap.parse(words)
    assert smcp("wrap", *words).status == 2
    assert not connected


def test_options_after_the_dashes_are_of_the_command() -> None:
    assert wrap.parse(["--", "x", "--", "--name", "-h"]).command == ["x", "--", "--name", "-h"]


def test_help_of_the_command_is_not_ours(smcp: Smcp, connected: list[list[str]]) -> None:
    smcp("wrap", "--", "weather", "--help")
    assert connected == [["weather"]]


@pytest.mark.parametrize(
    "text", ["servers = 3", "[servers]\nx = 3", '[servers.x]\ncommand = ["weather"]\ninherit = 3', "[", "\u0000"]
)
def test_a_spoilt_file_of_registrations_is_named(smcp: Smcp, home: Path, connected: list[list[str]], text: str) -> None:
    file = home / "config" / "conf.d" / "wrapped.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    ran = smcp("wrap", "--", "weather")
    assert ran.status == 2
    assert f"{file}:" in ran.err
    assert not connected


def run(home: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "supervisord_mcp", "wrap", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "SMCP_HOME": str(home), "HOME": str(home)},
        check=False,
    )


INITIALIZE = '{"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": {}}\n'


def test_the_host_is_told_what_is_wrong_with_the_configuration(home: Path) -> None:
    (home / "config").mkdir()
    (home / "config" / "config.toml").write_text("[servers.x]\n")
    ran = run(home, "--", "weather", stdin=INITIALIZE)
    assert ran.returncode == 2
    answer = json.loads(ran.stdout)
    assert answer["id"] == "a"
    assert "config.toml:1: servers.x" in answer["error"]["message"]
    assert "config.toml:1: servers.x" in ran.stderr


def test_the_host_is_told_what_the_daemon_refuses(home: Path, daemon: FakeDaemon) -> None:
    daemon.answers[control.Reload] = ConfigError((Problem("/c", 1, "a", "wrong"),))
    ran = run(home, "--", "weather", stdin=INITIALIZE)
    assert ran.returncode == 2
    assert "/c:1: a: wrong" in json.loads(ran.stdout)["error"]["message"]


def test_the_host_is_told_the_unexpected_too(home: Path) -> None:
    (home / "config").mkdir()
    (home / "config" / "conf.d").symlink_to("conf.d")
    ran = run(home, "--", "weather", stdin=INITIALIZE)
    assert ran.returncode != 0
    assert json.loads(ran.stdout)["error"]["message"]
