"""What stands for paths that do not exist: as long as somebody needs it, and never longer."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
from errno import EACCES, EROFS
from pathlib import Path

import pytest

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.placeholders import Placeholders


def _listed(record: Path) -> list[str]:
    return [json.loads(line) for line in record.read_text().splitlines()]


def test_a_directory_or_a_file_for_as_long_as_it_is_needed(tmp_path: Path) -> None:
    placeholders = Placeholders()
    one, two = placeholders.hold(), placeholders.hold()
    path, file = tmp_path / "a", tmp_path / "file"
    assert one.fill(str(path), None)
    assert two.fill(str(path), None)
    assert one.fill(str(file), b".\n")
    assert path.is_dir()
    assert file.read_text() == ".\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    one.close()
    assert path.is_dir(), "the other one needs it"
    assert not file.exists()
    one.close()
    asyncio.run(two.aclose())
    assert not path.exists()


def test_what_is_the_persons_stays(tmp_path: Path) -> None:
    held = Placeholders().hold()
    for name in ("used", "touched", "replaced"):
        assert held.fill(str(tmp_path / name), None)
    (tmp_path / "used/file").touch()
    (tmp_path / "touched/file").touch()
    (tmp_path / "touched/file").unlink()
    (tmp_path / "replaced").rmdir()
    (tmp_path / "replaced").mkdir()
    assert held.fill(str(tmp_path / "file"), b"\n")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "own").mkdir()
    assert held.fill(str(tmp_path / "own"), None), "it was made in the meantime"
    held.close()
    assert sorted(os.listdir(tmp_path)) == ["file", "own", "replaced", "touched", "used"]
    assert (tmp_path / "file").read_text() == "mine"


def test_another_daemon_that_needs_it_keeps_it(tmp_path: Path) -> None:
    first, second = Placeholders(tmp_path / "1").hold(), Placeholders(tmp_path / "2").hold()
    path = tmp_path / "project"
    first.fill(str(path), None)
    second.fill(str(path), None)
    first.close()
    assert path.is_dir()
    second.close()
    assert not path.exists()


def test_what_a_killed_daemon_left_is_removed_by_the_next(tmp_path: Path) -> None:
    record = tmp_path / "record"
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from supervisord_mcp.runtimes.placeholders import Placeholders\n"
        "held = Placeholders(Path(sys.argv[1])).hold()\n"
        "for path in sys.argv[2:]: held.fill(path, None)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    paths = [str(tmp_path / name) for name in ("a", "b", "c")]
    done = subprocess.run([sys.executable, "-c", script, str(record), *paths], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert _listed(record) == paths
    (tmp_path / "b/file").touch()
    needed = Placeholders().hold()
    needed.fill(paths[2], None)
    placeholders = Placeholders(record)
    assert sorted(os.listdir(tmp_path)) == ["b", "c", "record"]
    assert _listed(record) == []
    needed.close()
    held = placeholders.hold()
    held.fill(paths[0], None)
    assert _listed(record) == paths[:1]
    held.close()
    assert _listed(record) == []


@pytest.mark.parametrize("text", ["", "{", "[1]", "{}", '1\n"/x', "\x00"])
def test_a_record_of_nonsense_is_no_record(tmp_path: Path, text: str) -> None:
    (tmp_path / "record").write_text(text)
    held = Placeholders(tmp_path / "record").hold()
    assert held.fill(str(tmp_path / "a"), None)
    held.close()


@pytest.mark.parametrize(("uid", "number", "refused"), [(1000, EACCES, False), (0, EACCES, True), (0, EROFS, False)])
def test_who_may_not_make_it_need_not_fear_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, number: int, refused: bool
) -> None:
    def mkdir(path: str, mode: int) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "mkdir", mkdir)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    held = Placeholders().hold()
    with pytest.raises(LaunchError) if refused else contextlib.nullcontext():
        assert held.fill(str(tmp_path / "a"), None) is False


def test_a_lock_of_somebody_else_holds_nothing_up(tmp_path: Path) -> None:
    one, two = Placeholders().hold(), Placeholders().hold()
    assert one.fill(str(tmp_path / "a"), None)
    one.close()
    (tmp_path / "a").mkdir()
    descriptor = os.open(tmp_path / "a", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(LaunchError, match="keeps locking"):
        two.fill(str(tmp_path / "a"), None)
    os.close(descriptor)
    assert two.fill(str(tmp_path / "a"), None)
    two.close()
    assert (tmp_path / "a").is_dir()


def test_what_cannot_be_made_is_refused(tmp_path: Path) -> None:
    held = Placeholders().hold()
    (tmp_path / "file").touch()
    with pytest.raises(LaunchError, match="is to be protected"):
        held.fill(str(tmp_path / "file/x"), None)
    held.close()
