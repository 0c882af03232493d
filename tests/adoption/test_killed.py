"""A command that is killed between any two of its steps loses nothing: files, backups, secrets and servers fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisord_mcp.adoption.records import Records
from supervisord_mcp.cli import main
from supervisord_mcp.config.load import load
from supervisord_mcp.config.paths import Paths, find_paths
from supervisord_mcp.credentials.vault import Vault
from supervisord_mcp.hosts.base import Surroundings
from supervisord_mcp.hosts.catalogue import HOSTS
from supervisord_mcp.hosts.files import read
from tests.adoption.machine import TIME, TOKEN
from tests.kit.daemon import ROOT

#: More than a command has steps.
HOMES = 52
#: Runs a command that can make no file longer than so many bytes.
LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""
GIT = {"command": "x-mcp", "env": {"GIT_TOKEN": TOKEN}}
FILES = {
    ".cursor/mcp.json": json.dumps({"mcpServers": {"time": TIME, "git": GIT}}, indent=1).replace("\n", "\r\n"),
    ".claude.json": json.dumps({"mcpServers": {"clock": TIME}}),
}


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Homes with the same two files; none has a keyring, or a project above it."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "SMCP_PROJECT", "CLAUDE_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    found = [tmp_path / "homes" / str(number) for number in range(HOMES)]
    for home in found:
        for name, text in FILES.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(text.encode())
    return found


def killed(homes: list[Path], *words: str) -> list[Path]:
    """Run a command that is killed one step later in each home; return the homes in which it was."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.adoption.killed", str(homes[0].parent), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return homes[1 : int(done.stdout) + 1]


def in_home(home: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Run a command in a home, and return its status."""
    for name, value in (("HOME", home), ("SMCP_HOME", home / "smcp")):
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(home)
    return main(words)


def paths_of(home: Path) -> Paths:
    return find_paths({"HOME": str(home), "SMCP_HOME": str(home / "smcp")}, os.getuid())


def state(home: Path) -> list[bool]:
    """Return which files are adopted; each is whole, and what it names is there with its secret."""
    servers = load(paths_of(home)).config.servers
    adopted = []
    for key, name in (("cursor", ".cursor/mcp.json"), ("claude-code", ".claude.json")):
        reading = read(HOSTS[key].files(Surroundings(home))[0])
        assert not reading.problems
        adopted.append(reading.content != FILES[name].encode())
        if not adopted[-1]:
            continue
        assert reading.content.count(b"supervisord_mcp/shim.py") == len(reading.entries)
        records = Records.of(paths_of(home))
        kept = [records.before(one) for one in records.adopted() if one.file == str(home / name)]
        assert kept == [FILES[name].encode()]
        for entry in reading.entries:
            assert entry.words[4] in servers
    if adopted[0] and TOKEN not in servers["git"].env.values():
        values = Vault(paths_of(home), {}).values()
        assert values[servers["git"].credentials["GIT_TOKEN"].removeprefix("vault:")] == TOKEN
    return adopted


def given_back(home: Path) -> None:
    """Assert that every file is what it was, and that nothing else is left, of backups neither."""
    beside = {path.name for name in FILES for path in (home / name).parent.iterdir()}
    assert beside == {".cursor", ".claude.json", "mcp.json", "smcp"}
    assert {name: (home / name).read_bytes() for name in FILES} == {n: text.encode() for n, text in FILES.items()}
    records = Records.of(paths_of(home))
    assert records.adopted() == ()
    assert {one.name for one in records.directory.iterdir()} == {"records.json", "lock", "commands.lock"}


@pytest.mark.slow
def test_adopt_that_is_killed_at_every_step(homes: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    cut_short = killed(homes, "adopt", "--yes", "--untried")
    states = [state(home) for home in cut_short]
    assert states[0] == [False, False]
    # The last step is the second file.
    assert states[-1] == [False, True]
    for home in cut_short[::12]:
        assert in_home(home, monkeypatch, "adopt", "--yes", "--untried") == 0
        assert state(home) == [True, True]
        assert sorted(load(paths_of(home)).config.servers) == ["clock", "git"]
        assert in_home(home, monkeypatch, "release", "--yes") == 0
        given_back(home)


@pytest.mark.slow
def test_release_that_is_killed_at_every_step(homes: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for home in homes[:16]:
        assert in_home(home, monkeypatch, "adopt", "--yes", "--untried") == 0
    cut_short = killed(homes[:16], "release", "--yes")
    assert len(cut_short) > 5
    for home in cut_short:
        assert load(paths_of(home)).config.servers.keys() == {"clock", "git"}
        assert in_home(home, monkeypatch, "release", "--yes") == 0
        given_back(home)


@pytest.mark.parametrize("room", [0, 250, 700])
def test_a_disk_without_room_loses_nothing(homes: list[Path], monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    home = homes[0]
    environ = {**os.environ, "HOME": str(home), "SMCP_HOME": str(home / "smcp"), "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-m", "supervisord_mcp", "adopt", "--yes", "--untried")
    # What is longer fails in the middle, as it does on a full disk.
    done = subprocess.run(
        [sys.executable, "-B", "-c", LIMITED, str(room), *command],
        env=environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        cwd=home,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done
    assert b"File too large" in done.stderr
    assert b"unexpected" not in done.stderr
    assert state(home) != [True, True]
    left = {one.name for one in home.rglob("*") if one.suffix in (".tmp", ".before", ".after")}
    assert len(left) == 2 * sum(state(home))
    assert in_home(home, monkeypatch, "adopt", "--yes", "--untried") == 0
    adopted = load(paths_of(home)).config.servers["git"]
    assert TOKEN in adopted.env.values() or adopted.credentials
    assert in_home(home, monkeypatch, "release", "--yes") == 0
    given_back(home)
