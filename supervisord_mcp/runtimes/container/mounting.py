"""What a container is shown of the machine: opened once before, and compared with what is in it before the server runs.

The engine looks paths up by itself, so somebody who can change a directory on the way could lead it elsewhere between
our look and its own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass

from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes.base import LaunchSpec, Mount
from supervisord_mcp.runtimes.openat2 import IN_ROOT, NO_MAGICLINKS, NO_SYMLINKS, open_path

_REMEDY = "See who changes its directories while the server starts."


@dataclass(frozen=True, slots=True)
class Seen:
    """A mount, and what was at its path."""

    mount: Mount
    device: int
    inode: int


def look(spec: LaunchSpec) -> list[Seen]:
    """Return what is at the paths of all mounts. Raise `LaunchError` where one cannot be had, or is behind a link."""
    return [_seen(mount) for mount in spec.mounts]


def verify(pid: int, seen: Sequence[Seen]) -> None:
    """Given a process of the container, raise `IsolationError` if it is shown something else, or may write it.

    The kernel lets nobody look who may not trace the process: then the engine is trusted.
    """
    if not seen:
        return
    try:
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for each in seen:
            _verify(root, each)
    finally:
        os.close(root)


def _seen(mount: Mount) -> Seen:
    try:
        descriptor = open_path(mount.path, NO_SYMLINKS | NO_MAGICLINKS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise LaunchError(
                f"mount of {mount.path}: a symbolic link is on the way to it, which was not there before",
                remedy="See who can change its directories; then start the server again.",
                retryable=False,
            ) from error
        raise LaunchError(
            f"mount of {mount.path}: {error.strerror}", remedy="Check `mounts`.", retryable=False
        ) from error
    try:
        status = os.fstat(descriptor)
        return Seen(mount, status.st_dev, status.st_ino)
    finally:
        os.close(descriptor)


def _verify(root: int, seen: Seen) -> None:
    target = seen.mount.target or seen.mount.path
    try:
        descriptor = open_path(target.lstrip("/"), IN_ROOT | NO_MAGICLINKS, root)
    except PermissionError:
        return
    except OSError as error:
        raise IsolationError(
            f"the container does not show {target} as it was told to: {error.strerror}", remedy=_REMEDY
        ) from error
    try:
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != (seen.device, seen.inode):
            raise IsolationError(
                f"the container shows something else at {target} than {seen.mount.path} was when it was looked at",
                remedy=_REMEDY,
            )
        if seen.mount.access == "ro" and not os.fstatvfs(descriptor).f_flag & os.ST_RDONLY:
            raise IsolationError(f"the container lets the server write {target}, which is to be read-only")
    finally:
        os.close(descriptor)
