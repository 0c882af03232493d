"""Secrets that a program prints, such as ``op read …`` or ``pass show …``: an argv list, a time-out, never a shell."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import IO

from supervisord_mcp.config.references import command_words
from supervisord_mcp.credentials.base import LONGEST, PATIENCE, Source, text_of, too_slow
from supervisord_mcp.errors import LaunchError, SecretError


class CommandSource(Source):
    """Runs programs with the environment of the daemon, for they find their own sessions and agents by it.

    ``find`` returns the absolute path of a program, or raises `LaunchError` that names what was searched.
    """

    def __init__(self, environ: Mapping[str, str], find: Callable[[str], str], seconds: float = PATIENCE - 2) -> None:
        self._environ = environ
        self._find = find
        self._seconds = seconds

    def read(self, name: str) -> str:
        """Return what the command prints. Raise `SecretError` where it fails or takes too long.

        What it writes is not in the error: a program that fails may well have printed the secret.
        """
        words = command_words(name)
        try:
            program = self._find(words[0])
        except LaunchError as error:
            raise SecretError(error.message, remedy="Install it, or give its whole path.") from None
        return text_of(self._run((program, *words[1:]), words))

    def _run(self, argv: tuple[str, ...], words: tuple[str, ...]) -> bytes:
        by_hand = f"Try it by hand: {shlex.join(words)}"
        try:
            process = subprocess.Popen(
                argv,
                env={**self._environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # A group, so that it can be ended with its like, but our session: the daemon reaps strangers of others.
                process_group=0,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it cannot be run"
            raise SecretError(f"{words[0]} does not start: {why}", remedy=by_hand) from None
        assert process.stdout is not None
        with process.stdout as stdout:
            content = self._output(process, stdout)
        if content is None:
            raise too_slow(self._seconds)
        if len(content) > LONGEST:
            raise SecretError(f"{words[0]} printed more than {LONGEST} bytes", remedy=by_hand)
        if process.returncode != 0:
            how = f"exit {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
            raise SecretError(f"{words[0]} failed ({how})", remedy=f"It may be locked. {by_hand}")
        return content

    def _output(self, process: subprocess.Popen[bytes], stdout: IO[bytes]) -> bytes | None:
        """Return what a program printed, once it ended; None where it took too long and was killed with its like."""
        late = threading.Event()

        def give_up() -> None:
            late.set()
            _kill(process)

        timer = threading.Timer(self._seconds, give_up)
        timer.daemon = True
        timer.start()
        try:
            # One that left its group and keeps the pipe open is given up by whoever waits for this thread.
            content = stdout.read(LONGEST + 1)
            if len(content) > LONGEST:
                _kill(process)
            process.wait()
        finally:
            timer.cancel()
        return None if late.is_set() else content


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
