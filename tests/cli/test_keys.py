"""Keys of a terminal, also where several come at once, and the terminal as it was afterwards."""

from __future__ import annotations

import os
import pty
import sys
import termios
from collections.abc import Iterator

import pytest

from supervisord_mcp.cli.keys import Keys, first_key, keyboard


@pytest.mark.parametrize(
    ("data", "key", "rest"),
    [
        (b"q", "q", b""),
        (b"\x1b[A", "up", b""),
        (b"\x1bOBx", "down", b"x"),
        (b"\x1b[B\r", "down", b"\r"),
        (b"\r", "enter", b""),
        (b"\x1b", "escape", b""),
        (b"\x1bq", "escape", b"q"),
        (b"\x1b[15~r", "", b"r"),
        (b"\x03", "q", b""),
        ("äb".encode(), "ä", b"b"),
        (b"\xff", "", b""),
        (b"\x07s", "", b"s"),
    ],
)
def test_the_first_key(data: bytes, key: str, rest: bytes) -> None:
    assert first_key(data) == (key, rest)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The two ends of a terminal."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    for end in (ours, theirs):
        try:
            os.close(end)
        except OSError:
            continue


def test_keys_are_read_one_at_a_time(terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = terminal
    with os.fdopen(os.dup(theirs), "rb", buffering=0) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        before = termios.tcgetattr(theirs)
        with keyboard() as keys:
            assert not termios.tcgetattr(theirs)[3] & (termios.ICANON | termios.ECHO)
            assert keys.wait(0.0) is None
            os.write(ours, b"\x1b[Bl\r")
            assert [keys.wait(5.0), keys.wait(5.0), keys.wait(5.0)] == ["down", "l", "enter"]
            assert keys.wait(0.0) is None
        assert termios.tcgetattr(theirs) == before


def test_a_terminal_may_go_away() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    with pytest.raises(EOFError):
        Keys(reader).wait(5.0)
    os.close(reader)
    with pytest.raises(EOFError):
        Keys(reader).wait(0.0)
