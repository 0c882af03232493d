"""What must end does, however it hangs; on a terminal it is as if nothing were around it."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from contrib import within

ROOT = Path(within.__file__).parents[1]
WITHIN = [sys.executable, "-m", "contrib.within"]
#: Told that it was interrupted, it takes a moment to end: a second interrupt would show.
PATIENT = """
import time
try:
    # Within: who reads this may interrupt at once.
    print(input(), flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.5)
    print("ends well", flush=True)
    raise SystemExit(2)
"""


def run(*words: str, program: list[str] = WITHIN) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*program, *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60, input="begins\n"
    )


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_what_ends_in_time_ends_as_by_itself(script: str, status: int) -> None:
    done = run("1", "sh", "-c", script)
    assert (done.returncode, done.stderr) == (status, "")


def test_a_command_that_there_is_not_is_an_error() -> None:
    done = run("1", "no-such-command")
    assert (done.returncode, done.stderr) == (127, "no-such-command: No such file or directory\n")


def test_what_is_late_is_interrupted_and_says_what_it_knows() -> None:
    done = run("0.02", sys.executable, "-c", PATIENT)
    assert done.returncode == within.LATE
    assert done.stdout == "begins\nends well\n"
    assert "not done in 0.02 minutes" in done.stderr


def test_what_does_not_listen_is_killed() -> None:
    impatient = "import sys; from contrib import within; within._GRACE = 0.2; sys.exit(within.main())"
    done = run("0.005", "sh", "-c", "trap '' INT TERM; exec sleep 50", program=[sys.executable, "-c", impatient])
    assert done.returncode == within.LATE
    assert "it is killed" in done.stderr


def test_a_terminal_is_read_and_its_interrupt_comes_once() -> None:
    child, terminal = pty.fork()
    if not child:
        os.chdir(ROOT)
        os.execv(sys.executable, [*WITHIN, "1", sys.executable, "-c", PATIENT])
    try:
        os.write(terminal, b"typed\n")
        # Once as it is typed, and once as the command says it.
        shown = _read(terminal, b"typed\r\ntyped\r\n")
        os.write(terminal, b"\x03")
        shown += _read(terminal, b"ends well\r\n")
        assert b"Traceback" not in shown
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    finally:
        os.close(terminal)


def _read(terminal: int, until: bytes) -> bytes:
    shown, end = b"", time.monotonic() + 30
    while until not in shown:
        ready, _, _ = select.select([terminal], [], [], end - time.monotonic())
        assert ready, shown
        shown += os.read(terminal, 1 << 12)
    return shown
