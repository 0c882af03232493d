"""Where installed packages are kept: a folder per request, in it a folder per installation, and a link to the good one.

The link is set when an installation is complete, in one step; what an ended daemon left half done is never linked and
is removed by the next installation. An installation that was replaced is kept for a while, for servers that still run
from it load files late.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio

_KEPT_SECONDS = 7 * 86400
_FORGOTTEN_SECONDS = 90 * 86400
_LOOK_SECONDS = 0.2
_COMPLETE = ".complete"
_CHECKED = ".checked"


class Shelf:
    """The installations of one request."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._link = folder / "current"

    def current(self) -> Path | None:
        """Return the installation to run from, or None where nothing is installed."""
        try:
            place = self._folder / os.readlink(self._link)
        except OSError:
            return None
        return place if (place / _COMPLETE).is_file() else None

    def checked(self) -> float:
        """Return when it was last made sure that this is the newest version, in seconds since the epoch."""
        try:
            return (self._folder / _CHECKED).stat().st_mtime
        except OSError:
            return 0.0

    def note_check(self, when: float) -> None:
        """Note that this is the newest version, or that it could not be found out, at a time."""
        _touch(self._folder / _CHECKED, when)

    def note_use(self, when: float) -> None:
        """Note that a server starts from the current installation."""
        if (place := self.current()) is not None:
            with contextlib.suppress(OSError):
                _touch(place / _COMPLETE, when)

    def begin(self) -> Path:
        """Return a new folder to install into."""
        place = self._folder / secrets.token_hex(4)
        place.mkdir(parents=True, mode=0o700)
        return place

    def finish(self, place: Path) -> None:
        """Make a complete installation the current one."""
        (place / _COMPLETE).touch()
        fresh = self._folder / f"{place.name}.link"
        fresh.symlink_to(place.name)
        os.replace(fresh, self._link)

    def sweep(self, now: float) -> None:
        """Remove what is incomplete or has not been used for long. Only while the lock is held."""
        current = self.current()
        for place in self._folder.iterdir() if self._folder.is_dir() else ():
            if place in (current, self._link) or place.name == _CHECKED:
                continue
            with contextlib.suppress(OSError):
                if place.is_dir() and (place / _COMPLETE).stat().st_mtime > now - _KEPT_SECONDS:
                    continue
            discard(place)


def forget(folder: Path, keep: Path, now: float) -> None:
    """Remove the folders of requests, but ``keep``, that no server has started from for very long."""
    for place in folder.iterdir():
        current = Shelf(place).current() if place.is_dir() and place != keep else None
        if current is not None and (current / _COMPLETE).stat().st_mtime < now - _FORGOTTEN_SECONDS:
            discard(place)


def discard(place: Path) -> None:
    """Remove a folder or a link; what cannot be removed is left for the next time."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)


@contextlib.asynccontextmanager
async def locked(path: Path, waiting: Callable[[], None]) -> AsyncIterator[None]:
    """Hold a lock among all daemons of a user; ``waiting`` is called once if somebody else has it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        told = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    waiting()
                    told = True
                # The kernel has no event for this, and a blocked thread could not be cancelled.
                await anyio.sleep(_LOOK_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _touch(path: Path, when: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch()
    os.utime(path, (when, when))
