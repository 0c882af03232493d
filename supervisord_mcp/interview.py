"""Asks a server what it is, in children of its own that end with the question (`smcp probe`).

They are started as the configuration says, in the same sandbox, one after the other, and belong to no instance: hosts
of the server notice nothing, and nothing is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from msgspec import Raw

from supervisord_mcp.conduit import Bounds, Conduit, Fittings
from supervisord_mcp.errors import FramingError
from supervisord_mcp.launch import Launch
from supervisord_mcp.logs import ServerLog
from supervisord_mcp.protocol import content, jsonrpc, mcp
from supervisord_mcp.protocol.catalogue import items_of
from supervisord_mcp.protocol.control import EMPTY_OBJECT
from supervisord_mcp.protocol.eras import envelope, probe
from supervisord_mcp.protocol.eras.envelope import Envelope
from supervisord_mcp.protocol.findings import NAMED_BY, Difference, Finding, differences
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.jsonrpc import Members, Message, Text
from supervisord_mcp.runtimes.base import Child
from supervisord_mcp.runtimes.footprint import memory

#: Everything that a host can be asked.
CAPABILITIES: dict[str, Any] = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
}
#: How long a server may take to answer one request, in seconds, once it is ready.
PATIENCE = 20.0
#: How long a server that could ask is listened to after its last answer, in seconds.
LISTENING = 1.0
MAX_PAGES = 100

_REPLIES = {
    "ping": b"{}",
    "roots/list": b'{"roots":[]}',
    "elicitation/create": b'{"action":"cancel"}',
}


@dataclass(frozen=True, slots=True)
class Terms:
    """What an interview needs: how a child is started, how long that may take in seconds, where its stderr goes."""

    launch: Launch
    log: ServerLog
    start_timeout: float
    bounds: Bounds


async def interview(terms: Terms) -> tuple[Finding, ...]:
    """Start the server in every way there is, and return what it is in each era.

    Raise `LaunchError` or `IsolationError` where it cannot be started at all.
    """
    modern = await _modern(terms)
    legacy = await _legacy(terms)
    return legacy, modern


async def _legacy(terms: Terms) -> Finding:
    try:
        plain = await _one_legacy(terms, {})
        full = await _one_legacy(terms, CAPABILITIES)
    except _SilentError as error:
        return Finding(era="legacy", trouble=str(error))
    return _compared(plain, full)


async def _modern(terms: Terms) -> Finding:
    try:
        plain = await _one_modern(terms, {})
        full = await _one_modern(terms, {key: {} for key in CAPABILITIES})
    except _SilentError as error:
        return Finding(era="modern", trouble=str(error))
    return _compared(plain, full)


def _compared(plain: Finding, full: Finding) -> Finding:
    difference: Mapping[str, Difference] = differences(plain.lists, full.lists)
    return Finding(
        era=plain.era,
        spoken=True,
        versions=plain.versions,
        server=plain.server,
        capabilities=plain.capabilities,
        start=plain.start,
        memory=plain.memory,
        lists=plain.lists,
        difference=dict(difference),
        asks=full.asks,
    )


async def _one_legacy(terms: Terms, capabilities: dict[str, Any]) -> Finding:
    """Make a handshake with a fresh child and ask for its lists."""
    async with _talking(terms) as talk:
        params = {"protocolVersion": mcp.NEWEST_LEGACY, "capabilities": capabilities, "clientInfo": mcp.DAEMON}
        answer = await talk.ask("initialize", jsonrpc.text_of(params), terms.start_timeout)
        if "result" not in answer.members:
            raise _SilentError(f"answered initialize with an error: {probe.error_text(answer)}")
        took = talk.age
        said = jsonrpc.members_of(answer.members["result"])
        version = jsonrpc.value_of(said.get("protocolVersion"))
        if version not in mcp.LEGACY_VERSIONS:
            raise _SilentError(f"speaks protocol version {version!r}, which smcp does not know")
        talk.tell("notifications/initialized")
        lists = await talk.lists(said, None)
        if capabilities:
            await anyio.sleep(LISTENING)
        return Finding(
            era="legacy",
            versions=(version,),
            server=_object(said.get("serverInfo")),
            capabilities=_object(said.get("capabilities")),
            start=took,
            memory=await asyncio.to_thread(memory, talk.child.pid),
            lists=lists,
            asks=tuple(talk.asked),
        )


async def _one_modern(terms: Terms, capabilities: dict[str, Any]) -> Finding:
    """Probe a fresh child and ask for its lists, with these capabilities in every request."""
    async with _talking(terms) as talk:
        version = mcp.NEWEST_MODERN
        said = Envelope(version, capabilities, mcp.DAEMON)
        answer = await talk.ask("server/discover", envelope.write(None, said), min(probe.PATIENCE, terms.start_timeout))
        took = talk.age
        found = probe.outcome(answer)
        if isinstance(found, probe.Again):
            said = Envelope(found.version, capabilities, mcp.DAEMON)
            answer = await talk.ask("server/discover", envelope.write(None, said), PATIENCE)
            found = probe.outcome(answer)
        if isinstance(found, probe.Legacy):
            raise _SilentError(found.reason)
        if not isinstance(found, probe.Modern):
            versions = ", ".join(found.versions) if isinstance(found, probe.Foreign) else found.version
            raise _SilentError(f"serves no revision that smcp knows, but {versions}")
        said = Envelope(found.version, capabilities, mcp.DAEMON)
        lists = await talk.lists(found.result, said)
        meta = jsonrpc.members_of(found.result.get("_meta"))
        return Finding(
            era="modern",
            versions=tuple(map(str, jsonrpc.value_of(found.result.get("supportedVersions")) or ())),
            server=_object(meta.get(envelope.SERVER_INFO)),
            capabilities=_object(found.result.get("capabilities")),
            start=took,
            memory=await asyncio.to_thread(memory, talk.child.pid),
            lists=lists,
        )


def _object(said: Text | None) -> Raw:
    """Return a member that is to be an object; an empty one in place of what a server wrote instead."""
    return Raw(said) if said is not None and content.is_object(Raw(said)) else EMPTY_OBJECT


class _SilentError(Exception):
    """The child does not speak like this: it said something else, nothing in time, or ended."""


class _Talk:
    """The conversation with one child."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.conduit: Conduit | None = None
        #: The methods that it asked for, in their order.
        self.asked: dict[str, None] = {}
        self._answers: dict[bytes, Message] = {}
        self._last = 0
        self._news = anyio.Event()
        self._over = ""
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()

    @property
    def age(self) -> float:
        """How long ago it was started, in seconds."""
        return self._loop.time() - self._began

    async def ask(self, method: str, params: Text | None, patience: float) -> Message:
        """Send a request and return its answer. Raise `_SilentError` if none comes in time."""
        self._last += 1
        identity = b"%d" % self._last
        self._write(jsonrpc.request_line(self._last, method, params))
        with anyio.move_on_after(patience):
            while identity not in self._answers:
                if self._over:
                    raise _SilentError(f"{self._over} instead of answering {method}")
                await self._news.wait()
            return self._answers.pop(identity)
        raise _SilentError(f"did not answer {method} within {patience:g} s")

    def tell(self, method: str) -> None:
        """Send a notification."""
        self._write(jsonrpc.notification_line(method))

    async def lists(self, said: Members, how: Envelope | None) -> dict[str, tuple[str, ...]]:
        """Ask for all pages of all lists that it offers, in an envelope of the modern era or without."""
        declared = jsonrpc.members_of(said.get("capabilities"))
        wanted = [listing for listing in mcp.LISTINGS.values() if listing.capability in declared]
        return {listing.key: await self._list(listing, how) for listing in wanted}

    async def _list(self, listing: mcp.Listing, how: Envelope | None) -> tuple[str, ...]:
        names: list[str] = []
        cursor: Text | None = None
        for _ in range(MAX_PAGES):
            params = None if cursor is None else jsonrpc.object_text({"cursor": cursor})
            answer = await self.ask(listing.method, params if how is None else envelope.write(params, how), PATIENCE)
            result = jsonrpc.members_of(answer.members.get("result"))
            items = map(jsonrpc.members_of, items_of(result.get(listing.key)))
            names += [jsonrpc.string_of(item.get(NAMED_BY[listing.key])) or "?" for item in items]
            cursor = result.get("nextCursor")
            if jsonrpc.string_of(cursor) is None:
                break
        return tuple(names)

    def hear(self, line: bytes | Oversized) -> None:
        """The child said something."""
        if isinstance(line, Oversized):
            return
        try:
            message = jsonrpc.parse(line)
        except FramingError:
            return
        if message.method is None and message.id is not None:
            self._answers[message.id] = message
            self.wake()
        elif message.method is not None and message.id is not None:
            self._reply(message.method, message.id)

    def _reply(self, method: str, identity: bytes) -> None:
        if method != "ping":
            self.asked[method] = None
        result = _REPLIES.get(method)
        if result is not None:
            self._write(jsonrpc.result_line(identity, result))
        else:
            self._write(jsonrpc.error_line(identity, -1, "nobody is there to answer: this is only a probe"))

    def end(self, text: str) -> None:
        """Nothing more will come."""
        self._over = text
        self.wake()

    def wake(self) -> None:
        """Look again at what has come."""
        self._news.set()
        self._news = anyio.Event()

    def _write(self, line: bytes) -> None:
        if self.conduit is not None:
            self.conduit.write(line)


@asynccontextmanager
async def _talking(terms: Terms) -> AsyncIterator[_Talk]:
    """Start a child to talk to, and end it with its whole tree, whatever happens."""
    child = await terms.launch.start(lambda: None, lambda text: terms.log.write("smcp", text))
    talk = _Talk(child)
    fittings = Fittings(talk.hear, lambda: None)
    conduit = Conduit(child, terms.log, fittings, terms.bounds)
    talk.conduit = conduit

    async def watch() -> None:
        talk.end(f"ended ({await child.wait()})")

    watcher = asyncio.get_running_loop().create_task(watch())
    try:
        yield talk
    finally:
        watcher.cancel()
        with anyio.CancelScope(shield=True):
            conduit.close_stdin()
            with anyio.move_on_after(terms.bounds.grace):
                await child.wait()
            child.kill()
            await child.wait()
            await conduit.aclose()
