"""``smcp tools``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisord_mcp.protocol import control
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, clean_lines, raw

TOOLS = {
    "tools": [
        {
            "name": "add",
            "description": "Adds.\nReally.",
            "inputSchema": {"type": "object", "properties": {"a": {}, "b": {"type": 1e3}}, "required": ["a"]},
            "x": 1,
        },
        {"name": "odd", "title": "Odd", "inputSchema": {"properties": [1]}},
        {"name": "bare"},
    ]
}


def test_tools(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Tools] = raw(TOOLS)
    header, add, odd, bare = clean_lines(smcp("tools", "math").out)
    assert header.split() == ["TOOL", "ARGUMENTS", "DESCRIPTION"]
    assert add.split() == ["add", "a", "[b]", "Adds."]
    assert odd.split() == ["odd", "?", "Odd"]
    assert bare.split() == ["bare"]
    assert daemon.asked == [control.Tools(name="math")]
    assert json.loads(smcp("tools", "math", "--json").out) == TOOLS


def test_tools_of_a_busy_server(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Tools] = raw({**TOOLS, "busy": True})
    ran = smcp("tools", "math")
    assert ran.err == "math is busy and does not answer; this is what it offered last\n"
    assert "Adds." in ran.out


def test_a_server_without_tools(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Tools] = control.ToolsResult()
    ran = smcp("tools", "math", "--refresh")
    assert (ran.status, ran.out, ran.err) == (0, "", "math has no tools\n")
    assert daemon.asked == [control.Tools(name="math", refresh=True)]


def test_project_is_the_nearest_marked_directory(
    smcp: Smcp, daemon: FakeDaemon, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answers[control.Tools] = control.ToolsResult()
    deep = home / "site" / "src"
    deep.mkdir(parents=True)
    (home / "site" / ".git").mkdir()
    other = home / "other"
    other.mkdir()
    monkeypatch.chdir(deep)
    smcp("tools", "math")
    smcp("tools", "math", "--project", str(other))
    smcp("tools", "math", "--project", "..")
    projects = [operation.project for operation in daemon.asked if isinstance(operation, control.Tools)]
    assert projects == [str(home / "site"), str(other), str(home / "site")]
    ran = smcp("tools", "math", "--project", str(home / "missing"))
    assert ran.status == 2
    assert ran.err.startswith("error[usage]:")
