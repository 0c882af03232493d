"""``smcp usage``: what servers cost and did, as tables, as JSON, or drawn over time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from supervisord_mcp.cli.amounts import length, number, percent, size
from supervisord_mcp.cli.client import connected
from supervisord_mcp.cli.moments import Since, moment, until_now
from supervisord_mcp.cli.output import console, count, in_a_line, print_json, print_table, printable, span
from supervisord_mcp.cli.parameters import AsJson, MaybeServerName
from supervisord_mcp.errors import UsageError
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.usage import CallUsage, Saved, ServerUsage, UsageResult

_SERVERS: Final = ("SERVER", "STATE", "CPU", "MEMORY", "RSS", "PROCS", "THREADS", "FILES", "DISK", "NETWORK", "SPENT")
_CALLS: Final = ("", "CALLS", "OPEN", "ERRORS", "GIVEN UP", "TIMEOUTS", "P50", "P95", "P99", "IN", "OUT", "LAST")
#: How far back a plot goes if nothing is said, in seconds.
_HOUR: Final = 3600.0
#: What is kept, and the length of its shortest step, in seconds.
_DAY: Final = 86400.0
_FINEST: Final = 5.0


def usage(
    name: MaybeServerName = None,
    as_json: AsJson = False,
    since: Since = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", metavar="FILE", help="Draw memory and processors over time: a .svg or .png file.", dir_okay=False
        ),
    ] = None,
) -> None:
    """Show what servers cost, what they did, and what sharing saves.

    Memory is PSS: the pages of a process, and of those that it shares its part. Of NAME also its tools and hosts. Calls
    are counted since the server was configured, over restarts of the daemon; --since, at most a day,
    shows what was used in that time.
    """
    if plot is not None:
        from supervisord_mcp.cli.plot import check

        check(plot)
    begin = _begin(since) if since is not None else time.time() - _HOUR if plot is not None else None
    with connected() as client:
        raw = client.ask(control.Usage(name=name, fresh=True, since=begin))
    if as_json:
        print_json(raw)
    result = control.parse_result(raw, UsageResult)
    if plot is not None:
        from supervisord_mcp.cli.plot import draw

        draw(result, plot)
    if as_json or plot is not None:
        return
    _print(result, whole=name is not None, since=since)


def server_rows(result: UsageResult) -> list[tuple[str, ...]]:
    """Return a row for each server, for the columns of `server_columns`."""
    return [_row(server) for server in result.servers]


def print_servers(result: UsageResult) -> None:
    """Print what every server uses now, and what the daemon does."""
    print_table(_SERVERS, server_rows(result), [_notes(server) for server in result.servers])
    daemon = result.daemon
    text = f"daemon: {percent(daemon.load)} of a processor, {size(daemon.memory)}, {count(daemon.files, 'open file')}"
    console().print(text, soft_wrap=True)


def saved_text(saved: Saved) -> str:
    """Return what sharing saves, in words."""
    processes = "1 process" if saved.processes == 1 else f"{saved.processes} processes"
    return f"{processes} and {size(saved.memory)}"


def _print(result: UsageResult, *, whole: bool, since: str | None) -> None:
    screen = console()
    for problem in result.problems:
        screen.print(printable(f"problem: {problem}"), style="yellow", soft_wrap=True)
    if not result.servers:
        screen.print("no servers are configured; add one with: smcp add NAME -- COMMAND")
        return
    print_servers(result)
    screen.print()
    if whole:
        (server,) = result.servers
        rows = [("all", *_call_row(server.total)), *_named(server.tools)]
        print_table(("TOOL", *_CALLS[1:]), rows)
        screen.print()
        print_table(("HOST", *_CALLS[1:]), list(_named(server.hosts)))
        screen.print()
        for line in _about(server):
            screen.print(in_a_line(line), soft_wrap=True)
    else:
        rows = [(server.name, *_call_row(server.total)) for server in result.servers]
        print_table(("SERVER", *_CALLS[1:]), rows)
    if since is not None:
        screen.print()
        for server in result.servers:
            screen.print(in_a_line(_past(server, since)), soft_wrap=True)
    screen.print(f"saved by sharing: {saved_text(result.saved)} (estimated; smcp usage NAME says how)", soft_wrap=True)


def _row(server: ServerUsage) -> tuple[str, ...]:
    figures = server.figures
    runs = bool(figures.processes)
    network = "-" if figures.sent is None else f"{size(figures.sent)}/{size(figures.received or 0)}"
    return (
        server.name,
        server.state,
        percent(figures.load) if runs else "-",
        size(figures.memory) if runs else "-",
        size(figures.resident) if runs else "-",
        str(len(figures.processes)) if runs else "-",
        str(figures.threads) if runs else "-",
        str(figures.files) if runs else "-",
        f"{size(figures.read)}/{size(figures.written)}" if runs else "-",
        network,
        span(server.cpu) if server.cpu >= 60 else f"{server.cpu:.1f}s",
    )


def _notes(server: ServerUsage) -> list[str]:
    figures, notes = server.figures, []
    if server.breaches:
        told = ", ".join(f"{name} {count(times, 'time')}" for name, times in sorted(server.breaches.items()))
        notes.append(f"limits exceeded: {told}")
    if figures.swap:
        notes.append(f"swapped out: {size(figures.swap)}")
    if figures.throttled:
        notes.append(f"held back by its limit of processors for {length(figures.throttled)}")
    waits = (
        ("a processor", figures.cpu_pressure),
        ("memory", figures.memory_pressure),
        ("a disk", figures.disk_pressure),
    )
    told = ", ".join(f"{what} {part:.0f} %" for what, part in waits if part is not None and part >= 1)
    if told:
        notes.append(f"waits for {told} of the time")
    return notes


def _call_row(calls: CallUsage) -> tuple[str, ...]:
    return (
        number(calls.calls),
        str(calls.pending),
        number(calls.errors),
        number(calls.cancelled),
        number(calls.timeouts),
        length(calls.p50),
        length(calls.p95),
        length(calls.p99),
        size(calls.asked),
        size(calls.told),
        "-" if calls.last is None else f"{span(calls.last).split()[0]} ago",
    )


def _named(rows: Sequence[CallUsage]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        yield (row.name, *_call_row(row))


def _about(server: ServerUsage) -> Iterator[str]:
    """Yield what is known of one server besides."""
    starts = server.starts
    if starts.count:
        mean = length(starts.seconds / starts.count)
        last = length(starts.last_seconds)
        yield (
            f"{count(starts.count, 'start')} ({starts.on_demand} for a call that waited, {starts.restarts} after an end"
            f" that nobody wanted), {mean} each with what was installed for it, the last one {last}"
        )
    for instance in server.instances:
        for process in instance.figures.processes if instance.figures is not None else ():
            yield (
                f"process {process.pid} {process.name}: {size(process.memory)}, {process.cpu:.1f} s of a processor,"
                f" {count(process.threads, 'thread')}, {count(process.files, 'open file')}"
            )
    if server.saved.basis:
        yield f"saved by sharing: {saved_text(server.saved)}, estimated: {server.saved.basis}"


def _past(server: ServerUsage, since: str) -> str:
    points = server.history
    if not points:
        return f"{server.name}, {until_now(since)}: nothing ran"
    spent = sum(point.cpu for point in points)
    moved = sum(point.read + point.written for point in points)
    return (
        f"{server.name}, {until_now(since)}: {spent:.1f} s of a processor, memory {_memory(server)},"
        f" disk {size(moved)}, {count(sum(p.starts for p in points), 'start')}"
    )


def _memory(server: ServerUsage) -> str:
    least, most = (size(function(point.memory for point in server.history)) for function in (min, max))
    if server.step > _FINEST:  # of a longer step only the most is kept
        return f"up to {most}"
    return most if least == most else f"{least} to {most}"


def _begin(text: str) -> float:
    now = time.time()
    begin = moment(text)
    if begin >= now:
        raise UsageError(f"--since {text}: must be longer than nothing")
    if begin < now - _DAY:
        raise UsageError(f"--since {text}: what was used is kept for a day", remedy="Give 1d or less.")
    return begin
