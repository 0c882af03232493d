"""Which servers a person stopped, kept on disk: they stay stopped over a death, an upgrade and an end of the daemon.

A start of the machine forgets it, as it does what a person started: then the configuration alone counts.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

import msgspec

from supervisord_mcp.config.files import keep_file
from supervisord_mcp.policy.holds import FREE, Hold

_log = logging.getLogger(__name__)

#: Another one after each start of the machine.
BOOT = Path("/proc/sys/kernel/random/boot_id")


class _File(msgspec.Struct, frozen=True):
    boot: str
    servers: dict[str, Hold]


class Stopped:
    """The file of what is stopped. What cannot be read is as if nothing was stopped; both that and what cannot be
    written is logged.
    """

    def __init__(self, path: Path, boot: Path = BOOT) -> None:
        self._path = path
        self._boot = _boot_id(boot)
        self._holds = self._read()

    def hold(self, server: str) -> Hold:
        """Return where a server is held."""
        return self._holds.get(server, FREE)

    def put(self, server: str, held: bool, project: str | None) -> None:
        """Note that a person stopped (``held``) or started a server, in a project, or (None) at all."""
        self._replace({**self._holds, server: self.hold(server).put(held, project)})

    def keep(self, servers: Collection[str]) -> None:
        """Forget the servers that there are not any more."""
        self._replace({name: hold for name, hold in self._holds.items() if name in servers})

    def _replace(self, holds: dict[str, Hold]) -> None:
        holds = {name: hold for name, hold in holds.items() if hold != FREE}
        if holds == self._holds:
            return
        self._holds = holds
        try:
            if not holds:
                self._path.unlink(missing_ok=True)
                return
            keep_file(self._path, msgspec.json.encode(_File(self._boot, holds)))
        except (OSError, UnicodeEncodeError) as error:
            _log.warning("cannot keep which servers are stopped, over an end of the daemon: %s", error)

    def _read(self) -> dict[str, Hold]:
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            _log.warning("cannot read which servers were stopped, so none is: %s: %s", self._path, error)
            return {}
        return found.servers if found.boot == self._boot else {}


def _boot_id(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
