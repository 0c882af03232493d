"""Keys of a terminal, one at a time, without an echo; everything is put back afterwards."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SEQUENCES: Final = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b"\x1b[H": "home",
    b"\x1b[F": "end",
    b"\x1b": "escape",
    b"\r": "enter",
    b"\n": "enter",
    b"\x03": "q",
    b"\x04": "q",
}


class Keys:
    """The keyboard. Made by `keyboard`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def wait(self, seconds: float) -> str | None:
        """Return the next key by its name or its character, "" for one without either; None if none came in time.

        Raise `EOFError` if the terminal is gone.
        """
        try:
            ready, _, _ = select.select([self._descriptor], [], [], max(seconds, 0.0))
            if not ready:
                return None
            data = os.read(self._descriptor, 64)
        except InterruptedError:
            return None
        except OSError as error:
            raise EOFError("the terminal is gone") from error
        if not data:
            raise EOFError("the terminal is gone")
        return key_of(data)


def key_of(data: bytes) -> str:
    """Given what a terminal sent at once, return the first key in it."""
    for sequence, name in _SEQUENCES.items():
        if data.startswith(sequence) and (sequence != b"\x1b" or data == b"\x1b"):
            return name
    text = data.decode(errors="ignore")
    return text[0] if text and text[0].isprintable() else ""


@contextmanager
def keyboard() -> Iterator[Keys]:
    """Read single keys of stdin, which is a terminal, while the block runs."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield Keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
