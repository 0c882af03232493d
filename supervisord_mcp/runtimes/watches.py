"""How many files a sandbox may watch: the kernel counts them for the whole user, so one server could take them all.

Nobody else of that user could watch any more then, the daemon and the person's own programs included. A namespace of
users has counts of its own below those, and limits that only its root can change: a helper enters it, as its owner may,
and sets them while the sandbox is blocked. The server has no rights there.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

# The same number on every architecture.
_NS_GET_USERNS = 0xB701
_SECONDS = 5.0
#: Which part of what its user may have a sandbox gets at most, and what it gets in every case.
_PART, _LEAST_INSTANCES, _LEAST_WATCHES = 8, 16, 4096
_KERNEL, _OWN = Path("/proc/sys/fs/inotify"), "/proc/sys/user"
_SET = f'echo "$1" > {_OWN}/max_inotify_instances && echo "$2" > {_OWN}/max_inotify_watches'


def part(most: int, least: int) -> int:
    """Given what a user may have, return what one of its sandboxes may."""
    return max(least, most // _PART)


def share(inner: int, nsenter: str) -> str:
    """Give the first process of a blocked sandbox, and all that it will start, a part of what its user may watch.

    ``nsenter`` is the program of that name. Return why that cannot be, empty where it is so.
    """
    try:
        most = [int((_KERNEL / name).read_text()) for name in ("max_user_instances", "max_user_watches")]
        shares = [str(part(most[0], _LEAST_INSTANCES)), str(part(most[1], _LEAST_WATCHES))]
        # The namespace that owns the others; the one that the server gets lies below it.
        other = os.open(f"/proc/{inner}/ns/uts", os.O_RDONLY | os.O_CLOEXEC)
        try:
            users = fcntl.ioctl(other, _NS_GET_USERNS)
        finally:
            os.close(other)
        try:
            enter = [nsenter, f"--user=/proc/self/fd/{users}", "--preserve-credentials"]
            done = subprocess.run(
                [*enter, "/bin/sh", "-c", _SET, "sh", *shares],
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                pass_fds=(users,),
                timeout=_SECONDS,
                check=False,
            )
        finally:
            os.close(users)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return str(error)
    return done.stderr.decode(errors="replace").strip() or f"exit {done.returncode}" if done.returncode else ""
