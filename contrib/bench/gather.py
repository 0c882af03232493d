"""What a measurement gives until it ends, in whatever way: long runs are not lost for what fails last."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterable

from contrib.bench.figures import Figure
from contrib.bench.place import BenchError
from supervisord_mcp.errors import SmcpError

#: The exit status of who was interrupted, as shells have it.
INTERRUPTED = 128 + signal.SIGINT
#: What keeps a measurement from going on, and is no fault of the benchmark.
FAILURES = (BenchError, SmcpError, OSError, subprocess.SubprocessError)


def gather(figures: Iterable[Figure]) -> tuple[list[Figure], int]:
    """Return the figures that there are, and the exit status; why there are no more is told on stderr."""
    found: list[Figure] = []
    try:
        for figure in figures:
            found.append(figure)  # noqa: PERF402  # what came before one that fails is kept
    except FAILURES as error:
        sys.stderr.write(f"the benchmark ends here: {error}\n")
        return found, 1
    except KeyboardInterrupt:
        sys.stderr.write("ended early: what was measured so far follows\n")
        return found, INTERRUPTED
    return found, 0
