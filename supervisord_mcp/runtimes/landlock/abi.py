"""What each version of Landlock can hold a process back from, and what stays open without it: pure facts, no I/O.

The versions and their rights are those of ``linux/landlock.h`` and of the kernel's page on Landlock.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Right(enum.IntFlag):
    """What may be done with a file or below a directory (``LANDLOCK_ACCESS_FS_*``)."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15
    RESOLVE_UNIX = 1 << 16


#: The rights that a rule for a single file may have; the kernel refuses others.
ON_FILES = Right.EXECUTE | Right.WRITE_FILE | Right.READ_FILE | Right.TRUNCATE | Right.IOCTL_DEV
READ = Right.EXECUTE | Right.READ_FILE | Right.READ_DIR
#: No device files: nothing that a server writes is one.
WRITE = (
    READ
    | Right.WRITE_FILE
    | Right.REMOVE_DIR
    | Right.REMOVE_FILE
    | Right.MAKE_DIR
    | Right.MAKE_REG
    | Right.MAKE_SOCK
    | Right.MAKE_FIFO
    | Right.MAKE_SYM
    | Right.REFER
    | Right.TRUNCATE
)

_NET_TCP = 0b11
_SCOPE_ABSTRACT_UNIX, _SCOPE_SIGNAL = 0b01, 0b10
#: The version that can keep a process from abstract sockets outside of its domain.
ABSTRACT_SOCKETS_SINCE = 6
_BY_ABI = {2: Right.REFER, 3: Right.TRUNCATE, 5: Right.IOCTL_DEV, 9: Right.RESOLVE_UNIX}
_FIRST = Right((1 << 13) - 1)

#: What is open to a server on a kernel whose Landlock is older than this version.
_OPEN_BEFORE = {
    2: "nothing can be renamed or linked from one directory to another, not even within one mount",
    3: "files that it may read can be emptied by opening them",
    5: "it may send commands to the devices that it may open (/dev/null and the like)",
    6: "it may send signals to the other processes of its user",
    9: "sockets in the file system cannot be told apart, so it gets none at all",
}
#: What no version holds back, and namespaces would.
_ALWAYS = (
    "it sees that files and directories exist, and whose they are, though it cannot read them",
    "it sees the real name of the machine and of the users in /etc/passwd",
    "it may change the priority and the processors of the other processes of its user",
    "its private home and its temporary files are on the disk, without a bound of their own",
    "it has no shared memory of its own (/dev/shm), and there is no file below a process in /proc",
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What one version of Landlock handles: rights on files, use of TCP, what lies outside of the domain."""

    files: Right
    network: int
    scoped: int


def coverage(abi: int, *, network: bool) -> Coverage:
    """Given the version of Landlock of the kernel, return all that it can take away.

    With ``network`` the server keeps the network of the machine.
    """
    files = _FIRST
    for version, right in _BY_ABI.items():
        if abi >= version:
            files |= right
    tcp = _NET_TCP if abi >= 4 and not network else 0
    return Coverage(files, tcp, _SCOPE_ABSTRACT_UNIX | _SCOPE_SIGNAL if abi >= ABSTRACT_SOCKETS_SINCE else 0)


def only_scoped() -> Coverage:
    """Return what takes abstract sockets of others away, and no right on files or the network."""
    return Coverage(Right(0), 0, _SCOPE_ABSTRACT_UNIX)


def uncovered(abi: int, *, network: bool, own_user: bool) -> tuple[str, ...]:
    """Return what a server is not held back from, a line each, as a person reads it.

    ``own_user`` says that it has a user of its own, whose processes are all its own.
    """
    found = [text for version, text in _OPEN_BEFORE.items() if abi < version]
    found += _ALWAYS
    if own_user:
        found = [text for text in found if "processes of its user" not in text]
    if network:
        found.append("it has the network of the machine, its loopback included")
    return tuple(found)
