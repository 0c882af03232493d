"""``smcp events``: what happened lately, and what happens now."""

from __future__ import annotations

from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Final

import typer

from supervisord_mcp.cli.client import connected
from supervisord_mcp.cli.output import print_folded, print_json
from supervisord_mcp.cli.parameters import AsJson
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.control import EventRecord
from supervisord_mcp.protocol.kinds import KINDS

#: Columns that fit all kinds, and the names that most people give to servers.
_KIND_WIDTH: Final = 15
_SERVER_WIDTH: Final = 12


def _check_kinds(values: list[str] | None) -> list[str] | None:
    for value in values or ():
        if value not in KINDS:
            near = get_close_matches(value, KINDS, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(KINDS)}"
            raise typer.BadParameter(f"no event is of the kind '{value}'; {hint}")
    return values


def events(
    name: Annotated[str, typer.Argument(help="Of this server only.", metavar="[NAME]")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens from now on.")] = False,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", callback=_check_kinds, metavar="KIND", help="Of this kind only; may be given again."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what happened lately.

    These are the events that the daemon remembers: state changes, sessions, reloads. Times are in UTC, as in logs. JSON
    is one object a line.
    """
    with connected() as client:
        for raw in client.stream(control.Events(follow=follow, name=name, kinds=tuple(kinds or ()))):
            if as_json:
                print_json(raw, indent=-1)
            else:
                print_folded(_line(control.parse_result(raw, EventRecord)))


def _line(event: EventRecord) -> str:
    when = datetime.fromtimestamp(event.time, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    data = " ".join(f"{key}={_value(value)}" for key, value in event.data.items() if value != event.instance)
    # What everything has comes first, in columns; which instance it is comes last, for only some events are of one.
    words = (when, f"{event.server or '-':{_SERVER_WIDTH}}", f"{event.kind:{_KIND_WIDTH}}", data, event.instance)
    return "  ".join(word for word in words if word).rstrip()


def _value(value: object) -> str:
    match value:
        case list():
            return ",".join(map(_value, value)) or "nothing"
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case str():
            return " | ".join(value.splitlines()) or "-"
        case _:
            return str(value)
