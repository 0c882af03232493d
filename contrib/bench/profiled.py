"""The daemon with a profiler in it: ``profiled.py run``, switched on and off by SIGUSR1.

Run as a script in place of ``python -m supervisord_mcp``. Whenever it is switched off, what was counted is in the file
that SMCP_PROFILE names; while it is on, that file does not exist. SMCP_OTHERWISE has it do one thing otherwise.
"""

from __future__ import annotations

import cProfile
import os
import signal
import sys
from pathlib import Path


def main() -> int:
    """Be the daemon."""
    file = Path(os.environ["SMCP_PROFILE"])
    profiler: cProfile.Profile | None = None

    def switch(*_: object) -> None:
        nonlocal profiler
        if profiler is None:
            file.unlink(missing_ok=True)
            profiler = cProfile.Profile()
            profiler.enable()
        else:
            profiler.disable()
            profiler.dump_stats(f"{file}.new")
            Path(f"{file}.new").rename(file)
            profiler = None

    signal.signal(signal.SIGUSR1, switch)
    file.touch()
    if way := os.environ.get("SMCP_OTHERWISE"):
        # Only here: another revision, which is compared with, may not have it.
        from contrib.bench.otherwise import WAYS

        WAYS[way]()
    from supervisord_mcp.cli import main as smcp

    return smcp()


if __name__ == "__main__":
    sys.exit(main())
