"""Reads the files of /proc and of control groups.

Without the layers of Python's own files: there are hundreds to be read every few seconds, and opening one through those
layers takes longer than all that the kernel does for it.
"""

from __future__ import annotations

import os

_CHUNK = 1 << 16


def content(path: str) -> bytes:
    """Return all that a file of the kernel holds. Raise `OSError` where it is gone, or of somebody else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.read(descriptor, _CHUNK)
        # Lists come a page at a time, whatever is asked for; only nothing more is the end.
        while found and (more := os.read(descriptor, _CHUNK)):
            found += more
        return found
    finally:
        os.close(descriptor)
