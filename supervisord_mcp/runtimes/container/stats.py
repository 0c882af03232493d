"""What a container on another machine uses, as its engine tells it: one figure for all of its processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supervisord_mcp.runtimes.container.engine import Engine, EngineError
from supervisord_mcp.runtimes.reading import Reading

_NANO = 1e-9
#: Memory that is only kept because nobody else needs it, under its names in control groups of version 2 and 1.
_SPARE = ("inactive_file", "total_inactive_file")


class StatsMeter:
    """Asks an engine about one container."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = name

    def read(self, now: float, *, thorough: bool = False) -> Reading | None:
        """Return what the container uses; None where the engine does not know it, or does not answer."""
        try:
            told = self._engine.do(lambda client: client.stats(self._name, stream=False, one_shot=True))
        except EngineError:
            return None
        return reading_of(told)

    def final(self) -> Reading | None:
        """Return nothing: an engine does not know what has ended."""
        return None


def reading_of(told: Mapping[str, Any]) -> Reading | None:
    """Return the figures of what an engine tells; None for a container in which nothing runs any more."""
    memory = told.get("memory_stats") or {}
    if "usage" not in memory:
        return None
    details = memory.get("stats") or {}
    used = int(memory["usage"]) - next((int(details[name]) for name in _SPARE if name in details), 0)
    processors = told.get("cpu_stats") or {}
    moved = {"read": 0, "write": 0}
    for each in (told.get("blkio_stats") or {}).get("io_service_bytes_recursive") or ():
        name = str(each.get("op", "")).lower()
        if name in moved:
            moved[name] += int(each.get("value", 0))
    return Reading(
        cpu=int((processors.get("cpu_usage") or {}).get("total_usage", 0)) * _NANO,
        memory=used,
        private=used,
        resident=used,
        threads=int((told.get("pids_stats") or {}).get("current") or 0),
        read=moved["read"],
        written=moved["write"],
        throttled=int((processors.get("throttling_data") or {}).get("throttled_time", 0)) * _NANO,
    )
