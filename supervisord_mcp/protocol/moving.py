"""Hosts whose roots change: with others they belong to another child (protocol.md 6.1 D6, 6.4 `roots/list_changed`).

A child that hosts share is told roots once, and they are those of all its hosts. So nothing is told to it when a host
says that its roots changed: the host is asked for them, and if they are others it moves, as soon as nothing that it
asked for is open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from supervisord_mcp.protocol.alarms import Alarms
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.protocol.commands import Command, Moved
from supervisord_mcp.protocol.jsonrpc import Message, Text
from supervisord_mcp.protocol.profiles import Profile, Root, roots_of
from supervisord_mcp.protocol.questions import Reply

#: After how long it is looked again whether a host that has to move has nothing open any more, in seconds.
PAUSE = 1.0

#: Asks a host something, for a call or for none.
AskHost = Callable[[SessionKey, str, Text | None, int | None, Reply], list[Command]]


class Moves:
    """The hosts of one instance that may have to move; ``profile`` is that of the instance, None if it has none."""

    def __init__(
        self, sessions: Mapping[SessionKey, Attachment], ask: AskHost, alarms: Alarms, profile: Profile | None
    ) -> None:
        self._sessions = sessions
        self._ask = ask
        self._alarms = alarms
        self._profile = profile
        self._found: dict[SessionKey, tuple[Root, ...]] = {}

    def changed(self, session: SessionKey) -> list[Command]:
        """A host says that its roots changed."""
        if self._profile is None or self._profile.roots is None:
            return []
        return self._ask(session, "roots/list", None, None, lambda answer: self._answered(session, answer))

    def _answered(self, session: SessionKey, answer: Message | None) -> list[Command]:
        roots = None if answer is None else roots_of(answer)
        if roots is None or self._profile is None:
            return []
        known = self._found.pop(session, None) is not None
        if self._profile.same_roots(roots):
            return []
        self._found[session] = roots
        return [] if known else self._go(session)

    def _go(self, session: SessionKey) -> list[Command]:
        host, roots = self._sessions.get(session), self._found.get(session)
        if host is None or roots is None:
            self._found.pop(session, None)
            return []
        if host.open:
            return [self._alarms.after(PAUSE, lambda: self._go(session))]
        del self._found[session]
        return [Moved(session, roots)]
