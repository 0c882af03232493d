"""What a server says with ``notifications/message``, whoever it is shown to: read for the log of that server."""

from __future__ import annotations

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.protocol.commands import LogMessage
from supervisord_mcp.protocol.jsonrpc import Message


def said(message: Message, shown: tuple[SessionKey, ...] = ()) -> LogMessage:
    """Given a log message of a child and the sessions that it is shown to, return what is kept of it."""
    params = message.params()
    level, logger = (jsonrpc.string_of(params.get(key)) or "" for key in ("level", "logger"))
    data = params.get("data", jsonrpc.NULL)
    text = jsonrpc.string_of(data)
    return LogMessage(level, logger, bytes(data).decode(errors="replace") if text is None else text, shown)
