"""Who owns which task of a shared 2025-11-25 server (protocol.md 6.7): a host sees and touches only its own."""

from __future__ import annotations

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.catalogue import array_text, items_of
from supervisord_mcp.protocol.commands import SessionKey
from supervisord_mcp.protocol.jsonrpc import Message, Text
from supervisord_mcp.protocol.pending import Pending

#: Requests that name one task.
BY_ID = frozenset({"tasks/get", "tasks/result", "tasks/cancel"})
_TERMINAL = frozenset({"completed", "failed", "cancelled"})


class Tasks:
    """The tasks of one child, by id, with their owner and, while they run, the call whose progress token lives on."""

    def __init__(self) -> None:
        self._owner: dict[str, SessionKey] = {}
        self._calls: dict[str, int] = {}
        self._running: dict[int, Pending] = {}

    def __bool__(self) -> bool:
        return bool(self._running)

    def owns(self, session: SessionKey, task: str | None) -> bool:
        """Whether the task is this host's."""
        return task is not None and self._owner.get(task) == session

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
        self._owner[name] = call.session
        if jsonrpc.string_of(task.get("status")) not in _TERMINAL:
            self._calls[name] = upstream
            self._running[upstream] = call

    def status(self, notification: Message) -> SessionKey | None:
        """Given `notifications/tasks/status`, return the owner of the task it is about."""
        params = notification.params()
        name = jsonrpc.string_of(params.get("taskId"))
        if name is None:
            return None
        if jsonrpc.string_of(params.get("status")) in _TERMINAL:
            self._end(name)
        return self._owner.get(name)

    def answered(self, name: str, method: str, answer: Message) -> None:
        """Given the answer to a request that names a task, note whether the task has ended: servers need not say so."""
        result = answer.members.get("result")
        if result is None:
            # The server does not know it any more, or its call failed; either way nothing will come of it.
            error = jsonrpc.members_of(answer.members.get("error"))
            if method == "tasks/result" or jsonrpc.value_of(error.get("code")) == jsonrpc.INVALID_PARAMS:
                self._end(name)
        elif method == "tasks/result" or _status(result) in _TERMINAL:
            self._end(name)

    def filtered(self, session: SessionKey, result: Text) -> bytes:
        """Given the result of `tasks/list`, return it with this host's tasks only."""
        members = jsonrpc.members_of(result)
        mine = tuple(
            item
            for item in items_of(members.get("tasks"))
            if self.owns(session, jsonrpc.string_of(jsonrpc.members_of(item).get("taskId")))
        )
        return jsonrpc.object_text({**members, "tasks": array_text(mine)})

    def leave(self, session: SessionKey) -> None:
        """A host is gone; its tasks belong to nobody."""
        for name in [name for name, owner in self._owner.items() if owner == session]:
            self._end(name)
            del self._owner[name]

    def child_lost(self) -> None:
        """The child is gone and all its tasks with it."""
        self._owner.clear()
        self._calls.clear()
        self._running.clear()

    def _end(self, name: str) -> None:
        upstream = self._calls.pop(name, None)
        if upstream is not None:
            del self._running[upstream]


def _status(result: Text) -> str | None:
    return jsonrpc.string_of(jsonrpc.members_of(result).get("status"))
