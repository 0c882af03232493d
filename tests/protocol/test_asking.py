"""What a server asks a host, in words of the host's revision."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import asking, mcp
from tests.protocol.texts import OBJECTS

Json = Any

FORM = {"message": "m", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
PAGE = {"mode": "url", "message": "m", "url": "https://x"}
TEXT = {"type": "text", "text": "t"}
AUDIO = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}


def older(method: str, params: Json, version: str, elicitation: str | None = None) -> Json:
    return json.loads(bytes(asking.older_params(method, json.dumps(params).encode(), version, elicitation)))


@pytest.mark.parametrize("context", ["thisServer", "allServers", "vendor"])
@pytest.mark.parametrize("declared", [{}, {"sampling": {}}, {"sampling": {"tools": {}}}, {"sampling": 1}])
def test_a_context_is_left_out_for_who_did_not_declare_it(context: str, declared: Json) -> None:
    asked = {"messages": [], "maxTokens": 1, "includeContext": context}
    params = json.dumps(asked).encode()
    plain = {"messages": [], "maxTokens": 1}
    assert json.loads(bytes(asking.without_context(params, declared))) == plain
    for version in mcp.LEGACY_VERSIONS[:-1]:  # they have no such capability
        assert asking.without_context(params, declared, version) is params
    entry = json.dumps({"method": "sampling/createMessage", "params": asked, "x": 1}).encode()
    told = {"method": "sampling/createMessage", "params": plain, "x": 1}
    assert json.loads(bytes(asking.entry_within(entry, declared))) == told


@pytest.mark.parametrize("version", [mcp.NEWEST_LEGACY, mcp.NEWEST_MODERN])
@pytest.mark.parametrize(
    ("params", "declared"),
    [
        (b'{"includeContext":"allServers"}', {"sampling": {"context": {}}}),
        (b'{"includeContext":"none"}', {}),
        (b'{"includeContext":7}', {}),
        (b'{"messages":["includeContext"]}', {}),
        (b"{}", {}),
    ],
)
def test_what_needs_no_change_is_the_very_same(params: bytes, declared: Json, version: str) -> None:
    assert asking.without_context(params, declared, version) is params


@pytest.mark.parametrize(
    "entry",
    [
        b'{"method":"roots/list"}',
        b'{"method":"sampling/createMessage"}',
        b'{"method":"vendor/x","params":{"includeContext":"allServers"}}',
    ],
)
def test_other_entries_are_the_very_same(entry: bytes) -> None:
    assert asking.entry_within(entry, {}) is entry


@pytest.mark.parametrize("version", mcp.LEGACY_VERSIONS)
def test_a_form_has_a_mode_only_where_there_are_modes(version: str) -> None:
    asked = older("elicitation/create", {**FORM, "mode": "form"}, version)
    assert asked == ({**FORM, "mode": "form"} if version == "2025-11-25" else FORM)


def test_a_page_needs_a_host_that_has_pages_and_an_id() -> None:
    with pytest.raises(FramingError, match="no elicitation in mode url") as caught:
        older("elicitation/create", PAGE, "2025-06-18")
    assert caught.value.rpc_code == -32602
    assert older("elicitation/create", PAGE, "2025-11-25") == PAGE
    assert older("elicitation/create", PAGE, "2025-11-25", "e") == {**PAGE, "elicitationId": "e"}
    own = {**PAGE, "elicitationId": "own"}
    assert older("elicitation/create", own, "2025-11-25", "e") == own


def test_choices_with_titles_are_written_as_2025_06_18_does() -> None:
    fields = {
        "c": {"type": "string", "title": "C", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g"}]},
        "d": {"type": "string", "oneOf": [{"pattern": "x"}]},
        "e": {"type": "string", "enum": ["a"]},
    }
    asked = {"message": "m", "requestedSchema": {"type": "object", "properties": fields, "required": ["c"]}}
    assert older("elicitation/create", asked, "2025-11-25") == asked
    assert older("elicitation/create", asked, "2025-06-18")["requestedSchema"] == {
        "type": "object",
        "properties": {**fields, "c": {"type": "string", "title": "C", "enum": ["r", "g"], "enumNames": ["Red", "g"]}},
        "required": ["c"],
    }


def test_blocks_of_a_sampling_message_become_messages() -> None:
    asked = {"maxTokens": 5, "messages": [{"role": "user", "content": [TEXT, AUDIO]}, {"role": "assistant"}]}
    assert older("sampling/createMessage", asked, "2025-11-25") == asked
    assert older("sampling/createMessage", asked, "2025-06-18")["messages"] == [
        {"role": "user", "content": TEXT},
        {"role": "user", "content": AUDIO},
        {"role": "assistant"},
    ]
    oldest = older("sampling/createMessage", {"messages": [{"role": "user", "content": AUDIO}]}, "2024-11-05")
    assert oldest["messages"][0]["content"]["type"] == "text"


@given(OBJECTS, st.sampled_from(mcp.LEGACY_VERSIONS), st.sampled_from(["roots/list", "vendor/x", "elicitation/create"]))
def test_what_needs_no_change_is_the_same_object(text: str, version: str, method: str) -> None:
    params = text.encode()
    assert asking.older_params(method, params, version) is params


def test_an_input_request_has_nothing_of_the_handshake_era() -> None:
    params = {**PAGE, "_meta": {"progressToken": 1}, "task": {"ttl": 1}, "elicitationId": "e"}
    entry = asking.input_request("elicitation/create", json.dumps(params).encode())
    assert json.loads(entry) == {"method": "elicitation/create", "params": PAGE}
    assert json.loads(asking.input_request("roots/list", None)) == {"method": "roots/list"}
    assert json.loads(asking.input_request("roots/list", b'{"a":1e400}')) == {
        "method": "roots/list",
        "params": {"a": float("inf")},
    }
    empty = asking.input_request("sampling/createMessage", b"{}")
    assert json.loads(empty) == {"method": "sampling/createMessage", "params": {}}
