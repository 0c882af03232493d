"""Sees what hosts do to adopted files while the daemon runs, and says so; a person confirms with ``smcp adopt``.

Off unless ``daemon.watch_hosts`` says otherwise. Nothing is changed here, and each finding is told once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from supervisord_mcp.config.files import link_directories
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.observer import Event, Observers
from supervisord_mcp.reloader import Reloader

if TYPE_CHECKING:
    from supervisord_mcp.adoption.survey import Drift

_log = logging.getLogger(__name__)


class HostWatch:
    """The files that were adopted, and what is not as it was left. Made in the event loop.

    ``wanted`` is asked again at every look, so that a change of the configuration counts.
    """

    def __init__(self, paths: Paths, observers: Observers, wanted: Callable[[], bool]) -> None:
        self._paths = paths
        self._observers = observers
        self._wanted = wanted
        self._reloader = Reloader(self._look)
        self._drift: tuple[Drift, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a person should do something about, in words."""
        return tuple(f"{one.text}: {one.remedy}" for one in self._drift if one.remedy)

    def wake(self) -> None:
        """Something may have changed, also whether this is wanted."""
        self._reloader.wake()

    async def run(self) -> None:
        """Watch until cancelled."""
        self.wake()
        await self._reloader.run()

    async def _look(self) -> None:
        try:
            directories, found = await anyio.to_thread.run_sync(self._found) if self._wanted() else ((), ())
            await self._reloader.watch(directories)
        except (SmcpError, OSError) as error:
            _log.warning("what hosts changed cannot be looked at: %s", error)
            return
        for drift in found:
            if drift not in self._drift:
                _log.info("%s", drift.text)
                data = {"host": drift.host, "file": str(drift.file), "name": drift.name, "change": drift.text}
                self._observers.publish(Event("host-changed", drift.server, data))
        self._drift = found

    def _found(self) -> tuple[tuple[Path, ...], tuple[Drift, ...]]:
        """Return where a change can change something, and what is not as it was left; in a thread."""
        # Only a daemon that watches pays for what knows the files of hosts.
        from supervisord_mcp.adoption.gathering import Person, drifted
        from supervisord_mcp.adoption.records import Records

        records = Records.of(self._paths).adopted()
        places = [directory for record in records for directory in link_directories(record.path)]
        # Where the records are, for what is adopted from now on.
        places += link_directories(self._paths.adoption_dir / "any.json")
        return tuple(dict.fromkeys(places)), tuple(drifted(Person(self._paths, os.environ), records))
