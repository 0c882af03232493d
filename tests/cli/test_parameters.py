"""What several commands make of their arguments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisord_mcp.cli.parameters import chosen, project_root, server_names
from supervisord_mcp.errors import UsageError


def test_chosen() -> None:
    assert chosen(["a", "b"], everything=False) == ("a", "b")
    assert chosen(None, everything=True) == ()
    for names, everything in ((["a"], True), (None, False), ([], False)):
        with pytest.raises(UsageError):
            chosen(names, everything)


def test_server_names(home: Path) -> None:
    assert server_names("") == []
    (home / "config").mkdir()
    (home / "config" / "config.toml").write_text('[servers.b]\ncommand = "x"\n[servers.a]\ncommand = "x"\n')
    assert server_names("") == ["a", "b"]
    assert server_names("b") == ["b"]


def test_project_root(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert project_root(home) == str(home)
    site = home / "site"
    (site / ".git").mkdir(parents=True)
    monkeypatch.chdir(site)
    assert project_root(None) == str(site)
    monkeypatch.chdir(home)
    with pytest.raises(UsageError, match="missing"):
        project_root(home / "missing")


def test_a_directory_that_is_gone_is_no_project(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = home / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    os.rmdir(gone)
    assert project_root(None) is None
