"""Who owns which task of a shared 2025-11-25 server (protocol.md 6.7): a host sees and touches only its own.

A task outlives its host's connection. The same application of the same principal, when it connects again, claims it by
naming its id. How long that is possible the server says itself, by the task's ``ttl`` (``ttlMs`` in the extension).
"""

from __future__ import annotations

from dataclasses import dataclass

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.alarms import Alarms
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.protocol.commands import Alarm, Command
from supervisord_mcp.protocol.jsonrpc import Members, Message, Text
from supervisord_mcp.protocol.pending import Pending

#: Requests that name one task.
BY_ID = frozenset({"tasks/get", "tasks/result", "tasks/cancel"})
_TERMINAL = frozenset({"completed", "failed", "cancelled"})
#: How many tasks are remembered that no host waits for, whatever their time; the oldest is forgotten first.
MAX_KEPT = 1000
#: The longest time that a task is given, in milliseconds: a year.
_LONGEST = 366 * 24 * 3600 * 1000


@dataclass(slots=True)
class _Owned:
    """A task: its host, and once that left (None) who may claim it. ``lifetime`` is in seconds, None for ever.

    ``ended`` says that it has ended since its time began: servers count the time of a result from there.
    """

    session: SessionKey | None
    lifetime: float | None
    claimant: tuple[str, object] | None = None
    alarm: Alarm | None = None
    ended: bool = False


class Tasks:
    """The tasks of one child, by id, with their owner and, while they run, the call whose progress token lives on.

    A task is kept for its time from its creation, and once more from its end, for which the times that begin anew are
    those in which it ended, or ran for a host that was there.
    """

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms
        self._tasks: dict[str, _Owned] = {}
        self._calls: dict[str, int] = {}
        self._running: dict[int, Pending] = {}

    def __bool__(self) -> bool:
        return bool(self._running)

    def claim(self, host: Attachment, task: str | None) -> bool:
        """Whether the task is this host's, or was left by the same application and is this host's from now on."""
        owned = None if task is None else self._tasks.get(task)
        if owned is None:
            return False
        if owned.session is None and owned.claimant == _claimant(host):
            owned.session = host.key
        return owned.session == host.key

    def owner(self, task: str) -> SessionKey | None:
        """Return the host whose task it is, or None if it is nobody's."""
        owned = self._tasks.get(task)
        return None if owned is None else owned.session

    def running(self, upstream: int) -> Pending | None:
        """Given the upstream id of an answered call, return the call if the task it created still runs."""
        return self._running.get(upstream)

    def created(self, call: Pending, result: Text, upstream: int) -> list[Command]:
        """Given the result of a call that asked for a task, note the task, its owner and its time, if there is one."""
        task = jsonrpc.members_of(jsonrpc.members_of(result).get("task"))
        name = jsonrpc.string_of(task.get("taskId"))
        if name is None or call.session is None:
            return []
        self._end(name)
        self._forget(name)
        self._trim(MAX_KEPT - 1)
        self._tasks[name] = _Owned(call.session, _lifetime(task))
        if jsonrpc.string_of(task.get("status")) not in _TERMINAL:
            self._calls[name] = upstream
            self._running[upstream] = call
        return self._begin(name)

    def _begin(self, name: str) -> list[Command]:
        """The time of a task begins."""
        owned = self._tasks[name]
        owned.ended, owned.alarm = False, None
        if owned.lifetime is None:
            return []
        owned.alarm = self._alarms.after(owned.lifetime, lambda: self._expire(name))
        return [owned.alarm]

    def _expire(self, name: str) -> list[Command]:
        if self._tasks[name].ended or name in self._calls:
            return self._begin(name)
        del self._tasks[name]
        return []

    def _trim(self, most: int) -> None:
        """Forget the oldest of those that no host waits for, where there are more than so many."""
        while len(self._tasks) > most and (name := next((one for one in self._tasks if one not in self._calls), None)):
            self._forget(name)

    def _forget(self, name: str) -> None:
        owned = self._tasks.pop(name, None)
        if owned is not None:
            self._alarms.forget(owned.alarm)

    def status(self, notification: Message) -> tuple[str, bool]:
        """Given `notifications/tasks/status`, return the task that it is about and whether that has ended."""
        params = notification.params()
        name = jsonrpc.string_of(params.get("taskId")) or ""
        over = jsonrpc.string_of(params.get("status")) in _TERMINAL
        if over:
            self._end(name)
        return name, over

    def answered(self, name: str, method: str, answer: Message) -> bool:
        """Given the answer to a request about a task, return whether that has ended: servers need not say so."""
        result = answer.members.get("result")
        if result is None:
            # The server does not know it any more, or its call failed; either way nothing will come of it.
            error = jsonrpc.members_of(answer.members.get("error"))
            # That of `tasks/update` may as well be about the answers it brought.
            unknown = method != "tasks/update" and jsonrpc.value_of(error.get("code")) == jsonrpc.INVALID_PARAMS
            over = method == "tasks/result" or unknown
        else:
            over = method == "tasks/result" or _status(result) in _TERMINAL
        if over:
            self._end(name)
        return over

    def those_of(self, session: SessionKey, items: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Given items of `tasks/list`, return those that are this host's."""
        return tuple(
            item
            for item in items
            if self.owner(jsonrpc.string_of(jsonrpc.members_of(item).get("taskId")) or "") == session
        )

    def leave(self, host: Attachment) -> None:
        """A host is gone; its tasks wait for the same application, and keep no child running until it is there."""
        for name, owned in self._tasks.items():
            if owned.session == host.key:
                owned.session, owned.claimant = None, _claimant(host)
                self._stop(name)
        self._trim(MAX_KEPT)

    def child_lost(self) -> None:
        """The child is gone and all its tasks with it."""
        for owned in self._tasks.values():
            self._alarms.forget(owned.alarm)
        self._tasks.clear()
        self._calls.clear()
        self._running.clear()

    def _end(self, name: str) -> None:
        if name in self._calls:
            self._tasks[name].ended = True
            self._stop(name)

    def _stop(self, name: str) -> None:
        """Nobody waits for a task any more."""
        upstream = self._calls.pop(name, None)
        if upstream is not None:
            del self._running[upstream]


def _claimant(host: Attachment) -> tuple[str, object]:
    return host.principal, host.client.get("name")


def _lifetime(task: Members) -> float | None:
    """Return for how long a server keeps a task, in seconds; None where it sets no bound."""
    value = jsonrpc.value_of(task.get("ttl", task.get("ttlMs")))
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return min(value, _LONGEST) / 1000


def _status(result: Text) -> str | None:
    return jsonrpc.string_of(jsonrpc.members_of(result).get("status"))
