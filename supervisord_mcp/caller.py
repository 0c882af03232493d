"""A host inside the daemon: lets the control socket list and call tools like any other host does."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec

from supervisord_mcp import __version__, facts
from supervisord_mcp.errors import FatalServerError, FramingError, NotRunningError, SmcpError
from supervisord_mcp.protocol import catalogue, jsonrpc, mcp
from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.calls import Call, SessionKey
from supervisord_mcp.protocol.commands import Weight
from supervisord_mcp.protocol.jsonrpc import Message, Text
from supervisord_mcp.protocol.profiles import Root
from supervisord_mcp.server import ManagedServer


class CallError(SmcpError):
    """The server answered a request with an error."""

    code = "call-failed"


class Caller:
    """A session whose host is this program. It takes every answer and has no use for notifications."""

    def __init__(self, key: SessionKey, instance: ManagedServer) -> None:
        self.key = key
        self.principal = facts.user(os.getuid())
        self._instance = instance
        self._next = 0
        self._answers: dict[bytes, Message | None] = {}
        self._arrived = anyio.Event()
        self._ended = ""

    async def request(self, method: str, params: Text | None = None) -> Text:
        """Send a request and return the text of its result. Raise `SmcpError` if it is answered with an error."""
        self._next += 1
        identity = b"%d" % self._next
        self._answers[identity] = None
        self._instance.from_session(self.key, [jsonrpc.request_line(self._next, method, params)[:-1]])
        while (answer := self._answers[identity]) is None:
            if self._ended:
                raise NotRunningError(self._ended)
            await self._arrived.wait()
        del self._answers[identity]
        result = answer.members.get("result")
        if result is None:
            raise _failure(answer)
        return result

    async def greet(self) -> None:
        """Make the handshake of a host."""
        params = {
            "protocolVersion": mcp.NEWEST_LEGACY,
            "capabilities": {},
            "clientInfo": {"name": "smcp", "version": __version__},
        }
        await self.request("initialize", msgspec.json.encode(params))
        self._instance.from_session(self.key, [jsonrpc.notification_line("notifications/initialized")[:-1]])

    async def list_all(self, method: str) -> list[bytes]:
        """Return every item of a list, all pages together."""
        items: list[bytes] = []
        params: bytes | None = None
        while True:
            result = jsonrpc.members_of(await self.request(method, params))
            items += catalogue.items_of(result.get(mcp.LISTINGS[method].key))
            cursor = result.get("nextCursor")
            if not jsonrpc.string_of(cursor) or cursor is None:
                return items
            params = jsonrpc.object_text({"cursor": cursor})

    # SessionLink

    def send(self, data: bytes, weight: Weight, closes: tuple[Call, ...]) -> None:
        """Take what the instance sends to its host."""
        try:
            message = jsonrpc.parse(data[:-1])
        except FramingError:
            return
        if message.is_response and message.id in self._answers:
            self._answers[message.id] = message
            self._wake()

    def _wake(self) -> None:
        self._arrived.set()
        self._arrived = anyio.Event()

    def opened(self, identity: bytes) -> None:
        """Nothing of this session survives the daemon."""

    def dropped(self, identity: bytes) -> None:
        """Nothing of this session survives the daemon."""

    def remember(self, state: State) -> None:
        """Nothing of this session survives the daemon."""

    def moved(self, roots: tuple[Root, ...]) -> None:
        """It never says that it works on any directories."""

    def pause(self) -> None:
        """One request at a time needs no brake."""

    def resume(self) -> None:
        """One request at a time needs no brake."""

    def finish(self, status: int, text: str = "") -> None:
        """The instance is gone for good."""
        self._ended = text or "the server is gone"
        self._wake()


def _failure(answer: Message) -> SmcpError:
    error: Any = jsonrpc.value_of(answer.members.get("error"))
    if not isinstance(error, dict):
        return CallError(f"the server answered with an error that is none: {error!r}")
    text = str(error.get("message", "unknown error"))
    data = error.get("data")
    reason = data.get("reason") if isinstance(data, dict) else None
    if reason == "server_fatal":
        return FatalServerError(text)
    if isinstance(reason, str) and reason.startswith("server_"):
        return NotRunningError(text)
    return CallError(f"{text} (error {error.get('code')})")


@asynccontextmanager
async def calling(
    instance: ManagedServer, key: SessionKey, on_gone: Callable[[], None] = lambda: None
) -> AsyncIterator[Caller]:
    """Attach a caller to an instance for the length of a block; it has not greeted yet."""
    caller = Caller(key, instance)
    instance.attach(caller)
    try:
        yield caller
    finally:
        instance.detach(key)
        on_gone()
