"""What goes over one instance, as observers are told of it: calls of hosts from beginning to end, and messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec
from msgspec import UNSET, Raw, UnsetType

from supervisord_mcp.observer import Call, Direction, Message, Observers, Outcome
from supervisord_mcp.protocol.commands import Dropped, Opened, SessionKey, ToSession
from supervisord_mcp.protocol.framing import Oversized

#: An answer up to this length is looked into for an error; of a longer one only the two ends are, in bytes.
_WHOLE = 1 << 16
_END = 1 << 10
#: How much of the name of a host is kept, in characters.
_LONGEST_NAME = 64
#: What a host is called that does not say.
NAMELESS = "(unnamed)"


class _Result(msgspec.Struct, gc=False):
    failed: bool = msgspec.field(name="isError", default=False)


class _Answer(msgspec.Struct, gc=False):
    error: Raw | UnsetType = UNSET
    result: _Result | UnsetType = UNSET


_monotonic = time.monotonic
_answers = msgspec.json.Decoder(_Answer)


class Traffic:
    """What goes over one instance. `opened` and `answered` come with every call, so they do nothing for nobody."""

    def __init__(self, server: str, instance: str, observers: Observers, host: Callable[[SessionKey], str]) -> None:
        """``host`` returns how the host of a session names itself, or the empty text."""
        self._server = server
        self._instance = instance
        self._calls = observers.calls
        self._messages = observers.messages
        self._host = host
        # What is open: method and tool, when it began, how long it was.
        self._open: dict[tuple[SessionKey, bytes], tuple[str, bytes, float, int]] = {}
        self._hosts: dict[SessionKey, str] = {}
        #: The length of the line of a host that is handled just now.
        self.length = 0

    @property
    def open(self) -> Iterator[Call]:
        """The calls that are not over yet, as if they were over now."""
        now = time.monotonic()
        for (session, _), (method, tool, began, asked) in tuple(self._open.items()):
            host = self._name(session)
            yield Call(
                self._server, self._instance, session, host, method, tool, began, now, asked, 0, Outcome.CANCELLED
            )

    def line(self, session: SessionKey, line: bytes | Oversized, direction: Direction) -> None:
        """A line is on its way; to be called only if somebody watches messages.

        One that is too long to be passed on has only its beginning.
        """
        if isinstance(line, Oversized):
            line = line.head
        line = line.rstrip(b"\n")
        self._messages.tell(Message(self._server, self._instance, session, direction, line))

    def opened(self, command: Opened) -> None:
        """A request of a host waits for its answer from now on."""
        if self._calls.watched and command.method:
            self._open[command.session, command.identity] = (
                command.method,
                command.tool,
                _monotonic(),
                self.length,
            )

    def answered(self, command: ToSession) -> None:
        """Requests of a host are answered."""
        if not self._open:
            return
        for identity in command.closes:
            asked = self._open.pop((command.session, identity), None)
            if asked is not None:
                data = command.data
                self._over(command.session, asked, len(data), Outcome.ERROR if _failed(data) else Outcome.OK)

    def dropped(self, command: Dropped) -> None:
        """A host gave up a request."""
        asked = self._open.pop((command.session, command.identity), None)
        if asked is not None:
            self._over(command.session, asked, 0, Outcome.TIMEOUT if command.overdue else Outcome.CANCELLED)

    def left(self, session: SessionKey) -> None:
        """A host is gone, and with it what it waited for."""
        for key in [key for key in self._open if key[0] == session]:
            self._over(session, self._open.pop(key), 0, Outcome.CANCELLED)
        self._hosts.pop(session, None)

    def _over(self, session: SessionKey, asked: tuple[str, bytes, float, int], told: int, outcome: Outcome) -> None:
        method, tool, began, size = asked
        host = self._hosts.get(session) or self._name(session)
        self._calls.tell(
            Call(self._server, self._instance, session, host, method, tool, began, _monotonic(), size, told, outcome)
        )

    def _name(self, session: SessionKey) -> str:
        if (known := self._hosts.get(session)) is not None:
            return known
        name = "".join(sign if sign.isprintable() else "\ufffd" for sign in self._host(session)[:_LONGEST_NAME])
        if not name:
            return NAMELESS  # it may say so yet
        self._hosts[session] = name
        return name


def _failed(line: bytes) -> bool:
    """Whether an answer is an error, or the result of a tool that failed."""
    if len(line) <= _WHOLE:
        found = line.find(b'rror"')
        if found < 0:
            return False
        # Many servers always say that nothing failed. What they say of it last counts, as for every reader of JSON.
        if line.startswith(b":false", found + 5) and line.find(b'rror"', found + 5) < 0:
            return False
    else:
        return b'"isError":true' in line[-_END:] or b'"isError":true' in line[:_END]
    try:
        answer = _answers.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False  # an array of answers, or a result of another form
    return answer.error is not UNSET or (answer.result is not UNSET and answer.result.failed)
