"""A command that must end: ``python -m contrib.within MINUTES COMMAND WORD…``, with the exit status of the command.

One that is not done in time is interrupted as by Ctrl-C, so that it says what it knows, and killed a while later; the
exit status is 124 then. The command stays in the foreground of its terminal: it reads there, and Ctrl-C is for it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence

#: The exit status when there was no time left, as timeout(1) has it.
LATE = 124
#: Seconds in which a command that was interrupted ends by itself.
_GRACE = 60.0


def main(words: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit status."""
    minutes, *command = sys.argv[1:] if words is None else words
    # timeout(1) hands on what the terminal has told the command already, and two interrupts end no run in good order.
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        status = process.wait(float(minutes) * 60)
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"\nnot done in {minutes} minutes, so it is ended: {' '.join(command)}\n")
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            sys.stderr.write("it does not end by itself, so it is killed\n")
            process.kill()
            process.wait()
        return LATE
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    sys.exit(main())
