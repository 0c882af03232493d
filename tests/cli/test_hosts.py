"""``smcp hosts``."""

from __future__ import annotations

import json

from tests.adoption.machine import TIME, TOKEN, Machine
from tests.cli.conftest import Smcp


def test_a_machine_without_hosts(smcp: Smcp, machine: Machine) -> None:
    ran = smcp("hosts")
    assert (ran.status, ran.out) == (0, "no host was found\n")


def test_what_hosts_have(smcp: Smcp, machine: Machine) -> None:
    cursor = machine.cursor(
        time=TIME,
        far={"url": "https://mcp.example.com"},
        git={"command": "x", "env": {"GIT_TOKEN": TOKEN}},
        ours={"command": "smcp", "args": ["connect", "clock"]},
    )
    windsurf = machine.write(".codeium/windsurf/mcp_config.json", {"time": {**TIME, "disabled": True}})
    shared = machine.shared(here=TIME)
    broken = machine.write(".gemini/settings.json", "{")
    (machine.home / ".codex").mkdir()
    ran = smcp("hosts")
    assert ran.status == 0
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    for line in (
        f"cursor time by itself {cursor}",
        f"cursor far elsewhere {cursor}",
        f"cursor ours through smcp (clock) {cursor}",
        f"windsurf time by itself, disabled {windsurf}",
        f"claude-code here by itself {shared}",
        f"not trusted; look at it, then: smcp trust {shared}",
        "codex - -",
        "time of cursor, time of windsurf",
        f"{cursor}:12: git: env.GIT_TOKEN",
    ):
        assert line in lines, (line, lines)
    assert any(line.startswith(f"{broken}:1: column") for line in lines)
    assert TOKEN not in ran.out


def test_for_programs(smcp: Smcp, machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    machine.claude(time=TIME)
    found = json.loads(smcp("hosts", "cursor", "--json").out)
    (host,) = found["hosts"]
    assert (host["host"], host["title"], host["installed"]) == ("cursor", "Cursor", True)
    (read,) = host["files"]
    assert (read["path"], read["scope"], read["trust"]) == (str(file), "user", None)
    assert read["servers"] == [
        {
            "name": "time",
            "line": 3,
            "scope": "user",
            "way": "direct",
            "server": None,
            "gone": None,
            "disabled": False,
            "tokens": [],
            "unresolved": [],
        }
    ]
    (group,) = json.loads(smcp("hosts", "--json").out)["duplicates"]
    assert [one["host"] for one in group] == ["claude-code", "cursor"]


def test_what_changed_since_it_was_adopted(smcp: Smcp, machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    machine.adopt()
    machine.cursor(time=TIME)
    assert f"time in {file} runs beside smcp again; smcp adopt cursor" in smcp("hosts").out
    (one,) = json.loads(smcp("hosts", "--json").out)["drift"]
    assert (one["change"], one["remedy"]) == ("direct", "smcp adopt cursor")


def test_a_host_that_is_not_known(smcp: Smcp, machine: Machine) -> None:
    ran = smcp("hosts", "emacs")
    assert (ran.status, "claude-code" in ran.err) == (2, True)


def test_an_entry_whose_smcp_is_gone(smcp: Smcp, machine: Machine) -> None:
    gone = machine.root / "venv/bin/smcp"
    file = machine.cursor(time={"command": str(gone), "args": ["connect", "time"]})
    out = smcp("hosts").out
    assert "by a smcp that is not there any more (smcp adopt writes them again)" in out
    assert f"  {file}:3: time: {gone}\n" in out
    gone.parent.mkdir(parents=True)
    gone.touch()
    assert "not there any more" not in smcp("hosts").out


def test_help_leads_to_the_watch_of_the_daemon(smcp: Smcp) -> None:
    said = " ".join(smcp("hosts", "--help").out.split())
    assert "With daemon.watch_hosts in the configuration a running daemon sees such changes itself" in said
    assert "nothing is done before you confirm it in smcp adopt" in said


def test_nobody_knows_what_is_gone_inside_of_a_container(smcp: Smcp, machine: Machine) -> None:
    servers = {"time": {"command": "/opt/in/container/smcp", "args": ["connect", "time"]}}
    text = json.dumps({"customizations": {"vscode": {"mcp": {"servers": servers}}}})
    machine.write("site/.devcontainer/devcontainer.json", text)
    out = smcp("hosts").out
    assert "through smcp" in out
    assert "not there any more" not in out
