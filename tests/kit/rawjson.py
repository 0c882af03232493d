"""The members of a JSON object as raw text, so that a test sees ids and values exactly as they were sent."""

from __future__ import annotations

import json
import re

_SPACE = re.compile(r"[ \t\r\n]*")
_decoder = json.JSONDecoder()


def members(text: str) -> dict[str, str]:
    """Given the text of a JSON object, return the raw text of each member. Raise ValueError if it is not one."""
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError("not a JSON object")
    found: dict[str, str] = {}
    at = _skip(text, at + 1)
    while text[at : at + 1] != "}":
        key, end = _decoder.raw_decode(text, at)
        if not isinstance(key, str):
            raise ValueError("a key is not a string")  # noqa: TRY004 - bad text, not a bad argument
        at = _skip(text, end)
        if text[at : at + 1] != ":":
            raise ValueError("no colon after a key")
        at = _skip(text, at + 1)
        _, end = _decoder.raw_decode(text, at)
        found[key] = text[at:end]
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "}":
            raise ValueError("no comma between members")
    if _skip(text, at + 1) != len(text):
        raise ValueError("text after the object")
    return found


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
