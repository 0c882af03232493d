"""Whose call a request of a shared child belongs to: the ladder of protocol.md 6.3, and never a guess.

Nothing on the wire of a legacy child says during which call it asks. What proves it is, in this order: the task that
the question names, the trace of the call that the server passed on, and that only one host has calls in flight during
which servers ask (or, where there is none, that only one host is attached). Calls that a host gave up count as in
flight for as long as the child has not answered them: many servers go on with them, and ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from supervisord_mcp.protocol import mcp
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.commands import SessionKey
from supervisord_mcp.protocol.jsonrpc import Members
from supervisord_mcp.protocol.pending import Pending
from supervisord_mcp.protocol.tasks import Tasks

#: The member of ``_meta`` that ties a message to a task (2025-11-25).
_RELATED = "io.modelcontextprotocol/related-task"


@dataclass(frozen=True, slots=True)
class Addressee:
    """Whom a question is for; ``parents`` are the calls it may belong to, oldest first, ``task`` its task."""

    session: SessionKey
    parents: tuple[int, ...] = ()
    task: str | None = None


class Attribution:
    """The ladder, over the calls of one instance. ``exclusive`` says that the child belongs to one host."""

    def __init__(
        self,
        sessions: Mapping[SessionKey, Attachment],
        pending: Mapping[int, Pending],
        tasks: Tasks,
        *,
        exclusive: bool,
    ) -> None:
        self._sessions = sessions
        self._pending = pending
        self._tasks = tasks
        self._exclusive = exclusive

    def find(self, params: Members) -> Addressee | None:
        """Given the parameters of a child's request, return whom it is for, or None if nothing proves it."""
        if self._exclusive:
            return self._only_host()
        return self._by_single_host()

    def _only_host(self) -> Addressee | None:
        """Rung 4 for a child of one host."""
        host = next(iter(self._sessions), None)
        return None if host is None else Addressee(host, self._calls(host))

    def _by_single_host(self) -> Addressee | None:
        """Rungs 3 and 4: one host has calls in flight, or none has and there is one host."""
        hosts = {call.session for call in self._pending.values() if _asks_back(call)} or set(self._sessions)
        if len(hosts) != 1:
            return None
        host = hosts.pop()
        return None if host is None or host not in self._sessions else Addressee(host, self._calls(host))

    def _calls(self, session: SessionKey) -> tuple[int, ...]:
        return tuple(at for at, call in self._pending.items() if call.session == session and _asks_back(call))


def _asks_back(call: Pending) -> bool:
    """Whether a server may ask something during a call (protocol.md 6.3 rule 3)."""
    return call.session is not None and call.method in mcp.CALLBACK_METHODS
