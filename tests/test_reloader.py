"""What editors do to files in real directories, and who is told of it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest
from watchdog.events import FileModifiedEvent
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, EventDispatcher, EventEmitter

from supervisord_mcp import reloader as module
from supervisord_mcp.reloader import Reloader
from tests.kit.bounded import bounded

LIMIT = 30


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLE", 0.05)


class Desk:
    """A reloader that runs, and how often it told of a change."""

    def __init__(self) -> None:
        self.reloader = Reloader(self.tell)
        self.told = 0
        self.seen = 0
        self._changed = anyio.Event()

    async def tell(self) -> None:
        self.told += 1
        self._changed.set()
        self._changed = anyio.Event()

    async def change(self) -> None:
        """Return once something was told since the last time."""
        while self.told == self.seen:
            await self._changed.wait()
        self.seen = self.told

    async def quiet(self) -> None:
        """Show that nothing more is told."""
        with suppress(TimeoutError), anyio.fail_after(0.4):
            await self.change()
            pytest.fail("told although nothing changed")


@asynccontextmanager
async def watching(*directories: Path) -> AsyncIterator[Desk]:
    desk = Desk()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.reloader.run)
        await desk.reloader.watch(directories)
        await desk.change()
        await desk.quiet()
        yield desk
        tasks.cancel_scope.cancel()
    # What is left of watchdog is the one thread that all of its observers share.
    left = [thread for thread in threading.enumerate() if isinstance(thread, EventDispatcher | EventEmitter)]
    assert left == []


@pytest.mark.parametrize("how", ["in place", "rename", "backup", "deleted", "created", "mode", "linked"])
@bounded(LIMIT)
async def test_every_way_to_save_is_noticed(how: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("old")
    async with watching(tmp_path) as desk:
        match how:
            case "in place":
                file.write_text("new")
            case "rename":
                (tmp_path / ".new").write_text("new")
                (tmp_path / ".new").rename(file)
            case "backup":
                file.rename(tmp_path / "config.toml~")
                await desk.change()
                file.write_text("new")
            case "deleted":
                file.unlink()
            case "created":
                (tmp_path / "other.toml").write_text("new")
            case "mode":
                file.chmod(0o600)
            case "linked":
                (tmp_path / "other.toml").symlink_to(file)
        await desk.change()
        await desk.quiet()


@bounded(LIMIT)
async def test_many_changes_count_once(tmp_path: Path) -> None:
    async with watching(tmp_path) as desk:
        for number in range(100):
            (tmp_path / f"{number}.toml").write_text(str(number))
        await desk.change()
        await desk.quiet()
        assert desk.told == 2


@bounded(LIMIT)
async def test_reading_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("x")
    async with watching(tmp_path) as desk:
        (tmp_path / "config.toml").read_text()
        os.listdir(tmp_path)
        await desk.quiet()


@bounded(LIMIT)
async def test_somebody_who_writes_all_the_time_does_not_hide_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_SETTLE", 0.3)
    async with watching(tmp_path) as desk, anyio.create_task_group() as tasks:

        async def write() -> None:
            for number in range(10_000):
                (tmp_path / "busy").write_text(str(number))
                await anyio.sleep(0.01)

        tasks.start_soon(write)
        await desk.change()
        await desk.change()
        tasks.cancel_scope.cancel()


@bounded(LIMIT)
async def test_a_directory_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    wanted = tmp_path / "config" / "conf.d"
    async with watching(wanted) as desk:
        wanted.mkdir(parents=True)
        await desk.change()
        await desk.reloader.watch([wanted])
        await desk.change()
        (wanted / "a.toml").write_text("x")
        await desk.change()


@bounded(LIMIT)
async def test_a_directory_that_was_replaced_is_watched_anew(tmp_path: Path) -> None:
    wanted = tmp_path / "config"
    wanted.mkdir()
    async with watching(wanted) as desk:
        wanted.rmdir()
        wanted.mkdir()
        await desk.change()
        await desk.reloader.watch([wanted])
        await desk.change()
        (wanted / "a.toml").write_text("x")
        await desk.change()


@bounded(LIMIT)
async def test_the_same_directories_are_not_watched_twice(tmp_path: Path) -> None:
    async with watching(tmp_path) as desk:
        before = desk.reloader._observer
        await desk.reloader.watch([tmp_path, tmp_path])
        assert desk.reloader._observer is before
        await desk.quiet()


@bounded(LIMIT)
async def test_watching_can_be_given_up(tmp_path: Path) -> None:
    async with watching(tmp_path) as desk:
        await desk.reloader.watch([])
        (tmp_path / "config.toml").write_text("x")
        await desk.quiet()
        desk.reloader.wake()
        await desk.change()


@bounded(LIMIT)
async def test_a_wake_up_during_the_work_is_not_lost(tmp_path: Path) -> None:
    desk = Desk()
    begun, gate = anyio.Event(), anyio.Event()

    async def work() -> None:
        begun.set()
        await gate.wait()
        await desk.tell()

    desk.reloader = Reloader(work)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.reloader.run)
        desk.reloader.wake()
        await begun.wait()
        desk.reloader.wake()
        gate.set()
        await desk.change()
        await desk.change()
        tasks.cancel_scope.cancel()


@bounded(LIMIT)
async def test_without_inotify_the_directories_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed: list[BaseObserver] = []

    def no_watches_left(observer: BaseObserver) -> None:
        failed.append(observer)
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(Observer, "start", no_watches_left)
    monkeypatch.setattr(module, "POLL", 0.05)
    with caplog.at_level(logging.WARNING):
        async with watching(tmp_path) as desk:
            assert len(failed) == 1
            assert not failed[0].emitters
            assert "inotify watch limit reached" in caplog.text
            (tmp_path / "config.toml").write_text("x")
            await desk.change()


@bounded(LIMIT)
async def test_a_change_after_the_end_of_the_loop_hurts_nobody(tmp_path: Path) -> None:
    reloader = Reloader(Desk().tell)
    loop = reloader._loop
    reloader._loop = _Ended(loop)  # type: ignore[assignment]
    reloader._noticed(FileModifiedEvent(str(tmp_path)))


class _Ended:
    """An event loop that is closed."""

    def __init__(self, loop: object) -> None:
        self.loop = loop

    def call_soon_threadsafe(self, *_: object) -> None:
        raise RuntimeError("Event loop is closed")
