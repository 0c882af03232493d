"""How things are tried: an attempt that returns got what it wanted, one that raises was kept from it.

Nothing does harm where nothing is held back: what would change the machine is asked for in a way that the kernel
refuses later than it would refuse a program without rights.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Callable
from typing import Any

Facts = dict[str, Any]
#: Gets what it wants, or raises.
Attempt = Callable[[Facts], object]
#: Attempts by name, in the order in which they run.
ATTEMPTS: dict[str, Attempt] = {}


class KeptError(Exception):
    """What was wanted was not to be had, though no call failed."""


class AbsentError(Exception):
    """This machine has nothing on which that could be tried."""


class Group:
    """Attempts that belong together, under a title for people."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.names: list[str] = []

    def attempt(self, name: str) -> Callable[[Attempt], Attempt]:
        """Register an attempt under the name that it has in the table of what is expected."""

        def register(function: Attempt) -> Attempt:
            self.several({name: function})
            return function

        return register

    def several(self, attempts: dict[str, Attempt]) -> None:
        """Register attempts that are alike."""
        ATTEMPTS.update(attempts)
        self.names += attempts


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


def call(facts: Facts, name: str, *arguments: Any, fine: tuple[int, ...] = ()) -> int:
    """Make a system call; an error other than those that come after the check for rights is raised."""
    number = facts["calls"].get(name)
    if number is None:
        raise AbsentError(f"no {name} for this processor")
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(LIBC.syscall(ctypes.c_long(number), *wide))
    if result < 0:
        code = ctypes.get_errno()
        if code not in fine:
            raise OSError(code, os.strerror(code))
    return result


def calling(name: str, *arguments: Any, fine: tuple[int, ...] = ()) -> Attempt:
    """Return an attempt that makes one system call."""
    return lambda facts: call(facts, name, *arguments, fine=fine)


def read(path: str) -> bytes:
    """Return the beginning of a file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1 << 16)
    finally:
        os.close(descriptor)


def reading(path: str) -> Attempt:
    """Return an attempt to read a file; ``{}`` in its path stand for facts."""
    return lambda facts: read(path.format(**facts))


def listing(path: str) -> Attempt:
    """Return an attempt to list a directory."""
    return lambda facts: os.listdir(path.format(**facts))


def creating(path: str) -> Attempt:
    """Return an attempt to make a file in a directory, and to remove it."""

    def run(facts: Facts) -> None:
        place = path.format(**facts)
        os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        os.unlink(place)

    return run


def opening(path: str, flags: int = os.O_WRONLY) -> Attempt:
    """Return an attempt to open a file that is there, without changing anything."""
    return lambda facts: os.close(os.open(path.format(**facts), flags))


def overwriting(path: str) -> Attempt:
    """Return an attempt to change a file that is there, by one byte that is put back."""

    def run(facts: Facts) -> None:
        descriptor = os.open(path.format(**facts), os.O_RDWR)
        try:
            first = os.pread(descriptor, 1, 0)
            os.pwrite(descriptor, first or b"x", 0)
            if not first:
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    return run


def making_socket(family: int, kind: int, protocol: int = 0) -> Attempt:
    """Return an attempt to make a socket."""
    return lambda facts: socket.socket(family, kind, protocol).close()


def connecting(family: int, address: Callable[[Facts], Any], kind: int = socket.SOCK_STREAM) -> Attempt:
    """Return an attempt to connect to an address, or to have a way to it at all for datagrams."""

    def run(facts: Facts) -> None:
        with socket.socket(family, kind) as one:
            one.settimeout(3)
            one.connect(address(facts))

    return run


def filling(place: str, limit: str) -> Attempt:
    """Return an attempt to write more into a private place than its limit allows."""

    def run(facts: Facts) -> None:
        size = facts["limits"].get(limit)
        if size is None:
            raise AbsentError("it has no limit")
        # In parts that no limit for one file could forbid.
        part, written = 1 << 24, 0
        names: list[str] = []
        try:
            while written <= size:
                names.append(f"{place.format(**facts)}/part{len(names)}")
                descriptor = os.open(names[-1], os.O_CREAT | os.O_WRONLY, 0o600)
                try:
                    os.posix_fallocate(descriptor, 0, part)
                finally:
                    os.close(descriptor)
                written += part
        finally:
            for name in names:
                if os.path.exists(name):
                    os.unlink(name)

    return run


def processes() -> list[str]:
    """Return the numbers of the processes that can be seen."""
    return [name for name in os.listdir("/proc") if name.isdigit()]
