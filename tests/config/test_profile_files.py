"""The files of profiles are found in a wheel, in a checkout and beside the configuration; missing ones are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.config.profile_files import names_in, profile_directories, profiles_directory
from supervisord_mcp.errors import SmcpError
from tests.config.places import paths_in


def put(directory: Path) -> Path:
    directory.mkdir(parents=True)
    (directory / "README.md").touch()
    return directory


def test_a_wheel_carries_them_inside_the_package(tmp_path: Path) -> None:
    inside = put(tmp_path / "site" / "supervisord_mcp" / "profiles")
    put(tmp_path / "site" / "profiles")
    assert profiles_directory(tmp_path / "site" / "supervisord_mcp") == inside


def test_a_checkout_has_them_beside_the_package(tmp_path: Path) -> None:
    beside = put(tmp_path / "profiles")
    assert profiles_directory(tmp_path / "supervisord_mcp") == beside


def test_none_is_an_error_that_names_the_places(tmp_path: Path) -> None:
    with pytest.raises(SmcpError, match="profiles are missing") as caught:
        profiles_directory(tmp_path / "supervisord_mcp")
    assert str(tmp_path / "supervisord_mcp" / "profiles") in caught.value.message
    assert "install" in caught.value.remedy


def test_this_installation_has_them() -> None:
    assert (profiles_directory() / "README.md").is_file()


def test_the_directories_of_links_are_known(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    (tmp_path / "dotfiles").mkdir()
    paths.profiles_dir.mkdir(parents=True)
    (paths.profiles_dir / "a.toml").symlink_to(tmp_path / "dotfiles" / "a.toml")
    assert set(profile_directories(paths)) == {paths.profiles_dir, tmp_path / "dotfiles"}


def test_a_directory_that_is_not_there_yet_is_watched_where_it_would_be(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    assert profile_directories(paths) == (tmp_path,)
    paths.config_dir.mkdir()
    assert profile_directories(paths) == (paths.config_dir,)


def test_names(tmp_path: Path) -> None:
    for name in ("a.toml", "b.toml", ".hidden.toml", "a.toml~", "README.md"):
        (tmp_path / name).touch()
    assert names_in(tmp_path) == {"a", "b"}
    assert names_in(tmp_path / "nowhere") == frozenset()
