"""Ends the daemon of a benchmark that was killed: ``keeper.py PID HOME``.

Run as a script, without the project, by who started the daemon, who holds the other end of stdin and writes nothing.
When that is gone, the daemon is asked to end, killed if it does not, and its files are taken away; its servers end with
it, and hosts with their servers. The kernel cannot do it (PR_SET_PDEATHSIG): it forgets the wish of a daemon of root.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys

#: Seconds that the daemon has to end in order.
_PATIENCE = 30.0


def main() -> None:
    """Wait for the end of who started this, and clean up behind it."""
    pid, home = int(sys.argv[1]), sys.argv[2]
    try:
        # A number may be another process by then.
        daemon = os.pidfd_open(pid)
    except ProcessLookupError:
        daemon = -1
    sys.stdin.read()
    if daemon >= 0 and not _ended(daemon, 0.0):
        signal.pidfd_send_signal(daemon, signal.SIGTERM)
        if not _ended(daemon, _PATIENCE):
            signal.pidfd_send_signal(daemon, signal.SIGKILL)
            _ended(daemon, _PATIENCE)
    shutil.rmtree(home, ignore_errors=True)


def _ended(daemon: int, seconds: float) -> bool:
    return bool(select.select([daemon], [], [], seconds)[0])


if __name__ == "__main__":
    main()
