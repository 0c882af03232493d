"""``smcp doctor``."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from supervisord_mcp.cli import doctor
from tests.cli.conftest import Smcp
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
