"""Files with secrets for servers without a mount namespace: where they are, who can read them, and that they go."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes import delivery
from supervisord_mcp.runtimes.base import SecretFiles
from supervisord_mcp.runtimes.delivery import Delivery, clean, is_in_memory
from supervisord_mcp.runtimes.identity import Identity
from tests.kit.bounded import bounded
from tests.kit.required import as_root

VALUE = "s3cret-in-a-file"


def files(place: Path) -> SecretFiles:
    return SecretFiles(str(place / "secrets"), (("TOKEN", VALUE), ("KEY", "ü\n")))


def content(path: str) -> str:
    return Path(path).read_text()


@bounded(20)
async def test_in_the_place_of_the_daemon_where_that_is_a_tmpfs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "is_in_memory", lambda path: path == str(tmp_path))
    made = Delivery("s", files(tmp_path))
    paths = dict(made.variables)
    assert {variable: content(path) for variable, path in paths.items()} == {"TOKEN": VALUE, "KEY": "ü\n"}
    assert {os.path.dirname(path) for path in paths.values()} == {made.directory}
    assert os.path.dirname(made.directory) == str(tmp_path / "secrets")
    assert stat.S_IMODE(os.stat(made.directory).st_mode) == 0o700
    assert {stat.S_IMODE(os.stat(path).st_mode) for path in paths.values()} == {0o600}
    other = Delivery("s", files(tmp_path))
    made.close()
    assert [path.name for path in (tmp_path / "secrets").iterdir()] == [os.path.basename(other.directory)]
    await made.aclose()
    await other.aclose()
    assert list((tmp_path / "secrets").iterdir()) == []


def test_in_shared_memory_where_it_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "is_in_memory", lambda path: path == "/dev/shm")
    made, other = Delivery("s", files(tmp_path)), Delivery("s", files(tmp_path / "other"))
    try:
        assert made.directory.startswith("/dev/shm/smcp-")
        assert stat.S_IMODE(os.stat(made.directory).st_mode) == 0o700
        clean(files(tmp_path).place)
        assert not os.path.exists(made.directory)
        # That of another daemon stays.
        assert os.path.exists(other.directory)
    finally:
        made.close()
        other.close()


def test_what_a_killed_daemon_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "is_in_memory", lambda path: path == str(tmp_path))
    made = Delivery("s", files(tmp_path))
    clean(files(tmp_path).place)
    assert not os.path.exists(made.directory)
    clean(files(tmp_path).place)


def test_nothing_is_made_for_nothing(tmp_path: Path) -> None:
    made = Delivery("s", SecretFiles(str(tmp_path / "secrets")))
    assert (made.directory, made.variables) == ("", ())
    made.close()
    assert list(tmp_path.iterdir()) == []


def test_no_tmpfs_or_no_room_means_no_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "is_in_memory", lambda path: False)
    with pytest.raises(IsolationError, match="no tmpfs") as caught:
        Delivery("s", files(tmp_path))
    assert 'deliver = "env"' in caught.value.remedy
    monkeypatch.setattr(delivery, "is_in_memory", lambda path: path == str(tmp_path))

    real = os.open

    def full(path: str, *rest: Any, **more: Any) -> int:
        if str(path).endswith("/KEY"):
            raise OSError(28, "No space left on device")
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(IsolationError, match=r"cannot be put into files: .*No space") as caught:
        Delivery("s", files(tmp_path))
    monkeypatch.undo()
    assert VALUE not in str(caught.value)
    assert list((tmp_path / "secrets").iterdir()) == []


@as_root
def test_for_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "is_in_memory", lambda path: path == str(tmp_path))
    made = Delivery("s", files(tmp_path), Identity(60711, 60711))
    try:
        for path in (made.directory, *dict(made.variables).values()):
            assert (os.stat(path).st_uid, os.stat(path).st_gid) == (60711, 60711)
    finally:
        made.close()


def test_what_is_a_tmpfs() -> None:
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    found = [place for place, kind in mounts if kind == "tmpfs" and os.path.isdir(place)]
    assert found
    # Something else may be mounted over the others.
    assert is_in_memory(found[-1])
    assert not is_in_memory("/proc")
    assert not is_in_memory("/no/such/place")
