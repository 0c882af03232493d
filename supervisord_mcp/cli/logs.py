"""``smcp logs``: what a server wrote to stderr, from the daemon, or from the files if none runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from supervisord_mcp.cli.client import connected, paths
from supervisord_mcp.cli.output import print_line
from supervisord_mcp.cli.parameters import ServerName
from supervisord_mcp.cli.registered import configured_servers, unknown
from supervisord_mcp.errors import NoDaemonError
from supervisord_mcp.protocol import control

#: No configuration keeps more files than this for one server.
_MOST_FILES: Final = 100


def logs(
    name: ServerName,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what it writes from now on.")] = False,
) -> None:
    """Show the log of a server.

    It has what the server wrote to stderr, and what smcp has to say about it. Times are in UTC, as in events.
    """
    try:
        with connected() as client:
            for raw in client.stream(control.Logs(name=name, lines=lines, follow=follow)):
                print_line(control.parse_result(raw, control.LogLine).line)
    except NoDaemonError:
        if follow:
            raise
        for line in _last_lines(_files(name), lines):
            print_line(line)


def _files(name: str) -> list[Path]:
    """Given a server, return its log files, oldest first. Raise `UnknownServerError` if nothing knows the name."""
    places = paths()
    # A name is a part of a path here, so only one that is known may become one.
    if name not in (there := configured_servers(places)):
        raise unknown(name, there)
    newest = places.log_dir / f"{name}.log"
    older = [newest.with_name(f"{newest.name}.{number}") for number in range(_MOST_FILES, 0, -1)]
    return [file for file in (*older, newest) if file.is_file()]


def _last_lines(files: list[Path], number: int) -> Iterator[str]:
    last: deque[str] = deque(maxlen=number)
    for file in files:
        with file.open(encoding="utf-8", errors="replace", newline="\n") as opened:
            last.extend(line.rstrip("\n") for line in opened)
    yield from last
