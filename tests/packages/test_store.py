"""Installations on disk: one is current or none is, and old ones go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from supervisord_mcp.packages.store import Shelf, discard, forget, locked
from tests.kit.bounded import bounded

DAY = 86400.0


def _install(shelf: Shelf, when: float) -> Path:
    place = shelf.begin()
    (place / "file").touch()
    shelf.finish(place)
    shelf.note_use(when)
    return place


def test_nothing_is_current_before_it_is_complete(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "x")
    assert shelf.current() is None
    place = shelf.begin()
    assert shelf.current() is None
    shelf.finish(place)
    assert shelf.current() == place
    other = shelf.begin()
    assert shelf.current() == place
    shelf.finish(other)
    assert shelf.current() == other
    (other / ".complete").unlink()
    assert shelf.current() is None


def test_checks_are_remembered(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "x")
    assert shelf.checked() == 0
    shelf.note_use(5.0)
    shelf.note_check(1234.5)
    assert shelf.checked() == 1234.5


def test_what_is_half_done_or_long_unused_is_removed(tmp_path: Path) -> None:
    shelf, now = Shelf(tmp_path / "x"), 100 * DAY
    unused, used = _install(shelf, now - 8 * DAY), _install(shelf, now - 6 * DAY)
    half, current = shelf.begin(), _install(shelf, now - 50 * DAY)
    (tmp_path / "x/stale.link").symlink_to("nowhere")
    shelf.note_check(now)
    shelf.sweep(now)
    assert not unused.exists()
    assert not half.exists()
    assert used.exists()
    assert shelf.current() == current
    assert sorted(os.listdir(tmp_path / "x")) == sorted([".checked", "current", current.name, used.name])
    Shelf(tmp_path / "nothing").sweep(now)


def test_packages_that_nobody_uses_are_forgotten(tmp_path: Path) -> None:
    now = 1000 * DAY
    for name, age in (("old", 91), ("recent", 89), ("kept", 200)):
        _install(Shelf(tmp_path / name), now - age * DAY)
    Shelf(tmp_path / "half").begin()
    (tmp_path / "npm.lock").touch()
    forget(tmp_path, tmp_path / "kept", now)
    assert sorted(os.listdir(tmp_path)) == ["half", "kept", "npm.lock", "recent"]
    discard(tmp_path / "npm.lock")
    discard(tmp_path / "nothing")


@bounded(30)
async def test_one_holder_among_all_daemons(tmp_path: Path) -> None:
    lock = tmp_path / "folder/npm.lock"
    waited: list[int] = []
    async with locked(lock, lambda: waited.append(1)):
        assert not waited
    hold = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    with subprocess.Popen(  # noqa: ASYNC220 (it answers at once)
        [sys.executable, "-c", hold, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdout.readline()

        def waiting() -> None:
            waited.append(2)
            assert holder.stdin is not None
            holder.stdin.close()

        async with locked(lock, waiting):
            assert waited == [2]
            assert holder.wait(10) is not None
