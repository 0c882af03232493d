"""What goes over one instance, as observers are told of it: calls of hosts from beginning to end, and messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
from msgspec import UNSET, Raw, UnsetType

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.observer import Call, Message, Observers, Outcome
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.protocol.commands import Dropped, Opened, SessionKey, ToSession
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.tapping import Direction

#: An answer up to this length is looked into for an error; of a longer one only the two ends are, in bytes.
_WHOLE = 1 << 16
_END = 1 << 10
#: How much of the name of a host is kept, in characters.
_LONGEST_NAME = 64
#: Calls are told of after so many seconds; until then an answer up to this length waits to be looked into.
_SOON = 0.05
#: So many are told of at once. Kept for longer, each call would be made in memory that was not used for a while.
MANY = 16
_KEPT = 1 << 10
#: What a host is called that does not say.
NAMELESS = "(unnamed)"


class _Result(msgspec.Struct, gc=False):
    failed: bool = msgspec.field(name="isError", default=False)


class _Answer(msgspec.Struct, gc=False):
    error: Raw | UnsetType = UNSET
    result: _Result | UnsetType = UNSET


_Asked = tuple[Opened, float, int, bytes]

_FINE = b'"isError":false}}\n'
_monotonic = time.monotonic
_answers = msgspec.json.Decoder(_Answer)


@dataclass(frozen=True, slots=True)
class Around:
    """What traffic needs to know: how the host of a session names itself, and how something is done later."""

    host: Callable[[SessionKey], str]
    later: Callable[[float, Callable[[], None]], object]


class Traffic:
    """What goes over one instance. `opened` and `answered` come with every call, so they only note what is to be told.

    Calls that are over are told together, a moment later: nobody waits for it, and told one after the other they cost
    half as much.
    """

    def __init__(self, key: InstanceKey, observers: Observers, around: Around) -> None:
        self._server = key.server
        self._instance = str(key)
        self._calls = observers.calls
        self._messages = observers.messages[key.server]
        self._around = around
        # What is open: the request, when it came, how long its line was, and that, where somebody wants it.
        self._open: dict[tuple[SessionKey, bytes], _Asked] = {}
        # What is over and not told yet: the same, when it was over, and the answer with its length, or how it ended.
        self._news: list[tuple[_Asked, float, int, bytes | Outcome]] = []
        self._due = False
        self._hosts: dict[SessionKey, str] = {}
        self._observers = observers
        #: The line of a host that is handled just now.
        self.heard: bytes | Oversized = b""

    @property
    def open(self) -> Iterator[Call]:
        """The calls that are not over yet, as if they were over now."""
        now = _monotonic()
        for command, began, asked, _ in tuple(self._open.values()):
            host = self._name(command.session)
            yield Call(
                *(self._server, self._instance, command.session, host, command.method, command.tool),
                *(began, now, asked, 0, Outcome.CANCELLED),
            )

    @property
    def waiting(self) -> Iterator[tuple[SessionKey, bytes, Opened, float]]:
        """The requests that are not answered yet: whose, with which id, what, and since when (monotonic clock)."""
        for (session, identity), (command, began, *_) in tuple(self._open.items()):
            yield session, identity, command, began

    def line(self, session: SessionKey, line: bytes | Oversized, direction: Direction) -> None:
        """A line is on its way; to be called only if somebody watches messages.

        One that is too long to be passed on has only its beginning.
        """
        host = (self._hosts.get(session) or self._name(session)) if session else ""
        self._messages.tell(passing(self._server, self._instance, (session, host), line, direction))

    def opened(self, command: Opened, now: float) -> None:
        """A request of a host waits for its answer from now on, which is a time of the monotonic clock."""
        if self._calls.watched and command.method:
            line = self.heard
            if isinstance(line, Oversized):
                line = b""
            kept = line if self._observers.keep_requests else b""
            self._open[command.session, command.identity] = (command, now, len(line), kept)

    def answered(self, command: ToSession, now: float) -> None:
        """Requests of a host are answered."""
        if not self._open:
            return
        for identity in command.closes:
            asked = self._open.pop((command.session, identity), None)
            if asked is not None:
                data = command.data
                length = len(data)
                # A long answer is not kept for later.
                ending = data if length <= _KEPT else _outcome(data)
                self._news.append((asked, now, length, ending))
                if not self._due:
                    self._tell_soon()
                elif len(self._news) == MANY:
                    self._around.later(0.0, self.tell)

    def dropped(self, command: Dropped) -> None:
        """A host gave up a request."""
        asked = self._open.pop((command.session, command.identity), None)
        if asked is not None:
            self._given_up(asked, Outcome.TIMEOUT if command.overdue else Outcome.CANCELLED)

    def left(self, session: SessionKey) -> None:
        """A host is gone, and with it what it waited for."""
        for key in [key for key in self._open if key[0] == session]:
            self._given_up(self._open.pop(key), Outcome.CANCELLED)
        self.heard = b""
        self.tell()  # while it is known how the host names itself
        self._hosts.pop(session, None)

    def tell(self) -> None:
        """Tell of the calls that are over."""
        news, self._news = self._news, []
        if not news:
            return
        server, instance, hosts = self._server, self._instance, self._hosts
        told = []
        fine = Outcome.OK
        for (command, began, asked, line), ended, length, ending in news:
            session = command.session
            host = hosts.get(session) or self._name(session)
            if isinstance(ending, Outcome):
                outcome = ending
            elif ending.endswith(_FINE):  # as most are, and a look is shorter than a call
                outcome = fine
            else:
                outcome = _outcome(ending)
            method, tool = command.method, command.tool
            identity = command.identity
            told.append(  # written out, for a tuple that is unpacked takes five times as long
                Call(
                    server,
                    instance,
                    session,
                    host,
                    method,
                    tool,
                    began,
                    ended,
                    asked,
                    length,
                    outcome,
                    identity,
                    line,
                )
            )
        self._calls.tell_all(told)

    def _given_up(self, asked: _Asked, outcome: Outcome) -> None:
        self._news.append((asked, _monotonic(), 0, outcome))
        if not self._due:
            self._tell_soon()

    def _tell_soon(self) -> None:
        self._due = True
        self._around.later(_SOON, self._tell_now)

    def _tell_now(self) -> None:
        self._due = False
        self.tell()

    def _name(self, session: SessionKey) -> str:
        name = name_shown(self._around.host(session))
        if not name:
            return NAMELESS  # it may say so yet
        self._hosts[session] = name
        return name


def name_shown(given: str) -> str:
    """Return how a host names itself as it is told: one line without values of secrets, and not too long."""
    cut = masker.mask(given)[:_LONGEST_NAME]
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in cut)


def passing(
    server: str, instance: str, who: tuple[SessionKey, str], line: bytes | Oversized, direction: Direction
) -> Message:
    """Return what is told of a line; ``who`` is the session and how its host names itself."""
    text = (line.head if isinstance(line, Oversized) else line).rstrip(b"\n")
    size = line.length if isinstance(line, Oversized) else len(text)
    return Message(server, instance, *who, direction, text, size)


def _outcome(line: bytes) -> Outcome:
    return Outcome.ERROR if _failed(line) else Outcome.OK


def _failed(line: bytes) -> bool:
    """Whether an answer is an error, or the result of a tool that failed."""
    # Many servers always say at the end that nothing failed; what is said last counts, as for every reader of JSON.
    if line.endswith(_FINE):
        return False
    if len(line) <= _WHOLE:
        if b'rror"' not in line:
            return False
    else:
        return b'"isError":true' in line[-_END:] or b'"isError":true' in line[:_END]
    try:
        answer = _answers.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False  # an array of answers, or a result of another form
    return answer.error is not UNSET or (answer.result is not UNSET and answer.result.failed)
