"""Which machine this is."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.hosts.base import Platform
from supervisord_mcp.hosts.surroundings import platform_of, surroundings, windows_home


@pytest.mark.parametrize(
    ("name", "platform"),
    [
        ("linux", Platform.LINUX),
        ("darwin", Platform.MACOS),
        ("win32", Platform.WINDOWS),
        ("cygwin", Platform.WINDOWS),
        ("freebsd14", Platform.LINUX),
    ],
)
def test_platforms(name: str, platform: Platform) -> None:
    assert platform_of(name) is platform


def test_this_machine(tmp_path: Path) -> None:
    where = surroundings({"A": "b"}, tmp_path, tmp_path / "p")
    assert (where.home, where.environ, where.project) == (tmp_path, {"A": "b"}, tmp_path / "p")
    assert where.windows_home is None


def test_the_home_on_the_windows_side(tmp_path: Path) -> None:
    for name in ("Public", "Default", "Ann", "Bob"):
        (tmp_path / name).mkdir()
    (tmp_path / "desktop.ini").touch()
    wsl = {"WSL_DISTRO_NAME": "Debian"}
    ann = Path("/home/ann")
    assert windows_home({}, ann, tmp_path) is None
    assert windows_home(wsl, ann, tmp_path) == tmp_path / "Ann"
    assert windows_home({"WSL_INTEROP": "/run/WSL/1_interop"}, ann, tmp_path) == tmp_path / "Ann"
    assert windows_home({**wsl, "USERPROFILE": "C:\\Users\\Bob"}, ann, tmp_path) == tmp_path / "Bob"
    assert windows_home(wsl, Path("/home/eve"), tmp_path) is None
    (tmp_path / "Bob").rmdir()
    assert windows_home(wsl, Path("/home/eve"), tmp_path) == tmp_path / "Ann"
    assert windows_home(wsl, ann, tmp_path / "none") is None
