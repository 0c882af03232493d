"""What a tap shows: messages on their way, what each is, and of answers what they answer and how long it took.

A message is on one of two sides: between a host and smcp, or between smcp and the server. Ids differ between the two,
and so may the messages: lists are answered from what is known, and hosts of one era may use a server of the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import Raw

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.jsonrpc import Message

Direction = Literal["from-host", "to-host", "from-server", "to-server"]
Side = Literal["host", "server", "both"]
#: What a message is. A ``batch`` is an array of messages, ``noise`` is none at all.
Kind = Literal["request", "notification", "result", "error", "batch", "noise"]

#: The direction in which a message is answered.
BACK: Final[dict[Direction, Direction]] = {
    "from-host": "to-host",
    "to-host": "from-host",
    "to-server": "from-server",
    "from-server": "to-server",
}
_HOST_SIDE: Final = frozenset({"from-host", "to-host"})
#: So many requests without an answer are remembered; the oldest go first.
MOST_OPEN: Final = 4096

_parts = msgspec.json.Decoder(list[Raw])


class Tap(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a server: those that are kept, and with ``follow`` what comes. Stream of `TapRecord`.

    ``most`` is how many bytes of each are told, null for all. ``methods`` and ``hosts`` are patterns as for file names,
    of which one must fit; an answer has the method of its request. ``side`` is where they are seen.
    """

    name: str
    follow: bool = False
    most: int | None = None
    methods: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    side: Side = "host"

    def wants(self, record: TapRecord) -> bool:
        """Return whether a message is one of those that were asked for."""
        if self.side != "both" and (self.side == "host") is not (record.direction in _HOST_SIDE):
            return False
        if self.hosts and not _fits(record.host.lower(), [pattern.lower() for pattern in self.hosts]):
            return False
        return not self.methods or any(_fits(method, self.methods) for method in record.method.split(", "))


class TapRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One message. ``time`` is in seconds since the epoch, ``size`` counts the bytes of the whole message.

    ``session`` and ``host`` are 0 and empty on the side of the server. ``method`` and ``tool`` of an answer are those
    of its request, empty where that was not seen; ``seconds`` is how long the answer took. ``id`` is JSON text.
    ``line`` is the message, without values of secrets, and only its beginning where ``cut``.
    """

    time: float
    direction: Direction
    instance: str = ""
    session: int = 0
    host: str = ""
    kind: Kind = "noise"
    method: str = ""
    tool: str = ""
    id: str = ""
    size: int = 0
    seconds: float | None = None
    line: str = ""
    cut: bool = False


class Asked(NamedTuple):
    """A request that waits for its answer: since when, in seconds of the monotonic clock."""

    method: str
    tool: str
    since: float


class Seen(NamedTuple):
    """What a message is, and for an answer what it answers. ``host`` is how a host names itself in it."""

    kind: Kind
    method: str = ""
    tool: str = ""
    id: str = ""
    seconds: float | None = None
    host: str = ""


#: Whose request it is: the name of the instance, the session, the direction, and the id.
_Key = tuple[str, int, Direction, bytes]


class Matcher:
    """Finds the request of each answer among those that passed before."""

    def __init__(self) -> None:
        self._open: dict[_Key, Asked] = {}

    def expect(self, instance: str, session: int, identity: bytes, asked: Asked) -> None:
        """A host waits for an answer to what passed before anybody looked."""
        self._open[instance, session, "from-host", identity] = asked

    def look(self, instance: str, session: int, direction: Direction, line: bytes, now: float) -> Seen:
        """Return what a line is; ``now`` is in seconds of the monotonic clock."""
        try:
            message = jsonrpc.parse(line)
        except FramingError:
            return self._batch(instance, session, direction, line, now)
        return self._single((instance, session, direction), message, now)

    def _batch(self, instance: str, session: int, direction: Direction, line: bytes, now: float) -> Seen:
        try:
            parts = _parts.decode(line)
        except (msgspec.DecodeError, RecursionError):
            return Seen("noise")
        methods = []
        for part in parts:
            try:
                message = jsonrpc.parse(bytes(part))
            except FramingError:
                continue
            methods.append(self._single((instance, session, direction), message, now).method)
        return Seen("batch", ", ".join(method for method in methods if method))

    def _single(self, where: tuple[str, int, Direction], message: Message, now: float) -> Seen:
        instance, session, direction = where
        identity = message.id
        if message.method is not None:
            tool, host = _details(message)
            if identity is None:
                return Seen("notification", message.method)
            if len(self._open) >= MOST_OPEN:
                del self._open[next(iter(self._open))]
            self._open[instance, session, direction, identity] = Asked(message.method, tool, now)
            return Seen("request", message.method, tool, _text(identity), host=host)
        kind: Kind = "error" if "error" in message.members else "result"
        asked = self._open.pop((instance, session, BACK[direction], identity or b"null"), None)
        if asked is None:
            return Seen(kind, id=_text(identity or b"null"))
        return Seen(kind, asked.method, asked.tool, _text(identity or b"null"), now - asked.since)


def _details(message: Message) -> tuple[str, str]:
    """Return the name of the tool that a request calls, and the name of the host that introduces itself with it."""
    params = jsonrpc.members_of(message.members.get("params"))
    if message.method == "tools/call":
        return jsonrpc.string_of(params.get("name")) or "", ""
    if message.method == "initialize":
        return "", jsonrpc.string_of(jsonrpc.members_of(params.get("clientInfo")).get("name")) or ""
    return "", ""


def _fits(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def _text(identity: bytes) -> str:
    return identity.decode(errors="replace")
