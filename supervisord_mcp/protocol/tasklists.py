"""`tasks/list` of a host: its own tasks of all pages of the server (protocol.md 6.7, pitfall 44).

Pages of the server mix the tasks of all hosts, so none of them can be handed out; all are fetched and answered as one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Raw

from supervisord_mcp.protocol import jsonrpc, requests
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.catalogue import array_text, items_of
from supervisord_mcp.protocol.commands import Command
from supervisord_mcp.protocol.discovery import MAX_PAGES
from supervisord_mcp.protocol.jsonrpc import Message, Text
from supervisord_mcp.protocol.tasks import Tasks


class Asker(Protocol):
    """What it needs of a conversation; ``last_id`` is the upstream id of what was asked last."""

    last_id: int

    def ask(self, method: str, params: Text | None, reply: Callable[[Message], list[Command]]) -> list[Command]:
        """Send a request of the daemon's own; ``reply`` takes the answer."""


class TaskLists:
    """Answers requests for lists of tasks."""

    def __init__(self, tasks: Tasks, talk: Asker) -> None:
        self._tasks = tasks
        self._talk = talk

    def ask(self, attachment: Attachment, message: Message, identity: bytes) -> list[Command]:
        """A host asks for its tasks. No cursor was ever handed out, so every one is refused."""
        if requests.cursor(message.params()) is not None:
            text = "this cursor was never handed out; ask for the list from its beginning"
            return [*attachment.answer(identity, jsonrpc.error_line(identity, jsonrpc.INVALID_PARAMS, text))]
        opened = attachment.opens(requests.call(attachment.key, message, identity))
        return [*opened, *self._page(attachment, identity, (), [])]

    def _page(
        self, attachment: Attachment, identity: bytes, before: tuple[bytes, ...], cursors: list[bytes]
    ) -> list[Command]:
        def reply(answer: Message) -> list[Command]:
            if "result" not in answer.members:
                line = jsonrpc.encode({**answer.members, "id": Raw(identity)})
                return [*attachment.answer(identity, line)]
            members = jsonrpc.members_of(answer.members["result"])
            mine = before + self._tasks.those_of(attachment.key, items_of(members.get("tasks")))
            more = requests.cursor(members, "nextCursor")
            if more is not None and more not in cursors and len(cursors) < MAX_PAGES:
                return self._page(attachment, identity, mine, [*cursors, more])
            members.pop("nextCursor", None)
            result = jsonrpc.object_text({**members, "tasks": array_text(mine)})
            return [*attachment.answer(identity, jsonrpc.result_line(identity, result))]

        params = jsonrpc.object_text({"cursor": cursors[-1]}) if cursors else None
        commands = self._talk.ask("tasks/list", params, reply)
        attachment.open[identity].upstream = self._talk.last_id
        return commands
