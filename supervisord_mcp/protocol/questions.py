"""What hosts were asked and have not answered: real requests to legacy hosts, under ids of the daemon's own.

A question is the child's own (`callbacks`) or the daemon's; either way its asker takes the answer, or None when there
will be none. Ids are integers from a counter of each host, never reused (protocol.md 6.1 D8, table ``down`` of 6.2);
a progress token towards a host is the id of the question (table ``ctok``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from msgspec import Raw

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.protocol.commands import Command, Note, Remember, ToServer, ToSession
from supervisord_mcp.protocol.jsonrpc import Members, Message, Text

#: Takes the answer of a host, or None when nobody will answer: the host, the call or the child is gone.
Reply: TypeAlias = Callable[[Message | None], list[Command]]


@dataclass(frozen=True, slots=True)
class Question:
    """A request at a host.

    ``parents`` are the upstream ids of the calls that it may belong to, ``task`` names the task that it belongs to.
    ``identity`` and ``token`` are the id and the progress token of the child, if the child asked.
    """

    session: SessionKey
    reply: Reply
    parents: frozenset[int] = frozenset()
    task: str | None = None
    identity: bytes | None = None
    token: bytes | None = None


class Questions:
    """The open questions of one instance, by host and by the id that the host sees."""

    def __init__(self, sessions: Mapping[SessionKey, Attachment]) -> None:
        self._sessions = sessions
        self._open: dict[tuple[SessionKey, int], Question] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def ask(self, question: Question, method: str, params: Text | None) -> list[Command]:
        """Send a question to its host, which is attached."""
        host = self._sessions[question.session]
        host.asked += 1
        self._open[host.key, host.asked] = question
        if question.token is not None:
            params = _with_token(params, b"%d" % host.asked)
        # The id is remembered: the next daemon must not give it to another question (D11).
        return [Remember(host.key), ToSession(host.key, jsonrpc.request_line(host.asked, method, params))]

    # From the host

    def answered(self, session: SessionKey, message: Message) -> list[Command]:
        """A host answered something."""
        question = self._open.pop((session, _number(message.id)), None)
        if question is None:
            return [Note("host", "a host answered a request that nobody asked")]
        return question.reply(message)

    def answer_lost(self, session: SessionKey, identity: bytes | None, text: str) -> list[Command]:
        """The host's answer cannot be passed on, for which the text says why; return nothing if it was none."""
        question = self._open.pop((session, _number(identity)), None)
        if question is None:
            return []
        line = jsonrpc.error_line(identity, jsonrpc.INTERNAL_ERROR, text)
        return question.reply(jsonrpc.parse(line))

    def progress(self, session: SessionKey, message: Message) -> list[Command]:
        """The host reports on a question; the child is told under its own token."""
        params = message.params()
        question = self._open.get((session, _number(params.get("progressToken"))))
        if question is None or question.token is None:
            return []
        params["progressToken"] = Raw(question.token)
        message.members["params"] = Raw(jsonrpc.object_text(params))
        return [ToServer(jsonrpc.encode(message.members))]

    # Giving up (the cancellation chain of protocol.md 6.3)

    def withdraw(self, identity: bytes, params: Members) -> list[Command] | None:
        """The child gave up its question with that id: tell the host; return None if there is no such question."""
        for at, question in self._open.items():
            if question.identity == identity:
                del self._open[at]
                return self._cancel(at, params)
        return None

    def give_up(self, over: Callable[[Question], bool]) -> list[Command]:
        """Nobody will answer these questions any more: tell who asked, and the hosts that are still there."""
        commands: list[Command] = []
        for at in [at for at, question in self._open.items() if over(question)]:
            commands += [*self._open.pop(at).reply(None), *self._cancel(at, {})]
        return commands

    def _cancel(self, at: tuple[SessionKey, int], params: Members) -> list[Command]:
        session, ours = at
        if session not in self._sessions:
            return []
        text = jsonrpc.object_text({**params, "requestId": b"%d" % ours})
        return [ToSession(session, jsonrpc.notification_line("notifications/cancelled", text))]


def _with_token(params: Text | None, token: bytes) -> bytes:
    members = jsonrpc.members_of(params)
    meta = jsonrpc.members_of(members.get("_meta"))
    return jsonrpc.object_text({**members, "_meta": jsonrpc.object_text({**meta, "progressToken": token})})


def _number(text: bytes | Raw | None) -> int:
    try:
        return int(bytes(text or b""))
    except ValueError:
        return 0
