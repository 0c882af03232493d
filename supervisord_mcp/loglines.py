r"""The lines of a server's log: how their parts are written, and read again.

A line is a time in UTC, who speaks and the text. Who speaks is ``stderr``, ``smcp`` or ``message`` (what the server
said with ``notifications/message``); in brackets behind it are the instance, where there are several, and the session,
where the line belongs to one: ``stderr[/src/site]``, ``smcp[session-3]``, ``message[/src/site session-3]``. In a path
``]`` and ``\`` have a ``\`` before them.

A line that comes again and again is written once, and then how often it came since. That line has the time of the last
of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from supervisord_mcp.protocol.news import LogLine

#: Who speaks.
STDERR, OURS, MESSAGE = "stderr", "smcp", "message"

_LINE = re.compile(r"(\S+Z) (\w+)(?:\[((?:[^\]\\]|\\.)*)\])? (.*)", re.DOTALL)
_SESSION = re.compile(r"(?:^| )session-([0-9]{1,18})$")
_REPEATED = re.compile(r"last line repeated ([0-9]{1,18}) times since (\S+Z)")
_ESCAPED = re.compile(r"[\]\\]")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def printable(text: str) -> str:
    """Return a text in which nothing is left that a terminal would obey."""
    if text.replace("\t", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)


def stamp(time: float) -> str:
    """Return a time, in seconds since the epoch, as it begins a line."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def parse_stamp(text: str) -> float:
    """Return the time that begins a line. Raise `ValueError` if it is none."""
    return datetime.fromisoformat(text).timestamp()


def speaker(source: str, instance: str = "", session: int = 0) -> str:
    """Return who speaks, as a line says it."""
    parts = [_ESCAPED.sub(r"\\\g<0>", printable(instance))] if instance else []
    if session:
        parts.append(f"session-{session}")
    return f"{source}[{' '.join(parts)}]" if parts else source


def repetition(again: int, first: float) -> str:
    """Return the text that says that the line before came again so many times, the first time then."""
    return f"last line repeated {again} times since {stamp(first)}"


def parse(lines: Iterable[str], server: str) -> Iterator[LogLine]:
    """Given the lines of a log, yield them with their parts; of one that is none of ours, all is text."""
    before: LogLine | None = None
    for line in lines:
        before = _parse(line, server, before)
        yield before


def _parse(line: str, server: str, before: LogLine | None) -> LogLine:
    match = _LINE.fullmatch(line)
    try:
        time = parse_stamp(match[1]) if match else 0.0
    except ValueError:
        match = None
    if match is None:
        return LogLine(line=line, server=server, text=line, time=0.0 if before is None else before.time)
    tag, session = _ESCAPE.sub(r"\1", match[3] or ""), 0
    if found := _SESSION.search(tag):
        tag, session = tag[: found.start()], int(found[1])
    source, text, repeated, since = match[2], match[4], 0, 0.0
    again = _REPEATED.fullmatch(text) if source == OURS else None
    if again and before is not None:
        # Who wrote something like it into a message of ours did not mean a time.
        with suppress(ValueError):
            since = parse_stamp(again[2])
            source, text, repeated = before.source, before.text, int(again[1])
    return LogLine(
        line=line,
        server=server,
        time=time,
        source=source,
        instance=tag,
        session=session,
        text=text,
        repeated=repeated,
        since=since,
    )
