"""A file of lines that only grows at its end: rotated by size, never waited for, and a full disk costs lines only.

``NAME`` is the newest file, older ones are ``NAME.1`` and so on. Writing never raises (case 28): what cannot be written
is counted, and where there is room again the first line says how many are missing. A file that somebody moved, deleted
or emptied is made anew.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

#: How often a file that was moved or deleted by somebody else is looked for, and a failed one tried again, in seconds.
CHECK_EVERY = 1.0
#: How much of a file is read at once, from its end, in bytes.
_BLOCK = 1 << 16
#: No configuration keeps more files than this.
MOST_FILES = 100


def _ignore(_trouble: str) -> None:
    """Nobody wants to know."""


class RotatedFile:
    """One such file. Everything about it is to be called by one thread."""

    def __init__(self, path: Path, *, max_size: int, keep: int, missing: Callable[[int, str], bytes]) -> None:
        """``missing`` returns the line that says how many lines are missing, and why."""
        self.path = path
        #: Why the file cannot be written just now, or the empty text.
        self.trouble = ""
        #: Told of ``trouble`` whenever it begins or ends.
        self.on_trouble: Callable[[str], None] = _ignore
        #: How many lines could not be written since the start.
        self.lost = 0
        self._max_size = max_size
        self._keep = keep
        self._note = missing
        self._descriptor: int | None = None
        self._size = 0
        self._checked = 0.0
        self._missing = 0

    def limit(self, *, max_size: int, keep: int) -> None:
        """Take other limits, for what is written from now on."""
        self._max_size, self._keep = max_size, keep

    def append(self, lines: Sequence[bytes]) -> None:
        """Append lines, each with its newline; what cannot be written is counted in ``lost``."""
        now = time.monotonic()
        if now - self._checked >= CHECK_EVERY:
            self._checked = now
            self._look_at_file()
        elif self.trouble:
            self._lose(len(lines))
            return
        rest = list(lines)
        try:
            if self._missing:
                self._write([self._note(self._missing, self.trouble)])
                self._missing = 0
            while rest:
                del rest[: self._write(rest)]
        except OSError as error:
            self.close()
            self._lose(len(rest))
            self._is_well(f"{self.path}: {error.strerror or error}")
        else:
            self._is_well("")

    def position(self) -> tuple[int, int]:
        """Return the newest file as it is now, by its inode, and its length: what is there already ends there."""
        with suppress(OSError):
            found = os.stat(self.path, follow_symlinks=False)
            return found.st_ino, found.st_size
        return 0, 0

    def last(self, count: int) -> list[str]:
        """Return the last lines that are in the files, oldest first."""
        lines: list[str] = []
        for number in range(self._keep):
            if len(lines) >= count:
                break
            with suppress(OSError):
                lines = _tail(numbered(self.path, number), count - len(lines)) + lines
        return lines

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_well(self, trouble: str) -> None:
        before, self.trouble = self.trouble, trouble
        if bool(before) != bool(trouble):
            self.on_trouble(trouble)

    def _lose(self, count: int) -> None:
        self.lost += count
        self._missing += count

    def _write(self, lines: list[bytes]) -> int:
        """Write as many lines as fit into the file, at least one; return how many."""
        if self._descriptor is None:
            self._open()
        if self._size and self._size + len(lines[0]) > self._max_size:
            self._rotate()
        assert self._descriptor is not None
        count, room = 1, self._max_size - self._size - len(lines[0])
        while count < len(lines) and len(lines[count]) <= room:
            room -= len(lines[count])
            count += 1
        data = b"".join(lines[:count])
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            # Half a line would run into the next one.
            with suppress(OSError):
                os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - (len(data) - len(rest)))
            raise
        self._size += len(data)
        return count

    def _open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # O_NONBLOCK: opening or writing a FIFO in the place of the file must not wait for somebody to read it.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._descriptor = os.open(self.path, flags, 0o600)
        self._size = os.fstat(self._descriptor).st_size
        if self._size and _last_byte(self.path) != b"\n":
            # A machine that lost its power left half a line, which would take the next one with it.
            self._size += os.write(self._descriptor, b"\n")

    def _look_at_file(self) -> None:
        """Notice that somebody moved, deleted or shortened the file."""
        if self._descriptor is None:
            return
        ours = os.fstat(self._descriptor)
        self._size = ours.st_size
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except OSError:
            self.close()
            return
        if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
            self.close()

    def _rotate(self) -> None:
        self.close()
        for number in range(self._keep - 1, 0, -1):
            with suppress(FileNotFoundError):
                numbered(self.path, number - 1).replace(numbered(self.path, number))
        if self._keep == 1:
            self.path.unlink(missing_ok=True)
        self._open()


def numbered(path: Path, number: int) -> Path:
    """Return the file that was rotated so many times; 0 is the newest one."""
    return path if number == 0 else path.with_name(f"{path.name}.{number}")


def read(newest: Path, until: tuple[int, int] | None = None) -> Iterator[str]:
    """Yield the lines of all files, oldest first: up to a `RotatedFile.position`, if one is given."""
    with ExitStack() as stack:
        files: dict[int, BinaryIO] = {}
        # From the newest on: one that is rotated meanwhile is met again, and none is missed.
        for number in range(MOST_FILES):
            try:
                opened = stack.enter_context(numbered(newest, number).open("rb"))
            except OSError:
                continue
            files.setdefault(os.fstat(opened.fileno()).st_ino, opened)
        inode, end = until or (0, 0)
        later = list(files)[: list(files).index(inode)] if inode in files else []
        for found, file in reversed([(found, file) for found, file in files.items() if found not in later]):
            left = end if found == inode else sys.maxsize
            for line in file:
                if (left := left - len(line)) < 0:
                    break
                yield line.decode(errors="replace").removesuffix("\n")


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)


def _tail(path: Path, count: int) -> list[str]:
    """Return the last lines of a file without reading all of it."""
    data = b""
    with path.open("rb") as file:
        start = file.seek(0, os.SEEK_END)
        while start and data.count(b"\n") <= count:
            size = min(_BLOCK, start)
            start = file.seek(start - size)
            data = file.read(size) + data
    lines = data.decode(errors="replace").removesuffix("\n").split("\n") if data else []
    return lines[max(0, len(lines) - count) :]
