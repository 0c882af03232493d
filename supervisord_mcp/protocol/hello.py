"""The greeting on the daemon's socket: one JSON line that says who connects, and the daemon's one-line answer.

A shim sends the line together with the file descriptors 0 and 1 of its host (SCM_RIGHTS). The answer is
``ok TOKEN`` or ``no STATUS TEXT``. When the session ends orderly the daemon sends a verdict, ``STATUS TEXT``
(TEXT may be empty); end of file without a verdict means that the daemon died, and the shim comes back with the
token as ``resume``. Every line ends in a newline; newlines in TEXT are sent as U+2028.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from supervisord_mcp.errors import FramingError

#: A hello carries the environment of the host, so it may be long, but not longer than this many bytes.
MAX_HELLO = 1 << 20


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first line on a connection. ``smcp`` is the version of this greeting."""

    smcp: int
    role: Literal["shim", "control"]
    server: str = ""
    project: str | None = None
    cwd: str = "/"
    pid: int = 0
    resume: str | None = None
    environ: dict[str, str] = msgspec.field(default_factory=dict)


_decoder = msgspec.json.Decoder(Hello)


def parse_hello(line: bytes) -> Hello:
    """Given the first line of a connection, return the greeting. Raise `FramingError` if it is not one."""
    try:
        hello = _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise FramingError(f"not a greeting of smcp: {error}", -32600) from error
    if hello.smcp != 1:
        raise FramingError(f"greeting version {hello.smcp} is not known; upgrade the older of shim and daemon", -32600)
    return hello


def accept_line(token: str) -> bytes:
    """Return the answer that accepts a session and names its resume token."""
    return f"ok {token}\n".encode()


def refuse_line(status: int, text: str) -> bytes:
    """Return the answer that refuses a session, with the exit status for the shim and the text for the person."""
    return b"no %d %b\n" % (status, _one_line(text))


def verdict_line(status: int, text: str = "") -> bytes:
    """Return the line that ends a session orderly: the shim exits with the status and prints the text on stderr."""
    return b"%d %b\n" % (status, _one_line(text)) if text else b"%d\n" % status


def _one_line(text: str) -> bytes:
    # A path in it may be no UTF-8 (pitfall 48).
    return text.replace("\r", " ").replace("\n", "\u2028").encode(errors="replace")
