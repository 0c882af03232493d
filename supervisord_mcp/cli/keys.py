"""Keys of a terminal, one at a time, without an echo; everything is put back afterwards."""

from __future__ import annotations

import os
import re
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
    b"\r": "enter",
    b"\n": "enter",
    b"\x03": "q",
    b"\x04": "q",
}


#: A sequence of a key that means nothing here.
_UNKNOWN: Final = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]")


class Keys:
    """The keyboard. Made by `keyboard`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""

    def wait(self, seconds: float) -> str | None:
        """Return the next key by its name or its character, "" for one without either; None if none came in time.

        Raise `EOFError` if the terminal is gone.
        """
        if not self._rest:
            try:
                ready, _, _ = select.select([self._descriptor], [], [], max(seconds, 0.0))
                data = os.read(self._descriptor, 256) if ready else None
            except OSError as error:
                raise EOFError("the terminal is gone") from error
            if data is None:
                return None
            if not data:
                raise EOFError("the terminal is gone")
            self._rest = data
        key, self._rest = first_key(self._rest)
        return key


def first_key(data: bytes) -> tuple[str, bytes]:
    """Given what a terminal sent at once, return the first key in it, and the rest."""
    for sequence, name in _SEQUENCES.items():
        if data.startswith(sequence):
            return name, data[len(sequence) :]
    if unknown := _UNKNOWN.match(data):
        return "", data[unknown.end() :]
    if data.startswith(b"\x1b"):
        return "escape", data[1:]
    text = data.decode(errors="ignore")
    if not text:
        return "", b""
    return (text[0] if text[0].isprintable() else ""), text[1:].encode()


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
