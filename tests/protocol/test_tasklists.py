"""Lists of tasks: every page of the server, and of that what is the host's own."""

from __future__ import annotations

import pytest

from tests.kit.conversation import Talk, cancelled, error, request, result
from tests.protocol.test_tasks import TASKS, running, start


def test_an_error_for_a_list_of_tasks_is_passed_on() -> None:
    talk, (a,) = running("a")
    with talk:
        a.says(request(1, "tasks/list"))
        talk.server.fails(talk.server.hears(request(..., "tasks/list")), -32601)
        a.hears(error(1, -32601))
        a.says(request(1, "tasks/list"))
        talk.server.answers(talk.server.hears(request(..., "tasks/list")), {"x": 1})
        a.hears(result(1, {"x": 1, "tasks": []}))


def test_no_page_of_a_list_of_tasks_can_be_asked_for_alone() -> None:
    talk, (a,) = running("a")
    with talk:
        a.says(request(1, "tasks/list", {"cursor": "n"}))
        a.hears(error(1, -32602))


@pytest.mark.parametrize("cursor", ["n", ""])
def test_a_server_that_hands_out_one_cursor_for_ever_ends_a_list_of_tasks(cursor: str) -> None:
    talk, (a,) = running("a")
    with talk:
        start(talk, a, "ta")
        a.says(request(2, "tasks/list"))
        for _ in range(2):
            asked = talk.server.hears({"jsonrpc": "2.0", "id": ..., "method": "tasks/list", ...: ...})
            talk.server.answers(asked, {"tasks": [{"taskId": "ta"}], "nextCursor": cursor})
        a.hears(result(2, {"tasks": [{"taskId": "ta"}, {"taskId": "ta"}]}))


def test_a_list_of_tasks_can_be_given_up() -> None:
    talk, (a,) = running("a")
    with talk:
        a.says(request(1, "tasks/list"))
        asked = talk.server.hears(request(..., "tasks/list"))
        a.says(cancelled(1))
        talk.server.hears(cancelled(asked["id"]))
        talk.server.answers(asked, {"tasks": [], "nextCursor": "n"})
        assert talk.noted("late") == 1


def test_a_list_of_tasks_waits_for_the_child() -> None:
    with Talk() as talk:
        a = talk.host_first("a")
        a.says(request(1, "tasks/list"))
        talk.child_runs(TASKS)
        a.hears(result("hello", ...))
        talk.server.answers(talk.server.hears(request(..., "tasks/list")), {"tasks": []})
        a.hears(result(1, {"tasks": []}))
