"""The messages of servers for who wants to see them: those that are kept where an entry asks for it, and live ones.

Where nobody taps and nothing is kept, the channel of the server is not watched, and nothing of this is done.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import msgspec

from supervisord_mcp.config.models import Config
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.following import Follower, follow
from supervisord_mcp.observer import Message, Observers
from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.tapping import Asked, Matcher, Tap, TapRecord
from supervisord_mcp.supervisor import Supervisor
from supervisord_mcp.traffic import name_shown

#: How many bytes of messages are kept of one server at most, whatever their number.
KEPT_BYTES = 16 << 20


class Ring:
    """The last messages of one server."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._bytes = 0
        self._kept: deque[tuple[float, float, Message]] = deque()

    def resize(self, size: int) -> None:
        """Keep another number of them from now on."""
        self.size = size
        self._trim()

    def take(self, message: Message) -> None:
        """Keep a message; the oldest ones make room."""
        self._kept.append((time.time(), time.monotonic(), message))
        self._bytes += len(message.line)
        self._trim()

    def records(self, tap: Tap, matcher: Matcher) -> Iterator[TapRecord]:
        """Yield what is kept, oldest first, for who asked for it."""
        for wall, now, message in tuple(self._kept):
            if (record := told(message, matcher, wall, now, tap)) is not None:
                yield record

    def _trim(self) -> None:
        while len(self._kept) > self.size or self._bytes > KEPT_BYTES:
            self._bytes -= len(self._kept.popleft()[2].line)


class TapDesk:
    """All taps, and the messages that are kept."""

    def __init__(self, supervisor: Supervisor, observers: Observers) -> None:
        self._supervisor = supervisor
        self._observers = observers
        self._rings: dict[str, tuple[Ring, Callable[[], None]]] = {}
        self.configure(supervisor.config)

    @property
    def rings(self) -> Mapping[str, Ring]:
        """What is kept, by server."""
        return {name: ring for name, (ring, _) in self._rings.items()}

    def configure(self, config: Config) -> None:
        """Take a new configuration."""
        wanted = {name: server.kept_messages for name, server in config.servers.items() if server.kept_messages}
        for name in self._rings.keys() - wanted.keys():
            self._rings.pop(name)[1]()
        for name, size in wanted.items():
            if name in self._rings:
                self._rings[name][0].resize(size)
            else:
                ring = Ring(size)
                watcher = f"kept messages of {name}"
                self._rings[name] = ring, self._observers.messages[name].add(ring.take, watcher)

    async def serve(self, tap: Tap, send: Callable[[TapRecord], None]) -> None:
        """Send what a person asked for, until they leave if they follow it.

        Raise `UnknownServerError` for a name that no server has, or has any more, and `SmcpError` where nothing is kept
        and nothing is followed, or where the tap was too slow and is taken out.
        """
        self._supervisor.server(tap.name)
        ring = self.rings.get(tap.name)
        if ring is None and not tap.follow:
            raise SmcpError(
                f"no messages of '{tap.name}' are kept",
                remedy=f"Follow them with -f, or keep the last ones: kept_messages = 200 below [servers.{tap.name}].",
            )
        matcher = Matcher()
        if ring is not None:
            for record in ring.records(tap, matcher):
                send(record)
        if not tap.follow:
            return
        for instance in self._supervisor.instances:
            if instance.key.server == tap.name:
                for call in instance.traffic.waiting:
                    asked = Asked(call.method, jsonrpc.string_of(call.tool) or "", call.began)
                    matcher.expect(str(instance.key), call.session, call.identity, asked)
        channel, tell = self._observers.messages[tap.name], partial(_tell, send, matcher, tap)
        follower = Follower(f"the tap of {tap.name}", "Look at less of it: --method, --host.", tap.name)
        await follow(self._observers, channel, tell, follower)


def told(message: Message, matcher: Matcher, wall: float, now: float, tap: Tap) -> TapRecord | None:
    """Return what is told of a message, None if it is not wanted. ``wall`` is since the epoch, ``now`` monotonic."""
    seen = matcher.look(message.instance, message.session, message.direction, message.line, now)
    record = TapRecord(
        time=wall,
        direction=message.direction,
        instance=message.instance,
        session=message.session,
        host=name_shown(seen.host) or message.host,
        kind=seen.kind,
        method=masker.mask(seen.method),
        tool=masker.mask(seen.tool),
        id=masker.mask(seen.id),
        size=message.size,
        seconds=seen.seconds,
    )
    if not tap.wants(record):
        return None
    cut = message.size > len(message.line) or (tap.most is not None and len(message.line) > tap.most)
    data = masker.mask_bytes(message.line[: tap.most], cut=cut)
    # A character that the cut went through is not told, what was none before is shown as such.
    line = data.decode(errors="ignore" if cut else "replace")
    return msgspec.structs.replace(record, line=line, cut=cut)


def _tell(send: Callable[[TapRecord], None], matcher: Matcher, tap: Tap, message: Message) -> None:
    if (record := told(message, matcher, time.time(), time.monotonic(), tap)) is not None:
        send(record)
