"""The file that the histories of servers are kept in, so that they survive the daemon.

It is bounded by the rings it holds. Columns of numbers that hardly change are compressed to a tenth; the compression
has a checksum, so a file that is damaged is known to be.
"""

from __future__ import annotations

import logging
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from supervisord_mcp.config.files import keep_file, read_file
from supervisord_mcp.metrics.ring import History
from supervisord_mcp.metrics.sampler import Sampler

_log = logging.getLogger(__name__)

#: How often what was added is written, in seconds: so much a daemon that is killed forgets at most.
EVERY = 600.0
#: A larger file, and one of more content, was not written by us.
_LARGEST, _MOST = 32 << 20, 128 << 20
#: Numbers are as this machine has them.
_FORM = f"1-{sys.byteorder}"


class _File(msgspec.Struct):
    form: str
    servers: dict[str, list[list[bytes]]]


class Archive:
    """The file of the histories. What cannot be read begins anew, what cannot be written is logged."""

    def __init__(self, path: Path, sampler: Sampler, wall: Callable[[], float]) -> None:
        """``wall`` is the time since the epoch."""
        self._path = path
        self._sampler = sampler
        self._wall = wall
        self._written = sampler.added
        self._trouble = ""

    def read(self) -> None:
        """Let the histories go on from what is in the file."""
        try:
            histories = _unpacked(read_file(self._path, _LARGEST))
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError, zlib.error, msgspec.MsgspecError) as error:
            _log.warning("cannot read what was used before, so it begins anew: %s: %s", self._path, error)
            return
        now = self._wall()
        for name, history in histories.items():
            # After a clock was set back, what is new would count for the time that is yet to come.
            if history.newest <= now:
                self._sampler.histories[name] = history

    def write(self) -> None:
        """Write the histories, if anything was added to them."""
        if self._sampler.added != self._written:
            self._put(self._packed())

    async def run(self) -> None:
        """Write again and again what was added; it is compressed, and the disk waited for, in a thread."""
        while True:
            await anyio.sleep(EVERY)
            if self._sampler.added != self._written:
                await anyio.to_thread.run_sync(self._put, self._packed())

    def _packed(self) -> _File:
        self._written = self._sampler.added
        return _File(_FORM, {name: history.pack() for name, history in self._sampler.histories.items()})

    def _put(self, content: _File) -> None:
        try:
            keep_file(self._path, zlib.compress(msgspec.msgpack.encode(content), 1))
        except OSError as error:
            if str(error) != self._trouble:
                _log.warning("cannot keep what was used: %s", error)
            self._trouble = str(error)
        else:
            self._trouble = ""


def _unpacked(data: bytes) -> dict[str, History]:
    """Return the histories of a file. Raise `ValueError`, `zlib.error` or `msgspec.MsgspecError` if it is none."""
    stream = zlib.decompressobj()
    content = stream.decompress(data, _MOST)
    if not stream.eof:
        raise ValueError("it is cut off, or too large")
    file = msgspec.msgpack.decode(content, type=_File)
    if file.form != _FORM:
        raise ValueError("another machine or another version wrote it")
    histories = {name: History() for name in file.servers}
    for name, history in histories.items():
        history.unpack(file.servers[name])
    return histories
