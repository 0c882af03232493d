"""Containers of a daemon that was killed: found by their labels, and removed before the next one starts any.

Which engines a daemon uses is written down, so that one that uses none does not ask any when it starts.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from supervisord_mcp.runtimes.container import creation
from supervisord_mcp.runtimes.container.engine import Engine, EngineError, EngineRefusedError, Engines
from supervisord_mcp.runtimes.container.starting import discard

if TYPE_CHECKING:
    import docker

_log = logging.getLogger(__name__)

#: The engine removes it already, or has removed it.
_GONE = (404, 409)


class Sweeper:
    """Removes what is left, once on each engine. ``record`` is the file that tells which ones were used.

    ``kept`` returns the names of the containers that are not left by anybody: the same engine may have several words.
    """

    def __init__(self, engines: Engines, record: Path, kept: Callable[[], Collection[str]]) -> None:
        self._engines = engines
        self._record = record
        self._kept = kept
        self._swept: set[str] = set()
        self._lock = anyio.Lock()

    async def clean(self, daemon: str) -> None:
        """Remove what a daemon left on every engine that is written down; one that does not answer is left alone.

        It is swept when it is used again.
        """
        for word in _read(self._record):
            try:
                await self._sweep(word, daemon)
            except EngineError as error:
                _log.info("containers that may be left are not looked for: %s", error.message)

    async def used(self, word: str, daemon: str) -> None:
        """Sweep an engine before it is used for the first time, and write it down. Raise `EngineError`."""
        if word in self._swept:
            return
        await self._sweep(word, daemon)
        self._note(word)

    def _note(self, word: str) -> None:
        words = _read(self._record)
        if word in words:
            return
        try:
            self._record.parent.mkdir(parents=True, exist_ok=True)
            self._record.write_text("".join(f"{each}\n" for each in (*words, word)), encoding="utf-8")
        except OSError as error:
            # Then what is left is looked for when the engine is used again, not before.
            _log.warning("which engines are used cannot be written to %s: %s", self._record, error.strerror)

    async def _sweep(self, word: str, daemon: str) -> None:
        async with self._lock:
            if word not in self._swept:
                engine = self._engines.of(word)
                found = await engine.call(functools.partial(_left, daemon=daemon))
                # Asked after the engine was: what is started meanwhile is among them.
                kept = self._kept()
                async with anyio.create_task_group() as group:
                    for key, names in found.items():
                        if names.isdisjoint(kept):
                            group.start_soon(_remove, engine, key)
                self._swept.add(word)


def _left(client: docker.APIClient, *, daemon: str) -> dict[str, frozenset[str]]:
    """Return by its id the names of each container of this daemon, whichever run of it made it."""
    labels = [f"{creation.DAEMON}={daemon}", f"{creation.MACHINE}={machine()}"]
    found = client.containers(all=True, filters={"label": labels})
    # An image that was made of one of our containers has our labels, and so has what a person starts from it.
    names = {str(each["Id"]): [str(name) for name in each.get("Names") or ()] for each in found}
    return {
        key: frozenset(name.removeprefix("/") for name in several)
        for key, several in names.items()
        if any(creation.is_ours(name) for name in several)
    }


async def _remove(engine: Engine, name: str) -> None:
    try:
        await engine.call(lambda client: discard(client, name))
    except EngineRefusedError as error:
        if error.status not in _GONE:
            # It is in nobody's way: the next daemon tries again.
            _log.warning("the container %s, which a daemon before this one left, is still there: %s", name[:12], error)
            return
    except EngineError as error:
        _log.warning("the container %s, which a daemon before this one left, is still there: %s", name[:12], error)
        return
    _log.info("removed the container %s, which a daemon before this one left", name[:12])


def _read(record: Path) -> list[str]:
    try:
        # The engine that is found by itself has the empty word.
        return record.read_text(encoding="utf-8").split("\n")[:-1]
    except OSError:
        return []


def daemon_of(marker: str) -> str:
    """Return what stands for the daemon in the marker of a child, also after it was started again."""
    return marker.partition(":")[0]


@functools.cache
def machine() -> str:
    """Return what stands for this person on this machine, where others use the same engine."""
    try:
        text = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except OSError:
        text = os.uname().nodename
    return hashlib.sha256(f"{text} {os.getuid()}".encode()).hexdigest()[:16]
