"""The record of calls: one JSON object a line for every ``tools/call``, kept where `smcp audit` finds it.

While calls go on they are only put aside; a thread of its own makes records of them, several times a second, and
writes them. A full disk costs records, which are counted (`rotated`). A disk that keeps the thread waiting until too
much waits ends the audit, which is reported like the end of any other observer: no host is to notice.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from supervisord_mcp.config.daemon import Audit as Settings
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.loglines import stamp
from supervisord_mcp.observer import Channel, Event, Observers
from supervisord_mcp.protocol.calls import Call
from supervisord_mcp.rotated import RotatedFile

#: Calls are put aside for so long, in seconds.
SOON = 0.25
#: How many calls, and how many bytes of their requests, may wait for the disk.
MOST_CALLS, MOST_BYTES = 10_000, 64 << 20
#: How long the end of the daemon waits for the last records, in seconds.
PATIENCE = 2.0
#: Longer arguments are left out, in bytes; there is their digest.
LONGEST = 8192
#: So are arguments that are nested more deeply: whoever reads the files could not read such a record.
DEEPEST = 100
#: From this length on OpenSSL makes the digest, in bytes: Python's own hash, which is all that the daemon has loaded
#: (`omissions`), may hold up every thread while it works: two milliseconds for so much.
BULKY = 1 << 18
#: So much of the name of a tool is recorded, in characters: a host must not fill the files with one that it makes up.
LONGEST_NAME = 256

_METHOD = "tools/call"


class _Params(msgspec.Struct, gc=False):
    arguments: Raw | UnsetType = UNSET


class _Request(msgspec.Struct, gc=False):
    id: Raw = Raw(b"")
    params: _Params | UnsetType = UNSET


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One call. ``pid`` is the process that connected; ``duration`` is in seconds, ``digest`` the SHA-256 of what the
    arguments are as text, empty where there are none.
    """

    time: str
    host: str
    pid: int | None
    session: int
    server: str
    instance: str
    tool: str
    outcome: str
    duration: float
    digest: str = ""
    arguments: Raw | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class _Batch:
    """Calls with the processes of their hosts, and whether their arguments are recorded."""

    calls: list[tuple[Call, int | None]]
    masked: bool


_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_requests = msgspec.json.Decoder(_Request)
_lists = msgspec.json.Decoder(list[Raw])
_encoder = msgspec.json.Encoder()


class Audit:
    """Whether calls are recorded. It belongs to the event loop, but for what the thread does."""

    def __init__(self, path: Path, observers: Observers) -> None:
        self._observers = observers
        self._settings = Settings()
        self._file = RotatedFile(path, max_size=self._settings.max_size, keep=self._settings.keep, missing=_missing)
        self._file.on_trouble = self._report
        self._loop = asyncio.get_running_loop()
        self._pids: dict[int, int] = {}
        self._aside: list[tuple[Call, int | None]] = []
        # What was taken is for the loop to change, what was written for the thread, so nothing of it is lost.
        self._taken = self._written = 0
        self._bytes_taken = self._bytes_written = 0
        self._done = threading.Event()
        #: Whether so much waited that calls are let go.
        self._behind = False
        self._records: Channel[_Batch] = Channel(observers.let_go)
        self._ends: list[Callable[[], None]] = []  # what ends the thread, and what lets calls go
        observers.add(self._session, "audit of sessions")

    @property
    def trouble(self) -> str:
        """Why records cannot be written just now, or the empty text."""
        return f"{self._file.trouble} ({self._file.lost} records lost)" if self._file.trouble else ""

    def configure(self, settings: Settings) -> None:
        """Take other settings; calls that are open are recorded when they end."""
        self._flush()
        self._settings = settings
        self._file.limit(max_size=settings.max_size, keep=settings.keep)
        if settings.enabled and not self._ends:
            self._ends = [
                self._records.add(self._write, "audit", apart=True),
                self._observers.calls.add_counter(self._take, "audit"),
            ]
            self._observers.keep_requests = True
        elif not settings.enabled:
            self._stop()
        elif self._behind:
            # Whoever reloads has looked at the disk; if it still hangs, it is told again.
            self._ends[-1] = self._observers.calls.add_counter(self._take, "audit")
            self._observers.keep_requests = True
            self._observers.dropped.pop("audit", None)
            self._behind = False

    def close(self) -> None:
        """Record no more; wait a moment until what there is was written."""
        if self._stop():
            self._done.wait(PATIENCE)

    def _stop(self) -> bool:
        """Record no more; return whether there is something left to be written."""
        if not self._ends:
            return False
        self._ends.pop()()
        self._observers.keep_requests = self._behind = False
        self._flush()
        self._done.clear()
        self._records.tell(_Batch([], False))  # the last one
        written = self._records.watched
        self._ends.pop()()
        return written

    # In the event loop

    def _session(self, event: Event) -> None:
        if event.kind == "session-opened":
            self._pids[event.data["session"]] = event.data["pid"]
        elif event.kind == "session-closed":
            self._pids.pop(event.data["session"], None)

    def _take(self, calls: Sequence[Call]) -> None:
        if self._taken - self._written > MOST_CALLS or self._bytes_taken - self._bytes_written > MOST_BYTES:
            self._observers.keep_requests = False
            self._behind = True
            raise BufferError(f"{self._taken - self._written} calls wait for {self._file.path}")
        before = len(self._aside)
        self._aside += [(call, self._pids.get(call.session)) for call in calls if call.method == _METHOD]
        new = self._aside[before:]
        if new and not before:
            self._loop.call_later(SOON, self._flush)
        self._taken += len(new)
        self._bytes_taken += sum(len(call.request) for call, _ in new)

    def _flush(self) -> None:
        if self._aside:
            aside, self._aside = self._aside, []
            self._records.tell(_Batch(aside, self._settings.arguments == "masked"))

    def _told(self, trouble: str) -> None:
        data = {"file": str(self._file.path), "trouble": trouble, "lost": self._file.lost}
        self._observers.publish(Event("logging", data=data))

    # In the thread

    def _write(self, batch: _Batch) -> None:
        if not batch.calls:
            self._file.close()
            self._done.set()
            return
        began = time.time() - time.monotonic()
        self._file.append([line_of(call, pid, began, batch.masked) for call, pid in batch.calls])
        self._written += len(batch.calls)
        self._bytes_written += sum(len(call.request) for call, _ in batch.calls)

    def _report(self, trouble: str) -> None:
        self._loop.call_soon_threadsafe(self._told, trouble)


def line_of(call: Call, pid: int | None, epoch: float, masked: bool) -> bytes:
    """Given a call, and when the monotonic clock was 0, return its record as a line; no value of a secret is in it."""
    arguments = arguments_of(call.request, call.identity)
    record = Record(
        time=stamp(epoch + call.began),
        host=call.host,
        pid=pid,
        session=call.session,
        server=call.server,
        instance=call.instance,
        tool=masker.mask(_text(call.tool))[:LONGEST_NAME],
        outcome=str(call.outcome),
        duration=round(call.ended - call.began, 6),
    )
    if arguments:
        record.digest = _digest(arguments)
        if masked and len(arguments) <= LONGEST and not _is_deep(arguments):
            # A line has no newline in it, whatever a host writes between its words.
            record.arguments = Raw(msgspec.json.format(arguments, indent=-1))
    try:
        return masker.mask_json(_encoder.encode(record) + b"\n")
    except (ValueError, RecursionError):
        # Nested too deeply to be looked through.
        record.arguments = UNSET
        return masker.mask_json(_encoder.encode(record) + b"\n")


def arguments_of(line: bytes, identity: bytes) -> bytes:
    """Given the line of a host and the id of a call in it, return the text of its arguments, empty if it has none."""
    try:
        if line.lstrip()[:1] != b"[":
            return _arguments(_requests.decode(line))
        found = (_requests.decode(item) for item in _lists.decode(line))
        return next((_arguments(request) for request in found if bytes(request.id) == identity), b"")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return b""


def _digest(arguments: bytes) -> str:
    make = hashlib.sha256
    if len(arguments) >= BULKY:
        with suppress(ImportError):
            from _hashlib import openssl_sha256 as make
    return make(arguments).hexdigest()


def _is_deep(text: bytes) -> bool:
    """Return whether JSON is nested more deeply than is recorded; what is in its texts does not count."""
    if text.count(b"[") + text.count(b"{") <= DEEPEST:
        return False
    depth = deepest = 0
    for part in _BRACKETS.findall(text):
        depth += 1 if part in b"[{" else -1 if part in b"]}" else 0
        deepest = max(deepest, depth)
    return deepest > DEEPEST


def _arguments(request: _Request) -> bytes:
    params = request.params
    return b"" if params is UNSET or params.arguments is UNSET else bytes(params.arguments)


def _text(name: bytes) -> str:
    try:
        found: Any = msgspec.json.decode(name)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return found if isinstance(found, str) else ""


def _missing(count: int, trouble: str) -> bytes:
    return _encoder.encode({"time": stamp(time.time()), "missing": count, "cause": trouble}) + b"\n"
