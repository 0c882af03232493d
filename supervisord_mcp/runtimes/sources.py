"""What a sandbox shows of the machine, opened once: nothing that happens to a path later changes what is shown.

A source is opened without following any symbolic link, bubblewrap is given the descriptor where it takes one, and when
the sandbox is complete each place in it is compared with what was opened, before the server runs.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass

from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes.descriptors import Descriptors
from supervisord_mcp.runtimes.openat2 import IN_ROOT, NO_MAGICLINKS, NO_SYMLINKS, open_path
from supervisord_mcp.runtimes.sandbox import Bound, Step

_REMEDY = "Check which bwrap is first in PATH."
_CHANGED = "See who changes its directories while the server starts."


@dataclass(frozen=True, slots=True)
class Opened:
    """What was opened for a place in a sandbox or container, and whether it must be read-only there."""

    bound: Bound
    device: int
    inode: int


def open_sources(
    built: Sequence[Step], descriptors: Descriptors, *, by_descriptor: bool
) -> tuple[list[Step], list[Opened]]:
    """Given the steps of a sandbox, return them with every source opened, and what was opened.

    ``by_descriptor`` is whether bubblewrap takes descriptors. Raise `LaunchError` that names what cannot be opened.
    """
    steps: list[Step] = []
    opened: list[Opened] = []
    for step in built:
        if not isinstance(step, Bound):
            steps.append(step)
            continue
        source = step.source if step.granted else os.path.realpath(step.source)
        descriptor = open_source(source, step.source)
        descriptors.inherit(descriptor) if by_descriptor else descriptors.keep(descriptor)
        status = os.fstat(descriptor)
        opened.append(Opened(step, status.st_dev, status.st_ino))
        kind = "--ro-bind" if step.access == "ro" else "--bind"
        steps.append((f"{kind}-fd", str(descriptor), step.target) if by_descriptor else (kind, source, step.target))
    return steps, opened


def verify_sources(inner: int, opened: Sequence[Opened]) -> None:
    """Given the first process of a complete sandbox, raise `IsolationError` if it shows something else than was opened.

    What must be read-only is looked at as well.
    """
    try:
        root = os.open(f"/proc/{inner}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise IsolationError(
            f"the files of the sandbox cannot be examined: {error.strerror}", remedy=_REMEDY
        ) from error
    try:
        for each in opened:
            compare(root, each, "sandbox", _REMEDY)
    finally:
        os.close(root)


def open_source(path: str, named: str) -> int:
    """Open the source of a mount, whose path is ``named`` so in the configuration, through no link.

    Raise `LaunchError` that names it where that is not possible.
    """
    try:
        return open_path(path, NO_SYMLINKS | NO_MAGICLINKS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise LaunchError(
                f"mount of {path}: a symbolic link is on the way to it, which was not there when it was looked up",
                remedy="See who can change its directories; then start the server again.",
                retryable=False,
            ) from error
        raise LaunchError(f"mount of {named}: {error.strerror}", remedy="Check `mounts`.", retryable=False) from error


def compare(root: int, opened: Opened, where: str, remedy: str = _CHANGED, *, trusting: bool = False) -> None:
    """Given the root directory of a process in a ``where``, raise `IsolationError` if it shows something else.

    ``trusting`` says that a place at which nobody lets us look is taken to be right.
    """
    target = opened.bound.target
    try:
        descriptor = open_path(target.lstrip("/"), IN_ROOT | NO_MAGICLINKS, root)
    except OSError as error:
        if trusting and isinstance(error, PermissionError):
            return
        raise IsolationError(
            f"the {where} does not show {target} as it was told to: {error.strerror}", remedy=remedy
        ) from error
    try:
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != (opened.device, opened.inode):
            raise IsolationError(
                f"the {where} shows something else at {target} than {opened.bound.source} was when it was opened",
                remedy=_CHANGED,
            )
        if opened.bound.access == "ro" and not os.fstatvfs(descriptor).f_flag & os.ST_RDONLY:
            raise IsolationError(f"the {where} lets the server write {target}, which is to be read-only", remedy=remedy)
    finally:
        os.close(descriptor)
