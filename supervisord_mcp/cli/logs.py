"""``smcp logs``: what a server wrote and what smcp says about it, from its files, and from the daemon what follows."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from supervisord_mcp.cli.client import connected, paths
from supervisord_mcp.cli.moments import Since, moment
from supervisord_mcp.cli.output import print_json, print_line
from supervisord_mcp.cli.parameters import AsJson, ServerName
from supervisord_mcp.cli.registered import configured_servers, unknown
from supervisord_mcp.errors import NoDaemonError, UsageError
from supervisord_mcp.loglines import parse
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.news import LogLine, LogMark
from supervisord_mcp.rotated import read

_LINES: Final = 100


def logs(
    name: ServerName,
    *,
    lines: Annotated[
        int | None,
        typer.Option("--lines", "-n", min=0, help=f"How many of the last lines: {_LINES}, or all that are chosen."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what it writes from now on.")] = False,
    since: Since = None,
    grep: Annotated[
        str | None,
        typer.Option("--grep", metavar="PATTERN", help="Only lines with this in them, a regular expression."),
    ] = None,
    session: Annotated[
        int | None, typer.Option("--session", metavar="N", min=1, help="Only lines of one session, by its number.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the log of a server.

    It has what the server wrote to stderr (stderr), its log messages (message), and what smcp has to say about it
    (smcp), in the order of time. Times are in UTC, as in events. A line that came again and again is shown once, with
    how often it came. JSON is one object a line.
    """
    wanted = _Wanted(None if since is None else moment(since), _pattern(grep), session)
    if lines is None and wanted == _EVERYTHING:
        lines = _LINES
    try:
        with connected() as client:
            stream = client.stream(control.Logs(name=name, follow=follow, mark=True))
            for raw in stream:
                mark = control.parse_result(raw, LogMark)
                _show(parse(read(Path(mark.path), (mark.inode, mark.size)), name), wanted, lines, as_json=as_json)
                break
            for raw in stream:
                _show([control.parse_result(raw, LogLine)], wanted, None, as_json=as_json)
    except NoDaemonError:
        if follow:
            raise
        _show(parse(read(_file(name)), name), wanted, lines, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which lines are shown."""

    since: float | None = None
    pattern: re.Pattern[str] | None = None
    session: int | None = None

    def __contains__(self, line: LogLine) -> bool:
        return (
            (self.since is None or line.time >= self.since)
            and (self.session is None or line.session == self.session)
            and (self.pattern is None or self.pattern.search(line.text) is not None)
        )


_EVERYTHING: Final = _Wanted()


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise UsageError(f"--grep {text}: {error}", remedy="put a \\ before what is meant as it is") from error


def _file(name: str) -> Path:
    """Given a server, return the newest file of its log. Raise `UnknownServerError` if nothing knows the name."""
    places = paths()
    # A name is a part of a path here, so only one that is known may become one.
    if name not in (there := configured_servers(places)):
        raise unknown(name, there)
    return places.log_dir / f"{name}.log"


def _show(lines: Iterable[LogLine], wanted: _Wanted, last: int | None, *, as_json: bool) -> None:
    chosen: Iterable[LogLine] = (line for line in lines if line in wanted)
    for line in chosen if last is None else deque(chosen, maxlen=last):
        if as_json:
            parts = msgspec.to_builtins(line)
            del parts["line"]
            print_json(msgspec.json.encode(parts), indent=-1)
        else:
            print_line(line.line)
