"""``smcp audit``: which tools were called, by whom, and how that ended, from the record on disk."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
import typer

from supervisord_mcp.cli.amounts import length
from supervisord_mcp.cli.client import paths
from supervisord_mcp.cli.moments import Since, moment
from supervisord_mcp.cli.output import console, print_json, print_table
from supervisord_mcp.cli.parameters import AsJson, server_names
from supervisord_mcp.loglines import parse_stamp
from supervisord_mcp.rotated import read

_LINES: Final = 100
_COLUMNS: Final = ("TIME", "HOST", "PID", "SERVER", "TOOL", "OUTCOME", "TOOK", "ARGUMENTS")
#: What is cut or left out in a terminal that is too narrow for all.
_SPARE: Final = (("PID", 0), ("TOOK", 0), ("TOOL", 16), ("HOST", 8), ("SERVER", 10), ("TOOL", 12), ("HOST", 0))
#: How much of a digest is shown.
_DIGEST: Final = 12
#: What of a time is too small for a person to read.
_FRACTION: Final = re.compile(r"\.\d+(?=Z$)")


def audit(
    *,
    lines: Annotated[
        int | None,
        typer.Option("--lines", "-n", min=0, help=f"How many of the last calls: {_LINES}, or all that are chosen."),
    ] = None,
    since: Since = None,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="NAME", help="Only calls of one server.", autocompletion=server_names),
    ] = None,
    tool: Annotated[str | None, typer.Option("--tool", metavar="NAME", help="Only calls of one tool.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the calls of tools that were recorded.

    They are recorded with enabled = true in [audit] of config.toml: time (UTC), host and its process, server, tool, the
    digest (SHA-256) of the arguments or the arguments themselves, how it ended, and how long it took. JSON is one
    object a line. In a narrow terminal some columns are cut or left out. No daemon is needed.
    """
    wanted = _Wanted(None if since is None else moment(since), server, tool)
    if lines is None and wanted == _Wanted():
        lines = _LINES
    chosen: Iterable[tuple[str, _Record]] = (one for one in _records() if one[1] in wanted)
    found = chosen if lines is None else deque(chosen, maxlen=lines)
    if as_json:
        for line, _ in found:
            print_json(line.encode(), indent=-1)
        return
    rows = [_row(record, whole=not console().is_terminal) for _, record in found]
    if rows:
        print_table(_COLUMNS, rows, spare=_SPARE)
    elif next(_records(), None) is None:
        console().print("no calls were recorded yet; config.toml says whether they are: [audit] enabled = true")
    else:
        console().print("no such calls were recorded")


_Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which calls are shown."""

    since: float | None = None
    server: str | None = None
    tool: str | None = None

    def __contains__(self, record: _Record) -> bool:
        if "missing" in record:  # whatever was missed may have been of them
            return self.since is None or _time(record) >= self.since
        return (
            (self.since is None or _time(record) >= self.since)
            and self.server in (None, record.get("server"))
            and self.tool in (None, record.get("tool"))
        )


def _records() -> Iterator[tuple[str, _Record]]:
    """Yield every record, oldest first, as it is in the file and read; what is no record is passed over."""
    for line in read(paths().audit_file):
        try:
            record = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(record, dict):
            yield line, record


def _time(record: _Record) -> float:
    try:
        return parse_stamp(str(record.get("time")))
    except ValueError:
        return 0.0


def _row(record: _Record, *, whole: bool) -> tuple[str, ...]:
    time = str(record.get("time") or "-")
    if not whole:
        time = _FRACTION.sub("", time)
    if "missing" in record:
        told = f"{record['missing']} records are missing here ({record.get('cause', '')})"
        return (time, *["-"] * 6, told)
    duration = record.get("duration")
    if "arguments" in record:
        arguments = msgspec.json.encode(record["arguments"]).decode()
    else:
        arguments = str(record.get("digest", ""))[:_DIGEST] or "-"
    return (
        time,
        *(str(record.get(key) or "-") for key in ("host", "pid", "server", "tool", "outcome")),
        length(duration if isinstance(duration, int | float) else None),
        arguments,
    )
