"""Who owns which task of a shared 2025-11-25 server (protocol.md 6.7): a host sees and touches only its own."""

from __future__ import annotations

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.catalogue import array_text, items_of
from supervisord_mcp.protocol.commands import SessionKey
from supervisord_mcp.protocol.jsonrpc import Message

#: Requests that name one task.
BY_ID = frozenset({"tasks/get", "tasks/result", "tasks/cancel"})
_TERMINAL = frozenset({"completed", "failed", "cancelled"})


class Tasks:
    """The tasks of one child, by id, with their owner and the upstream progress token that stays alive for them."""

    def __init__(self) -> None:
        self._owner: dict[str, SessionKey] = {}
        self._tokens: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def owns(self, session: SessionKey, task: str | None) -> bool:
        """Whether the task is this host's."""
        return task is not None and self._owner.get(task) == session

    def created(self, session: SessionKey, result: jsonrpc.Text, token: int) -> bool:
        """Given the result of a call with ``task``, note the owner; return whether a task was created."""
        task = jsonrpc.string_of(jsonrpc.members_of(jsonrpc.members_of(result).get("task", b"null")).get("taskId"))
        if task is None:
            return False
        self._owner[task] = session
        self._tokens[task] = token
        return True

    def status(self, notification: Message) -> tuple[SessionKey | None, int | None]:
        """Given `notifications/tasks/status`, return (the owner, the progress token that ended with the task)."""
        params = notification.params()
        task = jsonrpc.string_of(params.get("taskId"))
        if task is None:
            return None, None
        ended = None
        if jsonrpc.string_of(params.get("status")) in _TERMINAL:
            ended = self._tokens.pop(task, None)
        return self._owner.get(task), ended

    def filtered(self, session: SessionKey, result: jsonrpc.Text) -> bytes:
        """Given the result of `tasks/list`, return it with this host's tasks only."""
        members = jsonrpc.members_of(result)
        mine = tuple(
            item
            for item in items_of(members.get("tasks"))
            if self.owns(session, jsonrpc.string_of(jsonrpc.members_of(item).get("taskId")))
        )
        return jsonrpc.object_text({**members, "tasks": array_text(mine)})

    def leave(self, session: SessionKey) -> list[int]:
        """A host is gone; its tasks belong to nobody. Return the progress tokens that ended."""
        gone = [task for task, owner in self._owner.items() if owner == session]
        for task in gone:
            del self._owner[task]
        return [self._tokens.pop(task) for task in gone if task in self._tokens]

    def child_lost(self) -> None:
        """The child is gone and all its tasks with it."""
        self._owner.clear()
        self._tokens.clear()
