"""Whose task is whose, and when one has ended."""

from __future__ import annotations

from typing import Any

import pytest

from supervisord_mcp.protocol.tasks import MAX_KEPT
from tests.kit.conversation import (
    Host,
    Talk,
    cancelled,
    error,
    notification,
    progress,
    request,
    result,
)

TASKS: dict[str, Any] = {"tasks": {"list": {}, "requests": {"tools": {"call": {}}}}}
STATUS = "notifications/tasks/status"


def start(talk: Talk, host: Host, name: str = "t", status: str = "working", token: Any = None, **more: Any) -> Any:
    params: dict[str, Any] = {"name": "x", "task": {}}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    host.says(request(1, "tools/call", params))
    asked = talk.server.hears(request(..., "tools/call", ...))
    talk.server.answers(asked, {"task": {"taskId": name, "status": status, **more}})
    host.hears(result(1, {"task": {"taskId": name, "status": status, **more}}))
    return asked["id"]


def busy(talk: Talk) -> bool:
    return talk.mux.busy


def running(*names: str) -> tuple[Talk, list[Host]]:
    talk = Talk()
    talk.child_runs(TASKS)
    return talk, talk.hosts(*names)


def test_progress_goes_on_after_the_call_is_answered_until_the_task_ends() -> None:
    talk, (a, _) = running("a", "b")
    with talk:
        upstream = start(talk, a, token="p")
        talk.server.says(progress(upstream, 1))
        a.hears(progress("p", 1))
        assert talk.mux.busy
        talk.server.says(notification(STATUS, {"taskId": "t", "status": "working"}), progress(upstream, 2))
        a.hears(notification(STATUS, ...), progress("p", 2))
        talk.server.says(notification(STATUS, {"taskId": "t", "status": "completed"}), progress(upstream, 3))
        a.hears(notification(STATUS, ...))
        assert not talk.mux.busy


@pytest.mark.parametrize(
    ("method", "answer", "ended"),
    [
        ("tasks/get", {"result": {"taskId": "t", "status": "working"}}, False),
        ("tasks/get", {"result": {"taskId": "t", "status": "failed"}}, True),
        ("tasks/get", {"error": {"code": -32602, "message": "expired"}}, True),
        ("tasks/get", {"error": {"code": -32603, "message": "busy"}}, False),
        ("tasks/get", {"error": "?"}, False),
        ("tasks/cancel", {"result": {"taskId": "t", "status": "cancelled"}}, True),
        ("tasks/result", {"result": {"content": []}}, True),
        ("tasks/result", {"error": {"code": 1, "message": "the call failed"}}, True),
    ],
)
def test_an_answer_tells_that_a_task_has_ended(method: str, answer: dict[str, Any], ended: bool) -> None:
    talk, (a,) = running("a")
    with talk:
        start(talk, a)
        a.says(request(2, method, {"taskId": "t"}))
        asked = talk.server.hears(request(..., method, {"taskId": "t"}))
        talk.server.says({"jsonrpc": "2.0", "id": asked["id"], **answer})
        a.hears({"jsonrpc": "2.0", "id": 2, **answer})
        assert talk.mux.busy is not ended
        a.says(request(3, method, {"taskId": "t"}))  # it is still its owner's
        talk.server.hears(request(..., method, {"taskId": "t"}))


def test_a_task_that_ended_at_once_keeps_nothing_busy() -> None:
    talk, (a,) = running("a")
    with talk:
        start(talk, a, status="completed")
        assert not talk.mux.busy


def test_a_name_that_is_used_again_is_the_new_task() -> None:
    talk, (a, b) = running("a", "b")
    with talk:
        old = start(talk, a, token="p")
        new = start(talk, b, token="p")
        talk.server.says(progress(old, 1), progress(new, 1))
        b.hears(progress("p", 1))


def test_a_server_may_answer_a_call_for_a_task_with_its_result_or_an_error() -> None:
    talk, (a,) = running("a")
    with talk:
        values: list[dict[str, Any]] = [{"content": []}, {"task": {"taskId": 5}}]
        for value in values:
            a.says(request(1, "tools/call", {"name": "x", "task": {}}))
            talk.server.answers(talk.server.hears(request(..., "tools/call", ...)), value)
            a.hears(result(1, value))
        a.says(request(1, "tools/call", {"name": "x", "task": {}}))
        talk.server.fails(talk.server.hears(request(..., "tools/call", ...)), -32601)
        a.hears(error(1, -32601))
        assert not talk.mux.busy


def test_a_call_for_a_task_is_not_cancelled_by_a_notification() -> None:
    talk, (a, _) = running("a", "b")
    with talk:
        a.says(request(1, "tools/call", {"name": "x", "task": {}}), cancelled(1))
        asked = talk.server.hears(request(..., "tools/call", ...))
        talk.server.answers(asked, {"task": {"taskId": "t"}})
        a.hears(result(1, ...))
        a.says(request(1, "tools/call", {"name": "x", "task": {}}))
        asked = talk.server.hears(request(..., "tools/call", ...))
        a.leaves()
        talk.server.answers(asked, {"task": {"taskId": "u"}})
        assert talk.noted("late") == 1


def test_a_task_keeps_no_child_running_without_its_host_and_dies_with_its_child() -> None:
    talk, (a, b) = running("a", "b")
    with talk:
        start(talk, a, "ta")
        upstream = start(talk, b, "tb", token="p")
        a.leaves()
        talk.server.says(notification(STATUS, {"taskId": "ta", "status": "working"}))
        talk.server.says(notification(STATUS, {"taskId": 5}), notification(STATUS, {"taskId": "unknown"}))
        assert busy(talk)
        talk.child_dies()
        assert not busy(talk)
        talk.child_runs(TASKS)
        talk.server.says(progress(upstream, 1))
        start(talk, b, "t")
        b.says(request(2, "tasks/get", {"taskId": "tb"}))
        b.hears(error(2, -32602))


def test_the_same_application_claims_a_task_that_it_left() -> None:
    talk, (a, b) = running("a", "b")
    with talk:
        start(talk, a, "ta")
        a.leaves()
        b.says(request(1, "tasks/get", {"taskId": "ta"}))
        b.hears(error(1, -32602, "Task not found"))
        a = talk.host("a")
        a.says(request(1, "tasks/get", {"taskId": "ta"}))
        talk.server.answers(talk.server.hears(request(..., "tasks/get", ...)), {"taskId": "ta", "status": "working"})
        a.hears(result(1, ...))
        talk.server.says(notification(STATUS, {"taskId": "ta", "status": "completed"}))
        a.hears(notification(STATUS, ...))


def test_another_principal_does_not_claim_a_task() -> None:
    talk, (a,) = running("a")
    with talk:
        start(talk, a)
        a.leaves()
        b = talk.joins("a", principal="another")
        b.greets()
        b.says(request(1, "tasks/get", {"taskId": "t"}))
        b.hears(error(1, -32602, "Task not found"))


def known(talk: Talk, host: Host, name: str = "t") -> bool:
    host.says(request("?", "tasks/get", {"taskId": name}))
    if host.inbox:
        host.hears(error("?", -32602, "Task not found"))
        return False
    talk.server.answers(talk.server.hears(request(..., "tasks/get", ...)), {"taskId": name, "status": "completed"})
    host.hears(result("?", ...))
    return True


@pytest.mark.parametrize("key", ["ttl", "ttlMs"])
def test_a_task_is_kept_for_its_time(key: str) -> None:
    talk, (a,) = running("a")
    with talk:
        time: Any = {key: 60_000}
        start(talk, a, status="completed", **time)
        a.leaves()
        a = talk.host("a")
        talk.passes(59)
        assert known(talk, a)
        talk.passes(1)
        assert not known(talk, a)
        assert not len(talk.mux._talk.alarms)


@pytest.mark.parametrize("time", [None, -1, "x", True, {}])
def test_a_task_without_a_time_is_kept(time: Any) -> None:
    talk, (a,) = running("a")
    with talk:
        start(talk, a, status="completed", ttl=time)
        talk.passes(10**9)
        assert known(talk, a)


def test_the_longest_time_of_a_task_is_a_year() -> None:
    talk, (a,) = running("a")
    with talk:
        start(talk, a, status="completed", ttl=10**400)
        talk.passes(365 * 24 * 3600)
        assert known(talk, a)
        talk.passes(24 * 3600)
        assert not known(talk, a)


def test_the_time_of_a_task_begins_anew_with_its_end_and_while_it_runs_for_its_host() -> None:
    talk, (a,) = running("a")
    with talk:
        start(talk, a, ttl=60_000)
        talk.passes(119)
        talk.server.says(notification(STATUS, {"taskId": "t", "status": "completed"}))
        a.hears(notification(STATUS, ...))
        talk.passes(60)
        assert known(talk, a)
        talk.passes(60)
        assert not known(talk, a)


def test_a_task_that_runs_for_a_host_that_left_is_forgotten_in_time() -> None:
    talk, (a,) = running("a")
    with talk:
        start(talk, a, ttl=60_000)
        a.leaves()
        talk.passes(60)
        a = talk.host("a")
        assert not known(talk, a)


def test_what_a_child_that_died_had_is_forgotten_before_its_time() -> None:
    talk, (a,) = running("a")
    with talk:
        start(talk, a, ttl=60_000)
        talk.child_dies()
        assert not len(talk.mux._talk.alarms)
        talk.child_runs(TASKS)
        start(talk, a, ttl=90_000)
        talk.passes(60)
        assert known(talk, a)


def test_a_task_whose_name_is_used_again_has_the_time_of_the_new_one() -> None:
    talk, (a,) = running("a")
    with talk:
        start(talk, a, ttl=60_000)
        start(talk, a, status="completed", ttl=90_000)
        talk.passes(89)
        assert known(talk, a)
        talk.passes(1)
        assert not known(talk, a)


def test_tasks_that_nobody_waits_for_give_way_to_new_ones() -> None:
    talk, (a, b) = running("a", "b")
    with talk:
        start(talk, a, "runs")
        for number in range(MAX_KEPT):
            start(talk, b, f"t{number}", status="completed")
        assert not known(talk, b, "t0")
        assert known(talk, b, "t1")
        assert known(talk, a, "runs")


def test_only_so_many_tasks_are_kept_for_applications_that_left() -> None:
    talk, (a, _) = running("a", "b")
    with talk:
        for number in range(1001):
            start(talk, a, f"t{number}")
        a.leaves()
        a = talk.host("a")
        a.says(request(1, "tasks/get", {"taskId": "t0"}), request(2, "tasks/get", {"taskId": "t1"}))
        a.hears(error(1, -32602))
        talk.server.hears(request(..., "tasks/get", {"taskId": "t1"}))


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_65_a_host_of_a_revision_without_tasks_gets_the_result_of_its_call(version: str) -> None:
    talk = Talk()
    talk.child_runs(TASKS)
    host = talk.host("old", version)
    with talk:
        host.says(request(1, "tools/call", {"name": "x", "task": {}}))
        asked = talk.server.hears(request(..., "tools/call", {"name": "x"}))
        host.says(cancelled(1))
        talk.server.hears(cancelled(asked["id"]))
