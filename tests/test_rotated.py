"""A file of lines of its own: what is missing, what is told, where it ends. `test_logs` has the rest of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisord_mcp import rotated
from supervisord_mcp.rotated import RotatedFile, numbered


def made(path: Path, max_size: int = 1000) -> RotatedFile:
    return RotatedFile(path, max_size=max_size, keep=2, missing=lambda count, why: f"{count} missing: {why}\n".encode())


def test_trouble_is_told_when_it_begins_and_when_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotated, "CHECK_EVERY", 0.0)
    file = made(tmp_path / "one")
    told: list[str] = []
    file.on_trouble = told.append
    file.path.mkdir()
    for _ in range(3):
        file.append([b"lost\n", b"lost too\n"])
    assert told == [file.trouble] == [f"{file.path}: Is a directory"]
    assert file.lost == 6
    file.path.rmdir()
    file.append([b"kept\n"])
    assert told[1:] == [file.trouble] == [""]
    file.close()
    assert file.path.read_text() == f"6 missing: {file.path}: Is a directory\nkept\n"


def test_its_end_is_known_and_survives_a_rotation(tmp_path: Path) -> None:
    file = made(tmp_path / "one", 100)
    assert file.position() == (0, 0)
    file.append([b"x" * 59 + b"\n"])
    inode, size = file.position()
    assert size == 60
    file.append([b"y" * 59 + b"\n"])
    assert file.position()[0] != inode == os.stat(numbered(file.path, 1)).st_ino
    assert file.last(9) == ["x" * 59, "y" * 59]
    file.close()


def test_half_a_line_takes_no_other_one_with_it(tmp_path: Path) -> None:
    path = tmp_path / "one"
    path.write_text("whole\nhal")
    file = made(path)
    for _ in range(2):
        file.append([b"next\n"])
        file.close()
    assert path.read_text() == "whole\nhal\nnext\nnext\n"
    assert file.position()[1] == path.stat().st_size == file._size
