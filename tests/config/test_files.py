"""Files of a person: odd ones are refused, replacing is one step, locks exclude each other, links are followed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from supervisord_mcp.config import files
from supervisord_mcp.config.files import link_directories, locked, read_file, replace_file
from supervisord_mcp.errors import SmcpError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    assert read_file(tmp_path / "file") == b"x"
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "missing")


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for odd in (tmp_path / "fifo", tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            read_file(odd)


def test_what_is_too_large_is_refused(tmp_path: Path) -> None:
    with open(tmp_path / "large", "wb") as file:
        file.truncate(files.LARGEST + 1)
    with pytest.raises(OSError, match="larger than 8 MiB"):
        read_file(tmp_path / "large")


def test_replace_keeps_mode_and_owner(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 12345, 54321)
    before = file.stat()
    replace_file(file, b"new")
    after = file.stat()
    assert file.read_bytes() == b"new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino
    assert os.listdir(tmp_path) == ["file"]


def test_a_new_file_is_private(tmp_path: Path) -> None:
    replace_file(tmp_path / "new", b"x")
    assert mode(tmp_path / "new") == 0o600
    replace_file(tmp_path / "other", b"x", 0o644)
    assert mode(tmp_path / "other") == 0o644


def test_replace_follows_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_bytes(b"old")
    (tmp_path / "one").symlink_to("real/file")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    replace_file(tmp_path / "two", b"new")
    assert (tmp_path / "real" / "file").read_bytes() == b"new"
    assert (tmp_path / "one").is_symlink()
    assert (tmp_path / "two").is_symlink()
    assert os.listdir(tmp_path / "real") == ["file"]


def test_a_read_only_file_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    # The tests may run as root, who may write everything.
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with pytest.raises(PermissionError, match="read-only"):
        replace_file(file, b"new")
    assert file.read_bytes() == b"old"


@pytest.mark.parametrize("step", ["fsync", "replace", "fchmod"])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    file = tmp_path / "file"
    file.write_bytes(b"old")
    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space"):
        replace_file(file, b"new")
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_lock_is_held_and_given_back(tmp_path: Path) -> None:
    lock = tmp_path / "state" / "edit.lock"
    with locked(lock):
        assert mode(lock) == 0o600
        with pytest.raises(SmcpError, match=r"has been editing the configuration for 0\.1 s"), locked(lock, wait=0.1):
            pass
    with locked(lock, wait=0):
        pass


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    lock = tmp_path / "edit.lock"
    code = (
        "import fcntl, sys\n"
        f"file = open({str(lock)!r}, 'w')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(SmcpError), locked(lock, wait=0):
            pass
        holder.stdin.close()
        with locked(lock):
            pass
        assert holder.wait(10) == 0


def test_a_lock_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "target").touch()
    (tmp_path / "lock").symlink_to("target")
    with pytest.raises(SmcpError, match="symbolic"), locked(tmp_path / "lock"):
        pass


def test_directories_of_a_plain_file(tmp_path: Path) -> None:
    assert link_directories(tmp_path / "file") == (tmp_path,)
    assert link_directories(tmp_path / "a" / "b" / "file") == (tmp_path,)


def test_directories_of_links(tmp_path: Path) -> None:
    for name in ("conf", "dots", "store", "hop"):
        (tmp_path / name).mkdir()
    (tmp_path / "store" / "file").touch()
    (tmp_path / "hop" / "link").symlink_to("../store/file")
    (tmp_path / "conf" / "file").symlink_to(tmp_path / "hop" / "link")
    assert set(link_directories(tmp_path / "conf" / "file")) == {tmp_path / name for name in ("conf", "hop", "store")}


def test_directories_of_a_mounted_config_map(tmp_path: Path) -> None:
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026" / "file").touch()
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "file").symlink_to("..data/file")
    assert set(link_directories(tmp_path / "file")) == {tmp_path, tmp_path / "..2026"}


def test_directories_of_a_link_above(tmp_path: Path) -> None:
    (tmp_path / "dotfiles" / "deep").mkdir(parents=True)
    (tmp_path / "smcp").symlink_to("dotfiles/deep")
    (tmp_path / "dotfiles" / "other").touch()
    (tmp_path / "dotfiles" / "deep" / "file").symlink_to("../other")
    found = set(link_directories(tmp_path / "smcp" / "file"))
    assert found == {tmp_path / "smcp", tmp_path, tmp_path / "dotfiles" / "deep", tmp_path / "dotfiles"}


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert link_directories(tmp_path / "a") == (tmp_path,)
