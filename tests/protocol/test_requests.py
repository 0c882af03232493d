"""What is wrong with a request, and what of it changes on the way upstream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc, requests
from supervisord_mcp.protocol.calls import Call
from supervisord_mcp.protocol.jsonrpc import Message
from supervisord_mcp.protocol.requests import Opening
from tests.protocol.texts import OBJECTS

TASKS: dict[str, Any] = {"tasks": {"requests": {"tools": {"call": {}}}}}
MODERN = "io.modelcontextprotocol/"


def of(params: str, method: str = "tools/call") -> Message:
    return jsonrpc.parse(f'{{"jsonrpc":"2.0","id":"h","method":"{method}","params":{params}}}'.encode())


def sent(message: Message) -> str:
    return bytes(message.members["params"]).decode()


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":"x"}', None),
        ('{"jsonrpc":"2.0","method":"x"}', None),
        ('{"jsonrpc":"2.0","id":1,"result":{}}', None),
        ('{"id":1,"method":"x"}', 'jsonrpc must be "2.0"'),
        ('{"jsonrpc":2.0,"id":1,"method":"x"}', 'jsonrpc must be "2.0"'),
        ('{"jsonrpc":"2.0","id":null,"method":"x"}', "id must be a string or an integer"),
        ('{"jsonrpc":"2.0","id":1.5,"result":{}}', "id must be a string or an integer"),
        ('{"jsonrpc":"2.0","result":{}}', "an answer needs an id"),
    ],
)
def test_faults(line: str, fault: str | None) -> None:
    assert requests.fault(jsonrpc.parse(line.encode())) == fault


def test_a_handshake_is_no_part_of_a_batch() -> None:
    assert requests.batch_fault(of("{}", "initialize"))
    assert requests.batch_fault(of("{}")) is None


def test_an_opening_is_read() -> None:
    params = {"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, "clientInfo": {"name": "h"}}
    said = requests.opening(of(json.dumps(params), "initialize"))
    assert said == Opening("2025-06-18", {"roots": {}}, {"name": "h"})
    said = requests.opening(of('{"protocolVersion":"2099-01-01","clientInfo":5}', "initialize"))
    assert said == Opening("2025-11-25", {}, {})


@pytest.mark.parametrize(
    "params",
    [
        "null",
        "{}",
        "[]",
        '{"protocolVersion":5}',
        '{"protocolVersion":"latest"}',
        '{"protocolVersion":"2025-06-18 "}',
        '{"protocolVersion":"2025-06-18","capabilities":[]}',
        '{"protocolVersion":"2025-06-18","capabilities":null}',
    ],
)
def test_a_malformed_opening_is_refused(params: str) -> None:
    with pytest.raises(FramingError) as caught:
        requests.opening(of(params, "initialize"))
    assert caught.value.rpc_code == -32602


def test_a_uri_is_a_string() -> None:
    assert requests.uri(of('{"uri":"a:\\u0062"}')) == "a:b"
    for params in ("{}", '{"uri":5}', "null"):
        with pytest.raises(FramingError, match="needs uri"):
            requests.uri(of(params))


@pytest.mark.parametrize(
    ("params", "cursor"),
    [("{}", None), ('{"cursor":null}', None), ('{"cursor":""}', b'""'), ('{"cursor":"2"}', b'"2"')],
)
def test_a_cursor_may_be_null(params: str, cursor: bytes | None) -> None:
    assert requests.cursor(of(params).params()) == cursor
    assert requests.cursor(of(params).params(), "nextCursor") is None


@pytest.mark.parametrize(
    ("identity", "number"),
    [
        (b"7", 7),
        (b'"7"', 7),
        (b"-1", -1),
        (b'""', None),
        (b'"x"', None),
        (b'"-7"', None),
        (b'"1_0"', None),
        (b"null", None),
        (b"7.5", None),
        (b"", None),
        (b'"' + b"1" * 5000 + b'"', None),
        (b"1" * 5000, None),
    ],
)
def test_numbers_of_servers(identity: bytes, number: int | None) -> None:
    assert requests.number(identity) == number


@pytest.mark.parametrize(
    ("capabilities", "accepts"),
    [(TASKS, True), ({}, False), ({"tasks": {}}, False), ({"tasks": {"requests": 5}}, False), ({"tasks": None}, False)],
)
def test_who_takes_tasks(capabilities: dict[str, Any], accepts: bool) -> None:
    assert requests.accepts_tasks(capabilities) is accepts


@given(OBJECTS)
def test_parameters_that_need_no_change_keep_their_bytes(text: str) -> None:
    message = of(text)
    assert requests.rewrite(message, 12, {})[:2] == (None, False)
    assert message.members["id"] == Raw(b"12")
    assert sent(message) == text


@given(OBJECTS, OBJECTS, st.sampled_from(["0", '"t"', "1.0", '"\u2028"']), st.sampled_from(["first", "last", "middle"]))
def test_a_token_is_replaced_and_the_rest_stays(arguments: str, meta: str, token: str, place: str) -> None:
    members = [f'"arguments":{arguments}', '"n":1e400', '"n":2']
    inner = meta[1:-1].strip(" \t\r")
    text = f'"_meta":{{"progressToken":{token}{"," if inner else ""}{inner}}}'
    members.insert({"first": 0, "last": 3, "middle": 1}[place], text)
    message = of("{" + ",".join(members) + "}")
    assert requests.rewrite(message, 12, {})[:2] == (token.encode(), False)
    params = sent(message)
    assert json.loads(params)["_meta"] == {"progressToken": 12, **json.loads(meta)}
    assert f'"arguments":{arguments}' in params
    if place != "middle":
        assert '"n":1e400,"n":2' in params


@pytest.mark.parametrize(
    "meta", ["{}", "null", "5", "[]", '{"progressToken":null}', '{"traceparent":"00"}', '{ "x" : 1 }']
)
def test_a_meta_without_token_stays_as_it_is(meta: str) -> None:
    message = of(f'{{"name":"x","_meta":{meta} }}')
    assert requests.rewrite(message, 12, {})[:2] == (None, False)
    assert sent(message) == f'{{"name":"x","_meta":{meta} }}'


@pytest.mark.parametrize("token", ["1.5", "{}", "true", "[1]"])
def test_a_token_that_is_none_is_refused(token: str) -> None:
    with pytest.raises(FramingError) as caught:
        requests.rewrite(of(f'{{"_meta":{{"progressToken":{token}}}}}'), 12, {})
    assert caught.value.rpc_code == -32602


def test_the_envelope_of_the_modern_era_is_left_out() -> None:
    envelope = {f"{MODERN}{key}": "x" for key in ("protocolVersion", "clientInfo", "clientCapabilities")}
    message = of(json.dumps({"_meta": {**envelope, "vendor": 1}, "name": "x"}))
    assert requests.rewrite(message, 12, {})[:2] == (None, False)
    assert json.loads(sent(message)) == {"_meta": {"vendor": 1}, "name": "x"}
    message = of(json.dumps({"_meta": {**envelope, "progressToken": "t"}}))
    assert requests.rewrite(message, 12, {})[:2] == (b'"t"', False)
    assert json.loads(sent(message)) == {"_meta": {"progressToken": 12}}


def test_a_task_is_asked_for_only_where_there_are_tasks() -> None:
    text = '{"name":"x","n":1e400,"task":{"ttl":1},"_meta":{"progressToken":1}}'
    message = of(text)
    assert requests.rewrite(message, 12, TASKS)[:2] == (b"1", True)
    assert sent(message) == text.replace(":1}}", ":12}}")
    message = of(text)
    assert requests.rewrite(message, 12, {})[:2] == (b"1", False)
    assert sent(message) == '{"name":"x","n":1e400,"_meta":{"progressToken":12}}'
    message = of('{"task":1,"_meta":null}')
    assert requests.rewrite(message, 12, {})[:2] == (None, False)
    assert sent(message) == '{"_meta":null}'
    message = of(text, "prompts/get")
    assert requests.rewrite(message, 12, {})[:2] == (b"1", False)
    assert '"task":{"ttl":1}' in sent(message)


@pytest.mark.parametrize("params", ["[1]", '"x"', "5"])
def test_parameters_that_are_no_object_are_refused(params: str) -> None:
    with pytest.raises(FramingError, match="must be an object"):
        requests.rewrite(of(params), 12, {})


def test_a_request_without_parameters_gets_its_id() -> None:
    message = jsonrpc.parse(b'{"jsonrpc":"2.0","id":1,"method":"x"}')
    assert requests.rewrite(message, 12, {})[:2] == (None, False)
    assert jsonrpc.encode(message.members) == b'{"jsonrpc":"2.0","id":12,"method":"x"}\n'
    message = of("null")
    assert requests.rewrite(message, 12, {})[:2] == (None, False)
    assert sent(message) == "null"


@pytest.mark.parametrize(
    ("reason", "overdue"),
    [
        ("McpError: MCP error -32001: Request timed out", True),
        ("Timeout after 60 s", True),
        ("time-out", True),
        ("deadline exceeded", True),
        ("the person pressed Esc", False),
        ("", False),
    ],
)
def test_a_host_may_say_that_it_waited_for_too_long(reason: str, overdue: bool) -> None:
    params = jsonrpc.members_of(jsonrpc.text_of({"requestId": 1, "reason": reason}))
    assert requests.overdue(params) is overdue
    assert not requests.overdue({})


@pytest.mark.parametrize(
    ("line", "method", "tool"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}', "tools/call", b'"echo"'),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', "tools/call", b""),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}', "tools/call", b""),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', "tools/call", b""),
        (b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}', "prompts/get", b""),
        (b'{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}', "", b""),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}', "", b""),
    ],
)
def test_what_waits_is_told_with_its_tool(line: bytes, method: str, tool: bytes) -> None:
    assert requests.call(3, jsonrpc.parse(line), b"1") == Call(3, b"1", method, tool)


def test_the_tool_of_a_call_is_read_on_the_way() -> None:
    assert requests.rewrite(of('{"name":"echo","arguments":{}}'), 12, {}) == (None, False, b'"echo"')
    assert requests.rewrite(of('{"name":"echo","task":{}}'), 12, TASKS) == (None, True, b'"echo"')
    assert requests.rewrite(of('{"name":"echo","task":{}}'), 12, {}) == (None, False, b'"echo"')
