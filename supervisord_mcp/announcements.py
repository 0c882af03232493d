"""What is told of one instance: its states, its offers, its health and its log messages, as events and in the log."""

from __future__ import annotations

from collections.abc import Sequence

from supervisord_mcp import reasons
from supervisord_mcp.loglines import MESSAGE, OURS
from supervisord_mcp.logs import Log
from supervisord_mcp.observer import Event, Observers
from supervisord_mcp.policy import events as life
from supervisord_mcp.policy.lifecycle import Lifecycle
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.protocol.commands import LogMessage

#: The states that are reached for a reason which no event of the lifecycle names.
_CAUSED = ("BACKOFF", "FATAL", "EXITED")
#: From here a failure that is no fault of the server leads to STOPPED, until the next call.
_STARTING = "STARTING"

#: What is said in the log where nothing went wrong, and yet a child is ended.
_OTHER_ERA = "another process is to tell whether it speaks the older era of the protocol too"


class Announcements:
    """The announcements of one instance."""

    def __init__(self, key: InstanceKey, observers: Observers, log: Log) -> None:
        self._key = key
        self._observers = observers
        self._log = log
        self._ailing = False

    def state(self, before: str, now: Lifecycle, why: life.Event, sessions: int) -> None:
        """The state that people see is another one, because of an event of the lifecycle."""
        failed = isinstance(why, life.SpawnFailed) and why.blameless and before == _STARTING
        cause = now.cause if failed or now.shown in _CAUSED else ""
        data = {
            "instance": str(self._key),
            "generation": now.generation,
            "from": before,
            "to": now.shown,
            "why": type(why).__name__.lower(),
            "cause": cause,
            "sessions": sessions,
        }
        self._observers.publish(Event("state", self._key.server, data))
        brief = _OTHER_ERA if isinstance(why, life.Replace) else reasons.brief(cause)
        self._log.write(OURS, f"{before} -> {now.shown}" + (f": {brief}" if brief else ""))

    def catalogue(self, changed: Sequence[str]) -> None:
        """It was learnt what the server offers; these of its lists are not what they were."""
        data = {"instance": str(self._key), "changed": list(changed)}
        self._observers.publish(Event("catalogue", self._key.server, data))

    def health(self, trouble: str) -> None:
        """A child that runs ails, or (without trouble) is well again."""
        if trouble or self._ailing:
            self._log.write(OURS, f"not healthy: {trouble}" if trouble else "healthy again")
            data = {"instance": str(self._key), "trouble": trouble}
            self._observers.publish(Event("health", self._key.server, data))
        self._ailing = bool(trouble)

    def said(self, said: LogMessage) -> None:
        """The server wrote a log message; whom it was shown to is not told unless that is one session."""
        words = f"{said.level or '-'} {said.logger}".rstrip()
        session = said.sessions[0] if len(said.sessions) == 1 else 0
        self._log.write(MESSAGE, f"{words}: {said.text}", session=session)
