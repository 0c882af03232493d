"""The logs of all servers, and what of events belongs into them: the coming and going of sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from supervisord_mcp.config.lifetime import Log as Settings
from supervisord_mcp.config.models import Config
from supervisord_mcp.loglines import OURS
from supervisord_mcp.logs import ServerLog
from supervisord_mcp.observer import Event, Observers


class ServerLogs(Mapping[str, ServerLog]):
    """The log of every server, made when first asked for. Whoever watches lines is told each, in ``observers``."""

    def __init__(self, directory: Path, observers: Observers | None = None) -> None:
        self._directory = directory
        self._observers = observers or Observers()
        self._logs: dict[str, ServerLog] = {}
        self._config = Config()

    def configure(self, config: Config) -> None:
        """Take the limits of a new configuration; what is left of a removed server is closed with its last line.

        What is another one than before is said in the log, for it is why a server is about to stop.
        """
        before, self._config = self._config.servers, config
        for name, log in self._logs.items():
            if (server := config.servers.get(name)) is not None:
                if name in before and before[name] != server:
                    log.write(OURS, "its entry in the configuration changed")
                log.limit(max_size=server.log.max_size, keep=server.log.keep, rate=server.log.rate)
            else:
                if name in before:
                    log.write(OURS, "it was removed from the configuration")
                log.close()

    def __getitem__(self, name: str) -> ServerLog:
        if name not in self._logs:
            self._logs[name] = self._make(name, self._config.servers[name].log)
        return self._logs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._logs)

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def trouble(self) -> str:
        """What is wrong with the logs, or "ok"."""
        found = [f"{log.trouble} ({log.lost} lines lost)" for log in self._logs.values() if log.trouble]
        return f"degraded: {'; '.join(found)}" if found else "ok"

    def settle(self) -> None:
        """Let every log write down what it counted; to be called every few seconds."""
        for log in self._logs.values():
            log.settle()

    def note(self, event: Event) -> None:
        """Write down an event that is about a session of a server."""
        words = _WORDS.get(event.kind)
        if words is not None and (event.server in self._config.servers or event.server in self._logs):
            self[event.server].write(OURS, words(event), session=event.data["session"])

    def _make(self, name: str, settings: Settings) -> ServerLog:
        path = self._directory / f"{name}.log"
        lines = self._observers.lines
        log = ServerLog(path, max_size=settings.max_size, keep=settings.keep, rate=settings.rate, tell=lines.tell_all)
        log.file.on_trouble = lambda trouble: self._report(log, trouble)
        return log

    def _report(self, log: ServerLog, trouble: str) -> None:
        data = {"file": str(log.path), "trouble": trouble, "lost": log.lost}
        self._observers.publish(Event("logging", log.server, data))


def _opened(event: Event) -> str:
    data = event.data
    parts = [f"of pid {data['pid']}"] if data["pid"] else []
    parts += [f"in {data['project']}"] if data["project"] else []
    return " ".join(("session resumed" if data["resumed"] else "session opened", *parts))


def _greeted(event: Event) -> str:
    data = event.data
    return f"session of {data['host']} {data['version']}".rstrip() + f", revision {data['revision']}"


#: The events that are in the log as well, and how they are told there.
_WORDS: Mapping[str, Callable[[Event], str]] = {
    "session-opened": _opened,
    "session-greeted": _greeted,
    "session-closed": lambda event: "session closed" + (f": {event.data['reason']}" if event.data["reason"] else ""),
}
