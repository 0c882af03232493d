"""Objects whose strings hold half of a surrogate pair, as JavaScript writes them after cutting a text in two.

Such text is JSON by its grammar but no Unicode, so strict decoders refuse all of it. Here it is taken apart with the
more patient decoder of the standard library; every value keeps its very text.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

_SPACE = re.compile(r"[ \t\r\n]*")
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


# Only where a value ends is asked here, and Python refuses to convert an integer of 5,000 digits.
_decoder = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_refuse)


def members(text: bytes) -> dict[str, msgspec.Raw]:
    """Given the text of a JSON object, return its members. Raise `ValueError` if it is none, or has no surrogate."""
    if _HALF.search(text) is None:
        raise ValueError("no surrogate in it")
    source = text.decode()
    found: dict[str, msgspec.Raw] = {}
    at = _expect(source, 0, "{")
    while True:
        key, at = _value(source, at)
        if not isinstance(key, str):
            raise ValueError("a key must be a string")  # noqa: TRY004 - the text is wrong, not the argument
        start = _expect(source, at, ":")
        _, at = _value(source, start)
        found[key] = msgspec.Raw(source[start:at].encode())
        at = _after_space(source, at)
        if source[at : at + 1] != ",":
            break
        at = _after_space(source, at + 1)
    if _expect(source, at, "}") != len(source):
        raise ValueError("text after the object")
    return found


def _value(source: str, at: int) -> tuple[Any, int]:
    try:
        return _decoder.raw_decode(source, at)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _expect(source: str, at: int, mark: str) -> int:
    at = _after_space(source, at)
    if source[at : at + 1] != mark:
        raise ValueError(f"no {mark} at {at}")
    return _after_space(source, at + 1)


def _after_space(source: str, at: int) -> int:
    match = _SPACE.match(source, at)
    assert match is not None
    return match.end()
