"""``smcp version``."""

from __future__ import annotations

import json

from supervisord_mcp import __version__
from supervisord_mcp.protocol import control
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, clean_lines


def test_version(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Version] = control.VersionResult(version="0.0.9", pid=5)
    ran = smcp("version")
    assert ran.status == 0
    assert clean_lines(ran.out)[1] == "daemon 0.0.9, pid 5"
    assert "another version" in ran.err
    assert json.loads(smcp("version", "--json").out)["daemon"] == {"version": "0.0.9", "pid": 5}


def test_version_without_a_daemon(smcp: Smcp) -> None:
    ran = smcp("version")
    assert ran.status == 0
    assert len(clean_lines(ran.out)) == 1
    found = json.loads(smcp("version", "--json").out)
    assert found["daemon"] is None
    assert set(found) == {"version", "python", "daemon"}


def test_the_option_that_every_program_has(smcp: Smcp) -> None:
    ran = smcp("--version")
    assert (ran.status, ran.out, ran.err) == (0, f"smcp {__version__}\n", "")
