"""Which eras servers speak, kept on disk: a server is probed once and not at every start (protocol.md 6.1 D3)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from supervisord_mcp.config.files import keep_file
from supervisord_mcp.protocol.eras import probe
from supervisord_mcp.protocol.eras.probe import Verdict

_log = logging.getLogger(__name__)

#: How many verdicts are kept: one for each command line, which may change with every project.
KEPT = 500
#: How long it is believed that a server speaks both eras, in seconds. Whichever it loses is noticed when it is used;
#: to find it out takes a second start of the server, which nobody should wait for every day.
LASTING = 30 * probe.KEPT


class _Entry(msgspec.Struct, frozen=True):
    legacy: bool | None
    modern: bool | None
    until: float


_entries = msgspec.json.Decoder(dict[str, _Entry])


class Verdicts:
    """The file of verdicts. What cannot be read is found out anew, what cannot be written is logged."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._known: dict[str, _Entry] | None = None

    def load(self, fingerprint: str) -> Verdict:
        """Given what stands for a command, return what is known of it: nothing if that is too old (3.4)."""
        entry = self._entries().get(fingerprint)
        if entry is None or entry.until <= self._now():
            return probe.UNKNOWN
        return Verdict(entry.legacy, entry.modern)

    def save(self, fingerprint: str, verdict: Verdict) -> None:
        """Keep what was found out about a command."""
        now = self._now()
        fresh = {key: entry for key, entry in self._entries().items() if entry.until > now and key != fingerprint}
        kept = probe.KEPT if verdict.only is not None else LASTING
        fresh[fingerprint] = _Entry(verdict.legacy, verdict.modern, now + kept)
        self._known = dict(list(fresh.items())[-KEPT:])
        try:
            keep_file(self._path, msgspec.json.encode(self._known))
        except OSError as error:
            _log.warning("cannot keep which era a server speaks: %s", error)

    def _entries(self) -> dict[str, _Entry]:
        if self._known is None:
            self._known = self._read()
        return self._known

    def _read(self) -> dict[str, _Entry]:
        try:
            return _entries.decode(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            _log.warning("cannot read which eras servers speak: %s", error)
            return {}
