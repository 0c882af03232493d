"""What a measurement gives until it ends, in whatever way: long runs are not lost for what fails last."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

from contrib.bench.place import BenchError
from supervisord_mcp.errors import SmcpError

#: The exit status of who was interrupted, as shells have it.
INTERRUPTED = 128 + signal.SIGINT
#: What keeps a measurement from going on, and is no fault of the benchmark.
FAILURES = (BenchError, SmcpError, OSError, subprocess.SubprocessError)

Measured = TypeVar("Measured")


def _ends_here(reason: str) -> None:
    sys.stderr.write(f"the benchmark ends here: {reason}\n")


def gather(measured: Iterable[Measured], tell: Callable[[str], object] = _ends_here) -> tuple[list[Measured], int]:
    """Return what was measured until it ended, and the exit status. ``tell`` is told what failed, if that ended it."""
    found: list[Measured] = []
    try:
        for one in measured:
            found.append(one)  # noqa: PERF402  # what came before one that fails is kept
    except FAILURES as error:
        tell(str(error))
        return found, 1
    except KeyboardInterrupt:
        sys.stderr.write("ended early: what was measured so far follows\n")
        return found, INTERRUPTED
    return found, 0
