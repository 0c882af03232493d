"""Results and errors for older and newer peers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import conversion, jsonrpc, mcp
from tests.protocol.texts import OBJECTS

Json = Any

TEXT = {"type": "text", "text": "t"}
AUDIO = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "x:y", "name": "n"}
TOOL = {
    "name": "t",
    "description": "d",
    "inputSchema": {"type": "object"},
    "annotations": {"title": "a"},
    "title": "T",
    "outputSchema": {"type": "object"},
    "icons": [],
    "execution": {"taskSupport": "optional"},
    "_meta": {"vendor/x": 1},
    "vendor": True,
}
ENVELOPE = {"resultType": "complete", "ttlMs": 5, "cacheScope": "public"}
METHODS = st.sampled_from(
    ["tools/list", "tools/call", "prompts/get", "prompts/list", "resources/read", "tasks/result", "vendor/x"]
)
VERSIONS = st.sampled_from(mcp.LEGACY_VERSIONS)


def older(method: str, value: Json, version: str) -> Json:
    return json.loads(bytes(conversion.older(method, json.dumps(value).encode(), version)))


def legacy(method: str, value: Json, version: str = "2025-11-25", *, wrapped: bool = False) -> Json:
    return json.loads(bytes(conversion.to_legacy(method, json.dumps(value).encode(), version, wrapped=wrapped)))


def modern(method: str, value: Json, server: Json = None) -> Json:
    named = None if server is None else json.dumps(server).encode()
    return json.loads(conversion.to_modern(method, json.dumps(value).encode(), named))


# Handshake server, older host


@pytest.mark.parametrize(
    ("version", "newer"),
    [
        ("2024-11-05", {"annotations", "title", "outputSchema", "icons", "execution"}),
        ("2025-03-26", {"title", "outputSchema", "icons", "execution"}),
        ("2025-06-18", {"icons", "execution"}),
        ("2025-11-25", set()),
    ],
)
def test_a_tool_has_the_keys_of_the_hosts_revision(version: str, newer: set[str]) -> None:
    expected = {key: value for key, value in TOOL.items() if key not in newer}
    told = older("tools/list", {"tools": [TOOL, {"name": "plain"}], "nextCursor": ""}, version)
    assert told == {"tools": [expected, {"name": "plain"}], "nextCursor": ""}


@pytest.mark.parametrize(
    ("method", "key"),
    [("prompts/list", "prompts"), ("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")],
)
def test_other_definitions_too(method: str, key: str) -> None:
    item = {"name": "n", "title": "T", "icons": [], "annotations": {}, "_meta": {}}
    assert older(method, {key: [item]}, "2025-11-25") == {key: [item]}
    assert older(method, {key: [item]}, "2025-06-18") == {key: [{k: v for k, v in item.items() if k != "icons"}]}
    assert older(method, {key: [item]}, "2025-03-26") == {key: [{"name": "n", "annotations": {}, "_meta": {}}]}


def test_arguments_of_a_prompt() -> None:
    prompt = {"name": "n", "arguments": [{"name": "a", "title": "A"}, {"name": "b"}]}
    assert older("prompts/list", {"prompts": [prompt]}, "2025-06-18") == {"prompts": [prompt]}
    plain = {"name": "n", "arguments": [{"name": "a"}, {"name": "b"}]}
    assert older("prompts/list", {"prompts": [prompt]}, "2025-03-26") == {"prompts": [plain]}


@pytest.mark.parametrize("method", ["tools/call", "tasks/result"])
def test_a_call_returns_what_the_hosts_revision_knows(method: str) -> None:
    value = {"content": [TEXT, AUDIO, LINK], "structuredContent": {"a": 1}, "isError": False}
    assert older(method, value, "2025-06-18") == value
    told = older(method, value, "2025-03-26")
    assert [block["type"] for block in told["content"]] == ["text", "audio", "text"]
    assert told.keys() == {"content", "isError"}
    assert [block["type"] for block in older(method, value, "2024-11-05")["content"]] == ["text", "text", "text"]
    assert older(method, {"structuredContent": {"a": 1}}, "2024-11-05") == {
        "content": [{"type": "text", "text": '{"a": 1}'}]
    }


def test_a_prompt_is_told_in_blocks_of_the_hosts_revision() -> None:
    value = {"messages": [{"role": "user", "content": TEXT}, {"role": "user", "content": LINK}]}
    assert older("prompts/get", value, "2025-06-18") == value
    told = older("prompts/get", value, "2025-03-26")
    assert [message["content"]["type"] for message in told["messages"]] == ["text", "text"]


@given(METHODS, OBJECTS, VERSIONS)
def test_what_needs_no_change_is_the_same_object(method: str, text: str, version: str) -> None:
    result = text.encode()
    assert conversion.older(method, result, version) is result
    assert conversion.to_legacy(method, result, version) is result


@given(METHODS, st.sampled_from([{"content": [AUDIO, LINK], "structuredContent": {}}, {"tools": [TOOL]}]), VERSIONS)
def test_an_older_result_is_older_enough(method: str, value: Json, version: str) -> None:
    told = json.dumps(older(method, value, version))
    assert conversion.older(method, told.encode(), version) == told.encode()
    assert older(method, value, "2025-11-25") == value


def test_a_server_names_itself_in_keys_of_the_hosts_revision() -> None:
    server = {"name": "n", "version": "1", "title": "T", "description": "d", "icons": [], "websiteUrl": "u", "x": 1}
    text = json.dumps(server).encode()
    assert conversion.older_implementation(text, "2025-11-25") is text
    assert json.loads(bytes(conversion.older_implementation(text, "2025-06-18"))) == {
        "name": "n",
        "version": "1",
        "title": "T",
        "x": 1,
    }


# 2026-07-28 server, handshake host


def test_the_envelope_is_taken_off() -> None:
    assert legacy("tools/call", {**ENVELOPE, "content": []}) == {"ttlMs": 5, "cacheScope": "public", "content": []}
    assert legacy("resources/read", {**ENVELOPE, "contents": []}) == {"contents": []}
    for method, listing in mcp.LISTINGS.items():
        assert legacy(method, {**ENVELOPE, listing.key: [], "_meta": {"v": 1}}) == {listing.key: [], "_meta": {"v": 1}}


@pytest.mark.parametrize("kind", ["input_required", "task", "later", None, 5])
def test_what_is_not_final_is_no_success(kind: Json) -> None:
    for convert in (legacy, modern):
        with pytest.raises(FramingError, match="answered tools/call with resultType") as caught:
            convert("tools/call", {"resultType": kind, "content": []})
        assert caught.value.rpc_code == -32603


def test_a_final_result_may_be_spelt_with_escapes() -> None:
    assert conversion.to_legacy("vendor/x", b'{"resultType":"c\\u006fmplete"}', "2025-11-25") == b"{}"


@pytest.mark.parametrize("value", [[1], 5, "s", None, {"a": 1}])
def test_structured_content_of_a_wrapped_tool_is_wrapped(value: Json) -> None:
    told = legacy("tools/call", {"content": [TEXT], "structuredContent": value}, wrapped=True)
    assert told == {"content": [TEXT], "structuredContent": {"result": value}}
    assert legacy("tools/call", {"content": [TEXT]}, wrapped=True) == {"content": [TEXT]}


@pytest.mark.parametrize("value", [[1], 5, "s", None])
def test_structured_content_without_a_schema_is_left_out_unless_an_object(value: Json) -> None:
    assert legacy("tools/call", {"content": [TEXT], "structuredContent": value}) == {"content": [TEXT]}
    told = legacy("tools/call", {"content": [], "structuredContent": value})
    assert told == {"content": [{"type": "text", "text": json.dumps(value)}]}


def test_structured_content_that_is_an_object_stays() -> None:
    value = {"content": [TEXT], "structuredContent": {"a": 1}}
    assert legacy("tools/call", value) == value
    assert legacy("tools/call", value, "2025-03-26") == {"content": [TEXT]}


def test_output_schemas_are_wrapped_for_those_who_know_them() -> None:
    tools = {
        "tools": [{"name": "t", "outputSchema": {"type": "array"}}, {"name": "o", "outputSchema": {"type": "object"}}]
    }
    told = legacy("tools/list", tools)["tools"]
    assert told[0]["outputSchema"]["properties"] == {"result": {"type": "array"}}
    assert legacy("tools/list", tools, "2025-03-26") == {"tools": [{"name": "t"}, {"name": "o"}]}


# Handshake server, 2026-07-28 host


def test_a_result_is_completed() -> None:
    assert modern("tools/call", {"content": []}) == {"content": [], "resultType": "complete"}
    assert modern("tools/call", {"content": [], "resultType": "complete"}) == {"content": [], "resultType": "complete"}
    hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    assert modern("resources/read", {"contents": [], "ttlMs": 7}) == {"contents": [], **hints}
    assert modern("prompts/list", {"prompts": [], "nextCursor": None}) == {"prompts": [], **hints}
    assert modern("prompts/list", {"prompts": [], "nextCursor": ""})["nextCursor"] == ""


def test_a_result_names_its_server() -> None:
    server = {"name": "s", "version": "1"}
    assert modern("x", {"_meta": {"v": 1}}, server)["_meta"] == {conversion.SERVER_INFO: server, "v": 1}
    own = {conversion.SERVER_INFO: {"name": "own"}}
    assert modern("x", {"_meta": own}, server)["_meta"] == own


def test_tools_for_tasks_alone_are_hidden_and_execution_is_dropped() -> None:
    tools = [
        {"name": "a", "execution": {"taskSupport": "required"}},
        {"name": "b", "execution": {"taskSupport": "optional"}},
        {"name": "c"},
    ]
    assert modern("tools/list", {"tools": tools})["tools"] == [{"name": "b"}, {"name": "c"}]


@given(METHODS, OBJECTS)
def test_there_and_back_again(method: str, text: str) -> None:
    members = jsonrpc.members_of(text.encode())
    back = conversion.to_legacy(method, conversion.to_modern(method, text.encode()), "2025-11-25")
    assert jsonrpc.members_of(back) == members


# Errors


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (-32002, -32602),
        (-32602, -32602),
        (-32000, -32000),
        (0, 0),
        (5, 5),
        (-32020, -32603),
        (-32022, -32603),
        (-32099, -32603),
        (-32100, -32100),
        ("x", "x"),
    ],
)
def test_codes_of_errors(code: Json, told: Json) -> None:
    error = {"code": code, "message": "m", "data": {"uri": "x:y"}}
    converted = conversion.error_to_modern(json.dumps(error).encode())
    assert json.loads(bytes(converted)) == {**error, "code": told}


def test_an_error_for_a_host_that_cannot_be_sent_to_a_page() -> None:
    error = b'{"code":-32042,"message":"m","data":{"elicitations":[]}}'
    assert json.loads(bytes(conversion.error_to_modern(error, lacks_pages=True))) == {
        "code": -32021,
        "message": "m",
        "data": {"requiredCapabilities": {"elicitation": {"url": {}}}},
    }
    # Where it would not help to declare it, nobody is told to.
    assert json.loads(bytes(conversion.error_to_modern(error))) == {**json.loads(error), "code": -32603}


def test_pages_that_a_person_is_sent_to_become_input_requests() -> None:
    pages = [
        {"mode": "url", "elicitationId": "e", "url": "https://a", "message": "m", "_meta": {}},
        {"url": "https://b"},
    ]
    error = {"code": -32042, "message": "m", "data": {"elicitations": pages}}
    asked = conversion.url_requests(json.dumps(error).encode())
    assert {key: json.loads(value) for key, value in asked.items()} == {
        "r1": {"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://a"}},
        "r2": {"method": "elicitation/create", "params": {"mode": "url", "message": "", "url": "https://b"}},
    }


@pytest.mark.parametrize(
    "error",
    [
        {"code": -32602},
        {"code": -32042},
        {"code": -32042, "data": {"elicitations": []}},
        {"code": -32042, "data": {"elicitations": [{"url": "https://a"}, {"message": "m"}]}},
    ],
)
def test_other_errors_ask_for_nothing(error: Json) -> None:
    assert conversion.url_requests(json.dumps(error).encode()) == {}
