"""How real hosts are installed for the test that adopts them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from contrib import hosts


def test_what_is_installed_is_not_installed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, ...]] = []

    def run(*words: object, **_more: object) -> None:
        (command,) = words
        assert isinstance(command, tuple)
        ran.append(command)

    monkeypatch.setattr(subprocess, "run", run)
    for _ in range(2):
        assert hosts.main(["--place", str(tmp_path)]) == 0
    (command,) = ran
    assert command[:2] == ("npm", "install")
    assert command[-len(hosts.KIT.packages) :] == hosts.KIT.packages
    assert hosts.program("claude", tmp_path).is_relative_to(tmp_path)


def test_every_host_has_a_version() -> None:
    assert all(package.rpartition("@")[2][0].isdigit() for package in hosts.KIT.packages)


def test_an_installation_that_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_words: object, **_more: object) -> None:
        raise subprocess.CalledProcessError(1, "npm", stderr="no such package")

    monkeypatch.setattr(subprocess, "run", fail)
    assert hosts.main(["--place", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "the hosts cannot be installed: no such package\n"
