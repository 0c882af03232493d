"""How the commands print: tables for people, JSON for programs, errors as what, where, what to do.

What comes from a server or a project is never trusted with the terminal: control characters are shown, not obeyed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from msgspec import Raw
    from rich.console import Console

    from supervisord_mcp.errors import SmcpError

#: Wide enough that nothing is folded or cut where a program or a pager reads.
_NOT_A_TERMINAL: Final = 100_000
_GAP: Final = 2
_INDENT: Final = "    "
#: A last column narrower than this is not folded, the terminal breaks its lines.
_LEAST_ROOM: Final = 24
_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]*m")
# C0 without tab and newline, DEL, C1, what else ends a line, and the characters that reorder one (bidi).
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_STATES: Final = {
    "RUNNING": "green",
    "STARTING": "cyan",
    "STOPPING": "cyan",
    "BACKOFF": "yellow",
    "EXITED": "yellow",
    "FATAL": "bold red",
    "STOPPED": "dim",
}


def printable(text: str) -> str:
    """Given text from anywhere, return it so that a terminal shows it and obeys nothing in it."""
    return _CONTROL.sub(lambda match: _escaped(match.group()), _COLOURS.sub("", text))


def one_line(text: str) -> str:
    """Given text from anywhere, return its first line, printable."""
    lines = text.strip().splitlines()
    return printable(lines[0]) if lines else ""


def in_a_line(text: str) -> str:
    """Given text from anywhere, return all of it in one line, printable: none of it can pass for a line of ours."""
    return " ".join(printable(text).split("\n"))


def print_line(text: str) -> None:
    """Print text of a server: as it is where a program reads, printable on a terminal."""
    sys.stdout.write((printable(text) if sys.stdout.isatty() else text) + "\n")


def print_json(raw: Raw | bytes, *, indent: int = 2) -> None:
    """Print JSON as it came (numbers and duplicate keys untouched), indented, or on one line if ``indent`` is -1.

    On a terminal, characters in texts that it would obey are written as JSON escapes: the same text.
    """
    import msgspec

    text = msgspec.json.format(bytes(raw), indent=indent)
    if sys.stdout.isatty():
        text = _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", text.decode(errors="replace")).encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(text + b"\n")
    sys.stdout.buffer.flush()


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[Sequence[str]] | None = None,
    spare: Sequence[tuple[str, int]] = (),
) -> None:
    """Print a table for people; ``notes`` are lines below each row.

    On a terminal the last column is folded, and the columns move together if they all have room then. If they have
    none, ``spare`` says what is given up for the rest, one column after the other: down to which width it is cut; with
    0 it is left out.
    """
    from rich.cells import cell_len

    screen = console()
    shown = [[in_a_line(cell).expandtabs(1) for cell in row] for row in (columns, *rows)]
    widths = [max(map(cell_len, cells)) for cells in zip(*shown, strict=True)]
    if screen.is_terminal:
        widths = _fitted(columns, widths, screen.width, spare)
        shown = [[_cut(cell, width) for cell, width in zip(row, widths, strict=True) if width] for row in shown]
        widths = [width for width in widths if width]
    room = screen.width - _needed(widths)
    narrow = screen.is_terminal and len(widths) - 1 <= room < _GAP * (len(widths) - 1)
    widths = [width + (1 if narrow else _GAP) for width in widths]
    _print_row(screen, shown[0], widths, "bold")
    for row, below in zip(shown[1:], notes or [()] * len(rows), strict=True):
        _print_row(screen, row, widths)
        for note in below:
            screen.print(f"{_INDENT}{in_a_line(note)}", soft_wrap=True)


def _fitted(columns: Sequence[str], widths: list[int], room: int, spare: Sequence[tuple[str, int]]) -> list[int]:
    """Return the widths that columns have in a terminal; 0 is one that is left out."""
    widths = list(widths)
    for name, least in spare:
        lacking = _needed(widths) + sum(map(bool, widths)) - 1 - room
        if lacking <= 0:
            break
        column = columns.index(name)
        widths[column] = min(widths[column], max(widths[column] - lacking, least)) if least else 0
    return widths


def _needed(widths: Sequence[int]) -> int:
    """Return what columns need without what is between them; the last one is folded."""
    return sum(widths[:-1]) + min(widths[-1], _LEAST_ROOM)


def _cut(cell: str, width: int) -> str:
    """Return what there is room for, marked where it is not all."""
    from rich.cells import cell_len, set_cell_size

    return cell if cell_len(cell) <= width else set_cell_size(cell, width - 1).rstrip() + "…"


def print_folded(text: str) -> None:
    """Print text from anywhere as one line; on a terminal what follows when it is full stands further to the right."""
    from rich.text import Text

    screen, line = console(), in_a_line(text).expandtabs(1)
    if screen.is_terminal and screen.width > 2 * _LEAST_ROOM:
        first = Text(line).wrap(screen, screen.width)[0].plain.rstrip()
        rest = Text(line[len(first) :].lstrip()).wrap(screen, screen.width - len(_INDENT))
        line = "\n".join([first, *(_INDENT + part.plain.rstrip() for part in rest if part.plain)])
    screen.print(line, soft_wrap=True)


def _print_row(screen: Console, row: Sequence[str], widths: Sequence[int], style: str = "") -> None:
    from rich.cells import set_cell_size
    from rich.text import Text

    line = Text()
    for cell, width in zip(row[:-1], widths, strict=False):
        line.append(set_cell_size(cell, width), style or _STATES.get(cell, ""))
    indent = sum(widths[:-1])
    folded = screen.is_terminal and screen.width - indent >= _LEAST_ROOM
    last = Text(row[-1]).wrap(screen, screen.width - indent) if folded else [Text(row[-1])]
    for number, part in enumerate(last or [Text()]):
        line.append("\n" + " " * indent if number else "").append(part.plain.rstrip(), style)
    line.rstrip()
    screen.print(line, soft_wrap=True)


def console(*, stderr: bool = False) -> Console:
    """Return where rich prints: no markup in data, no guessing of colours, no folding where a program reads."""
    from rich.console import Console

    made = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not made.is_terminal:
        made.width = _NOT_A_TERMINAL
    return made


def print_error(error: SmcpError) -> None:
    """Print an error for a person: the stable code, what happened and where, and what to do."""
    from rich.text import Text

    # Every fault of a configuration begins a line, so that editors and terminals make links of file:line.
    gap = "\n" if error.code == "config" else " "
    text = Text.assemble((f"error[{error.code}]:", "bold red"), gap, printable(error.message))
    if error.remedy:
        text.append("\n" + "\n".join(f"  {line}" for line in printable(error.remedy).splitlines()))
    console(stderr=True).print(text, soft_wrap=True)


@contextmanager
def busy(what: str) -> Iterator[Callable[[str], None]]:
    """Given what a long wait is for, show it on a terminal while the body runs.

    Yields what prints a line on stderr about something that takes longer than usual, terminal or not, and once.
    """
    screen = console(stderr=True)
    said: set[str] = set()

    def tell(text: str) -> None:
        if text not in said:
            screen.print(printable(text), soft_wrap=True)
        said.add(text)

    if not screen.is_terminal:
        yield tell
        return
    with screen.status(printable(what)):
        yield tell


def span(seconds: float | None) -> str:
    """Given a length of time, return it as a person says it, in at most two units."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    for size, unit, part, part_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size}{unit} {rest}{part_unit}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"


def count(number: int, thing: str, things: str = "") -> str:
    """Given how many of a thing there are, return both in words; ``things`` are several where that is no -s."""
    return f"{number} {thing}" if number == 1 else f"{number} {things or f'{thing}s'}"


def _escaped(character: str) -> str:
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"
