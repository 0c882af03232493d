"""Whose call a request of a shared child belongs to: the ladder of protocol.md 6.3, and never a guess.

Nothing on the wire of a legacy child says during which call it asks. What proves it is, in this order: the task that
the question names, the trace of the call that the server passed on, and that only one host has calls in flight during
which servers ask (or, where there is none, that only one host is attached). Calls that a host gave up count as in
flight until the child answers them, or for a while: what a server asked before it heard of that is still on its way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from supervisord_mcp.protocol import jsonrpc, mcp, traces
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.protocol.jsonrpc import Members
from supervisord_mcp.protocol.pending import Pending
from supervisord_mcp.protocol.tasks import Tasks
from supervisord_mcp.protocol.traces import Trace

#: The member of ``_meta`` that ties a message to a task (2025-11-25).
_RELATED = "io.modelcontextprotocol/related-task"


@dataclass(frozen=True, slots=True)
class Addressee:
    """Whom a question is for; ``parents`` are the calls it may belong to, oldest first, ``task`` its task."""

    session: SessionKey
    parents: tuple[int, ...] = ()
    task: str | None = None


class Attribution:
    """The ladder, over the calls of one instance. ``exclusive`` says that the child belongs to one host.

    ``lingering`` are the calls that hosts gave up and that the child may still be busy with, by their upstream ids.
    """

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
        self.lingering: dict[int, Pending] = {}

    def find(self, meta: Members) -> Addressee | None:
        """Given the ``_meta`` of a child's request, return whom it is for, or None if nothing proves it."""
        if self._exclusive:
            host = next(iter(self._sessions), None)
            return None if host is None else Addressee(host, self._calls(host), _related_task(meta))
        if _RELATED in meta:
            return self._by_task(_related_task(meta))
        trace = traces.trace_of(meta)
        if trace is not None and (traced := self._traced(trace)):
            return self._by_trace(trace, traced)
        return self._by_single_host()

    @property
    def contested(self) -> bool:
        """Whether several hosts have calls in flight now, so that only a task or a trace can prove anything."""
        return len({call.session for call in self._pending.values() if asks_back(call)}) > 1

    def _by_task(self, task: str | None) -> Addressee | None:
        """Rung 1. A task whose host left, or that nobody was told of, is nobody else's."""
        owner = None if task is None else self._tasks.owner(task)
        return None if owner is None else Addressee(owner, (), task)

    def _traced(self, trace: Trace) -> dict[int, Pending]:
        calls = {**self.lingering, **self._pending}
        return {at: call for at, call in calls.items() if call.trace is not None and call.trace.trace == trace.trace}

    def _by_trace(self, trace: Trace, traced: Mapping[int, Pending]) -> Addressee | None:
        """Rung 2: the very call if it is not given up, or calls of the same trace if they are all of one host."""
        for at, call in traced.items():
            if call.trace == trace:
                return None if at in self.lingering else self._one_host({at: call})
        return self._one_host(traced)

    def _by_single_host(self) -> Addressee | None:
        """Rungs 3 and 4: one host has calls in flight, or none has and there is one host."""
        calls = {at: call for at, call in {**self.lingering, **self._pending}.items() if asks_back(call)}
        if calls or len(self._sessions) != 1:
            return self._one_host(calls)
        return Addressee(next(iter(self._sessions)))

    def _one_host(self, calls: Mapping[int, Pending]) -> Addressee | None:
        hosts = {call.session for call in calls.values()}
        host = hosts.pop() if len(hosts) == 1 else None
        if host is None or host not in self._sessions:
            return None
        return Addressee(host, tuple(sorted(at for at in calls if at in self._pending)))

    def _calls(self, session: SessionKey) -> tuple[int, ...]:
        return tuple(at for at, call in self._pending.items() if call.session == session and asks_back(call))


def asks_back(call: Pending) -> bool:
    """Whether a server may ask something during a call (protocol.md 6.3 rule 3)."""
    return call.session is not None and call.method in mcp.CALLBACK_METHODS


def _related_task(meta: Members) -> str | None:
    return jsonrpc.string_of(jsonrpc.members_of(meta.get(_RELATED)).get("taskId"))
