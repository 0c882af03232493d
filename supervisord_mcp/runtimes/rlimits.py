"""Limits that the kernel keeps for each process, set from outside on a process that waits to be let go."""

from __future__ import annotations

import resource
from collections.abc import Iterable

from supervisord_mcp.errors import IsolationError

_NAMES = {
    resource.RLIMIT_NPROC: "pids",
    resource.RLIMIT_DATA: "memory",
    resource.RLIMIT_MEMLOCK: "locked memory",
    resource.RLIMIT_SIGPENDING: "queued signals",
    resource.RLIMIT_MSGQUEUE: "queues of messages",
    resource.RLIMIT_NOFILE: "nofile",
    resource.RLIMIT_FSIZE: "fsize",
    resource.RLIMIT_CORE: "core",
}
#: When the machine runs out of memory the kernel ends a server before anything that the person works with.
OOM_SCORE = 500


def set_rlimits(pid: int, rlimits: Iterable[tuple[int, int]]) -> None:
    """Give a process limits that it cannot raise, and read them back. Raise `IsolationError` that names the limit.

    A limit that is already lower stays as it is.
    """
    for number, wanted in rlimits:
        name = _NAMES.get(number, str(number))
        try:
            _, hard = resource.prlimit(pid, number)
            value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.prlimit(pid, number, (value, value))
            held = resource.prlimit(pid, number)
        except (OSError, ValueError) as error:
            raise _failure(name, str(error)) from error
        if held != (value, value):
            raise _failure(name, f"the kernel holds {held[0]} instead of {value}")


def raise_oom_score(pid: int) -> None:
    """Let the kernel end a process rather than others when memory runs out. Raise `IsolationError` where it cannot."""
    path = f"/proc/{pid}/oom_score_adj"
    try:
        with open(path, "r+b", buffering=0) as file:
            score = max(OOM_SCORE, int(file.read()))
            file.write(b"%d" % score)
        with open(path, "rb", buffering=0) as file:
            held = int(file.read())
    except OSError as error:
        raise _failure("oom score", str(error.strerror)) from error
    if held != score:
        raise _failure("oom score", f"the kernel holds {held} instead of {score}")


def _failure(name: str, why: str) -> IsolationError:
    return IsolationError(
        f"limit {name} cannot be set: {why}",
        remedy="The daemon must run as the user that its servers run as, or with CAP_SYS_RESOURCE.",
    )
