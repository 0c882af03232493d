"""A server whose protection falls away on the machine is ended, and says why."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import subprocess
from pathlib import Path

import pytest

from supervisord_mcp.config.protected import ALWAYS
from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.base import LaunchSpec, Mount
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.sandbox import Bound
from supervisord_mcp.runtimes.sentry import Sentry
from supervisord_mcp.runtimes.sources import Opened
from tests.kit.bounded import bounded
from tests.runtimes.conformance import ended, read, running, shell


def _opened(path: Path, *, pinned: bool = True) -> Opened:
    status = path.lstat()
    return Opened(Bound(str(path), str(path), "ro", granted=True, pinned=pinned), status.st_dev, status.st_ino)


def _git(directory: Path, *words: str) -> None:
    subprocess.run(["git", "-C", directory, *words], check=True, timeout=30)


async def _told(told: list[str]) -> None:
    async with asyncio.timeout(10):
        while not told:
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("way", ["replace", "remove", "move", "before"])
@bounded(30)
async def test_what_happens_to_a_guarded_path_is_seen(tmp_path: Path, way: str) -> None:
    path, told = tmp_path / "a/file", list[str]()
    path.parent.mkdir()
    path.touch()
    opened = _opened(path)
    (path.parent / "new").touch()
    if way == "before":
        os.replace(path.parent / "new", path)
    sentry = Sentry([opened], told.append)
    match way:
        case "replace":
            os.replace(path.parent / "new", path)
        case "remove":
            path.unlink()
        case "move":
            path.parent.rename(tmp_path / "b")
    await _told(told)
    assert told == [f"{path} was replaced or removed, so it was no longer protected"]
    sentry.close()
    await sentry.aclose()


@bounded(30)
async def test_other_changes_are_none_of_its_business(tmp_path: Path) -> None:
    path, other, told = tmp_path / "file", tmp_path / "other", list[str]()
    path.touch()
    other.touch()
    sentry = Sentry([_opened(path), _opened(other, pinned=False)], told.append)
    path.write_text("in place")
    other.unlink()
    (tmp_path / "more").touch()
    for _ in range(20):
        await asyncio.sleep(0.005)
    assert told == []
    sentry.close()
    idle = Sentry([_opened(tmp_path, pinned=False)], told.append)
    assert idle._descriptor == -1


@bounded(30)
async def test_what_cannot_be_watched_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Opened(Bound(str(tmp_path / "none/file"), "/x", "ro", pinned=True), 0, 0)
    with pytest.raises(IsolationError, match="cannot be watched"):
        Sentry([gone], lambda reason: None)

    class Full:
        """A kernel that has given all it has."""

        def inotify_init1(self, flags: int) -> int:
            ctypes.set_errno(errno.EMFILE)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *arguments, **options: Full())
    with pytest.raises(IsolationError, match="cannot be watched") as caught:
        Sentry([_opened(tmp_path)], lambda reason: None)
    assert "max_user_instances" in caught.value.remedy


@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@bounded(60)
async def test_a_server_that_could_write_now_is_ended(tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q")
    script = "echo on; while sleep 0.05; do touch file; done"
    spec = shell(script)
    mounts = (Mount(str(tmp_path), "rw", protected=ALWAYS),)
    spec = LaunchSpec(spec.name, spec.argv, env=spec.env, marker=spec.marker, mounts=mounts, cwd=str(tmp_path))
    async with running(BwrapRuntime(), spec) as child:
        assert await read(child.stdout, b"\n") == b"on\n"
        _git(tmp_path, "config", "user.name", "x")
        status = await ended(child)
    assert str(status) == (
        f"killed by SIGKILL ({tmp_path}/.git/config was replaced or removed, so it was no longer protected)"
    )
    assert {".git", "file"} >= set(os.listdir(tmp_path)) >= {".git"}
