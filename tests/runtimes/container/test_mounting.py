"""What a container is shown, compared with what was there; this process stands for the one in the container."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes.base import Container, LaunchSpec, Mount
from supervisord_mcp.runtimes.container.mounting import look, verify

SPEC = LaunchSpec("one", ("/x",), container=Container("x"))


def test_what_is_the_same_is_fine(tmp_path: Path) -> None:
    seen = look(replace(SPEC, mounts=(Mount(str(tmp_path), "rw"),)))
    verify(os.getpid(), seen)


def test_another_directory_at_the_same_place_is_not(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    seen = look(replace(SPEC, mounts=(Mount(f"{tmp_path}/a", "rw"),)))
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(IsolationError, match="does not show"):
        verify(os.getpid(), seen)
    (tmp_path / "a").mkdir()
    with pytest.raises(IsolationError, match="something else"):
        verify(os.getpid(), seen)


def test_what_is_to_be_read_only_must_be(tmp_path: Path) -> None:
    seen = look(replace(SPEC, mounts=(Mount(str(tmp_path)),)))
    with pytest.raises(IsolationError, match="read-only"):
        verify(os.getpid(), seen)


def test_a_link_on_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(LaunchError, match="symbolic link is on the way"):
        look(replace(SPEC, mounts=(Mount(f"{tmp_path}/link"),)))


def test_what_cannot_be_looked_at_is_trusted(tmp_path: Path) -> None:
    seen = look(replace(SPEC, mounts=(Mount(str(tmp_path)),)))
    verify(1 << 22, seen)
    verify(os.getpid(), [])
