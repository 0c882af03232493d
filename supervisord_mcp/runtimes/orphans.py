"""The daemon as subreaper: it adopts what its children leave behind, and reaps each adopted process by its pid.

``waitpid(-1)`` is never used: it would take the exit status of children that somebody else waits for.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from collections.abc import Callable

from supervisord_mcp.runtimes import proctable

_PR_SET_CHILD_SUBREAPER = 36

# The process table is one per process, so is this: the children that have an owner who waits for them.
_owned: set[int] = set()
_confined: set[int] = set()


def become_subreaper() -> None:
    """Make this process the parent of every orphan among its descendants. Raise `OSError` where the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(PR_SET_CHILD_SUBREAPER): {os.strerror(number)}")


def own(pid: int) -> None:
    """Note a child that somebody waits for, so that it is never taken for a stranger."""
    _owned.add(pid)


def confine(pid: int) -> None:
    """Note that nothing can leave an owned child: it has a pid namespace of its own."""
    _confined.add(pid)


def is_confined(pid: int) -> bool:
    """Whether nothing can leave that owned child."""
    return pid in _confined


def disown(pid: int) -> None:
    """Forget a child that has been reaped."""
    _owned.discard(pid)
    _confined.discard(pid)


def is_only_one(pid: int) -> bool:
    """Whether strangers can come from no other living child: then they come from this one, or from one before it."""
    return _owned - _confined <= {pid}


def is_stranger(entry: proctable.Entry) -> bool:
    """Whether a process is an adopted child of ours: nobody waits for it, and it is of another session.

    A child started with the subprocess module stays in our session and belongs to whoever started it; one that is
    started in a session of its own must come from `process.spawn`, which makes it owned.
    """
    return entry.ppid == os.getpid() and entry.pid not in _owned and entry.session != os.getsid(0)


def reap_strangers() -> int:
    """Reap every adopted process that has ended; return how many there were."""
    reaped = 0
    for pid in proctable.children():
        if pid in _owned:
            continue
        entry = proctable.read_entry(pid)
        if entry is not None and entry.state == "Z" and is_stranger(entry):
            try:
                reaped += os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is not None
            except ChildProcessError:
                continue
    return reaped


def watch_strangers(loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """Reap strangers whenever a child ends, from now on; return the function that stops it."""

    def stop() -> None:
        loop.remove_signal_handler(signal.SIGCHLD)

    loop.add_signal_handler(signal.SIGCHLD, reap_strangers)
    reap_strangers()
    return stop
