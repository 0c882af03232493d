"""Runs a command and passes its pipes on, while every line in both directions is written to a file.

Run as ``python -I -S tap.py FILE COMMAND…``; each line of the file is JSON: the side that spoke and what it said.
FILE gets the process id at its end, so that a command may be started several times.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading


def pump(side: str, source: int, target: int, record: int) -> None:
    """Copy until the end of the source, and write each whole line down."""
    rest = b""
    while True:
        try:
            data = os.read(source, 1 << 16)
            view = memoryview(data)
            while view:
                view = view[os.write(target, view) :]
        except OSError:
            data = b""
        if not data:
            os.close(target)
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            os.write(record, json.dumps({"side": side, "line": line.decode("latin-1")}).encode() + b"\n")


def main() -> int:
    """Run the command; return its exit status."""
    file, *command = sys.argv[1:]
    record = os.open(f"{file}-{os.getpid()}", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signum, _: process.send_signal(signum))
    threading.Thread(target=pump, args=("client", 0, os.dup(process.stdin.fileno()), record), daemon=True).start()
    process.stdin.close()
    pump("server", process.stdout.fileno(), os.dup(1), record)
    return process.wait()


if __name__ == "__main__":
    # Not sys.exit: the other thread may wait for a line that never comes.
    os._exit(main())
