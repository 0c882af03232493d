"""What the child sends: answers, progress, updates, log messages, and noise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.protocol.commands import Command, ToSession, Weight
from supervisord_mcp.protocol.framing import Oversized
from tests.kit.conversation import (
    Host,
    Talk,
    call,
    error,
    notification,
    progress,
    request,
    result,
)
from tests.protocol.texts import VALUES


def running(*names: str, capabilities: Any = None) -> tuple[Talk, list[Host]]:
    talk = Talk()
    talk.child_runs(capabilities)
    return talk, talk.hosts(*names)


def log(level: Any, data: Any = "x") -> dict[str, Any]:
    return notification("notifications/message", {"level": level, "data": data})


# Answers


@given(VALUES)
def test_errors_and_more_members_arrive_untouched(value: str) -> None:
    talk, (a,) = running("a")
    with talk:
        a.says(call(1))
        upstream = talk.server.hears(call(...))["id"]
        text = f'{{"x":{value},"jsonrpc":"2.0","error":{value},"id":%s,"y":1e400}}'
        talk.server.says(text % upstream)
        a.hears_text((text % 1).encode())


def test_answers_that_nobody_waits_for_are_counted_and_dropped() -> None:
    talk, (a,) = running("a")
    with talk:
        a.says(call(1))
        asked = talk.server.hears(call(...))
        talk.server.answers(asked)
        talk.server.answers(asked)
        for identity in (4711, -1, 0, "x", None, 1.5, [1]):
            talk.server.says(result(identity))
        talk.server.says('{"jsonrpc":"2.0","result":{}}')
        a.hears(result(1))
        assert (talk.noted("late"), talk.noted("unknown")) == (1, 8)


def test_a_server_may_return_the_number_as_text() -> None:
    talk, (a,) = running("a")
    with talk:
        a.says(call(1))
        talk.server.says(result(str(talk.server.hears(call(...))["id"])))
        a.hears(result(1))


def test_answers_may_come_in_an_array() -> None:
    talk, (a, b) = running("a", "b")
    with talk:
        a.says(call(1, token="t"))
        b.says(call(1))
        first, second = talk.server.hears(call(..., token=...)), talk.server.hears(call(...))
        talk.server.says([progress(first["id"], 1), result(second["id"]), result(first["id"]), request(1, "ping")])
        talk.server.hears(result(1))
        a.hears(progress("t", 1), result(1))
        b.hears(result(1))
        talk.server.says("[]", "[1]", "[", '["x"]')
        assert talk.noted("noise") == 4


# Noise


@pytest.mark.parametrize(
    "noise",
    [
        "plain text",
        "{'python': 1}",
        '{"level":30,"msg":"x"}',
        '{"level":"info","id":%d,"error":"disk full"}',
        '{"jsonrpc":"1.0","id":%d,"result":{}}',
        '{"id":%d,"result":{}}',
        '{"level":"info","method":"GET","path":"/"}',
        '{"level":"info","method":"GET","id":1}',
        '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"cut',
        '{"jsonrpc":"2.0","id":4711,"result":{"cut',
        '{"jsonrpc":"2.0","result":{"id":%d,"cut',
        '{"jsonrpc":"2.0","id":"x","error":{"cut',
    ],
)
def test_noise_reaches_nobody(noise: str) -> None:
    talk, (a,) = running("a")
    with talk:
        a.says(call(1))
        asked = talk.server.hears(call(...))
        talk.server.says(noise.replace("%d", str(asked["id"])))
        a.hears_nothing()
        assert talk.noted("noise") == 1
        talk.server.answers(asked)
        a.hears(result(1))


def test_an_answer_that_is_cut_is_an_error_for_who_waits_for_it() -> None:
    talk, (a,) = running("a")
    with talk:
        a.says(call(1))
        asked = talk.server.hears(call(...))
        talk.server.says(f'{{"jsonrpc":"2.0","id":{asked["id"]},"result":{{"content":[')
        a.hears(error(1, -32603, data={"reason": "message_lost"}))


def test_noise_is_logged_by_its_first_bytes() -> None:
    talk, _ = running("a")
    talk.server.says(b"\xff" + b"x" * 1000)
    assert talk.notes[-1].text == "\ufffd" + "x" * 199


# Over-long messages


def oversized(head: str, tail: str = '"}') -> Oversized:
    return Oversized(head.encode(), tail.encode(), 1 << 30)


def test_an_over_long_answer_is_an_error_for_who_waits_for_it() -> None:
    talk, (a, b) = running("a", "b")
    with talk:
        a.says(call(1))
        b.says(call(1))
        first, second = talk.server.hears(call(...)), talk.server.hears(call(...))
        talk.server.says(oversized(f'{{"jsonrpc":"2.0","id":{second["id"]},"result":{{"x":"'))
        b.hears(error(1, -32603))
        a.hears_nothing()
        talk.server.says(oversized('{"result":{"x":"', f'"}},"jsonrpc":"2.0","id":{first["id"]}}}'))
        a.hears(error(1, -32603))


def test_without_an_id_the_oldest_is_taken() -> None:
    talk, (a, b) = running("a", "b")
    with talk:
        b.says(call(1))
        a.says(call(1))
        talk.server.hears(call(...), call(...))
        for head in ('{"result":{"id":7', '{"jsonrpc":"2.0","id":4711,"result":{'):
            talk.server.says(oversized(head))
        b.hears(error(1, -32603))
        a.hears(error(1, -32603))
        talk.server.says(oversized('{"result":{'))
        assert talk.noted("noise") == 3


def test_an_over_long_notification_or_request_fails_no_call() -> None:
    talk, (a,) = running("a")
    with talk:
        a.says(call(1))
        asked = talk.server.hears(call(...))
        talk.server.says(oversized('{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"', '"}}'))
        talk.server.says(
            oversized('{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"x":"', '"}}')
        )
        talk.server.hears(error("q", -32600))
        talk.server.answers(asked)
        a.hears(result(1))


def test_an_over_long_list_does_not_stop_the_start() -> None:
    with Talk() as talk:
        talk.child_greets(talk.child_starts(), {"tools": {}})
        asked = talk.server.hears(request(..., "tools/list"))
        talk.server.says(oversized(f'{{"jsonrpc":"2.0","id":{asked["id"]},"result":{{'))
        assert talk.mux.catalogue is not None


# Progress, updates, log messages


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70), max_size=8))
def test_progress_is_what_increases(values: list[float]) -> None:
    talk, (a,) = running("a")
    with talk:
        a.says(call(1, token="t"))
        asked = talk.server.hears(call(..., token=...))
        for value in values:
            talk.server.says(progress(asked["id"], value))
        heard = [json.loads(line)["params"]["progress"] for line in a.inbox]
        a.inbox.clear()
        assert heard == sorted(set(heard))
        assert not values or heard[-1] == max(values)


def test_what_can_be_done_without_is_marked() -> None:
    talk, (a,) = running("a", capabilities={"logging": {}})
    with talk:
        a.says(call(1, token="t"))
        asked = talk.server.hears(call(..., token=...))

        def weights(message: Any) -> list[Weight]:
            commands: list[Command] = talk.mux.from_server(json.dumps(message).encode())
            return [command.weight for command in commands if isinstance(command, ToSession)]

        assert weights(progress(asked["id"], 1)) == [Weight.DROPPABLE]
        assert weights(log("info")) == [Weight.DROPPABLE]
        assert weights(result(asked["id"])) == [Weight.MUST]


def test_progress_that_says_more_is_passed_on_as_it_is() -> None:
    talk, (a,) = running("a")
    with talk:
        a.says(call(1, token="t"))
        upstream = talk.server.hears(call(..., token=...))["id"]
        params = '{"progressToken":%s,"progress":1.50,"total":1e400,"message":"\\u00e9"}'
        text = f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{params},"x":1}}'
        talk.server.says(text % upstream)
        a.hears_text((text % '"t"').encode())


def test_an_update_without_a_uri_is_for_every_subscriber() -> None:
    talk, (a, _) = running("a", "b", capabilities={"resources": {"subscribe": True}})
    with talk:
        a.says(request(1, "resources/subscribe", {"uri": "u"}))
        talk.server.answers(talk.server.hears(request(..., "resources/subscribe", ...)))
        a.hears(result(1))
        talk.server.says(notification("notifications/resources/updated", {}))
        a.hears(notification("notifications/resources/updated", {}))


def test_a_host_alone_gets_what_the_server_logs() -> None:
    talk, (a,) = running("a", capabilities={"logging": {}})
    with talk:
        talk.server.says(log("debug"), log("unknown"), log(5))
        a.hears(log("debug"), log("unknown"), log(5))
        b = talk.joins("b")
        b.initializes()
        b.hears(result("hello", ...))
        talk.server.says(log("error"))  # nobody calls, and nobody ever asked for any


def test_a_host_that_chose_a_level_gets_messages_that_belong_to_nobody() -> None:
    talk, (a, _) = running("a", "b", capabilities={"logging": {}})
    with talk:
        a.says(request(1, "logging/setLevel", {"level": "warning"}))
        a.hears(result(1))
        talk.server.hears(request(..., "logging/setLevel", {"level": "info"}))
        talk.server.says(log("notice"), log("error"), log("unknown"))
        a.hears(log("error"))


def test_a_caller_without_a_level_gets_the_usual_ones_where_another_asked_for_more() -> None:
    talk, (a, b) = running("a", "b", capabilities={"logging": {}})
    with talk:
        a.says(request(1, "logging/setLevel", {"level": "debug"}))
        a.hears(result(1))
        talk.server.hears(request(..., "logging/setLevel", {"level": "debug"}))
        b.says(call(1))
        talk.server.hears(call(...))
        talk.server.says(log("debug"), log("info"))
        b.hears(log("info"))


def test_one_host_that_calls_twice_is_still_one() -> None:
    talk, (a, _) = running("a", "b")
    with talk:
        a.says(call(1), call(2))
        talk.server.hears(call(...), call(...))
        talk.server.says(log("debug"))
        a.hears(log("debug"))
