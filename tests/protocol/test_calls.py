"""A call is one object from beginning to end, whichever way it goes."""

from __future__ import annotations

from supervisord_mcp.protocol.calls import NAMELESS, Call, Caller
from supervisord_mcp.protocol.commands import ToSession
from supervisord_mcp.protocol.multiplexer import Multiplexer


def test_a_call_says_whose_it_is() -> None:
    call = Call(1, b"2")
    assert (call.server, call.instance, call.host) == ("", "", NAMELESS)
    call.caller = Caller("files", "files/1", "editor")
    assert (call.server, call.instance, call.host) == ("files", "files/1", "editor")


def test_who_carries_out_commands_gets_back_what_was_filled_in() -> None:
    mux = Multiplexer("s", entropy=bytes)
    mux.attach(1)
    hello = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}'
    )
    commands = mux.from_session(1, hello)
    [opened] = [command for command in commands if isinstance(command, Call)]
    assert (opened.identity, opened.method, opened.upstream) == (b"1", "", None), "a greeting is no call"
    opened.began = 7.0
    assert mux.calls() == mux.calls_of(1) == [opened]
    assert mux.calls_of(2) == []
    [failed] = [command for command in mux.fail_held("no server") if isinstance(command, ToSession)]
    assert failed.closes[0] is opened
    assert mux.calls() == []
