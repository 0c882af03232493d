"""What is kept of a log message of a server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.commands import LogMessage
from supervisord_mcp.protocol.sayings import said


@pytest.mark.parametrize(
    ("params", "wanted"),
    [
        ({"level": "info", "logger": "db", "data": "up"}, LogMessage("info", "db", "up", (3,))),
        ({"level": "info", "data": {"a": [1]}}, LogMessage("info", "", '{"a":[1]}', (3,))),
        ({"level": 5, "logger": None}, LogMessage("", "", "null", (3,))),
        ({}, LogMessage("", "", "null", (3,))),
    ],
)
def test_level_logger_and_data_are_kept(params: dict[str, Any], wanted: LogMessage) -> None:
    line = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
    assert said(jsonrpc.parse(msgspec.json.encode(line)), (3,)) == wanted
