"""Watches what protects a part of a mount: who replaces a file on the machine takes away what is mounted on it.

The kernel lets nobody in a sandbox move a mount point, but on the machine it lets everybody: git writes its settings by
putting a new file in the place of the old one, and with the old one the mount in the sandbox goes. The server could
write the new one then, so it is ended at once; its next start protects what is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import os
from collections.abc import Callable, Iterable

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.sources import Opened

_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x40, 0x80, 0x100, 0x200, 0x400, 0x800
_MASK = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF


class Sentry:
    """Watches for one child; a companion of it. ``gone`` is called once, with what happened."""

    def __init__(self, opened: Iterable[Opened], gone: Callable[[str], None]) -> None:
        """Begin to watch. Raise `IsolationError` where the kernel lets it watch no more."""
        self._guards = [each for each in opened if each.bound.pinned]
        self._gone = gone
        self._descriptor = -1
        if self._guards:
            self._watch({os.path.dirname(each.bound.source) for each in self._guards})

    def close(self) -> None:
        """Watch no more. Idempotent."""
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    async def aclose(self) -> None:
        """The same as `close`."""
        self.close()

    def _watch(self, directories: Iterable[str]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            raise _no_more(ctypes.get_errno())
        for directory in sorted(directories):
            if libc.inotify_add_watch(descriptor, os.fsencode(directory), ctypes.c_uint32(_MASK)) < 0:
                number = ctypes.get_errno()
                os.close(descriptor)
                raise _no_more(number)
        self._descriptor = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._look)
        # What happened before the watch began has left no event.
        asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        if self._descriptor < 0:
            return
        # Which of them it was does not matter: there are few, and a full queue loses events.
        with contextlib.suppress(BlockingIOError):
            os.read(self._descriptor, 1 << 16)
        for each in self._guards:
            if not _is_same(each):
                self.close()
                self._gone(f"{each.bound.source} was replaced or removed, so it was no longer protected")
                return


def _is_same(opened: Opened) -> bool:
    try:
        status = os.lstat(opened.bound.source)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == (opened.device, opened.inode)


def _no_more(number: int) -> IsolationError:
    full = number in (errno.EMFILE, errno.ENOSPC)
    return IsolationError(
        f"protected paths cannot be watched: {os.strerror(number)}",
        remedy="Raise the limit: sudo sysctl -w fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=524288"
        if full
        else "Look at the directories of its mounts.",
    )
