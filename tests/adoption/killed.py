"""Runs a command of smcp again and again in homes that are alike, and kills it before each step that changes a file.

The arguments are a directory whose homes are called by their numbers, and the words of the command. In home 0 it runs
to its end. In each other it is killed (SIGKILL) one step later, until it ends by itself: what is printed is how often
it was killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

from supervisord_mcp.cli import main

_STEPS = frozenset({"os.rename", "os.remove", "os.mkdir", "os.rmdir"})


class _Steps:
    """Counts what changes files; before step ``last`` the process is killed."""

    def __init__(self) -> None:
        self.count, self.last = 0, 0
        sys.addaudithook(self._watch)

    def _watch(self, event: str, _arguments: tuple[Any, ...]) -> None:
        if event in _STEPS:
            self.count += 1
            if self.count == self.last:
                os.kill(os.getpid(), signal.SIGKILL)


def run(home: Path, words: list[str]) -> int:
    """Run the command in a home; return its status."""
    os.environ |= {"HOME": str(home), "SMCP_HOME": str(home / "smcp")}
    os.chdir(home)
    try:
        return main(words)
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1


def every_step(root: Path, words: list[str]) -> int:
    """Run it in every home until it ends by itself; return how often it was killed."""
    steps = _Steps()
    # Nothing is left to load when it is counted.
    assert run(root / "0", words) == 0
    for number in range(1, len(list(root.iterdir()))):
        pid = os.fork()
        if pid == 0:
            steps.count, steps.last = 0, number
            os._exit(run(root / str(number), words))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status != -signal.SIGKILL:
            assert status == 0
            return number - 1
    raise AssertionError("there are more steps than homes")


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        killed = every_step(Path(sys.argv[1]), sys.argv[2:])
    print(killed)
