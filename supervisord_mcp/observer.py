"""Fan-out of events: what happened to sessions, instances and the daemon, told to whoever listens.

An observer that fails is logged and taken out, never fatal: watching must not hurt what is watched.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from supervisord_mcp.credentials.masking import masker

_log = logging.getLogger(__name__)

#: How many past events are kept for those who come later.
KEPT = 500


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: ``kind`` is its stable name, ``data`` what belongs to it, as plain JSON values."""

    kind: str
    server: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


Observer = Callable[[Event], None]


class Observers:
    """Those who are told, and the last events."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []
        self.recent: deque[Event] = deque(maxlen=KEPT)

    def add(self, observer: Observer) -> Callable[[], None]:
        """Tell the observer from now on; return the function that ends it."""
        self._observers.append(observer)

        def remove() -> None:
            if observer in self._observers:
                self._observers.remove(observer)

        return remove

    def publish(self, event: Event) -> None:
        """Tell everybody; no value that the masker knows is in what they are told."""
        event = replace(event, data=masker.mask_data(event.data))
        self.recent.append(event)
        for observer in list(self._observers):
            try:
                observer(event)
            except Exception:  # noqa: BLE001 - whatever an observer does wrong
                _log.exception("an observer failed and is no longer told")
                if observer in self._observers:
                    self._observers.remove(observer)
