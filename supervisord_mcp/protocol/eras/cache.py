"""Results of a modern child that may be given again for a while (protocol.md 3.11).

A result is fresh for its ``ttlMs`` from when it was received. Who asks is part of the key, whatever ``cacheScope`` is:
hosts of a daemon mostly are one person, for whom both scopes mean the same, and of others none gets what is private.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from supervisord_mcp.protocol import jsonrpc, mcp, requests
from supervisord_mcp.protocol.alarms import Alarms
from supervisord_mcp.protocol.commands import Alarm, Command
from supervisord_mcp.protocol.jsonrpc import Members, Text

#: The longest time that a result is believed, in seconds, whatever the server says.
LONGEST = 24 * 3600.0
_READ = "resources/read"


@dataclass(frozen=True, slots=True)
class Question:
    """What a result is an answer to: method, cursor or URI as raw text, and the client (`client_of`)."""

    method: str
    about: bytes
    client: bytes


_Which = Callable[[Question], bool]


def client_of(principal: str, capabilities: dict[str, Any]) -> bytes:
    """Return what a result may depend on of its client: who it is, and what a request says that it can do."""
    return jsonrpc.text_of([principal, capabilities])


def question_of(method: str, params: Members, client: bytes) -> Question | None:
    """Given a request, return the question that it is; None if its answer is never given again.

    A retry with what a person was asked for is never one (3.6), and neither is anything but lists and reads.
    """
    if method in mcp.LISTINGS:
        return Question(method, requests.cursor(params) or b"", client)
    if method == _READ and "inputResponses" not in params and "requestState" not in params:
        return Question(method, bytes(params.get("uri", b"")), client)
    return None


@dataclass(slots=True)
class _Kept:
    result: bytes
    alarm: Alarm


@dataclass(frozen=True, slots=True)
class Ticket:
    """A question on its way: its answer is kept only if nothing was invalidated meanwhile (pitfall 36)."""

    question: Question
    epoch: int


@dataclass(slots=True)
class Cache:
    """What one child said, as long as it is fresh."""

    alarms: Alarms
    _kept: dict[Question, _Kept] = field(default_factory=dict)
    _epoch: int = 0

    def find(self, question: Question) -> bytes | None:
        """Return the fresh answer to a question, or None."""
        kept = self._kept.get(question)
        return None if kept is None else kept.result

    def asked(self, question: Question) -> Ticket:
        """A question is sent to the server. One for the first page of a list is one for all of them (pitfall 38)."""
        if question.method in mcp.LISTINGS and not question.about:
            self._drop(lambda one: one.method == question.method and one.client == question.client)
        return Ticket(question, self._epoch)

    def answered(self, ticket: Ticket, result: Text) -> list[Command]:
        """Keep an answer for as long as it says; an absent or negative time is none (pitfall 36)."""
        lifetime = jsonrpc.value_of(jsonrpc.members_of(result).get("ttlMs"))
        if ticket.epoch != self._epoch or not isinstance(lifetime, int | float) or lifetime <= 0:
            return []
        question = ticket.question
        self._forget(question)
        alarm = self.alarms.after(min(lifetime / 1000, LONGEST), lambda: self._expire(question))
        self._kept[question] = _Kept(bytes(result), alarm)
        return [alarm]

    def failed(self, question: Question) -> None:
        """A question was answered with an error: a cursor that fails makes all pages of its list worthless (3.11)."""
        if question.method in mcp.LISTINGS and question.about:
            self._drop(lambda one: one.method == question.method)

    def changed(self, kind: str) -> None:
        """A list changed: what is known of it is dropped even if it is fresh."""
        self._epoch += 1
        self._drop(lambda one: one.method in mcp.LISTINGS and mcp.LISTINGS[one.method].capability == kind)

    def updated(self, uri: str) -> None:
        """A resource changed, or a part of it."""
        self._epoch += 1
        self._drop(lambda one: one.method == _READ and _concerns(one.about, uri))

    def clear(self) -> None:
        """The child is gone."""
        self._epoch += 1
        self._drop(lambda _: True)

    def _drop(self, which: _Which) -> None:
        for question in [question for question in self._kept if which(question)]:
            self._forget(question)

    def _forget(self, question: Question) -> None:
        kept = self._kept.pop(question, None)
        if kept is not None:
            self.alarms.forget(kept.alarm)

    def _expire(self, question: Question) -> list[Command]:
        self._kept.pop(question, None)
        return []


def _concerns(about: bytes, uri: str) -> bool:
    """Whether a change of a resource concerns another: an update may name a part of what was read (pitfall 24)."""
    read = jsonrpc.string_of(about)
    return read is None or uri.startswith(read) or read.startswith(uri)
