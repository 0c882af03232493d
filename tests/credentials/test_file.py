"""Secrets in files, and every file that is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisord_mcp.credentials.base import LONGEST
from supervisord_mcp.credentials.file import FileSource, read_private
from supervisord_mcp.errors import SecretError
from tests.kit.required import as_person, as_root

VALUE = "s3cret-of-a-file"


def write(path: Path, content: bytes = VALUE.encode() + b"\n", mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = write(tmp_path / "token")
    source = FileSource(str(tmp_path))
    assert source.read(str(path)) == source.read("~/token") == VALUE
    path.chmod(0o400)
    assert source.read(str(path)) == VALUE
    link = tmp_path / "link"
    link.symlink_to(path)
    assert source.read(str(link)) == VALUE


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "there is no file"),
    "a directory": (lambda path: path.mkdir(), "no regular file"),
    "a FIFO": (lambda path: os.mkfifo(path, 0o600), "no regular file"),
    "group may read": (lambda path: write(path, mode=0o640), "others"),
    "all may read": (lambda path: write(path, mode=0o604), "mode 0604"),
    "group may write": (lambda path: write(path, mode=0o620), "others"),
    "empty": (lambda path: write(path, b""), "empty"),
    "only a newline": (lambda path: write(path, b"\n"), "empty"),
    "too large": (lambda path: write(path, VALUE.encode() * (1 + LONGEST // len(VALUE))), "larger than"),
    "binary": (lambda path: write(path, VALUE.encode() + b"\xff"), "UTF-8"),
    "a NUL": (lambda path: write(path, VALUE.encode() + b"\0"), "NUL"),
    "a dangling link": (lambda path: path.symlink_to("nowhere"), "there is no file"),
    "a circle of links": (lambda path: path.symlink_to(path), "cannot be read"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_a_remedy_and_without_the_value(tmp_path: Path, case: str) -> None:
    make, why = REFUSED[case]
    make(tmp_path / "token")
    with pytest.raises(SecretError, match=why) as caught:
        FileSource(str(tmp_path)).read(str(tmp_path / "token"))
    assert caught.value.remedy
    assert VALUE not in str(caught.value)


@as_person
def test_one_that_may_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path / "token", mode=0o000)
    with pytest.raises(SecretError, match="cannot be read: Permission denied"):
        FileSource("/").read(str(path))


@as_root
def test_one_that_belongs_to_somebody_else(tmp_path: Path) -> None:
    path = write(tmp_path / "token")
    os.chown(path, 12345, 12345)
    with pytest.raises(SecretError, match="belongs to user 12345"):
        FileSource("/").read(str(path))


def test_what_others_manage_is_read_with_the_rights_that_they_gave(tmp_path: Path) -> None:
    path = write(tmp_path / "token", mode=0o440)
    assert read_private(str(path), managed=True) == VALUE.encode() + b"\n"
