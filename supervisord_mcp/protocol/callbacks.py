"""Requests of a server to its host (sampling, elicitation, roots) and the way back (protocol.md 6.2, 6.3).

Only a child with one host (scope ``session``) has them relayed: there the host is certain. For shared children the
daemon declared no client capabilities (D6), so every callback is refused at once with the code a client without the
capability uses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Raw

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.commands import Command, Note, Remember, SessionKey, ToServer, ToSession
from supervisord_mcp.protocol.jsonrpc import Members, Message

#: The client capability that a server request needs.
_NEEDS = {
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
}
#: How many messages of the child wait for the end of the host's handshake.
_MAX_EARLY = 256


@dataclass(frozen=True, slots=True)
class Callback:
    """A server's request that a host has not answered: the server's id and progress token, as raw text."""

    identity: bytes
    method: str
    token: bytes | None = None

    def refused(self) -> ToServer:
        """Tell the server that its request will not be answered by a person (protocol.md 6.3).

        An elicitation is answered as cancelled: that is a result every server handles, where errors end some of them.
        """
        match self.method:
            case "elicitation/create":
                return ToServer(jsonrpc.result_line(self.identity, b'{"action":"cancel"}'))
            case "sampling/createMessage":
                return ToServer(jsonrpc.error_line(self.identity, -1, "the host is gone"))
            case _:
                return ToServer(jsonrpc.error_line(self.identity, jsonrpc.INTERNAL_ERROR, "the host is gone"))


class Callbacks:
    """The open callbacks of one child, by the id that the host sees, and whether they are relayed at all."""

    def __init__(self, sessions: Mapping[SessionKey, Attachment], *, relay: bool) -> None:
        self._sessions = sessions
        self.relay = relay
        self._open: dict[int, Callback] = {}
        # What the child said before the host had finished its handshake: a host must not get it sooner.
        self._early: deque[Message] = deque()

    def __bool__(self) -> bool:
        return bool(self._open or self._early)

    @property
    def _host(self) -> Attachment | None:
        return next(iter(self._sessions.values()), None) if self.relay else None

    # From the child

    def from_child(self, message: Message) -> list[Command]:
        """The child asks its host something, or notifies it of something that only the host understands."""
        host = self._host
        if host is not None and not host.done:
            return self._hold(message)
        if message.id is not None:
            return self._ask(host, message, message.id)
        if host is None:
            return [Note("unrouted", f"{message.method} names no host and was dropped")]
        return [ToSession(host.key, jsonrpc.encode(message.members))]

    def cancelled(self, params: Members) -> list[Command]:
        """The child gave up one of its requests."""
        identity = bytes(params.get("requestId", b""))
        for message in self._early:
            if message.id == identity:
                self._early.remove(message)
                return []
        for ours, callback in self._open.items():
            if callback.identity == identity:
                del self._open[ours]
                return self._cancel_at_host(ours, params)
        return []

    def _hold(self, message: Message) -> list[Command]:
        if len(self._early) < _MAX_EARLY:
            self._early.append(message)
            return []
        if message.id is not None:
            return [Callback(message.id, message.method or "").refused()]
        return [Note("early", f"{message.method} came before the host was ready and was dropped")]

    def _ask(self, host: Attachment | None, message: Message, identity: bytes) -> list[Command]:
        assert message.method is not None
        params = message.params()
        needed = _NEEDS.get(message.method)
        if host is None or (needed is not None and needed not in host.capabilities):
            text = f"Method not found: {message.method} (no client of this server offers it)"
            note = Note("callback", f"{message.method} was refused: no host can be asked")
            return [note, ToServer(jsonrpc.error_line(identity, jsonrpc.METHOD_NOT_FOUND, text))]
        mode = jsonrpc.string_of(params.get("mode")) if needed == "elicitation" else None
        if mode == "url" and not _takes_urls(host):
            text = "the client does not support elicitation in mode url"
            return [ToServer(jsonrpc.error_line(identity, jsonrpc.INVALID_PARAMS, text))]
        if mode == "form" and host.version < "2025-11-25":
            del params["mode"]  # a host of that revision knows no modes (pitfall 42)
            message.members["params"] = Raw(jsonrpc.object_text(params))
        host.asked += 1
        ours = Raw(b"%d" % host.asked)
        meta = jsonrpc.members_of(params.get("_meta"))
        token = meta.get("progressToken")
        if token is not None:
            changed = jsonrpc.object_text({**meta, "progressToken": ours})
            message.members["params"] = Raw(jsonrpc.object_text({**params, "_meta": changed}))
        message.members["id"] = ours
        self._open[host.asked] = Callback(identity, message.method, None if token is None else bytes(token))
        # The id is remembered: the next daemon must not give it to another question (D11).
        return [Remember(host.key), ToSession(host.key, jsonrpc.encode(message.members))]

    # From the host

    def host_ready(self) -> list[Command]:
        """The host finished its handshake: it gets what waited for that."""
        early = list(self._early)
        self._early.clear()
        return [command for message in early for command in self.from_child(message)]

    def answered(self, message: Message) -> list[Command]:
        """The host answered something."""
        callback = self._open.pop(_number(message.id), None)
        if callback is None:
            return [Note("host", "a host answered a request that nobody asked")]
        message.members["id"] = Raw(callback.identity)
        return [ToServer(jsonrpc.encode(message.members))]

    def answer_lost(self, identity: bytes | None, text: str) -> list[Command]:
        """The host's answer cannot be passed on; return nothing if it was none."""
        callback = self._open.pop(_number(identity), None)
        if callback is None:
            return []
        return [ToServer(jsonrpc.error_line(callback.identity, jsonrpc.INTERNAL_ERROR, text))]

    def progress(self, message: Message) -> list[Command]:
        """The host reports on a callback; the token it was given is the id."""
        params = message.params()
        callback = self._open.get(_number(params.get("progressToken")))
        if callback is None or callback.token is None:
            return []
        params["progressToken"] = Raw(callback.token)
        message.members["params"] = Raw(jsonrpc.object_text(params))
        return [ToServer(jsonrpc.encode(message.members))]

    # Giving up

    def abandon(self) -> list[Command]:
        """Answer every open callback for the host, and tell the host that it need not answer any more."""
        commands: list[Command] = [
            Callback(message.id, message.method or "").refused() for message in self._early if message.id is not None
        ]
        for ours, callback in self._open.items():
            commands += [callback.refused(), *self._cancel_at_host(ours, {})]
        self._early.clear()
        self._open.clear()
        return commands

    def _cancel_at_host(self, ours: int, params: Members) -> list[Command]:
        text = jsonrpc.object_text({**params, "requestId": b"%d" % ours})
        line = jsonrpc.notification_line("notifications/cancelled", text)
        return [ToSession(self._host.key, line)] if self._host is not None else []


def _takes_urls(host: Attachment) -> bool:
    """Whether a host's elicitation has the mode url; an empty capability means forms only (pitfall 42)."""
    modes: Any = host.capabilities["elicitation"]
    return isinstance(modes, dict) and "url" in modes


def _number(text: bytes | Raw | None) -> int:
    try:
        return int(bytes(text or b""))
    except ValueError:
        return 0
