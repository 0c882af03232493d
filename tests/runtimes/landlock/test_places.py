"""The private directories of a server without a mount namespace."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.landlock.places import Places, remove
from tests.kit.bounded import bounded


@bounded(20)
async def test_they_are_there_until_they_are_removed(tmp_path: Path) -> None:
    places = Places(str(tmp_path / "base"), "files", None)
    assert [stat.S_IMODE(os.stat(path).st_mode) for path in (places.home, places.tmp)] == [0o700, 0o700]
    assert os.path.basename(places.root).startswith("files-")
    os.mkdir(os.path.join(places.home, "kept"))
    places.close()
    assert os.listdir(places.home) == ["kept"]
    await places.aclose()
    await places.aclose()
    assert os.listdir(tmp_path / "base") == []


def test_two_of_one_server_have_nothing_in_common(tmp_path: Path) -> None:
    assert Places(str(tmp_path), "files", None).root != Places(str(tmp_path), "files", None).root


def test_a_base_that_is_no_directory_is_an_isolation_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "base").write_text("")
    with pytest.raises(IsolationError, match="no private home") as raised:
        Places(str(tmp_path / "base"), "files", None)
    assert str(tmp_path / "base") in raised.value.remedy


def test_removing_follows_no_link(tmp_path: Path) -> None:
    kept, gone = tmp_path / "kept", tmp_path / "gone"
    kept.mkdir()
    (kept / "file").write_text("")
    gone.mkdir()
    (gone / "link").symlink_to(kept)
    remove(str(gone))
    assert not gone.exists()
    assert (kept / "file").exists()
