"""The part of a session's journal for ids that have no room in memory, and how its files are written.

Ids that are long, many or used twice are rare, so they may cost a system call: they go to a log, of which a record is
valid by its newline.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

_LONG_FILE = 1 << 20


class IdLog:
    """The ids that have no slot. A record of the file is valid by its newline, which no id contains."""

    def __init__(self, path: str) -> None:
        self.waiting: Counter[bytes] = Counter()
        self.answered: Counter[bytes] = Counter()
        self._path = path
        self._file = -1
        self._size = 0
        self._limit = _LONG_FILE

    def append(self, kind: bytes, identity: bytes) -> None:
        """Note that an id waits (``+``), was answered (``-``), was so early (``!``), or that none was (``s``)."""
        self._apply(kind, identity)
        if self._file < 0:
            self._file = open_private(self._path, os.O_WRONLY | os.O_APPEND)
        write_all(self._file, b"%b%b\n" % (kind, identity))
        self._size += len(identity) + 2
        if not self.waiting and not self.answered:
            os.truncate(self._file, 0)
            self._size = 0
        elif self._size > self._limit:
            self._rewrite()

    def restore(self) -> None:
        """Take up what the file says."""
        try:
            data = Path(self._path).read_bytes()
        except FileNotFoundError:
            return
        records = data.split(b"\n")
        for record in records[:-1]:
            self._apply(record[:1], record[1:])
        if records[-1]:  # cut off by the death of its writer; what comes next must not be appended to it
            self._rewrite()
        self._size = len(data)

    def renew(self) -> None:
        """Write the file anew, where somebody deleted it."""
        self.close()
        self._size = 0
        if self.waiting or self.answered:
            self._rewrite()

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _apply(self, kind: bytes, identity: bytes) -> None:
        if kind == b"+":
            self.waiting[identity] += 1
        elif kind == b"s":
            self.answered.clear()
        else:
            if self.waiting[identity] > 1:
                self.waiting[identity] -= 1
            else:
                del self.waiting[identity]
            if kind == b"!":
                self.answered[identity] += 1

    def _rewrite(self) -> None:
        lines = [b"+%b\n" % identity for identity in self.waiting.elements()]
        lines += [b"!%b\n" % identity for identity in self.answered.elements()]
        replace_file(self._path, b"".join(lines))
        self.close()
        self._size = sum(map(len, lines))
        self._limit = max(_LONG_FILE, 2 * self._size)


def open_private(path: str, flags: int) -> int:
    """Open a file that is made where it is missing, for the user alone; a link in its place is not followed."""
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def replace_file(path: str, data: bytes) -> None:
    """Replace a file, so that it has the old or the new content at any time."""
    file = open_private(f"{path}.new", os.O_WRONLY | os.O_TRUNC)
    try:
        write_all(file, data)
    finally:
        os.close(file)
    os.replace(f"{path}.new", path)


def write_all(file: int, data: bytes | memoryview, offset: int | None = None) -> None:
    """Write everything, at an offset or where the file stands."""
    rest = memoryview(data)
    while rest:
        written = os.write(file, rest) if offset is None else os.pwrite(file, rest, offset)
        rest = rest[written:]
        offset = None if offset is None else offset + written
