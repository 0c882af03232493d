"""Listens by themselves: tags of any spelling, what comes too early or too late, and what a tag is taken off."""

from __future__ import annotations

import json
from typing import Any

import pytest

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.commands import Command, Note, ToServer
from supervisord_mcp.protocol.eras.listens import Listen, Listens, untagged
from tests.kit.conversation import Talk, cancelled, complete, notification, result
from tests.protocol.eras.talking import PINNED, TAG, acknowledged, tagged


def parsed(message: Any) -> jsonrpc.Message:
    """Return a message as it is read."""
    return jsonrpc.parse(json.dumps(message).encode())


class Ear:
    """Keeps what it hears of a listen."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.listen = Listen(
            honoured=lambda members: self._keep("honoured", sorted(members)),
            told=lambda message: self._keep("told", message.method),
            ended=lambda error: self._keep("ended", error is not None),
        )

    def _keep(self, what: str, about: Any) -> list[Command]:
        self.heard.append((what, about))
        return []


@pytest.fixture
def talk() -> Talk:
    talk = Talk(terms=PINNED)
    talk.modern_child_runs()
    return talk


def test_what_is_told_by_its_tag(talk: Talk) -> None:
    listens, ear, other = Listens(talk.mux._talk), Ear(), Ear()
    first, sent = listens.open({"toolsListChanged": True}, ear.listen)
    assert isinstance(sent[0], ToServer)
    second, _ = listens.open({}, other.listen)
    assert first != second
    for tag in (first, str(first)):
        listens.notified(parsed(tagged("x", tag)))
        listens.notified(parsed(acknowledged(tag, toolsListChanged=True)))
    listens.notified(parsed(tagged("x", first)))
    for stranger in (tagged("x", 99), tagged("x", "q"), notification("x"), notification("x", {"_meta": {TAG: None}})):
        assert isinstance(listens.notified(parsed(stranger))[0], Note)
    honoured, told = ("honoured", ["toolsListChanged"]), ("told", "x")
    assert ear.heard == [honoured, told, told]  # acknowledged once, by whichever tag
    assert other.heard == []


@pytest.mark.parametrize("error", [True, False])
def test_the_first_end_is_the_end(talk: Talk, error: bool) -> None:
    listens, ear = Listens(talk.mux._talk), Ear()
    upstream, _ = listens.open({}, ear.listen)
    end = (
        {"jsonrpc": "2.0", "id": upstream, "error": {"code": 1, "message": "x"}}
        if error
        else result(upstream, complete())
    )
    talk.server.says(end)
    assert ear.heard == [("ended", error)]
    listens.cancelled(parsed(cancelled(upstream)).params())
    talk.server.says(end)
    assert ear.heard == [("ended", error)]
    upstream, _ = listens.open({}, ear.listen)
    listens.cancelled(parsed(cancelled(upstream)).params())
    talk.server.says(result(upstream, complete()))
    assert ear.heard == [("ended", error), ("ended", False)]
    assert talk.noted("late") == 2


def test_what_was_closed_is_not_heard_of_any_more(talk: Talk) -> None:
    listens, ear = Listens(talk.mux._talk), Ear()
    upstream, _ = listens.open({}, ear.listen)
    assert len(listens.close(upstream)) == 1
    assert listens.close(upstream) == []
    listens.notified(parsed(acknowledged(upstream)))
    talk.server.says(result(upstream, complete()))
    assert ear.heard == []


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"_meta": {TAG: 1}}, ...),
        ({"uri": "u:1", "_meta": {TAG: 1}}, {"uri": "u:1"}),
        ({"uri": "u:1", "_meta": {TAG: 1, "vendor/x": 1}}, {"uri": "u:1", "_meta": {"vendor/x": 1}}),
    ],
)
def test_a_tag_is_taken_off(told: Any, expected: Any) -> None:
    line = json.loads(untagged(parsed(notification("n", told))))
    assert line == (notification("n") if expected is ... else notification("n", expected))
