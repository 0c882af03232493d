"""``smcp explain``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Smcp


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "site"
    (place / ".git").mkdir(parents=True)
    return place


def configure(home: Path, text: str) -> None:
    (home / "config").mkdir(exist_ok=True)
    (home / "config" / "config.toml").write_text(text)


@pytest.mark.bwrap
def test_words_filter_and_command_line(smcp: Smcp, home: Path, project: Path) -> None:
    configure(home, '[servers.files]\ncommand = "sh -c true"\nprofile = "files-rw"\nenv = { TOKEN = "hush" }\n')
    ran = smcp("explain", "files", "--project", str(project))
    assert ran.status == 0, ran.err
    lines = ran.out.splitlines()
    titles = [line for line in lines if line and not line.startswith(" ")]
    assert titles[:9] == [
        *("profile", "files", "network", "environment", "credentials", "system calls", "limits", "user", "not covered"),
    ]
    assert f"  read and write: {project}" in lines
    assert "  from its entry and profile: TOKEN" in lines
    assert "hush" not in ran.out
    assert "filter" not in titles
    assert lines[lines.index("command line") + 1].startswith("env -i ")
    assert "  ptrace: EPERM" in smcp("explain", "files", "--project", str(project), "--filter").out


@pytest.mark.bwrap
def test_json(smcp: Smcp, home: Path, project: Path) -> None:
    configure(home, f'[servers.x]\ncommand = {json.dumps([sys.executable, "-V"])}\nnetwork = "internet"\n')
    data = json.loads(smcp("explain", "x", "--json").out)
    assert (data["server"], data["profile"], data["isolation"], data["scope"]) == ("x", "default", "sandbox", "global")
    assert data["sections"][0]["lines"][-1] == "the entry grants more: network: internet is more than none"
    assert "ptrace: EPERM" in data["filter"]
    assert "/bwrap --unshare-user " in data["command_line"]
    assert data["obstacle"] == ""


def test_what_cannot_be_started_is_explained_all_the_same(smcp: Smcp, home: Path) -> None:
    configure(home, '[servers.x]\ncommand = "no-such-program-anywhere"\n')
    ran = smcp("explain", "x")
    assert ran.status == 0
    assert "command line\n  none: " in ran.out
    assert "no-such-program-anywhere" in ran.out


def test_a_server_that_needs_a_project_says_so(smcp: Smcp, home: Path) -> None:
    configure(home, '[servers.x]\ncommand = "sh"\nprofile = "files-ro"\n')
    ran = smcp("explain", "x")
    assert ran.status == 2
    assert "--project" in ran.err


def test_an_unknown_server(smcp: Smcp) -> None:
    assert smcp("explain", "x").status == 4
