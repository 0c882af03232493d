"""Objects that only a patient decoder takes apart."""

from __future__ import annotations

import pytest

from supervisord_mcp.protocol import surrogates


def test_every_value_keeps_its_text() -> None:
    text = (
        b'{ "half\\ud83d" : "\\uDE00x" ,\t"big":123456789012345678901234567890, "digits": '
        + b"9" * 5000
        + b', "e":1e400 , "deep":{"a":[1.50,{"a":1,"a":2}]}, "line":"\xe2\x80\xa8" }\r'
    )
    found = {key: bytes(value) for key, value in surrogates.members(text).items()}
    assert found == {
        "half\ud83d": b'"\\uDE00x"',
        "big": b"123456789012345678901234567890",
        "digits": b"9" * 5000,
        "e": b"1e400",
        "deep": b'{"a":[1.50,{"a":1,"a":2}]}',
        "line": b'"\xe2\x80\xa8"',
    }


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b'{"a":"no surrogate"}',
        b'["\\ud83d"]',
        b'{"a":"\\ud83d"',
        b'{"a":"\\ud83d",}',
        b'{"a":"\\ud83d"}x',
        b'{"a" "\\ud83d"}',
        b'{"a":"\\ud83d","b"}',
        b'{1:"\\ud83d"}',
        b'{"a":"\\ud83d","b":NaN}',
        b'{"a":"\\ud83d","b":-Infinity}',
        b'{"a":"\\ud83d","b":"\t"}',
        b'{"a":"\\ud83d","b":01}',
        b'{"a":"\\ud83d\xff"}',
        b'{"a":"\\ud83d","b":' + b"[" * 100_000,
        b'{"a":"\\ud83d","b":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=lambda text: repr(text[:30]),
)
def test_what_is_no_such_object_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        surrogates.members(text)
