"""Listens at a modern child: what is there in place of subscriptions and unasked notifications (protocol.md 3.7, 6.4).

A listen is a request that stays open. What the child sends for it bears its id; the first such message says what of
the wish is honoured. It ends by an answer or by a notification that it is cancelled, whichever comes first (0.1#1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from supervisord_mcp.protocol import jsonrpc, requests
from supervisord_mcp.protocol.commands import Command, Note
from supervisord_mcp.protocol.conversation import Conversation
from supervisord_mcp.protocol.eras import envelope
from supervisord_mcp.protocol.jsonrpc import Members, Message

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


@dataclass(slots=True)
class Listen:
    """What becomes of one listen.

    ``honoured`` takes the part of the wish that is granted, ``told`` what is sent for it after that (with its tag),
    ``ended`` is called once when the child ends it: with the error, or with None if that was orderly.
    """

    honoured: Callable[[Members], list[Command]]
    told: Callable[[Message], list[Command]]
    ended: Callable[[Members | None], list[Command]]
    acknowledged: bool = False


class Listens:
    """The open listens of one child, by the upstream ids of their requests."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self._open: dict[int, Listen] = {}

    def open(self, wanted: dict[str, Any], listen: Listen) -> tuple[int, list[Command]]:
        """Open a listen for a filter; return its upstream id, by which it can be closed, and what is to be done."""
        params = jsonrpc.text_of({"notifications": wanted})
        upstream = self._talk.last_id + 1
        self._open[upstream] = listen
        return upstream, self._talk.ask("subscriptions/listen", params, lambda answer: self._answered(upstream, answer))

    def close(self, upstream: int) -> list[Command]:
        """Nobody wants to hear of it any more; nothing of it is heard any more, though it may be on its way."""
        if self._open.pop(upstream, None) is None:
            return []
        return self._talk.cancel_upstream(upstream, {})

    def notified(self, message: Message) -> list[Command]:
        """The child sent a notification: pass it on by its tag. What bears none does not exist in this era."""
        meta = jsonrpc.members_of(message.params().get("_meta"))
        upstream = requests.number(bytes(meta.get(envelope.SUBSCRIPTION_ID, b"")))
        listen = None if upstream is None else self._open.get(upstream)
        if listen is None:
            return [Note("unrouted", f"{message.method} belongs to no listen and was dropped")]
        if message.method == ACKNOWLEDGED:
            if listen.acknowledged:
                return [Note("unrouted", "a listen was acknowledged again, which was dropped")]
            listen.acknowledged = True
            return listen.honoured(jsonrpc.members_of(message.params().get("notifications")))
        if not listen.acknowledged:
            return [Note("unrouted", f"{message.method} came before its listen was acknowledged and was dropped")]
        return listen.told(message)

    def cancelled(self, params: Members) -> list[Command]:
        """The child gives up a request, which can only be a listen."""
        upstream = requests.number(bytes(params.get("requestId", b"")))
        if upstream is None or upstream not in self._open:
            return [Note("late", "the end of a listen that is not open")]
        self._talk.pending.pop(upstream, None)
        return self._open.pop(upstream).ended(None)

    def _answered(self, upstream: int, answer: Message) -> list[Command]:
        listen = self._open.pop(upstream)
        error = answer.members.get("error")
        return listen.ended(None if error is None else jsonrpc.members_of(error))

    def child_lost(self) -> None:
        """The child is gone, and every listen with it."""
        self._open.clear()


def untagged(message: Message) -> bytes:
    """Given a tagged notification, return its line for a host that knows no listens."""
    params = message.params()
    meta = jsonrpc.members_of(params.pop("_meta", None))
    meta.pop(envelope.SUBSCRIPTION_ID, None)
    kept: dict[str, jsonrpc.Text] = {**params, **({"_meta": jsonrpc.object_text(meta)} if meta else {})}
    assert message.method is not None
    return jsonrpc.notification_line(message.method, jsonrpc.object_text(kept) if kept else None)
