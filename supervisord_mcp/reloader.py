"""Notices when the configuration changed on disk: watches directories, since editors replace files (case 37).

watchdog tells about every write; events within 200 ms count once. Where inotify has no watches left, the directories
are looked at every two seconds instead. What a change means is not decided here.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal
from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver
from watchdog.observers.polling import PollingObserver

_log = logging.getLogger(__name__)

#: Events within this time count once, in seconds.
SETTLE = 0.2
#: How often directories are looked at where they cannot be watched, in seconds.
POLL = 2.0
#: What reading a file causes; it changes nothing.
_READS = frozenset({"opened", "closed_no_write"})


class Reloader:
    """Calls ``on_change`` some time after something in the watched directories changed."""

    def __init__(self, on_change: Callable[[], Awaitable[None]]) -> None:
        self._on_change = on_change
        self._changed = anyio.Event()
        self._watched: frozenset[Path] = frozenset()
        self._observer: BaseObserver | None = None
        self._portal: BlockingPortal | None = None

    def wake(self) -> None:
        """Something may have changed (also for SIGHUP)."""
        self._changed.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with BlockingPortal() as self._portal:
            try:
                while True:
                    await self._changed.wait()
                    self._changed = anyio.Event()
                    await anyio.sleep(SETTLE)
                    if not self._changed.is_set():
                        await self._on_change()
            finally:
                self._stop_watching()
                await self._portal.stop(cancel_remaining=True)

    async def watch(self, directories: Iterable[Path]) -> None:
        """Watch these directories from now on; one that does not exist yet is watched through its parent."""
        wanted = frozenset(_existing(directory) for directory in directories)
        if wanted == self._watched and self._observer is not None:
            return
        await anyio.to_thread.run_sync(self._stop_watching)
        self._watched = wanted
        try:
            self._observer = await anyio.to_thread.run_sync(self._observe, Observer())
        except OSError as error:
            _log.warning("cannot watch the configuration (%s); looking every %g s instead", error, POLL)
            self._observer = await anyio.to_thread.run_sync(self._observe, PollingObserver(timeout=POLL))

    def _observe(self, observer: BaseObserver) -> BaseObserver:
        handler = _Handler(self._noticed)
        for directory in self._watched:
            observer.schedule(handler, str(directory), recursive=False)
        observer.start()
        return observer

    def _stop_watching(self) -> None:
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(timeout=5.0)
            self._observer = None

    def _noticed(self) -> None:
        """Called in watchdog's thread."""
        if self._portal is not None:
            self._portal.start_task_soon(self._wake_in_loop)

    async def _wake_in_loop(self) -> None:
        self.wake()


class _Handler(FileSystemEventHandler):
    def __init__(self, noticed: Callable[[], None]) -> None:
        self._noticed = noticed

    def on_any_event(self, event: FileSystemEvent) -> Any:
        """Take note of everything but reading."""
        if event.event_type not in _READS:
            self._noticed()


def _existing(directory: Path) -> Path:
    while not directory.is_dir() and directory.parent != directory:
        directory = directory.parent
    return directory
