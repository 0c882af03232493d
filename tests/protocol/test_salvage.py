"""Broken lines: what is read of them, and what is not."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.framing import KEPT
from supervisord_mcp.protocol.salvage import Outline, bare, lenient, outline

FRAME = b'{"jsonrpc":"2.0","id":7,"result":{}}'


@pytest.mark.parametrize(
    "line",
    [
        FRAME,
        b"\xef\xbb\xbf" + FRAME,
        b" \t" + FRAME + b"\r\r",
        b"Downloading 100%" + FRAME,
        b'noise {"a":1} {"jsonrpc":"1.0","result":1} ' + FRAME,
        b"\xff\xfe noise " + FRAME,
        b"\r50%\r100%\r" + FRAME,
    ],
)
def test_a_frame_is_found(line: bytes) -> None:
    message = lenient(line)
    assert message.id == b"7"
    assert jsonrpc.encode(message.members) == FRAME + b"\n"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"noise",
        b'noise {"jsonrpc":"2.0","id":7,"result":{}} and more',
        b'noise {"id":7,"result":{}}',
        # The frames in these are somebody's data.
        b'{"jsonrpc":"2.0","id":1,"result":{"x":' + FRAME + b"}",
        b'{"jsonrpc":"2.0","id":1,"result":{"x":NaN,"y":' + FRAME + b"}}",
        # Nobody searches for ever.
        b"x" * 5000 + FRAME,
        b'{"' * 20 + FRAME,
        b'x{"' * 20 + FRAME,
        b'{"jsonrpc":"2.0","id":7,"result":"\\ud83d",}',
        b'{"jsonrpc":"2.0","id":7,"method":"\\ud83d"}',
    ],
)
def test_no_frame_is_found(line: bytes) -> None:
    with pytest.raises(FramingError):
        lenient(line)


def test_what_is_no_unicode_is_repaired() -> None:
    message = lenient(b'{"jsonrpc":"2.0","id":7,"result":{"a":"\xed\xa0\xbd\xed\xb8\x80","b":"\xff\xc3\xa4"}}')
    assert bytes(message.members["result"]) == '{"a":"\\ud83d\\ude00","b":"\ufffdä"}'.encode()


def test_half_a_surrogate_pair_stays_as_it_is() -> None:
    message = lenient(b'{"jsonrpc":"2.0","id":7,"result":{"a":"\\ud83d","n":1e400,"n":12345678901234567890123}}')
    assert bytes(message.members["result"]) == b'{"a":"\\ud83d","n":1e400,"n":12345678901234567890123}'


@given(st.binary(max_size=60))
def test_no_bytes_break_it(line: bytes) -> None:
    with suppress(FramingError):
        jsonrpc.encode(lenient(line).members)
    outline(line, line)


@pytest.mark.parametrize(("line", "text"), [(b"\xef\xbb\xbf\xef\xbb\xbf x \r", b"x"), (b" \t\r", b""), (b"x", b"x")])
def test_blanks_and_marks_are_stripped(line: bytes, text: bytes) -> None:
    assert bare(line) == text


@pytest.mark.parametrize(
    ("head", "tail", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":"x","params":{"id":6', b"}}", Outline(b"5", asks=True)),
        (b'{"jsonrpc":"2.0", "id" : "a\\"b" , "result":[', b"]}", Outline(b'"a\\"b"', answers=True)),
        (b'{"result":{"id":6', b'"}],"id":6},"jsonrpc":"2.0","id":7}', Outline(b"7", answers=True)),
        (b'{"method":"x","params":{"y":[', b']},"jsonrpc":"2.0","id":0} \r', Outline(b"0", asks=True)),
        (b'{"params":{"x":"', b'"},"id":1,"method":"x"}', Outline(b"1", asks=True)),
        (b'{"jsonrpc":"2.0","id":5,"error":{"code":', b'"}}', Outline(b"5", answers=True)),
        (b'{"x":{', b'},"error":"x","id":4}', Outline(b"4", answers=True)),
        (b'{"x":{', b'},"result":"x","id":4}', Outline(b"4", answers=True)),
        (b'{"jsonrpc":"2.0","method":"notifications/message","params":{', b"}}", Outline(asks=True)),
        (b'{"jsonrpc":"2.0","id":5,"result":"long', b'long"}', Outline(b"5", answers=True)),
        (b'{"result":"long', b'long","id":-5}', Outline(b"-5", answers=True)),
        # The end is not outside of anything: what opened there was never closed.
        (b'{"result":{', b',"x":{"y":1,"id":7}', Outline(answers=True)),
        (b'{"result":{"id":8', b"", Outline(answers=True)),
        (b'[{"id":1,"method":"x"}', b'{"id":2}]', Outline()),
        (b"noise", b'"id":1}', Outline()),
        (b"", b"", Outline()),
        (b'\xef\xbb\xbf {"id":1,"method":"x"}', b"", Outline(b"1", asks=True)),
        (b'{"id":{"id":1},"method":"x"}', b'{"id":{"id":1},"method":"x"}', Outline(asks=True)),
    ],
)
def test_only_outer_members_are_seen(head: bytes, tail: bytes, expected: Outline) -> None:
    assert outline(head, tail) == expected


def test_a_huge_string_is_looked_at_in_no_time() -> None:
    head = b'{"jsonrpc":"2.0","x":"' + b"\\\\" * KEPT
    assert outline(head, b"y" * KEPT) == Outline()
