"""Who owns which task of a shared 2025-11-25 server (protocol.md 6.7): a host sees and touches only its own.

A task outlives its host's connection. The same application, when it connects again, claims it by naming its id.
"""

from __future__ import annotations

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.commands import SessionKey
from supervisord_mcp.protocol.jsonrpc import Message, Text
from supervisord_mcp.protocol.pending import Pending

#: Requests that name one task.
BY_ID = frozenset({"tasks/get", "tasks/result", "tasks/cancel"})
_TERMINAL = frozenset({"completed", "failed", "cancelled"})
#: How many tasks without a host are remembered; the oldest is forgotten first.
_MAX_LEFT = 1000


class Tasks:
    """The tasks of one child, by id, with their owner and, while they run, the call whose progress token lives on."""

    def __init__(self) -> None:
        self._owner: dict[str, SessionKey] = {}
        # Tasks whose host left, with the name of its application.
        self._left: dict[str, object] = {}
        self._calls: dict[str, int] = {}
        self._running: dict[int, Pending] = {}

    def __bool__(self) -> bool:
        return bool(self._running)

    def claim(self, host: Attachment, task: str | None) -> bool:
        """Whether the task is this host's, or was left by the same application and is this host's from now on."""
        if task is None:
            return False
        if task in self._left and self._left[task] == host.client.get("name"):
            del self._left[task]
            self._owner[task] = host.key
        return self._owner.get(task) == host.key

    def owner(self, task: str) -> SessionKey | None:
        """Return the host whose task it is, or None if it is nobody's."""
        return self._owner.get(task)

    def running(self, upstream: int) -> Pending | None:
        """Given the upstream id of an answered call, return the call if the task it created still runs."""
        return self._running.get(upstream)

    def created(self, call: Pending, result: Text, upstream: int) -> None:
        """Given the result of a call that asked for a task, note the task and its owner, if there is one."""
        task = jsonrpc.members_of(jsonrpc.members_of(result).get("task"))
        name = jsonrpc.string_of(task.get("taskId"))
        if name is None or call.session is None:
            return
        self._end(name)
        self._left.pop(name, None)
        self._owner[name] = call.session
        if jsonrpc.string_of(task.get("status")) not in _TERMINAL:
            self._calls[name] = upstream
            self._running[upstream] = call

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
            if self._owner.get(jsonrpc.string_of(jsonrpc.members_of(item).get("taskId")) or "") == session
        )

    def leave(self, host: Attachment) -> None:
        """A host is gone; its tasks wait for the same application, and keep no child running until it is there."""
        for name in [name for name, owner in self._owner.items() if owner == host.key]:
            self._end(name)
            del self._owner[name]
            if len(self._left) >= _MAX_LEFT:
                del self._left[next(iter(self._left))]
            self._left[name] = host.client.get("name")

    def child_lost(self) -> None:
        """The child is gone and all its tasks with it."""
        self._owner.clear()
        self._left.clear()
        self._calls.clear()
        self._running.clear()

    def _end(self, name: str) -> None:
        upstream = self._calls.pop(name, None)
        if upstream is not None:
            del self._running[upstream]


def _status(result: Text) -> str | None:
    return jsonrpc.string_of(jsonrpc.members_of(result).get("status"))
