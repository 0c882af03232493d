"""Whose a request of a child is; the conversations are in `test_callbacks`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.protocol.alarms import Alarms
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.attribution import Addressee, Attribution
from supervisord_mcp.protocol.callbacks import Shared
from supervisord_mcp.protocol.pending import Pending
from supervisord_mcp.protocol.profiles import Profile
from supervisord_mcp.protocol.tasks import Tasks
from tests.kit.conversation import Host, Talk, call, cancelled, request, result

Draw = Callable[[st.SearchStrategy[Any]], Any]


def calls(*pending: tuple[int, int | None, str]) -> dict[int, Pending]:
    return {at: Pending(session, b"1", method) for at, session, method in pending}


def ladder(sessions: int, pending: dict[int, Pending], *, exclusive: bool = False) -> Attribution:
    attached = {key: Attachment(key) for key in range(1, sessions + 1)}
    return Attribution(attached, pending, Tasks(Alarms()), exclusive=exclusive)


def test_the_child_of_one_host_asks_that_host() -> None:
    flight = calls((5, 1, "tools/call"), (6, 1, "tools/list"), (7, None, "tools/call"))
    assert ladder(1, flight, exclusive=True).find({}) == Addressee(1, (5,))
    assert ladder(1, {}, exclusive=True).find({}) == Addressee(1)
    assert ladder(0, {}, exclusive=True).find({}) is None


def test_one_host_with_calls_in_flight_is_asked() -> None:
    flight = calls((5, 2, "tools/call"), (6, 2, "prompts/get"), (7, 1, "tools/list"))
    assert ladder(2, flight).find({}) == Addressee(2, (5, 6))


def test_calls_of_two_hosts_prove_nothing() -> None:
    assert ladder(2, calls((5, 2, "tools/call"), (6, 1, "resources/read"))).find({}) is None


def test_with_nothing_in_flight_the_only_host_is_asked() -> None:
    assert ladder(1, {}).find({}) == Addressee(1)
    assert ladder(2, {}).find({}) is None
    assert ladder(0, {}).find({}) is None


def test_a_host_that_is_gone_is_not_asked() -> None:
    assert ladder(1, calls((5, 9, "tools/call"))).find({}) is None


class Court:
    """Three hosts that call and give up, and a child that asks for any call it still works on, given up or not."""

    def __init__(self, *, serialized: bool) -> None:
        self.talk = Talk(relay=Shared(Profile(("elicitation.form",)), serialized))
        self.talk.child_runs()
        self.hosts = [self.talk.host(name, capabilities={"elicitation": {}}) for name in "abc"]
        self.open: list[tuple[Host, int]] = []
        self.works: dict[int, dict[str, Any]] = {}
        self.unanswered: set[str] = set()
        self.asked: list[tuple[Host, int]] = []
        self.count = 0

    def call(self, draw: Draw) -> None:
        """A host calls a tool."""
        self.count += 1
        host = draw(st.sampled_from(self.hosts))
        self.open.append((host, self.count))
        host.says(call(self.count, of=host.name))

    def give_up(self, draw: Draw) -> None:
        """A host gives up a call; the child goes on with it."""
        host, identity = self.open.pop(draw(st.integers(0, len(self.open) - 1)))
        host.says(cancelled(identity))

    def answer(self, draw: Draw) -> None:
        """The child answers a call."""
        asked = self.works.pop(draw(st.sampled_from(sorted(self.works))))
        self.talk.server.answers(asked)

    def ask(self, draw: Draw) -> None:
        """The child asks for a call, with the trace of it or without."""
        self.count += 1
        params = self.works[draw(st.sampled_from(sorted(self.works)))]["params"]
        meta = {"traceparent": params["_meta"]["traceparent"]} if draw(st.booleans()) else {}
        self.unanswered.add(f"q{self.count}")
        question = {"message": "?", "of": params["arguments"]["of"], "_meta": meta}
        self.talk.server.says(request(f"q{self.count}", "elicitation/create", question))

    def reply(self, draw: Draw) -> None:
        """A host answers what it was asked."""
        host, identity = self.asked.pop(draw(st.integers(0, len(self.asked) - 1)))
        host.says(result(identity, {"action": "decline"}))

    def moves(self) -> list[Callable[[Draw], None]]:
        """Return what can happen next."""
        moves: list[Callable[[Draw], None]] = [self.call]
        moves += [self.give_up] if self.open else []
        moves += [self.answer, self.ask, self.ask] if self.works else []
        moves += [self.reply] if self.asked else []
        return moves

    def listen(self) -> None:
        """Take what everybody is told, and judge it."""
        while self.talk.server.inbox:
            message = json.loads(self.talk.server.inbox.popleft())
            if message.get("method") == "tools/call":
                self.works[message["id"]] = message
            elif "method" not in message:
                self.unanswered.remove(message["id"])
        for host in self.hosts:
            while host.inbox:
                message = json.loads(host.inbox.popleft())
                if message.get("method") == "elicitation/create":
                    assert message["params"]["of"] == host.name, "a question for another host"
                    self.asked.append((host, message["id"]))
                elif "method" in message:
                    self.asked.remove((host, message["params"]["requestId"]))
                else:
                    self.open.remove((host, message["id"]))


@given(st.data(), st.booleans())
def test_no_question_ever_reaches_another_host_and_every_one_is_answered(data: st.DataObject, serialized: bool) -> None:
    court = Court(serialized=serialized)
    for _ in range(data.draw(st.integers(0, 25))):
        data.draw(st.sampled_from(court.moves()))(data.draw)
        court.listen()
    while court.works or court.asked:
        for asked in list(court.works.values()):
            del court.works[asked["id"]]
            court.talk.server.answers(asked)
        for host, identity in court.asked:
            host.says(result(identity, {"action": "accept"}))
        court.asked.clear()
        court.listen()
    assert not court.unanswered
    assert not court.open
    assert not court.talk.mux.busy
