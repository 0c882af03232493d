"""Whose the files of an installation are."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from supervisord_mcp.egress.registries import Registries
from supervisord_mcp.packages.ownership import give, readable, take_back
from supervisord_mcp.packages.settings import Settings
from supervisord_mcp.runtimes.base import Mount
from supervisord_mcp.runtimes.identity import Identity
from tests.kit.required import as_root

SOMEBODY = Identity(61000, 61000)


def _tree(folder: Path) -> None:
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/plain").write_text("x")
    (folder / "a/program").write_text("x")
    (folder / "a/program").chmod(0o4700)
    (folder / "a/b/plain").chmod(0o600)
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe", 0o600)


def _owners(folder: Path) -> set[int]:
    return {path.lstat().st_uid for path in (folder, *folder.rglob("*"))}


@as_root
def test_files_are_given_and_taken_back_without_following_links(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    _tree(folder)
    before = os.stat("/etc/passwd")
    give(folder, SOMEBODY)
    assert _owners(folder) == {SOMEBODY.uid}
    take_back(folder, SOMEBODY)
    assert _owners(folder) == {0}
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*") if not path.is_symlink()}
    assert modes == {"a": 0o755, "b": 0o755, "plain": 0o644, "program": 0o755, "pipe": 0o600}
    after = os.stat("/etc/passwd")
    assert (after.st_uid, after.st_mode, after.st_ctime_ns) == (before.st_uid, before.st_mode, before.st_ctime_ns)


def test_without_a_user_of_its_own_nothing_changes(tmp_path: Path) -> None:
    _tree(tmp_path / "folder")
    before = {path: path.lstat() for path in tmp_path.rglob("*")}
    give(tmp_path / "folder", None)
    take_back(tmp_path / "folder", None)
    assert {path: path.lstat() for path in tmp_path.rglob("*")} == before


def _settings(*files: str, mounts: tuple[Mount, ...] = ()) -> Settings:
    return Settings({}, files, mounts, Registries())


@as_root
def test_settings_that_are_closed_are_shown_as_copies(tmp_path: Path) -> None:
    for name, mode in (("open", 0o644), ("closed", 0o600), (".npmrc", 0o600)):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(mode)
    place = tmp_path / "shelf/place"
    place.mkdir(parents=True)
    mount = Mount(f"{tmp_path}/.npmrc", "ro", "/home/mcp/.npmrc")
    given = _settings(f"{tmp_path}/open", f"{tmp_path}/closed", f"{tmp_path}/none", mounts=(mount,))
    with readable(given, SOMEBODY, (place,)) as shown:
        assert shown.files == (f"{tmp_path}/open", f"{tmp_path}/none")
        copies = {mount.target: mount.path for mount in shown.mounts}
        assert set(copies) == {f"{tmp_path}/closed", "/home/mcp/.npmrc"}
        for copy in copies.values():
            assert Path(copy).parent.parent == place.parent
            assert (os.stat(copy).st_uid, stat.S_IMODE(os.stat(copy).st_mode)) == (SOMEBODY.uid, 0o400)
        assert Path(copies["/home/mcp/.npmrc"]).read_text() == ".npmrc"
    assert [path.name for path in place.parent.iterdir()] == ["place"]


def test_settings_that_can_be_read_are_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "closed").touch(0o600)
    given = _settings(f"{tmp_path}/closed")
    with readable(given, None, ()) as shown:
        assert shown is given
    (tmp_path / "closed").chmod(0o644)
    with readable(given, SOMEBODY, ()) as shown:
        assert shown is given
