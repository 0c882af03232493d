"""A user of its own for each server of a daemon that is run by root: to the kernel no sandbox is ever root.

A user id of one's own keeps neighbours apart even where something else fails, and root in a sandbox would still own the
files of /proc/sys. The daemon stays root for one thing only: it gives limits to processes of these users.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import stat
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from supervisord_mcp.errors import IsolationError

#: Numbers that neither distributions nor systemd give to anybody, small enough for a container with 65536 users.
FIRST, COUNT = 60706, 478
_CALLS = {"x86_64": (116, 119, 117), "aarch64": (159, 149, 147)}
_KEEP = ctypes.c_uint32(-1)


@dataclass(frozen=True, slots=True)
class Identity:
    """The user and the group that a server runs as."""

    uid: int
    gid: int


def assign(server: str, taken: Mapping[str, int], first: int = FIRST, count: int = COUNT) -> int:
    """Given a server and who has which user id, return its own: the same whenever it can be, and nobody else's.

    Raise `IsolationError` where the range has no free one.
    """
    if server in taken:
        return taken[server]
    if first <= 0:
        raise IsolationError(f"user ids for servers begin at {first}: root must not be one of them")
    used = set(taken.values())
    begin = zlib.crc32(server.encode())
    for step in range(count):
        uid = first + (begin + step) % count
        if uid not in used:
            return uid
    raise IsolationError(
        f"server {server}: all {count} user ids from {first} are taken", remedy="Give the daemon a larger range."
    )


class Identities:
    """Who runs as whom in one daemon."""

    def __init__(self, first: int = FIRST, count: int = COUNT) -> None:
        self._range = (first, count)
        self._taken: dict[str, int] = {}

    def of(self, server: str) -> Identity:
        """Return the identity of a server. Raise `IsolationError` where there is none left."""
        uid = assign(server, self._taken, *self._range)
        self._taken[server] = uid
        return Identity(uid, uid)


def unreachable(path: str, identity: Identity) -> str | None:
    """Return the first directory on the way to a path that the identity may not pass through, or None."""
    place = "/"
    for name in ["", *filter(None, os.path.realpath(path).split("/"))][:-1]:
        place = os.path.join(place, name)
        try:
            status = os.stat(place)
        except OSError:
            return place
        needed = stat.S_IXOTH
        if status.st_uid == identity.uid:
            needed = stat.S_IXUSR
        elif status.st_gid == identity.gid:
            needed = stat.S_IXGRP
        if not status.st_mode & needed:
            return place
    return None


def may(opened: int, identity: Identity, mode: int) -> bool:
    """Return whether the identity may use what a descriptor stands for as ``mode`` says (`os.R_OK`…)."""
    answers: list[bool] = []
    # The kernel answers for the real user, access lists included.
    acting_as(identity, lambda: answers.append(os.access(f"/proc/thread-self/fd/{opened}", mode)))
    return answers[0]


def own_directory(path: str, identity: Identity) -> None:
    """Make a directory that belongs to the identity alone. Raise `OSError` where it cannot, or where it is a link."""
    os.makedirs(os.path.dirname(path), mode=0o711, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchown(descriptor, identity.uid, identity.gid)
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def acting_as(identity: Identity, action: Callable[[], None]) -> None:
    """Do something in a thread whose real user and group are the identity's, and raise what it raises.

    Without CAP_SYS_RESOURCE, which root lacks in many containers, limits of a process can be set only by its own user.
    The effective user stays root, so that the process as a whole remains what it is.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            _become(identity)
            action()
        except BaseException as error:  # noqa: BLE001 (raised by the caller)
            failures.append(error)

    # The kernel keeps users for each thread; only the library's own functions change them for all at once.
    thread = threading.Thread(target=run, name="identity")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _become(identity: Identity) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    setgroups, setresgid, setresuid = _CALLS.get(platform.machine(), (-1, -1, -1))
    results = (
        libc.syscall(setgroups, 0, None),
        libc.syscall(setresgid, ctypes.c_uint32(identity.gid), _KEEP, _KEEP),
        libc.syscall(setresuid, ctypes.c_uint32(identity.uid), _KEEP, _KEEP),
    )
    if any(results):
        raise IsolationError(f"cannot act as user {identity.uid}: {os.strerror(ctypes.get_errno())}")
