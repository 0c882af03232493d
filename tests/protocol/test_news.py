"""What streams are made of passes over the wire as it is."""

from __future__ import annotations

import pytest
from msgspec import Raw, Struct

from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.news import LogLine, LogMark


@pytest.mark.parametrize(
    "event",
    [
        LogLine(line="a\nb", server="git", time=1.5, source="stderr", session=3, text="b", repeated=2, since=1.0),
        LogMark(path="/a/b.log", inode=7, size=1 << 40),
    ],
)
def test_an_event_passes_over_the_wire(event: Struct) -> None:
    reply = control.parse_reply(control.event_line(1, event))
    assert isinstance(reply.event, Raw)
    assert control.parse_result(reply.event, type(event)) == event
