"""The pitfalls of interoperability that concern handshake servers and the pure part: one test each, by number."""

from __future__ import annotations

import json
from typing import Any

import pytest

from supervisord_mcp.protocol.framing import LineSplitter, Oversized
from tests.kit.conversation import (
    Talk,
    call,
    cancelled,
    changed,
    error,
    matches,
    notification,
    progress,
    request,
    result,
)

RESOURCES = {"resources": {"subscribe": True}}
UPDATED = "notifications/resources/updated"


def log(level: str, text: Any) -> dict[str, Any]:
    return notification("notifications/message", {"level": level, "data": text})


def subscribe(identity: Any, uri: str = "file:///r") -> dict[str, Any]:
    return request(identity, "resources/subscribe", {"uri": uri})


def unsubscribe(identity: Any, uri: str = "file:///r") -> dict[str, Any]:
    return request(identity, "resources/unsubscribe", {"uri": uri})


@pytest.mark.parametrize(
    "identity", ["0", '""', '"0"', "-5", "1.0", '"é\\u2028"', "9007199254740993", f'"{"x" * 300}"']
)
def test_pitfall_01_an_id_comes_back_as_it_was_sent(identity: str) -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(f'{{"jsonrpc":"2.0","id":{identity},"method":"x"}}')
        asked = talk.server.hears(request(..., "x"))
        talk.server.answers(asked)
        a.hears_text(f'{{"jsonrpc":"2.0","id":{identity},"result":{{}}}}'.encode())


def test_pitfall_02_two_hosts_use_the_same_id_and_token_at_once() -> None:
    with Talk() as talk:
        talk.child_runs()
        a, b = talk.hosts("a", "b")
        a.says(call(1, token=1, of="a"))
        b.says(call(1, token=1, of="b"))
        first = talk.server.hears(call(..., token=..., of="a"))
        second = talk.server.hears(call(..., token=..., of="b"))
        talk.server.says(progress(second["params"]["_meta"]["progressToken"], 1))
        talk.server.says(progress(first["params"]["_meta"]["progressToken"], 2))
        talk.server.answers(second, {"for": "b"})
        talk.server.answers(first, {"for": "a"})
        a.hears(progress(1, 2), result(1, {"for": "a"}))
        b.hears(progress(1, 1), result(1, {"for": "b"}))


def test_pitfall_03_upstream_ids_never_differ_by_type_alone() -> None:
    with Talk() as talk:
        talk.child_runs()
        a, b = talk.hosts("a", "b")
        a.says(call(7))
        b.says(call("7"))
        first, second = talk.server.hears(call(...)), talk.server.hears(call(...))
        assert type(first["id"]) is type(second["id"]) is int
        assert first["id"] != second["id"]
        talk.server.answers(second)
        talk.server.answers(first)
        a.hears(result(7))
        b.hears(result("7"))


@pytest.mark.parametrize("identity", ["4.5", "null", "{}", "[1]", "true", "1e3"])
def test_pitfall_04_an_id_that_is_none_is_refused(identity: str) -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(f'{{"jsonrpc":"2.0","id":{identity},"method":"tools/call","params":{{"name":"echo"}}}}')
        a.hears(error(None, -32600, "id must be a string or an integer"))


def test_pitfall_05_progress_for_a_token_that_is_not_active_reaches_nobody() -> None:
    with Talk() as talk:
        talk.child_runs()
        a, _ = talk.hosts("a", "b")
        a.says(call(1, token="t"), call(2, token="u"))
        done = talk.server.hears(call(..., token=...))
        given_up = talk.server.hears(call(..., token=...))
        talk.server.answers(done)
        a.hears(result(1))
        a.says(cancelled(2))
        talk.server.hears(cancelled(given_up["id"]))
        for token in (done["id"], given_up["id"], 4711, "invented", "t", 1.5, None):
            talk.server.says(progress(token, 1))
        talk.server.says(
            notification("notifications/progress", {"progress": 1}), notification("notifications/progress")
        )
        assert talk.noted("late") == 9


def test_pitfall_06_progress_comes_before_the_answer_that_follows_it() -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(call(1, token="t"))
        asked = talk.server.hears(call(..., token=...))
        talk.server.says(*(progress(asked["id"], value) for value in range(5)))
        talk.server.answers(asked)
        a.hears(*(progress("t", value) for value in range(5)), result(1))


@pytest.mark.parametrize("token", [0, 17, "17", "", "a\u2028b"])
def test_pitfall_07_a_progress_token_keeps_its_type(token: int | str) -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(call(1, token=token))
        asked = talk.server.hears(call(..., token=...))
        assert asked["params"]["_meta"]["progressToken"] == asked["id"]
        talk.server.says(progress(asked["id"], 0.5), progress(str(asked["id"]), 0.75))
        a.hears(progress(token, 0.5), progress(token, 0.75))
        talk.server.answers(asked)
        a.hears(result(1))


def test_pitfall_08_a_host_that_gave_no_token_gets_no_progress() -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(call(1))
        asked = talk.server.hears(call(...))
        talk.server.says(progress(asked["id"], 1))
        talk.server.answers(asked)
        a.hears(result(1))


def test_pitfall_09_progress_strictly_increases() -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(call(1, token="t"))
        asked = talk.server.hears(call(..., token=...))
        for value in (-1, 0, 0, 3, 2, 3, 3.5, "4", None):
            talk.server.says(progress(asked["id"], value))
        talk.server.answers(asked)
        a.hears(*(progress("t", value) for value in (-1, 0, 3, 3.5)), result(1))


def test_pitfall_10_what_comes_after_a_cancel_is_swallowed() -> None:
    with Talk() as talk:
        talk.child_runs({"logging": {}})
        a, b = talk.hosts("a", "b")
        a.says(call(101, token="t"), cancelled(101, "no longer needed"))
        asked = talk.server.hears(call(..., token=...))
        talk.server.hears(cancelled(asked["id"], "no longer needed"))
        a.says(call(101, name="again"))
        again = talk.server.hears(call(..., name="again"))
        talk.server.says(progress(asked["id"], 1))
        talk.server.fails(asked, 0, "Request cancelled")
        talk.server.answers(asked, {"late": True})
        talk.server.answers(again, {"late": False})
        a.hears(result(101, {"late": False}))
        a.says(cancelled(101), cancelled("unknown"), cancelled(None), notification("notifications/cancelled"))
        b.says(call(1), cancelled("1"), cancelled(101))
        talk.server.answers(talk.server.hears(call(...)))
        b.hears(result(1))
        assert talk.noted("late") == 3


def test_pitfall_11_a_list_cancelled_by_one_host_is_not_cancelled_for_another() -> None:
    with Talk() as talk:
        talk.child_runs(tools=["x"])
        a, b = talk.hosts("a", "b")
        a.says(request(1, "tools/list"))
        b.says(request(1, "tools/list"))
        first = talk.server.hears(request(..., "tools/list"))
        second = talk.server.hears(request(..., "tools/list"))
        a.says(cancelled(1))
        talk.server.hears(cancelled(first["id"]))
        talk.server.answers(second, {"tools": []})
        b.hears(result(1, {"tools": []}))


def test_pitfall_12_a_host_that_leaves_cancels_answers_and_lets_go() -> None:
    with Talk(relay=True) as talk:
        talk.child_runs(RESOURCES)
        a = talk.host("a", capabilities={"elicitation": {}})
        a.says(subscribe(1))
        talk.server.answers(talk.server.hears(subscribe(...)))
        a.hears(result(1))
        a.says(call(2))
        asked = talk.server.hears(call(...))
        talk.server.says(request("e", "elicitation/create", {"message": "?"}))
        a.hears(request(..., "elicitation/create", {"message": "?"}))
        a.leaves()
        talk.server.hears(
            result("e", {"action": "cancel"}),
            cancelled(asked["id"], "the host is gone"),
            request(..., "resources/unsubscribe", {"uri": "file:///r"}),
        )


def test_pitfall_14_the_handshake_of_a_second_host_never_reaches_the_child() -> None:
    with Talk() as talk:
        opening = talk.child_starts()
        assert opening["params"]["capabilities"] == {}
        a, b = talk.joins("a"), talk.joins("b")
        a.initializes("2025-06-18", {"roots": {}}, identity=0)
        talk.child_greets(opening)
        a.hears(result(0, {"protocolVersion": "2025-06-18", ...: ...}))
        b.initializes("2024-11-05", {"sampling": {}}, identity=0)
        b.hears(result(0, {"protocolVersion": "2024-11-05", ...: ...}))
        b.initialized()
        a.initialized()
        b.initializes(identity=1)
        b.hears(error(1, -32600, "already initialized"))


def test_pitfall_24_an_update_may_name_a_part_of_what_was_subscribed() -> None:
    with Talk() as talk:
        talk.child_runs(RESOURCES)
        a, b = talk.hosts("a", "b")
        a.says(subscribe(1, "file:///tree"))
        talk.server.answers(talk.server.hears(subscribe(..., "file:///tree")))
        b.says(subscribe(1, "file:///tree/branch"))
        talk.server.answers(talk.server.hears(subscribe(..., "file:///tree/branch")))
        a.hears(result(1))
        b.hears(result(1))
        for uri, hearing in (
            ("file:///tree", [a]),
            ("file:///tree/other", [a]),
            ("file:///tree/branch", [b]),
            ("file:///tree/branch/leaf", [b]),
            ("other:///", [a, b]),
        ):
            talk.server.says(notification(UPDATED, {"uri": uri}))
            for host in hearing:
                host.hears(notification(UPDATED, {"uri": uri}))
            talk.quiet()


def test_pitfall_25_one_of_two_subscribers_leaves() -> None:
    with Talk() as talk:
        talk.child_runs(RESOURCES)
        a, b = talk.hosts("a", "b")
        a.says(subscribe(1))
        talk.server.answers(talk.server.hears(subscribe(...)))
        b.says(subscribe(1))
        a.hears(result(1))
        b.hears(result(1))
        a.says(unsubscribe(2))
        a.hears(result(2))
        talk.server.says(notification(UPDATED, {"uri": "file:///r"}))
        b.hears(notification(UPDATED, {"uri": "file:///r"}))
        b.says(unsubscribe(2))
        b.hears(result(2))
        talk.server.hears(unsubscribe(...))


def test_pitfall_26_the_log_level_of_one_host_does_not_silence_another() -> None:
    def level(identity: Any, value: str) -> dict[str, Any]:
        return request(identity, "logging/setLevel", {"level": value})

    with Talk() as talk:
        talk.child_runs({"logging": {}})
        a, b = talk.hosts("a", "b")
        a.says(level(1, "error"))
        a.hears(result(1))
        # b never chose a level: it counts with the usual one.
        talk.server.answers(talk.server.hears(level(..., "info")))
        b.says(level(1, "debug"))
        b.hears(result(1))
        talk.server.answers(talk.server.hears(level(..., "debug")))
        a.says(level(2, "warning"))
        a.hears(result(2))
        talk.server.says(log("debug", "d"), log("warning", "w"))
        b.hears(log("debug", "d"), log("warning", "w"))
        a.hears(log("warning", "w"))
        b.leaves()
        talk.server.fails(talk.server.hears(level(..., "warning")), -32603)
        assert talk.noted("logging") == 1


def test_pitfall_28_a_log_message_is_never_shown_to_the_wrong_host() -> None:
    with Talk() as talk:
        talk.child_runs({"logging": {}})
        a, b = talk.hosts("a", "b")
        a.says(call(1))
        asked = talk.server.hears(call(...))
        talk.server.says(log("info", "for a: it is the only one that calls"))
        a.hears(log("info", ...))
        b.says(call(1))
        talk.server.hears(call(...))
        talk.server.says(log("info", "for a or for b"))
        assert talk.unshown == 1
        talk.server.answers(asked)
        a.hears(result(1))
        talk.server.says(log("info", "for b"))
        b.hears(log("info", "for b"))


def test_pitfall_29_a_chatty_start_neither_blocks_nor_reaches_hosts_that_come_later() -> None:
    with Talk() as talk:
        opening = talk.child_starts()
        a = talk.joins("a")
        a.initializes()
        a.initialized()
        talk.child_greets(opening, {"tools": {"listChanged": True}})
        a.hears(result("hello", ...))
        talk.server.says(request(0, "roots/list"), *[changed("tools")] * 4)
        talk.server.hears(request(..., "tools/list"), error(0, -32601))
        b = talk.host("b")
        b.hears_nothing()
        a.hears_nothing()


def test_pitfall_40_content_is_converted_for_a_host_older_than_its_kind() -> None:
    text = {"type": "text", "text": "t"}
    audio = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    link = {"type": "resource_link", "uri": "file:///r", "name": "r"}
    said = (
        b'{"content":[{"text":"t","type":"text"},{"type" : "audio","mimeType":"a/b","data":"AAAA"},'
        b'{"type":"resource_link","name":"n","uri":"x:y"}],"big":1e400}'
    )
    with Talk() as talk:
        talk.child_runs()
        hosts = {version: talk.host(version, version) for version in ("2024-11-05", "2025-03-26", "2025-06-18")}
        kinds = {"2024-11-05": ["text"] * 3, "2025-03-26": ["text", "audio", "text"]}
        for version, host in hosts.items():
            host.says(call(1), request(2, "prompts/get", {"name": "p"}), call(3))
            first, prompt, untouched = (talk.server.hears(request(..., ..., ...)) for _ in range(3))
            talk.server.answers(first, {"content": [text, audio, link]})
            talk.server.answers(prompt, {"messages": [{"role": "user", "content": link}]})
            talk.server.says(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (untouched["id"], said))
            shown = host.hears(result(1, ...))["result"]["content"]
            assert [block["type"] for block in shown] == kinds.get(version, ["text", "audio", "resource_link"])
            (message,) = host.hears(result(2, ...))["result"]["messages"]
            assert message["content"]["type"] == ("text" if version in kinds else "resource_link")
            if version in kinds:
                host.hears(result(3, ...))
            else:
                host.hears_text(b'{"jsonrpc":"2.0","id":3,"result":%b}' % said)


def test_pitfall_41_error_codes_of_the_legacy_era_stay_as_they_are() -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        elicitations = {"elicitations": [{"mode": "url", "elicitationId": "1", "url": "https://x"}]}
        for code, data in ((-32002, {"uri": "x"}), (-32042, elicitations), (0, None), (4711, [1])):
            a.says(request(1, "resources/read", {"uri": "x"}))
            talk.server.fails(talk.server.hears(request(..., "resources/read", ...)), code, "text", data)
            a.hears(error(1, code, "text", data))


def test_pitfall_42_elicitation_without_modes_means_forms_only() -> None:
    url = {"mode": "url", "message": "m", "url": "https://x", "elicitationId": "1"}
    schema = {"type": "object", "properties": {}}
    form = {"mode": "form", "message": "m", "requestedSchema": schema}
    with Talk(relay=True) as talk:
        a = talk.host_first("a", "2025-06-18", {"elicitation": {}, "sampling": {"tools": {}}, "tasks": {}})
        opening = talk.child_starts()
        assert opening["params"]["protocolVersion"] == "2025-06-18"
        assert opening["params"]["capabilities"] == {"elicitation": {}, "sampling": {}}
        talk.child_greets(opening)
        a.hears(result("hello", ...))
        talk.server.says(request(1, "elicitation/create", url))
        talk.server.hears(error(1, -32602))
        talk.server.says(request(2, "elicitation/create", form))
        a.hears(request(..., "elicitation/create", {"message": "m", "requestedSchema": schema}))
    with Talk(relay=True) as talk:
        a = talk.host_first("a", capabilities={"elicitation": {"form": {}, "url": {}}})
        opening = talk.child_starts()
        assert opening["params"]["capabilities"] == {"elicitation": {"form": {}, "url": {}}}
        talk.child_greets(opening)
        a.hears(result("hello", ...))
        talk.server.says(request(1, "elicitation/create", url), request(2, "elicitation/create", form))
        a.hears(request(..., "elicitation/create", url), request(..., "elicitation/create", form))


def test_pitfall_43_an_elicitation_id_of_a_legacy_server_stays_for_its_host() -> None:
    with Talk(relay=True) as talk:
        talk.child_runs()
        a = talk.host("a", capabilities={"elicitation": {"url": {}}})
        params = {"mode": "url", "message": "m", "url": "https://x", "elicitationId": "e-1"}
        talk.server.says(request("q", "elicitation/create", params))
        asked = a.hears(request(..., "elicitation/create", params))
        a.says(result(asked["id"], {"action": "accept"}))
        talk.server.hears(result("q", {"action": "accept"}))
        talk.server.says(notification("notifications/elicitation/complete", {"elicitationId": "e-1"}))
        a.hears(notification("notifications/elicitation/complete", {"elicitationId": "e-1"}))


TASKS: dict[str, Any] = {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}


def task(name: str) -> dict[str, Any]:
    at = "2026-01-01T00:00:00Z"
    return {"taskId": name, "status": "working", "ttl": None, "createdAt": at, "lastUpdatedAt": at}


def test_pitfall_44_a_host_sees_its_own_tasks_alone() -> None:
    with Talk() as talk:
        talk.child_runs(TASKS)
        a, b = talk.hosts("a", "b")
        for host, name in ((a, "ta"), (b, "tb")):
            host.says(request(1, "tools/call", {"name": "x", "task": {"ttl": 1}}))
            asked = talk.server.hears(request(..., "tools/call", {"name": "x", "task": {"ttl": 1}}))
            talk.server.answers(asked, {"task": {"taskId": name, "status": "working"}})
            host.hears(result(1, {"task": {"taskId": name, "status": "working"}}))
        a.says(request(2, "tasks/list"))
        asked = talk.server.hears(request(..., "tasks/list"))
        answer = {"tasks": [task("tb"), {**task("ta"), "x": 1e30}], "nextCursor": "n"}
        talk.server.answers(asked, answer)
        asked = talk.server.hears(request(..., "tasks/list", {"cursor": "n"}))
        talk.server.answers(asked, {"tasks": [{**task("tc"), "taskId": 7}], "v": 1})
        a.hears(result(2, {"tasks": [{**task("ta"), "x": 1e30}], "v": 1}))
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            a.says(request(3, method, {"taskId": "tb"}), request(4, method), request(5, method, {"taskId": 7}))
            a.hears(error(3, -32602, "Task not found"), error(4, -32602), error(5, -32602))
        a.says(request(6, "tasks/get", {"taskId": "ta"}))
        talk.server.answers(talk.server.hears(request(..., "tasks/get", {"taskId": "ta"})), {"status": "working"})
        a.hears(result(6, {"status": "working"}))
        talk.server.says(notification("notifications/tasks/status", {"taskId": "tb", "status": "completed"}))
        b.hears(notification("notifications/tasks/status", {"taskId": "tb", "status": "completed"}))


@pytest.mark.parametrize("before", [0, 3000, 200_000])
@pytest.mark.parametrize("after", [0, 3000, 200_000])
@pytest.mark.parametrize("kind", ["task", "input_required"])
def test_pitfall_45_a_long_result_of_the_modern_era_is_no_success_either(kind: str, before: int, after: int) -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(call(1))
        told = {"x": "x" * before, "resultType": kind, "y": "y" * after}
        talk.server.answers(talk.server.hears(call(...)), told)
        a.hears(error(1, -32603))


@pytest.mark.parametrize("form", [b"[%b]", b"\xef\xbb\xbf%b"])
def test_pitfall_45_nor_is_one_in_an_array_or_a_line_that_had_to_be_mended(form: bytes) -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(call(1))
        upstream = talk.server.hears(call(...))["id"]
        talk.server.says(form % (b'{"jsonrpc":"2.0","id":%d,"result":{"resultType":"task"}}' % upstream))
        a.hears(error(1, -32603))


@pytest.mark.parametrize("kind", ["task", "input_required"])
def test_pitfall_45_a_result_of_the_modern_era_is_no_success_for_a_legacy_host(kind: str) -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(call(1), call(2))
        modern, plain = talk.server.hears(call(...)), talk.server.hears(call(...))
        talk.server.answers(modern, {"resultType": kind, "taskId": "t"})
        a.hears(error(1, -32603))
        value = {"resultType": "complete", "structuredContent": {"resultType": kind}}
        talk.server.answers(plain, value)
        a.hears(result(2, value))


def test_pitfall_46_an_array_is_taken_apart_and_answered_with_an_array() -> None:
    with Talk() as talk:
        talk.child_runs()
        old, new = talk.host("old", "2025-03-26"), talk.host("new")
        batch = [
            request(1, "ping"),
            call(2),
            notification("notifications/vendor"),
            request(3, "initialize", {}),
            request(2, "ping"),
            request(None, "ping"),
            5,
        ]
        old.says(batch)
        asked = talk.server.hears(call(...))
        talk.server.hears(notification("notifications/vendor"))
        old.hears_nothing()
        talk.server.answers(asked)
        old.hears(
            [
                result(1),
                error(3, -32600, "initialize must not be part of a batch"),
                error(None, -32600),
                error(None, -32600),
                error(None, -32600),
                result(2),
            ]
        )
        old.says([], [notification("notifications/vendor")], "[1,")
        old.hears(error(None, -32600), error(None, -32600))
        talk.server.hears(notification("notifications/vendor"))
        new.says(batch)
        new.hears(error(None, -32600))


def test_pitfall_47_a_line_that_is_too_long_costs_one_error() -> None:
    splitter = LineSplitter(200)
    long = json.dumps(call(1, text="x" * 300)).encode()
    lines = splitter.feed(long + b"\n" + json.dumps(call(2)).encode() + b"\n")
    with Talk() as talk:
        talk.child_runs()
        a, b = talk.hosts("a", "b")
        a.says(*lines)
        a.hears(error(1, -32600, f"message of {len(long)} bytes is longer than max_message"))
        first = talk.server.hears(call(...))
        b.says(call(1))
        second = talk.server.hears(call(...))
        head = f'{{"jsonrpc":"2.0","id":{second["id"]},"result":{{"x":"'.encode()
        talk.server.says(Oversized(head, b'xx"}}', 10_000_000))
        b.hears(error(1, -32603, data={"reason": "message_lost"}))
        talk.server.answers(first)
        a.hears(result(2))


def test_pitfall_48_noise_and_careless_encoders_are_tolerated() -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(*(call(number) for number in range(5)))
        asked = [talk.server.hears(call(...))["id"] for _ in range(5)]
        talk.server.says("Listening on stdio", "", "\r", '{"level":"info","id":1,"msg":"structured noise"}', "[INFO] x")
        talk.server.says(f'\ufeff {{"jsonrpc":"2.0","id":{asked[0]},"result":{{}}}}\r')
        talk.server.says(f'loading {{"a":1}} … {{"jsonrpc":"2.0","id":{asked[1]},"result":{{}}}}')
        a.hears(result(0), result(1))
        talk.server.says(f'{{"jsonrpc":"2.0","id":{asked[2]},"result":{{"half":"\\ud83d","big":1e400}}}}')
        a.hears_text(b'{"jsonrpc":"2.0","id":2,"result":{"half":"\\ud83d","big":1e400}}')
        raw = f'{{"jsonrpc":"2.0","id":{asked[3]},"result":{{"content":[],"half":"'.encode()
        talk.server.says(raw + b"\xed\xa0\xbd\xff" + b'"}}')
        a.hears_text('{"jsonrpc":"2.0","id":3,"result":{"content":[],"half":"\\ud83d\ufffd"}}'.encode())
        talk.server.says(f'{{"jsonrpc":"2.0","id":{asked[4]},"result":{{"x":NaN}}}}')
        a.hears(error(4, -32603, data={"reason": "message_lost"}))
        assert talk.noted("noise") == 4


def test_pitfall_49_open_callbacks_are_answered_before_the_child_is_stopped() -> None:
    with Talk(relay=True) as talk:
        talk.child_runs()
        a = talk.host("a", capabilities={"elicitation": {}, "sampling": {}, "roots": {}})
        a.says(call(1))
        asked = talk.server.hears(call(...))
        talk.server.says(
            request(1, "elicitation/create", {}),
            request("1", "sampling/createMessage", {}),
            request(2, "roots/list"),
        )
        seen = [a.hears({**request(..., ...), ...: ...})["id"] for _ in range(3)]
        talk.child_stops()
        talk.server.hears(result(1, {"action": "cancel"}), error("1", -1), error(2, -32603))
        a.hears(*map(cancelled, seen))
        # What it has it may still answer; what is new waits for the next child.
        a.says(call(2), result(seen[0], {"action": "accept"}))
        talk.server.answers(asked)
        a.hears(result(1))
        talk.child_dies()
        a.hears_nothing()
        talk.child_runs()
        talk.server.answers(talk.server.hears(call(...)))
        a.hears(result(2))


def test_pitfall_55_the_first_requests_may_come_in_any_order() -> None:
    with Talk() as talk:
        talk.child_runs({"logging": {}}, tools=["x"])
        a = talk.joins("a")
        a.initializes()
        a.says(request(1, "logging/setLevel", {"level": "debug"}), request(2, "tools/list"))
        a.hears(result("hello", ...), result(1))
        talk.server.hears(request(..., "logging/setLevel", {"level": "debug"}))
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": []})
        a.hears(result(2, {"tools": []}))
        a.initialized()
    with Talk() as talk:  # all in one write, before there is a child
        a = talk.joins("a")
        a.initializes()
        a.initialized()
        a.says(request(1, "tools/list"), request(2, "prompts/list"))
        talk.child_greets(talk.child_starts(), {"tools": {}})
        a.hears(result("hello", ...))
        talk.server.hears(request(..., "tools/list"), request(..., "prompts/list"))
        talk.server.says(changed("tools"))
        a.hears(changed("tools"))
        talk.child_lists()  # those of its start
        talk.child_lists()  # and those of the change


def test_pitfall_56_a_crash_fails_calls_at_once_and_nothing_old_works_at_the_new_child() -> None:
    with Talk() as talk:
        capabilities = {**RESOURCES, **TASKS, "logging": {}}
        talk.child_runs(capabilities, tools=["one"])
        a, b = talk.hosts("a", "b")
        a.says(subscribe(1), request(2, "logging/setLevel", {"level": "debug"}))
        talk.server.answers(talk.server.hears(subscribe(...)))
        talk.server.hears(request(..., "logging/setLevel", ...))
        a.hears(result(2), result(1))
        a.says(request(3, "tools/call", {"name": "x", "task": {}}))
        talk.server.answers(talk.server.hears(request(..., "tools/call", ...)), {"task": {"taskId": "t"}})
        b.says(request(3, "tools/list"))
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": [], "nextCursor": "p2"})
        a.hears(result(3, ...))
        b.hears(result(3, ...))
        a.says(call(4))
        talk.server.hears(call(...))
        talk.child_dies("server 's' ended: exit 1", {"reason": "server_exited", "exitCode": 1})
        a.hears(error(4, -32603, "server 's' ended: exit 1", {"reason": "server_exited", "exitCode": 1}))
        talk.child_greets(talk.child_starts(), {**capabilities, "tools": {}})
        talk.server.hears(request(..., "logging/setLevel", {"level": "debug"}))
        talk.server.answers(talk.server.hears(subscribe(...)))
        a.hears(notification(UPDATED, {"uri": "file:///r"}))
        talk.child_lists(tools=["two"])
        a.hears(changed("tools"))
        b.hears(changed("tools"))
        a.says(request(5, "tasks/get", {"taskId": "t"}))
        a.hears(error(5, -32602, "Task not found"))
        b.says(request(5, "tools/list", {"cursor": "p2"}))
        b.hears(error(5, -32602))


def test_pitfall_57_a_call_is_never_sent_again_by_us() -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(call(1))
        talk.server.hears(call(...))
        talk.child_dies()
        a.hears(error(1, -32603))
        talk.child_runs()
        talk.server.hears_nothing()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","id":1,"method":"x"',
        b"[]",
        b'[{"jsonrpc":"2.0","id":1,"method":"x"}]',
        b'"text"',
        b'{"a":' * 100_000,
        b" " * 1_000_000,
        b'{"jsonrpc":"2.0","id":1,"method":5}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"half":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"tab":"\t"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"bytes":"\xed\xa0\x80"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}',
        b'{"jsonrpc":"1.0","id":1,"method":"x"}',
        b'{"id":1,"method":"x"}',
        b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","result":{}}',
        b"\xef\xbb\xbf" * 5000 + b"x",
    ],
    ids=lambda garbage: repr(garbage[:40]),
)
def test_pitfall_58_garbage_of_a_host_never_reaches_the_child(garbage: bytes) -> None:
    with Talk() as talk:
        talk.child_runs()
        a, b = talk.hosts("a", "b")
        a.says(garbage)
        answer = a.hears({"jsonrpc": "2.0", "id": ..., "error": ...})
        assert answer["id"] in (None, 1)
        assert answer["error"]["code"] in (-32700, -32600, -32602)
        talk.server.hears_nothing()
        for text in (
            b"",
            b"\r",
            b'{"jsonrpc":"2.0","id":1,"result":{}}',
            b'{"jsonrpc":"2.0","method":"x","params":[]}',
        ):
            a.says(text)
        a.says(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":7,"method":"ping"}\r')
        b.says(request(1, "ping"))
        a.hears(result(7))
        b.hears(result(1))


def test_pitfall_59_unknown_meta_survives_in_both_directions() -> None:
    meta = {"traceparent": "00-1-2-03", "vendor/x": [1, {"y": None}], "progressToken": "t"}
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(request(1, "tools/call", {"name": "x", "_meta": meta, "vendor": 1}))
        asked = talk.server.hears(
            request(..., "tools/call", {"name": "x", "_meta": {**meta, "progressToken": ...}, "vendor": 1})
        )
        note = progress(asked["id"], 1)
        note["params"]["_meta"] = {"vendor/z": 1}
        talk.server.says(note)
        talk.server.answers(asked, {"_meta": {"vendor/w": "ä"}})
        a.hears({**note, "params": {"progressToken": "t", "progress": 1, "_meta": {"vendor/z": 1}}})
        a.hears(result(1, {"_meta": {"vendor/w": "ä"}}))


def test_pitfall_63_subscribing_twice_and_leaving_once_is_told_to_the_child() -> None:
    with Talk() as talk:
        talk.child_runs(RESOURCES)
        (a,) = talk.hosts("a")
        a.says(subscribe(1))
        talk.server.answers(talk.server.hears(subscribe(...)))
        a.says(subscribe(2), unsubscribe(3))
        a.hears(result(1), result(2), result(3))
        talk.server.hears(unsubscribe(...))


def test_pitfall_64_an_unknown_log_level_is_refused_here() -> None:
    with Talk() as talk:
        talk.child_runs({"logging": {}})
        (a,) = talk.hosts("a")
        for params in ({"level": "loud"}, {"level": 1}, {}, None):
            a.says(request(1, "logging/setLevel", params))
            a.hears(error(1, -32602))


def test_pitfall_66_a_codex_like_host_gets_the_version_it_asked_for() -> None:
    with Talk() as talk:
        talk.child_runs()
        a = talk.joins("codex")
        said = a.greets("2025-06-18", {"elicitation": {"form": {}, "url": {}}})
        assert matches({"protocolVersion": "2025-06-18", ...: ...}, said)


def test_pitfall_67_a_cursor_of_a_dead_child_never_gets_a_page_of_the_next() -> None:
    with Talk() as talk:
        talk.child_runs(tools=["x"])
        (a,) = talk.hosts("a")
        a.says(request(1, "tools/list"))
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": [], "nextCursor": "2"})
        a.hears(result(1, ...))
        talk.child_dies()
        talk.child_runs(tools=["x"])
        a.says(request(2, "tools/list", {"cursor": "2"}))
        a.hears(error(2, -32602))
        a.says(request(3, "tools/list"))
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": [], "nextCursor": "2"})
        a.says(request(4, "tools/list", {"cursor": "2"}))
        talk.server.answers(talk.server.hears(request(..., "tools/list", {"cursor": "2"})), {"tools": []})
        a.hears(result(3, ...), result(4, ...))


def test_pitfall_67_a_host_that_has_just_come_gets_no_page_for_an_old_cursor() -> None:
    with Talk() as talk:
        talk.child_runs(tools=["x"])
        (a,) = talk.hosts("a")
        a.says(request(1, "tools/list"))
        talk.server.answers(talk.server.hears(request(..., "tools/list")), {"tools": [], "nextCursor": "2"})
        a.hears(result(1, ...))
        (b,) = talk.hosts("b")
        b.says(request(1, "tools/list", {"cursor": "2"}), request(2, "prompts/list", {"cursor": "2"}))
        talk.server.answers(talk.server.hears(request(..., "tools/list", {"cursor": "2"})), {"tools": []})
        b.hears(error(2, -32602), result(1, {"tools": []}))
        talk.child_dies()
        talk.child_runs(tools=["x"])
        (c,) = talk.hosts("c")
        c.says(request(1, "tools/list", {"cursor": "2"}))
        c.hears(error(1, -32602))
        talk.server.hears_nothing()


def test_pitfall_65_a_task_is_left_out_for_a_child_that_has_none() -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(request(1, "tools/call", {"name": "x", "task": {"ttl": 1}}))
        talk.server.answers(talk.server.hears(request(..., "tools/call", {"name": "x"})), {"content": []})
        a.hears(result(1, {"content": []}))
