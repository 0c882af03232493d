"""``smcp profile suggest``."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.control import EventRecord
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, Stream


@pytest.fixture
def audited(home: Path) -> None:
    (home / "config").mkdir(parents=True, exist_ok=True)
    (home / "config" / "config.toml").write_text(
        '[servers.one]\ncommand = ["cat"]\nseccomp = { audit = true }\n[servers.two]\ncommand = ["cat"]\n'
    )


@pytest.mark.usefixtures("audited")
def test_what_it_did_becomes_a_profile(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Events] = Stream(
        [
            EventRecord(time=1, kind="file-missed", server="one", data={"path": "/srv/x", "use": "read"}),
            EventRecord(time=2, kind="file-missed", server="two", data={"path": "/srv/y", "use": "read"}),
            EventRecord(time=3, kind="syscall-refused", server="one", data={"call": "keyctl"}),
        ]
    )
    ran = smcp("profile", "suggest", "one")
    assert ran.status == 0
    assert tomllib.loads(ran.out)["mounts"] == [{"path": "/srv/x", "access": "ro"}]
    assert "keyctl" in ran.err


@pytest.mark.usefixtures("audited")
def test_nothing_done_is_said(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Events] = Stream()
    assert "nothing that server 'one' did was refused" in smcp("profile", "suggest", "one").err


@pytest.mark.usefixtures("audited")
def test_without_audit_and_without_the_server_there_is_a_remedy(smcp: Smcp) -> None:
    ran = smcp("profile", "suggest", "two")
    assert ran.status == 1
    assert "audit = true" in ran.err
    assert smcp("profile", "suggest", "three").status == 4
