"""The shipped profiles are found in a wheel and in a checkout, and missing ones are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.config.profiles import profiles_directory
from supervisord_mcp.errors import SmcpError


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
