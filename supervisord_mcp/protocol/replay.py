"""A recording of what hosts and a server said to each other, said again: what to say next, and how the answers differ.

What a host said is said again in the order of the recording, and not before everything has been answered that had been
answered by then: what went on at the same time does so again. Ids of hosts are used as they were recorded. What the
other side makes up anew each time is replaced in what is said: the ids of its questions, cursors, states, tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc, mcp
from supervisord_mcp.protocol.eras import envelope
from supervisord_mcp.protocol.jsonrpc import Message

#: What an answer may say that means the same under another name each time.
RENAMED: Final = frozenset({"requestState", "nextCursor", "taskId"})
#: How many differences of one answer are told, and how many characters of each value.
MOST_DIFFERENCES, LONGEST = 20, 200
#: From this depth on values are told as they are, and not what differs in them.
DEEPEST: Final = 64
#: How many sessions a recording may have: all of them are there at the same time, beside those of real hosts.
MOST_SESSIONS: Final = 64
#: The id of a handshake that was not recorded.
_GREETING: Final = b'"smcp-replay"'

_parts = msgspec.json.Decoder(list[Raw])

#: How an answer compares: ``missing`` came only then, ``new`` only now, ``unanswered`` neither then nor now.
Verdict = Literal["same", "different", "missing", "new", "unanswered"]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a recording; ``time`` is in seconds since any point in time."""

    time: float
    session: int
    direction: Literal["from-host", "to-host"]
    line: str


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """Say again what hosts said, each in a session of its own. Stream of `Replayed`.

    ``patience`` is how long an answer is waited for that had come, in seconds.
    """

    name: str
    lines: tuple[Line, ...]
    project: str | None = None
    patience: float = 30.0

    def __post_init__(self) -> None:
        if not any(line.direction == "from-host" for line in self.lines):
            raise ValueError("it has nothing that a host said")
        if (count := len({line.session for line in self.lines})) > MOST_SESSIONS:
            raise ValueError(f"it has {count} sessions, at most {MOST_SESSIONS} are said again at once")
        if self.patience <= 0:
            raise ValueError("patience must be longer than nothing")


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Where two answers differ: ``path`` into them, and the JSON text of both values, empty where there is none."""

    path: str
    before: str = ""
    now: str = ""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """One request that was made again. ``before`` and ``now`` are the seconds until its answers came."""

    session: int
    method: str
    tool: str = ""
    id: str = ""
    verdict: Verdict
    differences: tuple[Difference, ...] = ()
    before: float | None = None
    now: float | None = None


@dataclass(slots=True)
class _Request:
    """A request of a host: when and how it was answered, then and now."""

    number: int
    session: int
    identity: bytes
    method: str
    tool: str
    asked: float
    reported: bool = True
    then: Message | None = None
    then_at: float = 0.0
    sent: float | None = None
    now: Message | None = None
    now_at: float = 0.0
    given_up: bool = False
    told: bool = False

    @property
    def settled(self) -> bool:
        """Whether there is nothing to wait for any more."""
        return self.now is not None or self.given_up


@dataclass(slots=True)
class _Turn:
    """Something that a host said, and what must have come before: answers, and the question that it answers."""

    session: int
    line: bytes
    answered: int
    requests: list[_Request] = field(default_factory=list)
    question: tuple[int, str, int] | None = None


class Script:
    """What is said again, and what came of it. Times are in seconds of any one clock."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._turns: list[_Turn] = []
        self._requests: list[_Request] = []
        #: In the order in which they were answered.
        self._answered: list[_Request] = []
        self._open: dict[tuple[int, bytes], _Request] = {}
        self._asked_then: dict[tuple[int, bytes], tuple[int, str, int]] = {}
        self._asked_now: dict[tuple[int, str], list[bytes]] = {}
        self._names: dict[bytes, bytes] = {}
        self._next = 0
        self._met = 0
        self._skipping = False
        self._gone: set[int] = set()
        #: Those of which it is known how they ended and that are not told yet: a long recording is not gone through for
        #: every answer that comes.
        self._news: list[_Request] = []
        #: Those that were not answered then, the one that is waited for longest last.
        self._patient: list[_Request] | None = None
        self._last = max((line.time for line in lines), default=0.0)
        counts: dict[tuple[int, str], int] = {}
        for line in _greeted(lines):
            for_host = line.direction == "to-host"
            turn = None if for_host else _Turn(line.session, line.line.encode(), len(self._answered))
            for message in _messages(line.line.encode()):
                if turn is not None:
                    self._said(turn, message, line)
                else:
                    self._heard_then(message, line, counts)
            if turn is not None:
                self._turns.append(turn)
        self._open.clear()

    def _said(self, turn: _Turn, message: Message, line: Line) -> None:
        if message.id is None:
            return
        if message.method is None:
            turn.question = self._asked_then.get((line.session, message.id))
            return
        tool = _tool(message)
        request = _Request(len(self._requests), line.session, message.id, message.method, tool, line.time)
        request.reported = message.id != _GREETING
        turn.requests.append(request)
        self._requests.append(request)
        self._open[line.session, message.id] = request

    def _heard_then(self, message: Message, line: Line, counts: dict[tuple[int, str], int]) -> None:
        if message.id is None:
            return
        if message.method is not None:
            kind = (line.session, message.method)
            self._asked_then[line.session, message.id] = (*kind, counts.get(kind, 0))
            counts[kind] = counts.get(kind, 0) + 1
            return
        request = self._open.pop((line.session, message.id), None)
        if request is not None:
            request.then, request.then_at = message, line.time
            self._answered.append(request)

    # What is said

    @property
    def sessions(self) -> tuple[int, ...]:
        """The sessions of the recording."""
        return tuple(dict.fromkeys(turn.session for turn in self._turns))

    def is_over(self) -> bool:
        """Whether everything was said, and everything came that had come then."""
        return self._next == len(self._turns) and self._all_met(len(self._answered))

    def next(self, now: float) -> tuple[int, bytes] | None:
        """Return what is to be said now, and in which session; None if something has to come first."""
        while self._next < len(self._turns):
            turn = self._turns[self._next]
            # Nobody is there to say it to, or it answers a question that was not asked this time.
            if turn.session in self._gone or (self._skipping and not self._was_asked(turn)):
                self._skipping = False
                for request in turn.requests:
                    self._give_up(request)
                self._next += 1
                continue
            if not self._skipping and not (self._all_met(turn.answered) and self._was_asked(turn)):
                return None
            self._skipping = False
            self._next += 1
            for request in turn.requests:
                request.sent = now
                self._open[turn.session, request.identity] = request
            return turn.session, self._worded(turn)
        return None

    def skip(self) -> None:
        """What has to come first does not come: go on without it."""
        self._skipping = self._next < len(self._turns)
        for request in self._answered[: self._turns[self._next].answered if self._skipping else None]:
            self._give_up(request)

    def _give_up(self, request: _Request) -> None:
        if not request.settled:
            request.given_up = True
            self._news.append(request)

    def lasting(self, now: float) -> float:
        """Return for how long to wait, in seconds, for answers that had not come either: as long as was recorded.

        To be asked once everything was said.
        """
        if self._patient is None:
            open_then = (one for one in self._requests if one.then is None and one.sent is not None)
            self._patient = sorted(open_then, key=self._ends)
        while self._patient and self._patient[-1].settled:
            self._patient.pop()
        return self._ends(self._patient[-1]) - now + 1.0 if self._patient else 0.0

    def _ends(self, request: _Request) -> float:
        return (request.sent or 0.0) + self._last - request.asked

    def _all_met(self, count: int) -> bool:
        while self._met < count and self._answered[self._met].settled:
            self._met += 1
        return self._met >= count

    def _was_asked(self, turn: _Turn) -> bool:
        return turn.question is None or self._question(turn.question) is not None

    def _question(self, question: tuple[int, str, int]) -> bytes | None:
        session, method, number = question
        asked = self._asked_now.get((session, method), [])
        return asked[number] if number < len(asked) else None

    def _worded(self, turn: _Turn) -> bytes:
        line = turn.line
        for before, now in self._names.items():
            line = line.replace(before, now)
        if turn.question is not None and (identity := self._question(turn.question)) is not None:
            message = jsonrpc.parse(line)
            line = jsonrpc.encode({**message.members, "id": Raw(identity)})[:-1]
        return line

    # What comes

    def heard(self, session: int, line: bytes, now: float) -> None:
        """Something came for the host of a session."""
        for message in _messages(line):
            if message.id is None:
                continue
            if message.method is not None:
                self._asked_now.setdefault((session, message.method), []).append(message.id)
            elif (request := self._open.pop((session, message.id), None)) is not None:
                if not request.settled:
                    self._news.append(request)
                request.now, request.now_at = message, now
                if request.then is not None:
                    self._rename(_content(request.then), _content(message))

    def left(self, session: int) -> None:
        """A session is over: nothing more is said or comes there."""
        self._gone.add(session)
        for request in self._requests:
            if request.session == session and request.sent is not None:
                self._give_up(request)

    def results(self, *, final: bool = False) -> Iterator[Replayed]:
        """Yield the requests of which it is known how they ended, each once; if ``final``, all that are left."""
        found, self._news = self._news, []
        for request in self._requests if final else sorted(found, key=lambda one: one.number):
            if request.reported and not request.told:
                request.told = True
                yield _replayed(request)

    def _rename(self, before: Any, now: Any) -> None:
        # No call within a call: a server may nest an answer more deeply than calls may be.
        left = [(before, now)]
        while left:
            match left.pop():
                case dict() as then, dict() as this:
                    for key in [key for key in then if key in this]:
                        was, becomes = then[key], this[key]
                        if not (key in RENAMED and isinstance(was, str) and isinstance(becomes, str)):
                            left.append((was, becomes))
                        elif was and was != becomes:
                            self._names[jsonrpc.text_of(was)] = jsonrpc.text_of(becomes)
                case list() as then, list() as this:
                    left += zip(then, this, strict=False)


def differences(before: Any, now: Any, path: str = "", depth: int = 0) -> Iterator[Difference]:
    """Yield where two JSON values differ; not where one has another name each time (`RENAMED`)."""
    match before, now:
        case dict(), dict() if depth < DEEPEST:
            for key in [*before, *(key for key in now if key not in before)]:
                below = f"{path}.{key}" if path else str(key)
                if key not in before:
                    yield Difference(path=below, now=_shown(now[key]))
                elif key not in now:
                    yield Difference(path=below, before=_shown(before[key]))
                elif not (key in RENAMED and isinstance(before[key], str) and isinstance(now[key], str)):
                    yield from differences(before[key], now[key], below, depth + 1)
        case list(), list() if depth < DEEPEST:
            for number, (was, becomes) in enumerate(zip(before, now, strict=False)):
                yield from differences(was, becomes, f"{path}[{number}]", depth + 1)
            for number in range(len(now), len(before)):
                yield Difference(path=f"{path}[{number}]", before=_shown(before[number]))
            for number in range(len(before), len(now)):
                yield Difference(path=f"{path}[{number}]", now=_shown(now[number]))
        case _:
            if type(before) is not type(now) or before != now:
                yield Difference(path=path, before=_shown(before), now=_shown(now))


def _replayed(request: _Request) -> Replayed:
    found: tuple[Difference, ...] = ()
    verdict: Verdict
    if request.then is not None and request.now is not None:
        every = differences(_content(request.then), _content(request.now))
        found = tuple(difference for difference, _ in zip(every, range(MOST_DIFFERENCES), strict=False))
        verdict = "different" if found else "same"
    elif request.then is not None:
        verdict = "missing"
    else:
        verdict = "unanswered" if request.now is None else "new"
    return Replayed(
        session=request.session,
        method=request.method,
        tool=request.tool,
        id=request.identity.decode(errors="replace"),
        verdict=verdict,
        differences=found,
        before=None if request.then is None else request.then_at - request.asked,
        now=None if request.now is None or request.sent is None else request.now_at - request.sent,
    )


def _content(message: Message) -> dict[str, Any]:
    """Return what an answer says; what cannot be decoded (1e400) as its text."""
    content: dict[str, Any] = {}
    for key in ("result", "error"):
        if (raw := message.members.get(key)) is not None:
            value = jsonrpc.value_of(raw)
            content[key] = bytes(raw).decode(errors="replace") if value is None else value
    return content


def _greeted(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines of a recording; before the first request of a session whose handshake is missing comes one."""
    begun: set[int] = set()
    for line in lines:
        if line.direction == "from-host" and line.session not in begun:
            for message in _messages(line.line.encode()):
                if line.session in begun:
                    break
                begun.add(line.session)
                if message.method not in ("initialize", "server/discover") and not envelope.claims(message):
                    yield from _greeting(line)
        yield line


def _greeting(line: Line) -> Iterator[Line]:
    params = {"protocolVersion": mcp.NEWEST_LEGACY, "capabilities": {}, "clientInfo": mcp.DAEMON}
    members = {"jsonrpc": jsonrpc.VERSION, "id": Raw(_GREETING), "method": Raw(b'"initialize"')}
    told = (
        ("from-host", jsonrpc.encode({**members, "params": Raw(jsonrpc.text_of(params))})),
        ("to-host", jsonrpc.result_line(_GREETING, b"{}")),
        ("from-host", jsonrpc.notification_line("notifications/initialized")),
    )
    for direction, text in told:
        yield msgspec.structs.replace(line, direction=direction, line=text[:-1].decode())


def _messages(line: bytes) -> Iterator[Message]:
    """Yield the messages of a line: one, several if it is an array, none if it is something else."""
    try:
        texts = [bytes(part) for part in _parts.decode(line)]
    except (msgspec.DecodeError, RecursionError):
        texts = [line]
    for text in texts:
        try:
            yield jsonrpc.parse(text)
        except FramingError:
            continue


def _tool(message: Message) -> str:
    if message.method != "tools/call":
        return ""
    return jsonrpc.string_of(jsonrpc.members_of(message.members.get("params")).get("name")) or ""


def _shown(value: Any) -> str:
    text = jsonrpc.text_of(value).decode(errors="replace")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
