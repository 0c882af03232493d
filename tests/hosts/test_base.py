"""Where directories are on each system."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.hosts.base import Platform, Surroundings, in_home_directory, in_profiles, in_project_directory

HOME = Path("/h")


@pytest.mark.parametrize(
    ("platform", "environ", "config", "app_data", "local"),
    [
        (Platform.LINUX, {}, "/h/.config", "/h/.config", "/h/.config"),
        (Platform.LINUX, {"XDG_CONFIG_HOME": "/c"}, "/c", "/c", "/c"),
        (Platform.LINUX, {"XDG_CONFIG_HOME": "c"}, "/h/.config", "/h/.config", "/h/.config"),
        (Platform.MACOS, {}, "/h/.config", "/h/Library/Application Support", "/h/Library/Application Support"),
        (Platform.WINDOWS, {}, "/h/.config", "/h/AppData/Roaming", "/h/AppData/Local"),
        (Platform.WINDOWS, {"APPDATA": "/r", "LOCALAPPDATA": "/l"}, "/h/.config", "/r", "/l"),
    ],
)
def test_directories(platform: Platform, environ: dict[str, str], config: str, app_data: str, local: str) -> None:
    where = Surroundings(HOME, environ, platform)
    assert (str(where.config), str(where.app_data), str(where.local_app_data)) == (config, app_data, local)
    assert where.data == HOME / ".local/share"


def test_the_windows_side() -> None:
    assert Surroundings(HOME).on_windows() is None
    windows = Surroundings(HOME, {"APPDATA": "/r"}, windows_home=Path("/mnt/c/Users/Ann")).on_windows()
    assert windows is not None
    assert windows.app_data == Path("/mnt/c/Users/Ann/AppData/Roaming")


def test_files_that_match_a_pattern(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "c.yaml", "d.yml", "e.txt"):
        (tmp_path / "x").mkdir(exist_ok=True)
        (tmp_path / "x" / name).touch()
    where = Surroundings(tmp_path, {"XDG_CONFIG_HOME": str(tmp_path)}, project=tmp_path)
    for paths in (in_home_directory("x", "*.json", "*.y*ml"), in_project_directory("x", "*.json", "*.y*ml")):
        assert [path.name for path in paths(where)] == ["a.json", "b.json", "c.yaml", "d.yml"]
    assert list(in_profiles("x*", "mcp.json")(where)) == [tmp_path / "x" / "mcp.json"]
    nowhere = Surroundings(tmp_path / "nobody")
    assert not [*in_home_directory("x", "*")(nowhere), *in_project_directory("x", "*")(nowhere)]
    assert not list(in_profiles("x*", "mcp.json")(nowhere))
