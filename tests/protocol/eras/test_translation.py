"""What a modern server says of itself, in the words of the other era."""

from __future__ import annotations

import json
from typing import Any

import pytest

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.eras.translation import handshake
from tests.kit.conversation import discovered

INFO = {"name": "fake", "version": "1"}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, {"serverInfo": INFO}),
        ({"instructions": "é"}, {"serverInfo": INFO, "instructions": "é"}),
        ({"instructions": None}, {"serverInfo": INFO}),
        (
            {"_meta": {}, "serverInfo": {"name": "draft", "version": "0"}},
            {"serverInfo": {"name": "draft", "version": "0"}},
        ),
        ({"_meta": {}}, {"serverInfo": {"name": "files", "version": ""}}),
    ],
)
def test_a_handshake_is_made_of_it(said: Any, told: Any) -> None:
    capabilities = {"tools": {"listChanged": True}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
    result = jsonrpc.members_of(json.dumps(discovered(capabilities, **said)).encode())
    expected = {"protocolVersion": "2026-07-28", "capabilities": {"tools": {"listChanged": True}}, **told}
    assert json.loads(handshake("2026-07-28", result, "files")) == expected
