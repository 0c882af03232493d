"""``smcp doctor``."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from supervisord_mcp.cli import doctor
from supervisord_mcp.examination import Room
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.control import DaemonStatus, StatusResult
from tests.adoption.machine import TIME, Machine
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon
from tests.test_doctor import BLOCKED, WELL


def test_a_machine_that_is_well(smcp: Smcp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "examine", lambda *_: WELL)
    ran = smcp("doctor")
    assert ran.status == 0
    assert all("  ok  " in line for line in ran.out.splitlines())


def test_a_machine_that_cannot_isolate(smcp: Smcp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "examine", lambda *_: replace(WELL, sandbox=BLOCKED))
    ran = smcp("doctor")
    assert ran.status == 7
    first, second, *_ = ran.out.splitlines()
    assert "problem" in first
    assert second.strip() == "Install the profile."
    found = json.loads(smcp("doctor", "--json").out)
    assert found["verdict"] == "problem"
    assert found["findings"][0] == {
        "subject": "sandbox",
        "verdict": "problem",
        "text": "servers cannot be isolated, a sandbox: AppArmor keeps programs from it",
        "remedy": "Install the profile.",
    }


def test_what_changed_in_adopted_hosts(smcp: Smcp, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "examine", lambda *_: WELL)
    file = machine.cursor(time=TIME)
    assert "hosts" not in smcp("doctor").out
    machine.adopt()
    assert "what was adopted is as it was left" in smcp("doctor").out
    machine.cursor(time=TIME)
    found = json.loads(smcp("doctor", "--json").out)
    assert (found["verdict"], found["findings"][-1]["remedy"]) == ("warning", "smcp adopt cursor")
    assert str(file) in found["findings"][-1]["text"]
    (machine.paths.adoption_dir / "records.json").write_text("{")
    assert "cannot read what was adopted" in smcp("doctor").out


def test_a_disk_without_room_and_what_a_daemon_cannot_write(
    smcp: Smcp, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda *_: WELL)
    sick = DaemonStatus(pid=1, version="1", uptime=1, socket="/s", logging="degraded: /l: full", audit="/a: full")
    daemon.answers[control.Status] = StatusResult(daemon=sick)
    found = json.loads(smcp("doctor", "--json").out)["findings"][-3:]
    assert [(one["subject"], one["verdict"]) for one in found] == [
        ("disk", "ok"),
        ("logs", "problem"),
        ("audit", "problem"),
    ]
    assert [one["text"] for one in found[1:]] == ["degraded: /l: full", "/a: full"]
    monkeypatch.setattr(doctor, "room", lambda directory: Room(directory, 0, 5))
    assert "no room left" in smcp("doctor").out


def test_an_adopted_entry_whose_interpreter_was_removed(
    smcp: Smcp, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda *_: WELL)
    python = machine.root / "python"
    python.symlink_to(sys.executable)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(python))
        file = machine.cursor(time=TIME)
        machine.adopt()
    assert "what was adopted is as it was left" in smcp("doctor").out
    python.unlink()
    found = json.loads(smcp("doctor", "--json").out)["findings"][-1]
    assert found["text"] == f"time in {file} names a smcp that is not there any more"
    assert found["remedy"] == "smcp adopt cursor"
    machine.adopt()
    assert "what was adopted is as it was left" in smcp("doctor").out
