"""What the gate needs of this machine, in one directory that runs anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.container import tools
from supervisord_mcp.runtimes.container.tools import make_tools


def test_it_holds_all_that_the_gate_asks_for(tmp_path: Path) -> None:
    made = make_tools(tmp_path)
    command = [word.replace(tools.PLACE, made.directory) for word in made.command]
    done = subprocess.run([*command, "list"], env={}, capture_output=True, check=True)
    outside = [
        path
        for path in os.fsdecode(done.stdout).split("\0")
        if path.startswith("/") and not path.startswith(made.directory) and "locale" not in path and "gconv" not in path
    ]
    assert outside == []


def test_it_is_made_once(tmp_path: Path) -> None:
    (tmp_path / "of-another-version").mkdir()
    first = make_tools(tmp_path)
    before = os.stat(first.directory).st_ino
    assert make_tools(tmp_path) == first
    assert os.stat(first.directory).st_ino == before
    assert os.listdir(tmp_path) == [os.path.basename(first.directory)]


def test_whoever_the_server_runs_as_can_read_it(tmp_path: Path) -> None:
    directory = Path(make_tools(tmp_path).directory)
    assert all(path.stat().st_mode & 0o444 == 0o444 for path in directory.rglob("*"))
    assert not any(path.stat().st_mode & 0o022 for path in directory.rglob("*"))
    assert (directory / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}").stat().st_mode & 0o111


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(IsolationError, match=f"cannot be made in {tmp_path}/file"):
        make_tools(tmp_path / "file")
