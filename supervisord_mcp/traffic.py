"""What goes over one instance, as observers are told of it: calls of hosts from beginning to end, and messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.observer import Bundle, Message, Observers
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.protocol.calls import NAMELESS, Call, Caller, Outcome, SessionKey
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.tapping import Direction

#: An answer up to this length, or several, are looked into for an error; of a longer one only the two ends, in bytes.
_WHOLE = 1 << 16
_END = 1 << 10
#: How much of the name of a host is kept, in characters.
_LONGEST_NAME = 64
#: Calls are told of after so many seconds, or as soon as there are so many of one kind, or so many kinds; those that
#: somebody wants each for itself sooner, for they hold their requests.
_SOON = 0.05
MANY = 256
MANY_KINDS = 64
MANY_KEPT = 64


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
    """What traffic needs to know: how the host of a session names itself, what waits, how something is done later."""

    host: Callable[[SessionKey], str]
    calls: Callable[[], Iterable[Call]]
    later: Callable[[float, Callable[[], None]], object]


class Traffic:
    """What goes over one instance. `opened` and `answered` come with every call, so they only note what is to be told.

    Calls that are over are told together, a moment later: nobody waits for it, and code that did something else before
    takes longer to begin than to count. Who counts them gets sums.
    """

    def __init__(self, key: InstanceKey, observers: Observers, around: Around) -> None:
        self._server = key.server
        self._instance = str(key)
        self._calls = observers.calls
        self._bundles = observers.bundles
        self._messages = observers.messages[key.server]
        self._around = around
        self._callers: dict[SessionKey, Caller] = {}
        # What is over and not told yet: calls each for itself, sums, and the one that each session was added to last.
        self._news: list[Call] = []
        self._sums: dict[tuple[Caller, str, bytes], Bundle] = {}
        self._latest: dict[SessionKey, Bundle] = {}
        self._due = False
        self._observers = observers
        #: The line of a host that is handled just now.
        self.heard = b""

    @property
    def open(self) -> Iterator[Call]:
        """The calls that are not over yet, as if they were over now."""
        now = _monotonic()
        for call in self.waiting:
            yield replace(call, ended=now, outcome=Outcome.CANCELLED, caller=self._caller(call.session))

    @property
    def waiting(self) -> Iterator[Call]:
        """The calls that are not answered yet; whose they are and how they ended is not known of them."""
        return (call for call in self._around.calls() if call.method)

    def line(self, session: SessionKey, line: bytes | Oversized, direction: Direction) -> None:
        """A line is on its way; to be called only if somebody watches messages.

        One that is too long to be passed on has only its beginning.
        """
        caller = self._callers.get(session)
        known = NAMELESS if caller is None else caller.host
        host = known if known is not NAMELESS else self._name(session) if session else ""
        self._messages.tell(passing(self._server, self._instance, (session, host), line, direction))

    def opened(self, call: Call, now: float) -> None:
        """A request of a host waits for its answer from now on, a time of the monotonic clock."""
        call.began = now
        call.asked = len(self.heard)
        if self._observers.keep_requests:
            call.request = self.heard

    def answered(self, calls: Sequence[Call], data: bytes, now: float) -> None:
        """Requests of a host are answered by one line."""
        summed, kept = self._bundles.watched, self._calls.watched
        if not (summed or kept):
            return
        # Many servers always say at the end that nothing failed; what is said last counts in JSON.
        failed = () if data.endswith(_FINE) else _failed(data, calls)
        for call in calls:
            # Neither a greeting nor what was refused at once is a call.
            if not (call.method and call.began):
                continue
            wrong = failed and call.identity in failed
            if kept:
                call.ended = now
                call.told = len(data)
                if wrong:
                    call.outcome = Outcome.ERROR
                self._news.append(call)
            if summed:
                bundle = self._latest.get(call.session)
                if bundle is None or bundle.tool != call.tool or bundle.method != call.method:
                    bundle = self._bundle(call)
                bundle.seconds.append(now - call.began)
                bundle.asked += call.asked
                bundle.told += len(data)
                if wrong:
                    bundle.errors += 1
                if len(bundle.seconds) >= MANY:
                    self.tell()
        # Looked at here as well: every call comes through here, and most have nothing to arrange.
        if not self._due or len(self._news) >= MANY_KEPT:
            self._tell_in_time()

    def dropped(self, call: Call, *, overdue: bool) -> None:
        """A host gave up a request, perhaps because it waited for too long."""
        if not call.method:
            return
        if self._bundles.watched:
            bundle = self._bundle(call)
            bundle.asked += call.asked
            bundle.timeouts += overdue
            bundle.cancelled += not overdue
        if self._calls.watched:
            call.ended, call.outcome = _monotonic(), Outcome.TIMEOUT if overdue else Outcome.CANCELLED
            self._news.append(call)
        self._tell_in_time()

    def left(self, session: SessionKey, calls: Iterable[Call]) -> None:
        """A host is gone, and with it what it waited for."""
        for call in calls:
            self.dropped(call, overdue=False)
        self.heard = b""
        self.tell()
        self._callers.pop(session, None)

    def tell(self) -> None:
        """Tell of the calls that are over."""
        if self._sums:
            sums, self._sums, self._latest = self._sums, {}, {}
            self._bundles.tell_all([*sums.values()])
        if self._news:
            news, self._news = self._news, []
            for call in news:
                call.caller = self._caller(call.session)
            self._calls.tell_all(news)

    def _tell_in_time(self) -> None:
        if len(self._news) >= MANY_KEPT:
            self.tell()
        elif not self._due and (self._sums or self._news):
            self._due = True
            self._around.later(_SOON, self._tell_now)

    def _tell_now(self) -> None:
        self._due = False
        self.tell()

    def _bundle(self, call: Call) -> Bundle:
        """Return the sums that a call belongs to."""
        key = (self._caller(call.session), call.method, call.tool)
        bundle = self._sums.get(key)
        if bundle is None:
            # A host may call what it likes.
            if len(self._sums) >= MANY_KINDS:
                self.tell()
            bundle = self._sums[key] = Bundle(*key)
        # A host that has no name yet is asked again the next time.
        if bundle.caller.host is not NAMELESS:
            self._latest[call.session] = bundle
        return bundle

    def _caller(self, session: SessionKey) -> Caller:
        """Return who calls, with the name that its host has by now."""
        caller = self._callers.get(session)
        if caller is None or caller.host is NAMELESS:
            name = self._name(session)
            # Hosts of one name are one caller: what they call is counted together, which is seen by a look at this.
            alike = next((other for other in self._callers.values() if other.host == name), None)
            caller = self._callers[session] = alike or Caller(self._server, self._instance, name)
        return caller

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


def _failed(line: bytes, calls: Sequence[Call]) -> Collection[bytes]:
    """Return which of the calls that a line answers, by their ids, got an error or the result of a tool that failed."""
    several, every = line.startswith(b"["), [call.identity for call in calls]
    if several or len(line) <= _WHOLE:
        if b'rror"' not in line:
            return ()
    else:
        return every if b'"isError":true' in line[-_END:] or b'"isError":true' in line[:_END] else ()
    try:
        if several:
            return {bytes(answer.id) for answer in map(_answer, _arrays.decode(line)) if answer.failed}
        return every if _answer(line).failed else ()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ()  # no JSON that anybody can read


def _answer(text: bytes | Raw) -> _Answer:
    try:
        return _answers.decode(text)
    except msgspec.ValidationError:
        return _Answer()  # a result of another form
