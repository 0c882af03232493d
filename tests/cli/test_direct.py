"""``connect`` and ``wrap`` reached through the table of all commands do the same."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp import shim
from tests.cli.conftest import Smcp


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the shim was called with."""
    calls: list[list[str]] = []

    def main(argv: list[str]) -> int:
        calls.append(argv)
        return 0

    monkeypatch.setattr(shim, "main", main)
    return calls


def wrapped(home: Path) -> dict[str, Any]:
    found = tomllib.loads((home / "config" / "conf.d" / "wrapped.toml").read_text())["servers"]
    assert isinstance(found, dict)
    return found


def test_through_typer_it_is_the_same(smcp: Smcp, home: Path, connected: list[list[str]]) -> None:
    words = ("--project", str(home), "--inherit", "A", "--inherit", "B", "--network", "host", "--mount", "/d")
    ran = smcp("--debug", "wrap", *words, "--runtime", "bare", "--profile", "strict", "--", "cat", "--x")
    assert ran.status == 0, ran.err
    assert wrapped(home)["cat"]["inherit"] == ["A", "B"]
    assert wrapped(home)["cat"]["command"] == ["cat", "--x"]
    assert wrapped(home)["cat"]["profile"] == "strict"
    smcp("--debug", "connect", "cat", "--project", str(home))
    assert connected == [["cat", "--project", str(home)], ["--project", str(home), "cat"]]
