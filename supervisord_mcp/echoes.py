"""Whether a server sends a host what it was to keep for itself: watched where its entry says so (`warn_on_echo`).

The message goes on as it came; that there was a secret in it is told in the log and as an event, without its value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.logs import Log
from supervisord_mcp.observer import Event, Observers
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.protocol.framing import Oversized

TakeLine = Callable[[bytes | Oversized], None]


class Echoes:
    """The secrets that one instance sent to hosts: each is told the first time, then the tenth, the hundredth."""

    def __init__(self, key: InstanceKey, log: Log, observers: Observers) -> None:
        self._key = key
        self._log = log
        self._observers = observers
        self._seen: Counter[str] = Counter()

    def watching(self, take: TakeLine) -> TakeLine:
        """Return what looks at a line of the child before it hands it to ``take``."""

        def watch(line: bytes | Oversized) -> None:
            # What is no message reaches no host, and one that is too long is thrown away.
            if isinstance(line, bytes) and line[:64].lstrip()[:1] in (b"{", b"[") and (names := masker.names(line)):
                self._report(sorted(names))
            take(line)

        return watch

    def _report(self, names: list[str]) -> None:
        self._seen.update(names)
        told = [name for name in names if str(self._seen[name]).strip("0") == "1"]
        if not told:
            return
        counts = [f"{name} ({self._seen[name]} times by now)" if self._seen[name] > 1 else name for name in told]
        self._log.write("smcp", f"echo: it sent a secret in a message to a host: {', '.join(counts)}")
        data = {"instance": str(self._key), "secrets": told, "count": max(self._seen[name] for name in told)}
        self._observers.publish(Event("echo", self._key.server, data))
