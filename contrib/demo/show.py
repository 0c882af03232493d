"""What the demo prints: numbered steps, one table, plain enough for a log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from contrib.demo.memory import Cost

#: Lines of each log that are shown when something failed.
TAIL = 15

# A log has no width; this one is what fits beside a prompt in most windows.
console = Console(highlight=False)
if not console.is_terminal:
    console = Console(highlight=False, width=100, force_terminal=False)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what it cost without the program, and what it costs now."""

    name: str
    clients: int
    apart: Cost
    copies: int
    now: Cost
    pid: str


def title(text: str) -> None:
    """Print the first line."""
    console.print(f"[bold]{text}[/bold]\n")


def step(text: str) -> None:
    """Print what happens next."""
    console.print("[bold cyan]•[/bold cyan]", escape(text), soft_wrap=True)


def detail(text: str) -> None:
    """Print what came of it."""
    console.print(f"    {text}", markup=False, soft_wrap=True)


def problem(text: str) -> None:
    """Print something a person should know before believing the rest."""
    console.print("[bold yellow]![/bold yellow]", escape(text), soft_wrap=True)


def failure(errors: Iterable[str], logs: Iterable[Path]) -> None:
    """Print why the demo ends here, and the ends of the logs that may tell more."""
    console.print("[bold red]The demo failed.[/bold red]")
    for error in errors:
        console.print(f"  {error}", markup=False, soft_wrap=True)
    for log in logs:
        lines = log.read_text(errors="replace").splitlines()
        for line in (f"{log.name}:", *(f"| {line}" for line in lines[-TAIL:])) if lines else ():
            console.print(f"  {line}", markup=False, soft_wrap=True)


def costs(rows: list[Row], extra: list[tuple[str, Cost]]) -> None:
    """Print the table of all servers, what the program itself adds, and the sums."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("\nserver", no_wrap=True)
    apart, now = "one each:\n", "shared:\n"
    for heading in ("clients", f"{apart}processes", "memory", f"{now}copies", "processes", "memory", "pid"):
        table.add_column(heading if ":" in heading else f"\n{heading}", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.name, *_cells(row), row.pid)
    for name, cost in extra:
        table.add_row(f"[dim]{name}[/dim]", "", "", "", "", str(cost.processes), mebibytes(cost), "")
    table.add_section()
    total = Row(
        name="all",
        clients=sum(row.clients for row in rows),
        apart=sum((row.apart for row in rows), Cost()),
        copies=sum(row.copies for row in rows),
        now=sum((cost for _, cost in extra), sum((row.now for row in rows), Cost())),
        pid="",
    )
    table.add_row(total.name, *_cells(total), "", style="bold")
    console.print()
    console.print(table)


def mebibytes(cost: Cost) -> str:
    """Return the memory of a cost, for a person."""
    return f"{cost.pss / (1 << 20):.1f} MiB"


def _cells(row: Row) -> tuple[str, ...]:
    apart, now = row.apart, row.now
    return (
        str(row.clients),
        str(apart.processes),
        mebibytes(apart),
        str(row.copies),
        str(now.processes),
        mebibytes(now),
    )
