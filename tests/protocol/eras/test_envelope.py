"""Envelopes: written for hosts that have none, read and checked where others wrote them, taken off without a trace."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.eras import envelope
from supervisord_mcp.protocol.eras.envelope import Envelope, Fault

VERSION = "2026-07-28"
META = {envelope.PROTOCOL_VERSION: VERSION, envelope.CLIENT_CAPABILITIES: {}}

names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=5)
objects = st.dictionaries(names, st.none() | st.booleans() | st.integers() | names, max_size=3)


def asked(params: Any) -> jsonrpc.Message:
    """Return a request with these parameters; ``...`` for none."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    return jsonrpc.parse(json.dumps(message if params is ... else {**message, "params": params}).encode())


@given(objects, st.none() | objects, st.none() | st.sampled_from(["debug", "emergency"]), objects)
def test_what_is_written_is_read(
    capabilities: dict[str, Any], client: dict[str, Any] | None, level: str | None, params: dict[str, Any]
) -> None:
    written = Envelope(VERSION, capabilities, client, level)
    text = envelope.write(json.dumps({**params, "_meta": params}).encode(), written, 7)
    assert envelope.read(asked(json.loads(text))) == written
    assert json.loads(text)["_meta"]["progressToken"] == 7


@given(objects, objects)
def test_stripping_undoes_writing(params: dict[str, Any], meta: dict[str, Any]) -> None:
    before = {**params, "_meta": meta} if meta else params
    text = envelope.write(json.dumps(before).encode(), Envelope(VERSION, {}, {}, "debug"))
    stripped = envelope.strip(text)
    assert (json.loads(stripped) if stripped else {}) == before


def test_what_is_not_the_envelope_keeps_its_text() -> None:
    raw = b'{"name":"x","arguments":{"n":1e400,"n":2,"s":"\\u00e9"},"_meta":{"v/k":1.0}}'
    text = envelope.write(raw, Envelope(VERSION, {}))
    assert b'"arguments":{"n":1e400,"n":2,"s":"\\u00e9"}' in text
    assert b'"v/k":1.0' in text
    assert envelope.strip(text) == raw


@pytest.mark.parametrize("params", [None, b"null", b"{}"])
def test_16_a_method_without_parameters_gets_them(params: bytes | None) -> None:
    assert json.loads(envelope.write(params, Envelope(VERSION, {}))) == {"_meta": META}


def test_a_token_is_only_the_one_that_was_given() -> None:
    text = envelope.write(b'{"_meta":{"progressToken":"host"}}', Envelope(VERSION, {}))
    assert json.loads(text) == {"_meta": META}


@pytest.mark.parametrize(
    "params",
    [
        ...,
        None,
        [],
        {},
        {"_meta": None},
        {"_meta": {}},
        {"_meta": {envelope.PROTOCOL_VERSION: VERSION}},
        {"_meta": {envelope.CLIENT_CAPABILITIES: {}}},
        {"_meta": {**META, envelope.PROTOCOL_VERSION: 1}},
        {"_meta": {**META, envelope.CLIENT_CAPABILITIES: []}},
        {"_meta": {**META, envelope.CLIENT_INFO: "me"}},
        {"_meta": {**META, envelope.LOG_LEVEL: "loud"}},
        {"_meta": {**META, envelope.LOG_LEVEL: None}},
        # Its revision is not served either, but the defect comes first.
        {"_meta": {envelope.PROTOCOL_VERSION: "2099-01-01"}},
    ],
)
def test_61_a_defective_envelope_is_refused(params: Any) -> None:
    fault = envelope.read(asked(params))
    assert isinstance(fault, Fault)
    assert (fault.code, fault.data) == (-32602, None)


def test_20_a_revision_that_nobody_serves_is_refused() -> None:
    fault = envelope.read(asked({"_meta": {**META, envelope.PROTOCOL_VERSION: "2099-01-01"}}))
    assert isinstance(fault, Fault)
    error = json.loads(fault.line(b'"a"'))
    assert error["id"] == "a"
    assert error["error"]["code"] == -32022
    assert error["error"]["data"] == {"supported": [VERSION], "requested": "2099-01-01"}


def test_what_claims_a_revision_is_modern() -> None:
    assert envelope.is_modern(asked({"_meta": META}))
    assert envelope.is_modern(asked({"_meta": {envelope.PROTOCOL_VERSION: None}}))
    assert not envelope.is_modern(asked({"_meta": {"progressToken": 1}}))
    assert not envelope.is_modern(asked(...))
    assert not envelope.is_modern(asked([]))


@pytest.mark.parametrize(
    ("params", "claimed"),
    [
        ({"_meta": {"io.modelcontextprotocol/clientInfo": {}}}, True),
        ({"_meta": {"io.modelcontextprotocol/logLevel": "debug"}}, True),
        ({"_meta": {"io.modelcontextprotocol/serverInfo": {}}}, False),
        ({"_meta": 7}, False),
        ({}, False),
        ([1], False),
    ],
)
def test_a_part_of_the_envelope_claims_the_era(params: object, claimed: bool) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x", "params": params}).encode()
    assert envelope.claims(jsonrpc.parse(line)) is claimed
