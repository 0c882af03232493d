"""The trace of a call as a cookie."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol.jsonrpc import Members, parse, text_of, value_of
from supervisord_mcp.protocol.traces import Trace, stamp, trace_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def meta(value: Any) -> Members:
    return {"traceparent": Raw(text_of(value))}


@pytest.mark.parametrize("text", [f"00-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01-more"])
def test_a_trace_is_read(text: str) -> None:
    found = trace_of(meta(text))
    assert found == Trace(TRACE, SPAN)
    assert found is not None
    assert found.text == f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    "value",
    [
        5,
        "",
        f"00-{TRACE}-{SPAN}",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
    ],
)
def test_what_is_no_trace_is_none(value: Any) -> None:
    assert trace_of(meta(value)) is None
    assert trace_of({}) is None


def stamped(params: str) -> tuple[Any, Trace]:
    message = parse(f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'.encode())
    trace = stamp(message, 255, "abcdef0123456789")
    return value_of(message.members["params"]), trace


def test_a_call_without_a_trace_gets_one_of_ours() -> None:
    params, trace = stamped('{"name":"x","_meta":{"v":1}}')
    assert params == {"name": "x", "_meta": {"v": 1, "traceparent": trace.text}}
    assert trace == Trace("abcdef012345678900000000000000ff", "00000000000000ff")
    assert stamped("null") == ({"_meta": {"traceparent": trace.text}}, trace)


def test_a_call_of_a_trace_keeps_that_and_its_flags() -> None:
    params, trace = stamped(f'{{"_meta":{{"traceparent":"00-{TRACE}-{SPAN}-01","tracestate":"k=v"}}}}')
    assert params["_meta"] == {"traceparent": f"00-{TRACE}-00000000000000ff-01", "tracestate": "k=v"}
    assert trace == Trace(TRACE, "00000000000000ff")


def test_parameters_that_are_no_object_are_a_fault() -> None:
    with pytest.raises(FramingError):
        stamped("[1]")
