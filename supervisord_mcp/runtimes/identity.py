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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from supervisord_mcp.errors import IsolationError

#: Numbers that neither distributions nor systemd give to anybody, small enough for a container with 65536 users.
FIRST, COUNT = 60706, 478
_CALLS = {"x86_64": (116, 119, 117), "aarch64": (159, 149, 147)}
_KEEP = ctypes.c_uint32(-1)
_PR_CAP_AMBIENT, _CLEAR_ALL = 47, 4


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


@contextlib.contextmanager
def starting_as(identity: Identity | None) -> Iterator[None]:
    """Let what this thread starts inside begin as an identity, in no other group; without one nothing is changed.

    A new process that has to change its user itself needs a copy of all that this one has in memory, which takes longer
    than everything else that its start takes. The saved user stays root: with it this thread becomes again what it was,
    and execve puts the new one in its place. Raise `IsolationError` where this process may not be the identity.
    """
    if identity is None:
        yield
        return
    _calls(identity.uid)
    groups = os.getgroups()
    libc = ctypes.CDLL(None, use_errno=True)
    # What is ambient would outlive execve: to the kernel a thread with a saved root has not left its rights yet.
    zero = ctypes.c_ulong(0)
    libc.prctl(_PR_CAP_AMBIENT, ctypes.c_ulong(_CLEAR_ALL), zero, zero, zero)
    own = (os.getresuid(), os.getresgid())
    uid, gid = ctypes.c_uint32(identity.uid), ctypes.c_uint32(identity.gid)
    try:
        _set(identity.uid, (), (gid, gid, _KEEP), (uid, uid, _KEEP))
        yield
    finally:
        users, own_groups = (tuple(map(ctypes.c_uint32, numbers)) for numbers in own)
        # First the user, without whom nothing else is allowed.
        _set(own[0][0], None, (_KEEP, _KEEP, _KEEP), users)
        _set(own[0][0], groups, own_groups, users)


def _become(identity: Identity) -> None:
    uid, gid = ctypes.c_uint32(identity.uid), ctypes.c_uint32(identity.gid)
    _set(identity.uid, (), (gid, _KEEP, _KEEP), (uid, _KEEP, _KEEP))


_Numbers = tuple[ctypes.c_uint32, ...]


def _set(uid: int, groups: Sequence[int] | None, gids: _Numbers, uids: _Numbers) -> None:
    """Change the groups (None: not), group and user of this thread; the library would change those of all threads."""
    libc = ctypes.CDLL(None, use_errno=True)
    setgroups, setresgid, setresuid = _calls(uid)
    results = []
    if groups is not None:
        results.append(libc.syscall(setgroups, len(groups), (ctypes.c_uint32 * len(groups))(*groups)))
    results += [libc.syscall(setresgid, *gids), libc.syscall(setresuid, *uids)]
    if any(results):
        raise IsolationError(f"cannot act as user {uid}: {os.strerror(ctypes.get_errno())}")


def _calls(uid: int) -> tuple[int, int, int]:
    machine = platform.machine()
    if machine not in _CALLS:
        raise IsolationError(f"cannot act as user {uid}: the system calls of {machine} are not known")
    return _CALLS[machine]
