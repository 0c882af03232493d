"""Opening a path so that nothing on the way can lead elsewhere: the system call openat2, which Python does not have.

See openat2(2); the numbers are those of ``linux/openat2.h``. It is there since Linux 5.6.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from supervisord_mcp.errors import IsolationError

NO_MAGICLINKS, NO_SYMLINKS, BENEATH, IN_ROOT = 0x02, 0x04, 0x08, 0x10

#: The same on all architectures.
_NUMBER = 437
_AT_FDCWD = -100


def open_path(path: str, resolve: int, directory: int = _AT_FDCWD, flags: int = os.O_PATH) -> int:
    """Open a path under rules for its resolution; return the descriptor, which the caller closes.

    Raise `OSError` where it cannot be opened so, `IsolationError` where the kernel does not have the call.
    """
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, resolve)
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(_NUMBER, directory, os.fsencode(path), how, ctypes.c_size_t(len(how)))
    if descriptor < 0:
        number = ctypes.get_errno()
        if number == errno.ENOSYS:
            raise IsolationError(
                "this kernel cannot open a path without following links (openat2)", remedy="Run Linux 5.6 or newer."
            )
        raise OSError(number, os.strerror(number), path)
    return int(descriptor)
