"""What is known of a session after the daemon was killed: what the host waits for, and what it said (D11).

One file per session is mapped into memory, so that writing to it is a store and no system call, and what was stored
stays when the process dies at any point between two instructions. That alone is exact only if every change becomes
valid by one store, at the end of it. So:

- Bytes of the host are read straight into the mapping. Behind them it is all zero, and so the kernel's copy needs no
  store of ours to count: what is not zero has arrived. (A line of JSON never ends in a zero byte.)
- One word says up to where they were dealt with, how much of an unfinished line was moved to a side file because the
  mapping ran out of room, and whether the rest of a line is to be thrown away.
- An id that waits for its answer is in a slot, valid by the slot's first byte. Ids that are long, many or used twice go
  to a log, where a record is valid by its newline.

Between `Journal.read` and `Journal.settle` the lines of one read are acted upon. An id that is answered within that
time keeps its slot with a mark, since its line may still be there after a death: it must not be answered twice.

Not exact, because the kernel gives no way: an answer that was written although its id is still open. It is answered a
second time, with an error; hosts drop answers that they do not wait for.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import msgspec

from supervisord_mcp.errors import FramingError
from supervisord_mcp.idlog import IdLog, open_private, replace_file, write_all
from supervisord_mcp.protocol import jsonrpc

_MAGIC = b"SMCPJ\x001\n"
_SLOT = 64
_SLOTS = range(_SLOT, 256 * _SLOT, _SLOT)
_ROOM = 1 << 16
_START = 256 * _SLOT
_SIZE = _START + _ROOM
#: With less room than this behind an unfinished line, the line moves to the side file.
_LITTLE = 1 << 14
_LONGEST_ID = _SLOT - 2
_LONG_FILE = 1 << 20
_ZEROS = memoryview(bytes(_ROOM))

# Indexes of words, and of bytes, in the first slot.
_STATE, _END = 1, 2
_MID_OUTPUT, _LOST = 24, 25
# The parts of the state word, and the mark in the first byte of a slot.
_SKIPPING = 1 << 63
_PART_SHIFT = 24
_ANSWERED = 0x80

_SUFFIXES = (".map", ".part", ".ids", ".ids.new", ".json", ".json.new")


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the daemon before knew of a session.

    ``pending`` are the ids (raw JSON text) of requests that were taken up and not answered. ``unprocessed`` are whole
    lines that may not have been acted upon, without those that were answered already; an id may be in both.
    ``partial`` is the start of a line whose rest is still to come, or is to be thrown away where ``skipping`` is true.
    ``mid_output`` tells that the host may have got only a part of the last line. ``state`` is what was recorded last.
    """

    pending: tuple[bytes, ...]
    unprocessed: tuple[bytes, ...]
    partial: bytes
    skipping: bool
    mid_output: bool
    state: dict[str, Any]


class Journal:
    """The record of one session. ``degraded`` says why it will not survive the daemon, where that is so."""

    def __init__(self, base: str, memory: mmap.mmap) -> None:
        self.degraded: str | None = None
        self._base = base
        self._map(memory)
        self._end = self._consumed = self._part = 0
        self._settled = True
        self._slots: dict[bytes, int] = {}
        self._free = list(reversed(_SLOTS))
        self._fresh: set[bytes] = set()
        self._answered: list[int] = []
        self._log = IdLog(f"{base}.ids")
        self._part_file = -1
        self._state: dict[str, Any] | None = None
        #: Whether a part of a line is nowhere any more.
        self._torn = False
        self._closed = False

    @property
    def name(self) -> str:
        """What the files of this session are called; the token cannot be told from it."""
        return os.path.basename(self._base)

    @classmethod
    def create(cls, directory: str | Path, token: str) -> Self:
        """Begin a record. Where that is not possible (disk full) it works all the same and is ``degraded``."""
        base = os.path.join(directory, _name(token))
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)  # somebody may have tidied up
            memory = _new_file(f"{base}.map")
        except OSError as error:
            journal = cls(base, mmap.mmap(-1, _SIZE))
            journal._degrade(error)
        else:
            journal = cls(base, memory)
        journal._memory[: len(_MAGIC)] = _MAGIC
        return journal

    @classmethod
    def recover(cls, directory: str | Path, token: str) -> tuple[Self, Recovered]:
        """Return the record of a session and what is in it.

        The record stays as it was until the session settles (with the length of ``partial``), which it must do before
        it reads on; so the daemon may be killed again on the way. Raise `FileNotFoundError` if there is none,
        `ValueError` if it is not whole.
        """
        base = os.path.join(directory, _name(token))
        journal = cls(base, _open_file(f"{base}.map"))
        try:
            return journal, journal._restore()
        except BaseException:
            journal.close()
            raise

    # From the host

    def read(self, descriptor: int) -> bytes:
        """Read what is there, at most what the record has room for; empty at the end of the stream.

        Raise `ValueError` if so much was read and not settled that there is no room.
        """
        end = self._end
        if end == _ROOM:
            raise ValueError("there is no room: settle what was read")
        size = os.readv(descriptor, [self._region[end:] if end else self._region])
        if not size:
            return b""
        self._settled = False
        self._end = self._words[_END] = end + size
        return self._memory[_START + end : _START + end + size]

    def settle(self, tail: int, *, skipping: bool = False) -> None:
        """Note that everything read was acted upon but the last ``tail`` bytes, which begin a line.

        ``skipping`` tells that the line goes on and its rest is to be thrown away. Raise `ValueError` if there are not
        so many bytes.
        """
        here = self._end - self._consumed
        was_long = self._part > _LONG_FILE
        if tail <= here:
            self._consumed, self._part = self._end - tail, 0
        elif tail != here + self._part:
            raise ValueError(f"{here + self._part} bytes are there, not {tail}")
        self._store(skipping)
        self._settled = True
        self._fresh.clear()
        if self._answered or self._log.answered:
            self._forget_answered()
        if was_long and not self._part:
            os.truncate(self._part_file, 0)
        if self._consumed == self._end:
            self._empty(skipping)
        elif _ROOM - self._end < _LITTLE:
            self._move_to_file(skipping)

    def add(self, identity: bytes) -> None:
        """Note that a request waits for its answer; the same id twice is two requests."""
        if self._closed:
            return
        if not self._settled:
            self._fresh.add(identity)
        size = len(identity)
        if size > _LONGEST_ID or identity in self._slots or not self._free:
            self._append(b"+", identity)
            return
        slot = self._slots[identity] = self._free.pop()
        memory = self._memory
        memory[slot + 1 : slot + 1 + size] = identity
        memory[slot] = size

    def done(self, identity: bytes) -> None:
        """Note that a request was answered, or needs no answer any more. An id that does not wait is no error."""
        if self._closed:
            return
        logged = identity in self._log.waiting
        if self._settled or (identity not in self._fresh and (logged or identity in self._slots)):
            if logged:
                self._append(b"-", identity)
            elif slot := self._slots.pop(identity, 0):
                self._memory[slot] = 0
                self._free.append(slot)
        else:
            self._answer_early(identity, logged)

    # To the host, and the rest

    @property
    def mid_output(self) -> bool:
        """Whether the host may have got only a part of a line; set before a write that may not be whole."""
        return not self._closed and bool(self._memory[_MID_OUTPUT])

    @mid_output.setter
    def mid_output(self, value: bool) -> None:
        if not self._closed:
            self._memory[_MID_OUTPUT] = value

    def record(self, state: dict[str, Any]) -> None:
        """Keep the slow state of the session: what the next daemon must know besides requests."""
        self._state = state
        if self._closed or self.degraded:
            return
        try:
            replace_file(f"{self._base}.json", msgspec.json.encode(state))
        except OSError as error:
            self._degrade(error)

    def renew(self) -> None:
        """Write the record anew if somebody deleted its file; where that is not possible it is ``degraded``.

        What could not be written only since then is in it, so it is not ``degraded`` any more. Not to be called between
        `read` and `settle`.
        """
        if self._closed or self._torn or _node(f"{self._base}.map") == self._node:
            return
        try:
            os.makedirs(os.path.dirname(self._base), mode=0o700, exist_ok=True)
            _unlink(self._base)
            self._log.renew()
            self._renew_part()
            if self._state is not None:
                replace_file(f"{self._base}.json", msgspec.json.encode(self._state))
            memory = _new_file(f"{self._base}.map")
        except OSError as error:
            self._degrade(error)
            return
        # What makes it a record comes last: a death before that leaves none.
        memory[len(_MAGIC) :] = self._memory[len(_MAGIC) :]
        memory[_LOST] = 0
        memory[: len(_MAGIC)] = _MAGIC
        self._unmap()
        self._map(memory)
        self.degraded = None

    def remove(self) -> None:
        """The session is over: nothing of it is kept. Idempotent."""
        self.close()
        _unlink(self._base)

    def close(self) -> None:
        """Let go of the record, which stays for the next daemon; what is noted from now on is lost. Idempotent."""
        self._closed = True
        if self._part_file >= 0:
            os.close(self._part_file)
            self._part_file = -1
        self._log.close()
        self._unmap()

    # Inside

    def _map(self, memory: mmap.mmap) -> None:
        self._node = _node(f"{self._base}.map")
        self._memory = memory
        self._words = memoryview(memory).cast("Q")
        self._region = memoryview(memory)[_START:]

    def _unmap(self) -> None:
        self._words.release()
        self._region.release()
        self._memory.close()

    def _renew_part(self) -> None:
        if self._part_file < 0:
            return
        new = open_private(f"{self._base}.part", os.O_RDWR)
        try:
            write_all(new, os.pread(self._part_file, self._part, 0), 0)
        except OSError:
            os.close(new)
            raise
        os.close(self._part_file)
        self._part_file = new

    def _store(self, skipping: bool) -> None:
        self._words[_STATE] = self._consumed | self._part << _PART_SHIFT | (_SKIPPING if skipping else 0)

    def _empty(self, skipping: bool) -> None:
        """Begin at the start again. At each step, what is dealt with reaches beyond all that is not zero."""
        if self._end:
            self._words[_END] = 0
            self._region[: self._end] = _ZEROS[: self._end]
            self._end = self._consumed = 0
            self._store(skipping)

    def _move_to_file(self, skipping: bool) -> None:
        part = self._region[self._consumed : self._end]
        try:
            if self._part_file < 0:
                self._part_file = open_private(f"{self._base}.part", os.O_RDWR)
            write_all(self._part_file, part, self._part)
        except OSError as error:
            self._degrade(error)
            self._torn = True
        self._part += len(part)
        self._consumed = self._end
        self._store(skipping)
        self._empty(skipping)

    def _answer_early(self, identity: bytes, logged: bool) -> None:
        """Keep in mind that a line not yet settled was answered."""
        slot = 0 if logged else self._slots.pop(identity, 0)
        if not slot:
            if logged or len(identity) > _LONGEST_ID or not self._free:
                self._append(b"!", identity)
                return
            slot = self._free.pop()
            self._memory[slot + 1 : slot + 1 + len(identity)] = identity
        self._memory[slot] = len(identity) | _ANSWERED
        self._answered.append(slot)

    def _forget_answered(self) -> None:
        for slot in self._answered:
            self._memory[slot] = 0
        self._free += self._answered
        self._answered.clear()
        if self._log.answered:
            self._append(b"s", b"")

    def _append(self, kind: bytes, identity: bytes) -> None:
        try:
            self._log.append(kind, identity)
        except OSError as error:
            self._degrade(error)

    def _degrade(self, error: OSError) -> None:
        self.degraded = f"{self._base}: {error.strerror}"
        self._memory[_LOST] = 1

    def _restore(self) -> Recovered:
        memory = self._memory
        if memory[: len(_MAGIC)] != _MAGIC or memory[_LOST]:
            raise ValueError(f"the record {self._base} is not whole")
        word = self._words[_STATE]
        skipping = bool(word & _SKIPPING)
        self._part = (word & ~_SKIPPING) >> _PART_SHIFT
        self._consumed = word & ((1 << _PART_SHIFT) - 1)
        self._end = max(self._words[_END], len(memory[_START:].rstrip(b"\0")), self._consumed)
        answered = self._restore_ids()
        *lines, partial = (self._read_part() + self._region[self._consumed : self._end]).split(b"\n")
        if skipping and lines:  # the end of the line that was being thrown away has come
            del lines[0]
            skipping = False
        self._settled = False
        unprocessed = []
        for line in lines:
            identity = _request_id(line)
            if identity is not None and answered[identity] > 0:
                answered[identity] -= 1
                continue
            unprocessed.append(line)
            if identity is not None:
                self._fresh.add(identity)
        pending = (*self._slots, *self._log.waiting.elements())
        state = self._state = _read_state(f"{self._base}.json")
        return Recovered(pending, tuple(unprocessed), partial, skipping, self.mid_output, state)

    def _restore_ids(self) -> Counter[bytes]:
        """Take up the ids, and return those that were answered before their lines were settled."""
        memory = self._memory
        self._log.restore()
        answered = Counter(self._log.answered)
        self._free.clear()
        for slot in reversed(_SLOTS):
            size = memory[slot] & ~_ANSWERED
            identity = memory[slot + 1 : slot + 1 + size]
            if not memory[slot]:
                self._free.append(slot)
            elif memory[slot] & _ANSWERED:
                self._answered.append(slot)
                answered[identity] += 1
            else:
                self._slots[identity] = slot
        return answered

    def _read_part(self) -> bytes:
        if not self._part:
            return b""
        try:
            self._part_file = open_private(f"{self._base}.part", os.O_RDWR)
        except OSError as error:
            raise ValueError(f"the record {self._base} is not whole: {error.strerror}") from error
        data = os.pread(self._part_file, self._part, 0)
        if len(data) != self._part:
            raise ValueError(f"the record {self._base} is not whole: {len(data)} of {self._part} bytes of a line")
        return data


def leftovers(directory: str | Path) -> frozenset[str]:
    """Return the names of all records in a directory: right after a start, those of sessions that may come back."""
    try:
        return frozenset(entry.partition(".")[0] for entry in os.listdir(directory))
    except FileNotFoundError:
        return frozenset()


def discard(directory: str | Path, names: Iterable[str]) -> None:
    """Remove records that nobody came back for."""
    for name in names:
        _unlink(os.path.join(directory, name))


def _name(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()[:32]


def _new_file(path: str) -> mmap.mmap:
    file = open_private(path, os.O_RDWR | os.O_EXCL)
    try:
        # Without the blocks taken now, a full disk would end the daemon with SIGBUS at some store later.
        os.posix_fallocate(file, 0, _SIZE)
        memory = mmap.mmap(file, _SIZE)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(file)
    memory[:] = bytes(_SIZE)  # the pages are there from now on: the kernel's copy into them is never cut short
    return memory


def _open_file(path: str) -> mmap.mmap:
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(file).st_size != _SIZE:
            raise ValueError(f"{path} has not the size of a record")
        memory = mmap.mmap(file, _SIZE)
    finally:
        os.close(file)
    for page in range(0, _SIZE, mmap.PAGESIZE):
        memory[page] = memory[page]
    return memory


def _node(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _read_state(path: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return {}


def _request_id(line: bytes) -> bytes | None:
    try:
        message = jsonrpc.parse(line)
    except FramingError:
        return None
    return message.id if message.is_request else None


def _unlink(base: str) -> None:
    for suffix in _SUFFIXES:
        Path(f"{base}{suffix}").unlink(missing_ok=True)
