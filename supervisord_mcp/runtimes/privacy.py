"""Keeping the memory of this process to itself: in no file after a crash, and closed to other programs of the user."""

from __future__ import annotations

import ctypes
import os
import resource

_PR_SET_DUMPABLE = 4


def keep_memory_private(*, traceable: bool = False) -> None:
    """Let nothing of this process's memory be written to a core file, or be read or traced by others of its user.

    The limit holds for children too, which cannot raise it. What the kernel pipes to a program instead of a file is not
    bound by the limit; of this process there is nothing either way. What a child executes is as open as any program.
    If ``traceable``, only the limit is set: for a debugger. Raise `OSError` where the kernel refuses.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if traceable:
        return
    zero = ctypes.c_ulong(0)
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, zero, zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
