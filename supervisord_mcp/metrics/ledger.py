"""The file that what was counted is kept in, so that it survives the daemon."""

from __future__ import annotations

import logging
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from supervisord_mcp.config.files import keep_file, read_file
from supervisord_mcp.metrics.counts import Counts, Tally

_log = logging.getLogger(__name__)

#: How often what changed is written, in seconds: so much a daemon that is killed forgets at most.
EVERY = 60.0
#: A larger file was not written by us.
_LARGEST = 32 << 20


class _File(msgspec.Struct):
    servers: dict[str, Tally]


class Ledger:
    """The file of the counts. What cannot be read begins anew, what cannot be written is logged."""

    def __init__(self, path: Path, counts: Counts) -> None:
        self._path = path
        self._counts = counts
        self._trouble = ""

    def read(self) -> None:
        """Let the counts go on from what is in the file."""
        try:
            self._counts.load(msgspec.json.decode(read_file(self._path, _LARGEST), type=_File).servers)
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            _log.warning("cannot read what was counted before, so it begins anew: %s: %s", self._path, error)

    def write(self) -> None:
        """Write what was counted, if anything was."""
        if self._counts.changed:
            self._put(self._encoded())

    async def run(self) -> None:
        """Write again and again what changed; the disk is waited for in a thread."""
        while True:
            await anyio.sleep(EVERY)
            if self._counts.changed:
                await anyio.to_thread.run_sync(self._put, self._encoded())

    def _encoded(self) -> bytes:
        self._counts.changed = False
        return msgspec.json.encode(_File(self._counts.tallies))

    def _put(self, data: bytes) -> None:
        try:
            keep_file(self._path, data)
        except OSError as error:
            if str(error) != self._trouble:
                _log.warning("cannot keep what was counted: %s", error)
            self._trouble = str(error)
        else:
            self._trouble = ""
