"""Notices when the configuration changed on disk: watches directories, since editors replace files (case 37).

watchdog tells about every write; events within 200 ms count once. Where inotify has no watches left, the directories
are looked at every two seconds instead. What a change means is not decided here.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver
from watchdog.observers.polling import PollingObserver

_log = logging.getLogger(__name__)

#: Events within this time count once, in seconds.
SETTLE = 0.2
#: How long events may go on before they are acted upon all the same, in seconds.
LONGEST_SETTLE = 2.0
#: How often directories are looked at where they cannot be watched, in seconds.
POLL = 2.0
#: What reading a file causes; it changes nothing.
_READS = frozenset({"opened", "closed_no_write"})
#: What ends the watch of a directory when it happens to itself.
_ENDS = frozenset({"deleted", "moved"})


class Reloader:
    """Calls ``on_change`` some time after something in the watched directories changed. Made in the event loop."""

    def __init__(self, on_change: Callable[[], Awaitable[None]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_change = on_change
        self._changed = anyio.Event()
        self._watched: frozenset[Path] = frozenset()
        self._observer: BaseObserver | None = None
        #: Whether a watched directory was deleted: one that takes its path is not watched by that.
        self._lost = False

    def wake(self) -> None:
        """Something may have changed (also for SIGHUP)."""
        self._changed.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                await self._changed.wait()
                await self._settled()
                await self._on_change()
        finally:
            self._stop_watching()

    async def _settled(self) -> None:
        """Wait until nothing has changed for a moment, but not for ever: somebody may write all the time."""
        deadline = self._loop.time() + LONGEST_SETTLE
        while self._changed.is_set() and self._loop.time() < deadline:
            self._changed = anyio.Event()
            await anyio.sleep(SETTLE)
        self._changed = anyio.Event()

    async def watch(self, directories: Iterable[Path]) -> None:
        """Watch these directories from now on; one that does not exist yet is watched through its parent."""
        wanted = frozenset(_existing(directory) for directory in directories)
        if wanted == self._watched and not self._lost:
            return
        self._lost = False
        await anyio.to_thread.run_sync(self._stop_watching)
        self._watched = wanted
        if wanted:
            self._observer = await anyio.to_thread.run_sync(self._observe)
            self.wake()  # what changed before it was watched

    def _observe(self) -> BaseObserver:
        try:
            return self._started(Observer())
        except OSError as error:
            _log.warning("cannot watch the configuration (%s); looking every %g s instead", error, POLL)
            return self._started(PollingObserver(timeout=POLL))

    def _started(self, observer: BaseObserver) -> BaseObserver:
        handler = _Handler(self._noticed)
        try:
            for directory in self._watched:
                observer.schedule(handler, str(directory), recursive=False)
            observer.start()
        except OSError:
            observer.stop()  # it may have started some of its threads already
            raise
        return observer

    def _stop_watching(self) -> None:
        observer, self._observer, self._watched = self._observer, None, frozenset()
        if observer is not None:
            observer.stop()
            observer.join(timeout=5.0)

    def _noticed(self, event: FileSystemEvent) -> None:
        """Called in watchdog's thread."""
        if event.event_type in _READS:
            return
        if event.event_type in _ENDS and Path(os.fsdecode(event.src_path)) in self._watched:
            self._lost = True
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self.wake)


class _Handler(FileSystemEventHandler):
    def __init__(self, noticed: Callable[[FileSystemEvent], None]) -> None:
        self._noticed = noticed

    def on_any_event(self, event: FileSystemEvent) -> Any:
        """Pass everything on."""
        self._noticed(event)


def _existing(directory: Path) -> Path:
    while not directory.is_dir() and directory.parent != directory:
        directory = directory.parent
    return directory
