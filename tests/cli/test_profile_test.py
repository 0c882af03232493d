"""``smcp profile test``: real attempts in real profiles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisord_mcp.cli import profile_test
from supervisord_mcp.probes import trial
from supervisord_mcp.probes.trial import Result
from tests.cli.conftest import Smcp

# The command adopts orphans for as long as its process lives, and here that is the one of all tests.
pytestmark = [pytest.mark.bwrap, pytest.mark.slow, pytest.mark.usefixtures("subreaper")]


@pytest.mark.parametrize("name", ["default", "strict", "files-rw", "node-net", "browser"])
def test_shipped_profiles_hold_what_they_say(smcp: Smcp, name: str) -> None:
    ran = smcp("profile", "test", name, "--json")
    found = json.loads(ran.out)
    assert [attempt["attempt"] for attempt in found["attempts"] if attempt["wrong"]] == []
    assert ran.status == 0
    assert found["profile"] == name
    assert found["runtime"] == "bwrap"
    assert len(found["attempts"]) == len(trial.names())


def test_what_comes_out_otherwise_is_named_and_is_a_failure(smcp: Smcp, monkeypatch: pytest.MonkeyPatch) -> None:
    async def tried(*_: object) -> dict[str, Result]:
        found = {name: Result("denied", "EPERM") for name in trial.names()}
        return found | {"read a private key of ssh": Result("open")}

    monkeypatch.setattr(trial, "tried", tried)
    ran = smcp("profile", "test", "default")
    assert ran.status == 1
    assert "  WRONG open: read a private key of ssh" in ran.out
    assert "  WRONG denied: write the project (EPERM)" in ran.out
    assert "denied: read a token for packages" not in ran.out
    assert "came out otherwise" in ran.out.splitlines()[-1]
    assert "denied: read a token for packages (EPERM)" in smcp("profile", "test", "default", "--all").out


def test_an_unknown_profile_and_one_without_isolation_are_refused(smcp: Smcp, home: Path) -> None:
    assert smcp("profile", "test", "nothing").status != 0
    directory = home / "config" / "profiles"
    directory.mkdir(parents=True)
    text = """
description = "none"
extends = "default"
override = ["runtime"]
runtime = "bare"
dangerous = true
reason = "a test"
"""
    (directory / "free.toml").write_text(text)
    ran = smcp("profile", "test", "free")
    assert ran.status == 2
    assert "isolates nothing" in ran.err


def test_the_ground_is_gone_afterwards() -> None:
    with profile_test._ground() as base:
        (base / "file").touch()
    assert not base.exists()
