"""The system calls of Landlock: which version there is, a set of rules, and the step that cannot be taken back."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Iterable, Iterator

from supervisord_mcp.runtimes.landlock.abi import ON_FILES, Coverage, Right
from supervisord_mcp.runtimes.process import give_up_new_rights

# The numbers are the same on every architecture (asm-generic/unistd.h).
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1


def version() -> int:
    """Return the version of Landlock that the kernel has, 0 where it has none or it is switched off."""
    found = int(_libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)))
    return max(found, 0)


@contextlib.contextmanager
def made(covered: Coverage, paths: Iterable[tuple[str, Right]]) -> Iterator[int]:
    """Make a set of rules that takes away all that is covered but for the rights on these paths.

    Yield its descriptor, which is closed at the end. Raise `OSError` with the path that cannot be opened.
    """
    descriptor = _create(covered)
    try:
        for path, rights in paths:
            _allow(descriptor, path, rights & covered.files)
        yield descriptor
    finally:
        os.close(descriptor)


def restrict_this_thread(ruleset: int) -> None:
    """Hold this thread, and all it will start, to a set of rules, and to the rights it has. Raise `OSError`."""
    give_up_new_rights()
    _check(_libc().syscall(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0)))


def _create(covered: Coverage) -> int:
    # The kernel takes a shorter structure for one whose rest is zero, and refuses a longer one unless it is.
    attributes = struct.pack("=QQQ", covered.files, covered.network, covered.scoped)
    size = 24 if covered.scoped else 16 if covered.network else 8
    return _check(_libc().syscall(_CREATE, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0)))


def _allow(ruleset: int, path: str, rights: Right) -> None:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            rights &= ON_FILES
        attributes = struct.pack("=Qi", rights, opened)
        try:
            _check(_libc().syscall(_ADD, ctypes.c_int(ruleset), _PATH_BENEATH, attributes, ctypes.c_uint32(0)))
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(opened)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)
