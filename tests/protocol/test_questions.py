"""Questions of the daemon's own to a legacy host: the seam that the bridge to modern servers uses."""

from __future__ import annotations

from typing import Any

from supervisord_mcp.protocol.commands import Command, Note
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.jsonrpc import Message, text_of, value_of
from tests.kit.conversation import Host, Talk, call, cancelled, error, progress, request, result

FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}


class Asker:
    """Asks and keeps what it is answered: a result, an error, or None."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.answers: list[Any] = []

    def asks(self, host: Host, parent: int | None = None) -> Any:
        callbacks = self.talk.mux._talk.callbacks
        self.talk._apply(callbacks.ask(host.key, "elicitation/create", text_of(FORM), parent, self._take))
        return host.hears(request(..., "elicitation/create", FORM))

    def _take(self, answer: Message | None) -> list[Command]:
        members = {} if answer is None else answer.members
        self.answers.append(value_of(members.get("result", members.get("error"))))
        return [Note("taken", "an answer")]


def shared() -> tuple[Talk, Asker, Host, Host]:
    talk = Talk()
    talk.child_runs()
    return talk, Asker(talk), talk.host("a"), talk.host("b")


def test_the_asker_takes_the_answer_of_the_host_that_was_asked() -> None:
    talk, asker, a, b = shared()
    with talk:
        first, second = asker.asks(a), asker.asks(b)
        assert first["id"] == second["id"] == 1
        assert talk.mux.busy
        b.says(result(1, {"action": "decline"}))
        a.says({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}})
        assert asker.answers == [{"action": "decline"}, {"code": -1, "message": "no"}]
        a.says(result(1))
        assert talk.noted("host") == 1
        assert not talk.mux.busy


def test_an_answer_that_is_lost_is_an_error_for_the_asker() -> None:
    talk, asker, a, _ = shared()
    with talk:
        asked = asker.asks(a)
        a.says(Oversized(b'{"jsonrpc":"2.0","id":%d,"result":{"a":"' % asked["id"], b'"}}', 999))
        a.hears(error(None, -32600))
        assert asker.answers[0]["code"] == -32603


def test_a_question_ends_with_its_host() -> None:
    talk, asker, a, b = shared()
    with talk:
        asker.asks(a)
        asker.asks(b)
        a.leaves()
        assert asker.answers == [None]


def test_a_question_ends_with_its_call_and_the_host_is_told() -> None:
    talk, asker, a, _ = shared()
    with talk:
        a.says(call(1), call(2))
        one, two = talk.server.hears(call(...)), talk.server.hears(call(...))
        first, second = asker.asks(a, one["id"]), asker.asks(a, two["id"])
        a.says(cancelled(1))
        talk.server.hears(cancelled(one["id"]))
        a.hears(cancelled(first["id"]))
        a.says(result(first["id"]), result(second["id"]))
        assert asker.answers == [None, {}]
        a.says(cancelled(2))
        talk.server.hears(cancelled(two["id"]))


def test_a_call_that_is_no_request_at_the_child_is_ended_by_its_upstream_id() -> None:
    talk, asker, a, _ = shared()
    with talk:
        first = asker.asks(a, 4711)
        talk._apply(talk.mux._talk.callbacks.end(4711))
        a.hears(cancelled(first["id"]))
        assert asker.answers == [None]


def test_questions_end_with_the_child() -> None:
    talk, asker, a, _ = shared()
    with talk:
        first = asker.asks(a)
        talk.child_dies()
        a.hears(cancelled(first["id"]))
        assert asker.answers == [None]


def test_progress_on_a_question_of_the_daemon_goes_nowhere() -> None:
    talk, asker, a, _ = shared()
    with talk:
        a.says(progress(asker.asks(a)["id"], 1))
