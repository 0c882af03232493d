"""Requests of a server to its host (sampling, elicitation, roots) and the way back (protocol.md 6.2, 6.3).

Only a child with one host (scope ``session``) has them relayed: there the host is certain. For shared children the
daemon declared no client capabilities (D6), so every callback is refused at once with the code a client without the
capability uses.
"""

from __future__ import annotations

from dataclasses import dataclass

from supervisord_mcp.protocol import jsonrpc

#: The client capability that a server request needs.
NEEDS = {
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
}


@dataclass(frozen=True, slots=True)
class Callback:
    """A server's request that a host has not answered: the server's id and progress token, as raw text."""

    identity: bytes
    method: str
    token: bytes | None


class Callbacks:
    """The open callbacks of one child, by the id that the host sees."""

    def __init__(self) -> None:
        self._open: dict[int, Callback] = {}
        self._next = 0

    def __bool__(self) -> bool:
        return bool(self._open)

    def open(self, callback: Callback) -> int:
        """Note a callback; return the id for the host, fresh for the life of the child's session."""
        self._next += 1
        self._open[self._next] = callback
        return self._next

    def answered(self, identity: bytes) -> Callback | None:
        """Given the id of a host's answer, return the callback it answers, or None if nobody waits for it."""
        return self._open.pop(_number(identity), None)

    def by_token(self, token: bytes) -> Callback | None:
        """Given a progress token a host reports on, return its callback: the token is the id we gave."""
        return self._open.get(_number(token))

    def cancelled(self, identity: bytes) -> int | None:
        """The server gave up one of its requests; return the host's id for it."""
        for ours, callback in self._open.items():
            if callback.identity == identity:
                del self._open[ours]
                return ours
        return None

    def abandon(self) -> list[tuple[int, Callback]]:
        """Give up all open callbacks; return them."""
        abandoned = list(self._open.items())
        self._open.clear()
        return abandoned


def _number(text: bytes) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


def refusal(callback: Callback) -> bytes:
    """Return the line that tells the server its request will not be answered by a person (protocol.md 6.3).

    An elicitation is answered as cancelled: that is a result every server handles, where errors end some of them.
    """
    match callback.method:
        case "elicitation/create":
            return jsonrpc.result_line(callback.identity, b'{"action":"cancel"}')
        case "sampling/createMessage":
            return jsonrpc.error_line(callback.identity, -1, "the host is gone")
        case _:
            return jsonrpc.error_line(callback.identity, jsonrpc.INTERNAL_ERROR, "the host is gone")
