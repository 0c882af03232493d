"""``smcp replay``: what hosts said in a recording, said again, and how the answers differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from supervisord_mcp.cli.amounts import length
from supervisord_mcp.cli.client import connected
from supervisord_mcp.cli.output import console, count, in_a_line, print_json
from supervisord_mcp.cli.parameters import AsJson, Project, ServerName, project_root
from supervisord_mcp.errors import SmcpError, UsageError
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.replay import Line, Replay, Replayed
from supervisord_mcp.protocol.tapping import TapRecord

_WORDS: Final = {
    "same": "the same answer",
    "different": "another answer",
    "missing": "no answer any more",
    "new": "an answer now",
    "unanswered": "no answer again",
}
_STYLES: Final = {
    "same": "green",
    "unanswered": "green",
    "new": "yellow",
    "different": "bold red",
    "missing": "bold red",
}
#: Of these there is nothing that differs.
_ALIKE: Final = ("same", "unanswered")

_records = msgspec.json.Decoder(TapRecord)


def replay(
    file: Annotated[
        Path, typer.Argument(help="Written by smcp tap --save.", metavar="FILE", exists=True, dir_okay=False)
    ],
    name: ServerName,
    *,
    project: Project = None,
    as_json: AsJson = False,
    timeout: Annotated[
        float,
        typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to wait for an answer."),
    ] = 30.0,
) -> None:
    """Make the requests of a recording again, and show where the answers differ.

    Each session of the recording becomes a session of its own; what went on at the same time does so again. Calls are
    made for real, with all that they do. A secret was not recorded, so *** is sent in its place. The exit status is 1
    if anything differs. Starts the server if it does not run, and the daemon too.
    """
    lines = tuple(_lines(file))
    if not any(line.direction == "from-host" for line in lines):
        raise UsageError(f"{file} has nothing that a host said", remedy="Record it with: smcp tap NAME -f --save FILE")
    operation = Replay(name=name, lines=lines, project=project_root(project), patience=timeout)
    verdicts: Counter[str] = Counter()
    with connected(start=True, as_host=True) as client:
        for event in client.stream(operation):
            told = control.parse_result(event, Replayed)
            verdicts[told.verdict] += 1
            if as_json:
                print_json(event, indent=-1)
            else:
                _show(told)
    if not as_json:
        found = ", ".join(f"{verdicts[verdict]} {words}" for verdict, words in _WORDS.items() if verdicts[verdict])
        console().print(f"{count(verdicts.total(), 'request')}: {found or 'nothing to compare'}")
    if any(verdicts[verdict] for verdict in _WORDS if verdict not in _ALIKE):
        raise typer.Exit(1)


def _lines(file: Path) -> Iterator[Line]:
    """Yield what passed between hosts and smcp. Raise `UsageError` that names the line that is none of a recording."""
    try:
        with file.open("rb") as opened:
            for number, text in enumerate(opened, 1):
                try:
                    record = _records.decode(text)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    raise UsageError(f"{file}:{number}: not a record of smcp tap: {error}") from error
                if record.cut:
                    remedy = "Record it with --save, which keeps them whole; one that was too long to pass cannot be."
                    raise UsageError(f"{file}:{number}: only the beginning of a message", remedy=remedy)
                if (said := record.direction) == "from-host" or said == "to-host":
                    yield Line(time=record.time, session=record.session, direction=said, line=record.line)
    except OSError as error:
        raise SmcpError(f"cannot read {file}: {error.strerror}") from error


def _show(told: Replayed) -> None:
    about = " ".join(word for word in (told.method, told.tool) if word)
    times = f"{length(told.before)} -> {length(told.now)}"
    screen = console()
    screen.print(f"{told.verdict:10}", style=_STYLES[told.verdict], end="  ")
    screen.print(in_a_line(f"#{told.session} {about} id={told.id}  {times}"), soft_wrap=True)
    for difference in told.differences:
        before, now = difference.before or "nothing", difference.now or "nothing"
        screen.print(in_a_line(f"    {difference.path}: {before} -> {now}"), soft_wrap=True)
