"""What goes over one instance, as observers are told of it: calls of hosts from beginning to end, and messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.observer import NAMELESS, Call, Caller, Message, Observers, Outcome
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.protocol.commands import Dropped, Opened, SessionKey, ToSession
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.tapping import Direction

#: An answer up to this length, or several, are looked into for an error; of a longer one only the two ends, in bytes.
_WHOLE = 1 << 16
_END = 1 << 10
#: How much of the name of a host is kept, in characters.
_LONGEST_NAME = 64
#: Calls are told of so many at once, or after so many seconds.
_SOON = 0.05
MANY = 16


class _Result(msgspec.Struct, gc=False):
    failed: bool = msgspec.field(name="isError", default=False)


class _Answer(msgspec.Struct, gc=False):
    id: Raw = Raw(b"")
    error: Raw | UnsetType = UNSET
    result: _Result | UnsetType = UNSET

    @property
    def failed(self) -> bool:
        """Whether this is an error, or the result of a tool that failed."""
        return self.error is not UNSET or (self.result is not UNSET and self.result.failed)


_FINE = b'"isError":false}}\n'
_monotonic = time.monotonic
_answers = msgspec.json.Decoder(_Answer)
_arrays = msgspec.json.Decoder(list[Raw])


@dataclass(frozen=True, slots=True)
class Around:
    """What traffic needs to know: how the host of a session names itself, and how something is done later."""

    host: Callable[[SessionKey], str]
    later: Callable[[float, Callable[[], None]], object]


class _Speaker:
    """A session of this instance, and its calls that are not over."""

    __slots__ = ("caller", "open")

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.open: dict[bytes, Call] = {}


class Traffic:
    """What goes over one instance. `opened` and `answered` come with every call, so they only note what is to be told.

    Calls that are over are told together, at most `MANY` and at most a moment later: nobody waits for it, and told one
    by one they would cost twice as much.
    """

    def __init__(self, key: InstanceKey, observers: Observers, around: Around) -> None:
        self._server = key.server
        self._instance = str(key)
        self._calls = observers.calls
        self._messages = observers.messages[key.server]
        self._around = around
        self._speakers: dict[SessionKey, _Speaker] = {}
        # What is over and not told yet.
        self._news: list[Call] = []
        self._due = False
        self._observers = observers
        #: The line of a host that is handled just now.
        self.heard: bytes | Oversized = b""

    @property
    def open(self) -> Iterator[Call]:
        """The calls that are not over yet, as if they were over now."""
        now = _monotonic()
        for call in self.waiting:
            yield replace(call, ended=now, outcome=Outcome.CANCELLED)

    @property
    def waiting(self) -> Iterator[Call]:
        """The calls that are not answered yet; how they ended is nothing."""
        yield from [call for speaker in self._speakers.values() for call in speaker.open.values()]

    def line(self, session: SessionKey, line: bytes | Oversized, direction: Direction) -> None:
        """A line is on its way; to be called only if somebody watches messages.

        One that is too long to be passed on has only its beginning.
        """
        speaker = self._speakers.get(session)
        known = NAMELESS if speaker is None else speaker.caller.host
        host = known if known is not NAMELESS else self._name(session) if session else ""
        self._messages.tell(passing(self._server, self._instance, (session, host), line, direction))

    def opened(self, commands: list[Opened], now: float) -> None:
        """Requests of a host wait for their answer from now on, a time of the monotonic clock; the list is emptied."""
        if self._calls.watched:
            line = self.heard
            if isinstance(line, Oversized):
                line = b""
            for command in commands:
                if command.method:
                    session, identity = command.session, command.identity
                    speaker = self._speakers.get(session)
                    if speaker is None or speaker.caller.host is NAMELESS:
                        speaker = self._speaker(session)
                    # Made now and filled in later: a call is never copied on its way to those who are told.
                    call = Call(speaker.caller, command.method, command.tool, identity, now, len(line))
                    if self._observers.keep_requests:
                        call.request = line
                    speaker.open[identity] = call
        commands.clear()

    def answered(self, command: ToSession, now: float) -> None:
        """Requests of a host are answered."""
        closes = command.closes
        if not closes or (speaker := self._speakers.get(command.session)) is None:
            return
        data = command.data
        # Many servers always say at the end that nothing failed; what is said last counts in JSON.
        failed = () if data.endswith(_FINE) else _failed(data, closes)
        for identity in closes:
            call = speaker.open.pop(identity, None)
            if call is not None:
                call.ended = now
                call.told = len(data)
                if identity in failed:
                    call.outcome = Outcome.ERROR
                news = self._news
                news.append(call)
                if not self._due:
                    self._tell_soon()
                elif len(news) >= MANY:
                    self.tell()

    def dropped(self, command: Dropped) -> None:
        """A host gave up a request."""
        speaker = self._speakers.get(command.session)
        call = None if speaker is None else speaker.open.pop(command.identity, None)
        if call is not None:
            self._given_up(call, Outcome.TIMEOUT if command.overdue else Outcome.CANCELLED)

    def left(self, session: SessionKey) -> None:
        """A host is gone, and with it what it waited for."""
        speaker = self._speakers.pop(session, None)
        if speaker is not None:
            for call in speaker.open.values():
                self._given_up(call, Outcome.CANCELLED)
        self.heard = b""
        self.tell()

    def tell(self) -> None:
        """Tell of the calls that are over."""
        news, self._news = self._news, []
        if news:
            self._calls.tell_all(news)

    def _given_up(self, call: Call, outcome: Outcome) -> None:
        call.ended, call.outcome = _monotonic(), outcome
        self._news.append(call)
        if not self._due:
            self._tell_soon()

    def _tell_soon(self) -> None:
        self._due = True
        self._around.later(_SOON, self._tell_now)

    def _tell_now(self) -> None:
        self._due = False
        self.tell()

    def _speaker(self, session: SessionKey) -> _Speaker:
        """Return a session, with the name that its host has by now."""
        speaker = self._speakers.get(session)
        if speaker is None:
            speaker = self._speakers[session] = _Speaker(Caller(self._server, self._instance, session))
        speaker.caller.host = self._name(session)
        return speaker

    def _name(self, session: SessionKey) -> str:
        return name_shown(self._around.host(session)) or NAMELESS


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


def _failed(line: bytes, closes: tuple[bytes, ...]) -> Collection[bytes]:
    """Return which of the calls that a line answers, by their ids, got an error or the result of a tool that failed."""
    several = line.startswith(b"[")
    if several or len(line) <= _WHOLE:
        if b'rror"' not in line:
            return ()
    else:
        return closes if b'"isError":true' in line[-_END:] or b'"isError":true' in line[:_END] else ()
    try:
        if several:
            return {bytes(answer.id) for answer in map(_answer, _arrays.decode(line)) if answer.failed}
        return closes if _answer(line).failed else ()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ()  # no JSON that anybody can read


def _answer(text: bytes | Raw) -> _Answer:
    try:
        return _answers.decode(text)
    except msgspec.ValidationError:
        return _Answer()  # a result of another form
