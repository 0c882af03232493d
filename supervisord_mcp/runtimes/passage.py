"""A way for another user to directories that are closed to it, such as a Python below /root, and to nothing else.

bubblewrap looks for what it binds as the user of the server. So it starts in a mount namespace where each closed
directory is covered by an empty one that leads only to the directories that were granted, and where what is lent to
that user (see `lending`) is in its place. Its root is the machine's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable, Iterator, Mapping

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.identity import Identity, unreachable
from supervisord_mcp.runtimes.openat2 import NO_MAGICLINKS, NO_SYMLINKS, open_path

_CLONE_FS, _CLONE_NEWNS = 0x200, 0x20000
_BIND, _REC, _SLAVE = 0x1000, 0x4000, 1 << 19
_NOSUID_NODEV = 0x2 | 0x4
# The same number on every architecture.
_MOVE_MOUNT = 429
_BY_DESCRIPTORS = 0x4 | 0x40


def closed_paths(paths: Iterable[str], identity: Identity) -> dict[str, list[str]]:
    """Return the paths that a user cannot reach, by the directory that keeps it out."""
    found: dict[str, list[str]] = {}
    for path in dict.fromkeys(map(os.path.realpath, paths)):
        if (closed := unreachable(path, identity)) is not None:
            found.setdefault(closed, []).append(path)
    return found


@contextlib.contextmanager
def way(paths: Iterable[str], identity: Identity | None, lent: Mapping[str, int]) -> Iterator[None]:
    """Let what this thread starts inside find paths that its user could not reach; without an identity nothing changes.

    ``lent`` are detached mounts, each with the path that it is put at. Raise `IsolationError` where that cannot be.
    """
    closed = {} if identity is None else closed_paths(paths, identity)
    if not closed and not lent:
        yield
        return
    if "/" in closed:
        raise IsolationError("the root directory is closed to other users", remedy="chmod o+x /")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_elsewhere())
            _build(closed, lent)
        except OSError as error:
            shown = dict.fromkeys([*(path for places in closed.values() for path in places), *lent])
            raise IsolationError(
                f"no way can be made to {', '.join(shown)} for the user of a server: {error.strerror}",
                remedy=f"Let others pass through (chmod o+x {' '.join(closed or lent)}),"
                " or give the daemon CAP_SYS_ADMIN.",
            ) from error
        yield


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """Let this thread be in a mount namespace of its own. A thread made for that would take longer than all of it."""
    libc = ctypes.CDLL(None, use_errno=True)
    with contextlib.ExitStack() as stack:
        own = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, own)
        place = os.open(".", os.O_PATH | os.O_CLOEXEC)
        stack.callback(os.close, place)
        # Only a thread that shares its working directory and umask with no other may change its namespace; from now on
        # this one has its own.
        _check(libc.unshare(_CLONE_FS))
        _check(libc.unshare(_CLONE_NEWNS))
        try:
            yield
        finally:
            _check(libc.setns(own, _CLONE_NEWNS))
            os.fchdir(place)


def _build(closed: Mapping[str, list[str]], lent: Mapping[str, int]) -> None:
    """Change the mounts of this thread so that what is closed leads to what was granted."""
    libc = ctypes.CDLL(None, use_errno=True)
    _mount(libc, "none", "/", "", _REC | _SLAVE)
    for cover, paths in closed.items():
        sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths}
        try:
            _mount(libc, "smcp", cover, "tmpfs", _NOSUID_NODEV)
            for path in sorted(sources, key=lambda path: path.split("/")):
                _place(libc, path, sources[path])
        finally:
            for descriptor in sources.values():
                os.close(descriptor)
    for path in sorted(lent, key=lambda path: path.split("/")):
        # Whoever may write a directory on the way could put a link there meanwhile.
        place = open_path(path, NO_SYMLINKS | NO_MAGICLINKS)
        try:
            words = (ctypes.c_int(lent[path]), b"", ctypes.c_int(place), b"")
            _check(libc.syscall(_MOVE_MOUNT, *words, ctypes.c_uint(_BY_DESCRIPTORS)))
        finally:
            os.close(place)


def _place(libc: ctypes.CDLL, path: str, source: int) -> None:
    if os.path.exists(path):
        return  # it is a part of one that is there already
    shown = f"/proc/thread-self/fd/{source}"
    if os.path.isdir(shown):
        os.makedirs(path, mode=0o755)
    else:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    _mount(libc, shown, path, "", _BIND | _REC)


def _mount(libc: ctypes.CDLL, source: str, target: str, kind: str, flags: int) -> None:
    data = b"mode=0755,size=1m" if kind == "tmpfs" else None
    words = (os.fsencode(source), os.fsencode(target), os.fsencode(kind) or None)
    _check(libc.mount(*words, ctypes.c_ulong(flags), data))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
