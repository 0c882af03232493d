"""What a container is shown of the machine: opened once before, and compared with what is in it before the server runs.

The engine looks paths up by itself, so somebody who can change a directory on the way could lead it elsewhere between
our look and its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from supervisord_mcp.runtimes.base import LaunchSpec, Mount
from supervisord_mcp.runtimes.sandbox import Bound
from supervisord_mcp.runtimes.sources import Opened, compare, open_source


def look(spec: LaunchSpec) -> list[Opened]:
    """Return what is at the paths of all mounts. Raise `LaunchError` where one cannot be had, or is behind a link."""
    return [_opened(mount) for mount in spec.mounts]


def verify(pid: int, opened: Sequence[Opened]) -> None:
    """Given a process of the container, raise `IsolationError` if it is shown something else, or may write it.

    The kernel lets nobody look who may not trace the process: then the engine is trusted.
    """
    if not opened:
        return
    try:
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for each in opened:
            compare(root, each, "container", trusting=True)
    finally:
        os.close(root)


def _opened(mount: Mount) -> Opened:
    descriptor = open_source(mount.path, mount.path)
    try:
        status = os.fstat(descriptor)
        bound = Bound(mount.path, mount.target or mount.path, mount.access)
        return Opened(bound, status.st_dev, status.st_ino)
    finally:
        os.close(descriptor)
