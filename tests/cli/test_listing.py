"""``smcp list``, with and without a daemon."""

from __future__ import annotations

import json
from pathlib import Path

from supervisord_mcp.protocol import control
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, clean_lines


def test_list(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.ListServers] = control.ListResult(
        servers=(
            control.ServerEntry(
                name="git",
                command=("uvx", "a b"),
                start="eager",
                scope="auto",
                runtime="bwrap",
                profile="node",
                network="none",
                catalogue=True,
                tools=12,
            ),
            control.ServerEntry(name="new", command=("x",), catalogue=False),
        )
    )
    header, git, new = clean_lines(smcp("list").out)
    assert header.split() == ["SERVER", "START", "SCOPE", "RUNTIME", "PROFILE", "NETWORK", "CATALOGUE", "COMMAND"]
    assert git.split() == ["git", "eager", "auto", "bwrap", "node", "none", "12", "tools", "uvx", "'a", "b'"]
    assert new.split() == ["new", "-", "x"]
    assert json.loads(smcp("list", "--json").out)["servers"][0]["catalogue"] is True


def test_list_without_a_daemon_reads_the_files(smcp: Smcp, home: Path) -> None:
    assert "no servers are configured" in smcp("list").out
    (home / "config").mkdir()
    (home / "config" / "config.toml").write_text('[servers.time]\ncommand = ["uvx", "x"]\n')
    found = json.loads(smcp("list", "--json").out)["servers"]
    assert [(server["name"], server["command"], server["catalogue"]) for server in found] == [
        ("time", ["uvx", "x"], False)
    ]
