"""Files of variables that an entry names (``envFile`` of VS Code and Cursor): ``NAME=value``, a line for each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from supervisord_mcp.config.files import read_file
from supervisord_mcp.config.variables import escape

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.ASCII)
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"\s*(?:#.*)?|'([^']*)'\s*(?:#.*)?")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_variables(path: Path) -> Mapping[str, str]:
    """Return the variables of a file, in our language. Raise `OSError` or `ValueError`, which quotes no value."""
    text = read_file(path).decode("utf-8-sig")
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        value = None if match is None else _value(match[2])
        if match is None or value is None:
            raise ValueError(f"line {number} is not NAME=value")
        found[match[1]] = escape(value)
    return found


def _value(text: str) -> str | None:
    """Return what stands after the equals sign, without quotes and comment; None where a quote does not end."""
    if text[:1] not in ("'", '"'):
        return re.sub(r"(^|\s+)#.*$", "", text).strip()
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        return None
    if quoted[2] is not None:
        return quoted[2]
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), quoted[1])
