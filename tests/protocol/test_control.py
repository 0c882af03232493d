"""The control protocol: both directions, and what is not one of its lines."""

from __future__ import annotations

import contextlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from supervisord_mcp.errors import FramingError, SmcpError, UnknownServerError, UsageError
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.control import Operation
from supervisord_mcp.protocol.news import LogLine
from supervisord_mcp.protocol.replay import Line, Replay
from supervisord_mcp.protocol.secret_requests import SecretChanged, SecretCheck, SecretUnlock
from supervisord_mcp.protocol.tapping import Tap

OPERATIONS: list[Operation] = [
    control.Status(),
    control.Start(names=("a", "b")),
    control.Stop(all=True),
    control.Restart(names=("a",), project="/p", narrow=True),
    control.Reload(),
    control.ListServers(),
    control.Tools(name="a", project="/p", refresh=True),
    control.Call(name="a", tool="t", arguments=Raw(b'{"x": 1}'), project="/p", timeout=2.5),
    control.Probe(name="a", project="/p"),
    control.Usage(name="a", fresh=True, since=1.5),
    Tap(name="a", follow=True, most=100, methods=("tools/*",), hosts=("x",), side="both"),
    Replay(
        name="a", lines=(Line(time=1.5, session=2, direction="from-host", line="\u2028"),), project="/p", patience=2.5
    ),
    control.Logs(name="a", lines=3, follow=True),
    control.Events(follow=True),
    control.Down(),
    control.Stay(),
    control.TrustChanged(files=("/p/.mcp.json",), trusted=True),
    control.Version(),
    SecretChanged(secrets=("vault:a",), only_failed=True),
    SecretCheck(names=("a",)),
    SecretUnlock(passphrase="correct horse"),
    Tap(name="a", follow=True),
    Replay(name="a", lines=(Line(time=0.5, session=1, direction="from-host", line="{}"),)),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: type(o).__name__)
def test_operation_survives_the_wire(operation: Operation) -> None:
    line = control.request_line(7, operation)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    request = control.parse_request(line)
    assert request.id == 7
    assert control.parse_operation(request) == operation


def test_every_operation_is_tested_and_named() -> None:
    assert {type(operation) for operation in OPERATIONS} == set(control.OPERATIONS.values())
    assert set(control.OPERATIONS) == {
        "status",
        "start",
        "trust-changed",
        "stop",
        "restart",
        "reload",
        "list",
        "tools",
        "call",
        "probe",
        "usage",
        "tap",
        "replay",
        "logs",
        "events",
        "down",
        "stay",
        "version",
        "secret-changed",
        "secret-check",
        "secret-unlock",
    }


def test_request_has_the_form_of_the_contract() -> None:
    assert json.loads(control.request_line(1, control.Start(names=("x",)))) == {
        "id": 1,
        "op": "start",
        "args": {"names": ["x"], "all": False, "project": None, "narrow": False},
    }


def test_what_is_no_text_is_told_all_the_same() -> None:
    said = {"path": "/odd\udcff", "all": ["\udc80", ("x", 1)], "raw": Raw(b"[1e400]")}
    line = control.result_line(1, said)
    assert b'"result":{"path":"/odd?","all":["?",["x",1]],"raw":[1e400]}' in line


def test_a_request_can_ask_for_progress() -> None:
    line = control.request_line(1, control.Status(), progress=True)
    assert json.loads(line) == {"id": 1, "op": "status", "args": {}, "progress": True}
    assert control.parse_request(line).progress
    assert not control.parse_request(control.request_line(1, control.Status())).progress


@pytest.mark.parametrize(
    ("operation", "concerned"),
    [
        (control.Start(names=("a", "b")), True),
        (control.Restart(all=True), True),
        (control.Stop(names=("b",)), False),
        (control.Tools(name="a"), True),
        (control.Call(name="b", tool="t"), False),
        (control.Status(), False),
    ],
)
def test_what_an_operation_waits_for(operation: Operation, concerned: bool) -> None:
    assert control.concerns(operation, "a") == concerned


def test_arguments_pass_untouched_but_on_one_line() -> None:
    arguments = b'{"big": 123456789012345678901234567890,\n "f": 1e400, "a": 1, "a": 2, "s": "\xe2\x80\xa8\\n"}'
    line = control.request_line(1, control.Call(name="a", tool="t", arguments=Raw(arguments)))
    assert line.count(b"\n") == 1
    operation = control.parse_operation(control.parse_request(line))
    assert isinstance(operation, control.Call)
    assert bytes(operation.arguments) == arguments.replace(b"\n", b"").replace(b": ", b":").replace(b", ", b",")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"[]",
        b"{}",
        b'{"id": 1}',
        b'{"id": "1", "op": "status"}',
        b'{"id": 1, "op": 2}',
        b"\xff",
        b"[" * 9999,
    ],
)
def test_not_a_request(line: bytes) -> None:
    with pytest.raises(FramingError):
        control.parse_request(line)


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("fly", "{}"),
        ("start", "{}"),
        ("start", '{"names": ["a"], "all": true}'),
        ("start", '{"names": "a"}'),
        ("stop", '{"names": ["a"], "narrow": true}'),
        ("tools", "{}"),
        ("logs", '{"name": "a", "lines": "many"}'),
        ("call", '{"name": "a", "tool": "t", "arguments": [1]}'),
        ("call", '{"name": "a", "tool": "t", "arguments": null}'),
        ("status", "[]"),
    ],
)
def test_a_request_that_asks_for_nothing_known_is_a_usage_error(op: str, args: str) -> None:
    request = control.parse_request(f'{{"id": 3, "op": "{op}", "args": {args}}}'.encode())
    with pytest.raises(UsageError):
        control.parse_operation(request)
    assert request.id == 3


def test_args_may_be_missing_and_unknown_keys_are_ignored() -> None:
    assert control.parse_operation(control.parse_request(b'{"id": 1, "op": "down", "new": 1}')) == control.Down()
    request = control.parse_request(b'{"id": 1, "op": "logs", "args": {"name": "a", "colour": "red"}}')
    assert control.parse_operation(request) == control.Logs(name="a")


def test_result() -> None:
    result = control.ReloadResult(added=("a",), removed=("b",))
    reply = control.parse_reply(control.result_line(4, result))
    assert reply.id == 4
    assert reply.event is UNSET
    assert reply.error is UNSET
    assert isinstance(reply.result, Raw)
    assert control.parse_result(reply.result, control.ReloadResult) == result


def test_null_result_is_a_result() -> None:
    line = control.result_line(1)
    assert json.loads(line) == {"id": 1, "result": None}
    reply = control.parse_reply(line)
    assert isinstance(reply.result, Raw)
    assert bytes(reply.result) == b"null"


def test_raw_result_is_not_touched() -> None:
    reply = control.parse_reply(control.result_line(1, Raw(b'{"n":1e400,"n":1.0}')))
    assert isinstance(reply.result, Raw)
    assert bytes(reply.result) == b'{"n":1e400,"n":1.0}'


def test_event() -> None:
    reply = control.parse_reply(control.event_line(2, LogLine(line="a\nb")))
    assert isinstance(reply.event, Raw)
    assert control.parse_result(reply.event, LogLine).line == "a\nb"


def test_error_keeps_code_text_remedy_and_exit_status() -> None:
    line = control.error_line(5, UnknownServerError("no server x", remedy="smcp list"))
    assert json.loads(line)["error"] == {
        "code": "unknown-server",
        "message": "no server x",
        "remedy": "smcp list",
        "exit": 4,
    }
    reply = control.parse_reply(line)
    assert isinstance(reply.error, control.Failure)
    error = reply.error.error()
    assert (error.code, error.exit_status, error.message, error.remedy) == (
        "unknown-server",
        4,
        "no server x",
        "smcp list",
    )
    assert SmcpError.code == "failed"
    assert SmcpError.exit_status == 1


def test_empty_error_still_says_something() -> None:
    assert str(control.Failure().error())


@pytest.mark.parametrize(
    "line", [b"{}", b'{"id":1}', b'{"id":1,"result":1,"event":2}', b"ok token\n", b'{"id":1,"error":1}']
)
def test_not_a_reply(line: bytes) -> None:
    with pytest.raises(FramingError):
        control.parse_reply(line)


def test_result_of_another_form_is_a_framing_error() -> None:
    with pytest.raises(FramingError, match="StatusResult"):
        control.parse_result(Raw(b'{"daemon": 1}'), control.StatusResult)


def test_status_has_the_form_of_the_contract() -> None:
    status = control.StatusResult(
        daemon=control.DaemonStatus(pid=1, version="1", uptime=2.0, socket="/s"),
        servers=(
            control.ServerStatus(
                name="a", state="RUNNING", instances=(control.InstanceStatus(key="a/1", state="RUNNING", pid=3),)
            ),
        ),
    )
    data = msgspec.to_builtins(status)
    assert list(data) == ["daemon", "servers"]
    assert set(data["daemon"]) == {
        *("pid", "version", "uptime", "socket", "config", "problems", "logging", "audit", "sessions", "hosts"),
    }
    assert set(data["servers"][0]) == {
        "name",
        "state",
        "scope",
        "runtime",
        "isolation",
        "profile",
        "beyond",
        "network",
        "credentials",
        "start",
        "held",
        "held_except",
        "catalogue",
        "sessions",
        "restarts",
        "last_error",
        "instances",
    }
    assert set(data["servers"][0]["instances"][0]) == {
        "key",
        "image",
        "pid",
        "generation",
        "state",
        "sessions",
        "uptime",
        "era",
        "project",
        "restarts",
        "last_error",
        "phase",
        "isolation",
        "user",
        "limits",
        "uncovered",
        "differs",
        "held",
        "mounts",
        "dropped",
    }


@given(st.binary())
def test_no_bytes_crash_the_parsers(data: bytes) -> None:
    for parse in (control.parse_request, control.parse_reply):
        with contextlib.suppress(FramingError):
            parse(data)
