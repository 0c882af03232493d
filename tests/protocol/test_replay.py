"""What is said again, in which order and words, and how answers compare."""

from __future__ import annotations

import json
from typing import Any

import pytest

from supervisord_mcp.protocol.replay import (
    DEEPEST,
    LONGEST,
    MOST_DIFFERENCES,
    MOST_SESSIONS,
    Difference,
    Line,
    Replay,
    Replayed,
    Script,
    differences,
)


def said(session: int, time: float, **message: Any) -> Line:
    return Line(time=time, session=session, direction="from-host", line=json.dumps(message))


def told(session: int, time: float, **message: Any) -> Line:
    return Line(time=time, session=session, direction="to-host", line=json.dumps(message))


INIT = said(1, 0.0, id=0, method="initialize", params={})
GREETED = told(1, 0.1, id=0, result={"ok": 1})
READY = said(1, 0.2, method="notifications/initialized")
OPENING = (INIT, GREETED, READY)


def call(number: int, time: float, session: int = 1, **params: Any) -> Line:
    return said(session, time, id=number, method="tools/call", params={"name": "t", **params})


class Played:
    """A script, and what was said of it by now."""

    def __init__(self, *lines: Line) -> None:
        self.script = Script(lines)
        self.now = 100.0

    def turns(self) -> list[tuple[int, Any]]:
        found = []
        while (turn := self.script.next(self.now)) is not None:
            found.append((turn[0], json.loads(turn[1])))
        return found

    def hear(self, session: int = 1, **message: Any) -> None:
        self.now += 1.0
        self.script.heard(session, json.dumps(message).encode(), self.now)

    def opened(self) -> None:
        """Make the handshake."""
        self.turns()
        self.hear(id=0, result={"ok": 1})

    def results(self, *, final: bool = False) -> list[tuple[str, str]]:
        return [(one.id, one.verdict) for one in self.script.results(final=final)]


def test_nothing_is_said_before_what_had_come_by_then() -> None:
    play = Played(*OPENING, call(1, 1.0), call(2, 1.1), told(1, 2.0, id=2, result={}), call(3, 2.1))
    assert play.script.sessions == (1,)
    assert [line["id"] for _, line in play.turns()] == [0]
    assert play.turns() == []
    play.hear(id=0, result={"ok": 1})
    assert [line.get("id") for _, line in play.turns()] == [None, 1, 2], "what went on at the same time does so again"
    assert not play.script.is_over()
    play.hear(id=2, result={})
    assert [line["id"] for _, line in play.turns()] == [3]
    assert play.script.is_over()
    assert play.results() == [("0", "same"), ("2", "same")]
    assert play.script.lasting(play.now) == pytest.approx(2.1 - 1.0 + 1.0 - 1.0), "as long as the first was waited for"
    play.hear(id=3, result={})
    assert play.results(final=True) == [("1", "unanswered"), ("3", "new")]
    assert play.results(final=True) == []


def test_the_order_holds_over_sessions() -> None:
    other = (said(2, 0.5, id="a", method="initialize"), told(2, 0.6, id="a", result={}))
    play = Played(*OPENING, *other, call(1, 1.0), told(1, 1.5, id=1, result={}), call(1, 2.0, session=2))
    assert play.script.sessions == (1, 2)
    play.opened()
    assert [(session, line.get("id")) for session, line in play.turns()] == [(1, None), (2, "a")]
    play.hear(2, id="a", result={})
    assert play.turns()[-1][0] == 1
    play.hear(2, id=1, result={})
    assert play.turns() == [], "that was no answer to the first session"
    play.hear(1, id=1, result={})
    assert play.turns()[-1][0] == 2


def test_what_does_not_come_is_given_up() -> None:
    play = Played(*OPENING, call(1, 1.0), told(1, 2.0, id=1, result={}), call(2, 3.0), told(1, 4.0, id=2, result={}))
    play.opened()
    assert len(play.turns()) == 2
    play.script.skip()
    assert [line["id"] for _, line in play.turns()] == [2]
    play.script.skip()
    assert play.script.is_over()
    assert play.results() == [("0", "same"), ("1", "missing"), ("2", "missing")]
    assert play.script.lasting(play.now) == 0.0
    play.hear(id=1, result={})
    assert play.results() == [], "it is too late, and told already"


def test_who_was_not_answered_either_is_waited_for_as_long() -> None:
    play = Played(*OPENING, call(1, 1.0), call(2, 3.0), told(1, 5.0, method="n"))
    play.opened()
    play.turns()
    assert play.script.lasting(play.now) == 5.0 - 1.0 + 1.0
    play.hear(id=1, result={})
    assert play.script.lasting(play.now) == 5.0 - 3.0 + 1.0 - 1.0
    play.hear(id=2, result={})
    assert play.script.lasting(play.now) == 0.0
    assert play.results() == [("0", "same"), ("1", "new"), ("2", "new")]


def test_what_is_nested_deeply_is_told_from_a_depth_on_as_it_is() -> None:
    def nested(value: int) -> Any:
        found: Any = [value, 7]
        for _ in range(DEEPEST + 50):
            found = [found]
        return found

    [found] = differences(nested(1), nested(2))
    assert found.path == "[0]" * DEEPEST
    assert found.before == json.dumps(nested(1)[0], separators=(",", ":"))[DEEPEST - 1 : 1 - DEEPEST]
    assert list(differences(nested(1), nested(1))) == []


def test_a_session_that_ends_takes_its_requests_with_it() -> None:
    play = Played(*OPENING, call(1, 1.0), told(1, 2.0, id=1, result={}), call(2, 3.0), told(1, 4.0, id=2, result={}))
    play.opened()
    play.turns()
    play.script.left(1)
    assert play.turns() == []
    assert play.script.is_over()
    assert play.results() == [("0", "same"), ("1", "missing"), ("2", "missing")]


def test_questions_are_answered_by_their_order_under_their_new_ids() -> None:
    play = Played(
        *OPENING,
        call(1, 1.0),
        told(1, 1.1, id=70, method="roots/list"),
        told(1, 1.2, id=71, method="sampling/createMessage"),
        told(1, 1.3, method="notifications/message"),
        said(1, 1.4, id=71, result={"text": "b"}),
        said(1, 1.5, id=70, result={"roots": []}),
        said(1, 1.6, id=99, result={"of": "nothing"}),
        told(1, 2.0, id=1, result={}),
        told(1, 2.0, id=1, result={"twice": True}),
        told(1, 2.0, error={"code": 1}),
    )
    play.opened()
    assert len(play.turns()) == 2
    play.hear(id=5, method="roots/list")
    play.hear(method="notifications/message")
    assert play.turns() == []
    play.hear(id="q", method="sampling/createMessage")
    assert [line for _, line in play.turns()] == [
        {"id": "q", "result": {"text": "b"}},
        {"id": 5, "result": {"roots": []}},
        {"id": 99, "result": {"of": "nothing"}},
    ]
    play.hear(id=1, result={})
    play.hear(id=1, result={"twice": True})
    assert play.results() == [("0", "same"), ("1", "same")]


def test_an_answer_to_a_question_that_is_not_asked_is_not_given() -> None:
    play = Played(
        *OPENING,
        call(1, 1.0),
        told(1, 1.1, id=70, method="roots/list"),
        said(1, 1.5, id=70, result={}),
        said(1, 1.6, method="notifications/late"),
    )
    play.opened()
    play.turns()
    play.script.skip()
    assert [line["method"] for _, line in play.turns()] == ["notifications/late"]


def test_what_is_new_each_time_is_replaced() -> None:
    then = {
        "nextCursor": "c1",
        "deep": [{"requestState": "s1", "taskId": 7, "nextCursor": ""}, 5],
        "x": {"taskId": "k"},
    }
    now = {
        "nextCursor": "c2",
        "deep": [{"requestState": "s2", "taskId": 7, "nextCursor": "z"}, 5],
        "x": {"taskId": "k"},
    }
    play = Played(
        *OPENING, call(1, 1.0), told(1, 2.0, id=1, result=then), call(2, 3.0, cursor="c1", state="s1", c="c1!")
    )
    play.opened()
    play.turns()
    play.hear(id=1, result=now)
    assert play.turns()[0][1]["params"] == {"name": "t", "cursor": "c2", "state": "s2", "c": "c1!"}
    assert play.results() == [("0", "same"), ("1", "same")]


def test_arrays_are_taken_apart() -> None:
    batch = Line(
        time=1.0,
        session=1,
        direction="from-host",
        line='[{"id":1,"method":"ping"},{"id":2,"method":"ping"},{"method":"n"},7]',
    )
    answer = Line(time=2.0, session=1, direction="to-host", line='[{"id":1,"result":{}},{"id":2,"result":{}}]')
    play = Played(*OPENING, batch, answer)
    play.opened()
    assert play.turns()[-1][1] == json.loads(batch.line)
    play.script.heard(1, b'[{"id":2,"result":{}},{"id":1,"error":{"code":3}}]', 1.0)
    found = list(play.script.results())
    assert [(one.id, one.verdict) for one in found] == [("0", "same"), ("1", "different"), ("2", "same")]
    assert [difference.path for difference in found[1].differences] == ["result", "error"]


def test_what_is_no_message_is_said_all_the_same() -> None:
    odd = Line(time=1.0, session=1, direction="from-host", line="[" * 2000)
    play = Script([*OPENING, odd])
    play.next(0.0)
    play.heard(1, b'{"id":0,"result":{"ok":1}}', 1.0)
    play.next(1.0)
    assert play.next(1.0) == (1, odd.line.encode())
    play.heard(1, b"no message", 1.0)


def test_a_handshake_that_was_not_recorded_is_made() -> None:
    play = Played(call(5, 1.0), told(1, 2.0, id=5, result={}), call(6, 3.0))
    [(_, first)] = play.turns()
    assert (first["id"], first["method"]) == ("smcp-replay", "initialize")
    play.hear(id="smcp-replay", result={"serverInfo": {}})
    assert [line["method"] for _, line in play.turns()] == ["notifications/initialized", "tools/call"]
    play.hear(id=5, result={})
    assert len(play.turns()) == 1
    assert play.results(final=True) == [("5", "same"), ("6", "unanswered")], "ours is not told"


@pytest.mark.parametrize(
    "first",
    [
        said(1, 0.0, id=1, method="server/discover"),
        call(1, 0.0, _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"}),
        Line(time=0.0, session=1, direction="from-host", line='[{"id":1,"method":"initialize"},{"id":2,"method":"x"}]'),
        Line(time=0.0, session=1, direction="from-host", line="noise"),
    ],
)
def test_nobody_is_greeted_who_needs_no_handshake(first: Line) -> None:
    assert Script([first]).next(0.0) == (1, first.line.encode())


def test_times_are_told() -> None:
    play = Played(*OPENING, call(1, 1.0), told(1, 3.5, id=1, result={}))
    play.opened()
    play.turns()
    play.hear(id=1, result={})
    *_, last = play.script.results()
    assert last == Replayed(session=1, method="tools/call", tool="t", id="1", verdict="same", before=2.5, now=1.0)


def test_an_empty_recording_is_over() -> None:
    script = Script([])
    assert script.is_over()
    script.skip()
    assert script.next(0.0) is None


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ({"a": 1}, {"a": True}, [("a", "1", "true")]),
        ({"a": 1}, {"b": [1]}, [("a", "1", ""), ("b", "", "[1]")]),
        ({"a": [1, 2, 3]}, {"a": [1, 5]}, [("a[1]", "2", "5"), ("a[2]", "3", "")]),
        ([1], [1, {"x": 2}], [("[1]", "", '{"x":2}')]),
        ({"a": {"b": None}}, {"a": {"b": "x"}}, [("a.b", "null", '"x"')]),
        ({"taskId": "x"}, {"taskId": 1}, [("taskId", '"x"', "1")]),
        ({"taskId": "x"}, {"taskId": "y"}, []),
        ("x" * 300, "y", [("", '"' + "x" * (LONGEST - 1) + "…", '"y"')]),
    ],
)
def test_where_values_differ(before: Any, now: Any, found: list[tuple[str, str, str]]) -> None:
    assert [(one.path, one.before, one.now) for one in differences(before, now)] == found


def test_not_every_difference_is_told() -> None:
    play = Played(*OPENING, call(1, 1.0), told(1, 2.0, id=1, result={str(n): 1 for n in range(50)}))
    play.opened()
    play.turns()
    play.hear(id=1, result={})
    *_, last = play.script.results()
    assert len(last.differences) == MOST_DIFFERENCES
    assert last.differences[0] == Difference(path="result.0", before="1")


def test_what_cannot_be_decoded_is_compared_as_text() -> None:
    play = Script(
        [*OPENING, call(1, 1.0), Line(time=2.0, session=1, direction="to-host", line='{"id":1,"result":1e999}')]
    )
    play.next(0.0)
    play.heard(1, b'{"id":0,"result":{"ok":1}}', 1.0)
    while play.next(1.0):
        pass
    play.heard(1, b'{"id":1,"result":1e998}', 2.0)
    *_, last = play.results()
    assert last.differences == (Difference(path="result", before='"1e999"', now='"1e998"'),)


@pytest.mark.parametrize(
    ("lines", "patience", "text"),
    [((GREETED,), 1.0, "nothing that a host said"), ((INIT,), 0.0, "longer than nothing")],
)
def test_what_cannot_be_replayed(lines: tuple[Line, ...], patience: float, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Replay(name="s", lines=lines, patience=patience)
    assert Replay(name="s", lines=OPENING).patience > 0


def test_a_recording_of_very_many_sessions_is_refused() -> None:
    lines = tuple(
        Line(time=0.0, session=number, direction="from-host", line="{}") for number in range(MOST_SESSIONS + 1)
    )
    with pytest.raises(ValueError, match=f"it has {MOST_SESSIONS + 1} sessions"):
        Replay(name="s", lines=lines)
    assert len(Replay(name="s", lines=lines[1:]).lines) == MOST_SESSIONS
