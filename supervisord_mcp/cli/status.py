"""``smcp status``: what runs, for whom, since when, how well isolated, and what went wrong last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import typer
from msgspec import Raw

from supervisord_mcp.cli.amounts import length, number, percent, size
from supervisord_mcp.cli.client import connected
from supervisord_mcp.cli.output import console, count, print_json, print_table, printable, span
from supervisord_mcp.cli.parameters import AsJson, ServerNames
from supervisord_mcp.cli.registered import unknown
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.control import DaemonStatus, InstanceStatus, ServerStatus, StatusResult
from supervisord_mcp.protocol.usage import ServerUsage, UsageResult

_COLUMNS: Final = ("SERVER", "STATE", "PID", "UPTIME", "SESSIONS", "SCOPE", "RESTARTS", "PROFILE", "RUNTIME")

#: What is left out of the overview in a terminal that is too narrow for all.
_SPARE: Final = (("SCOPE", 0), ("PROFILE", 0), ("RESTARTS", 0), ("UPTIME", 0))

_USAGE_COLUMNS: Final = (*_COLUMNS[:5], "CPU", "MEMORY", "PROCS", "CALLS", "ERRORS", "P95")

_DROPPED: Final = {
    "noise": "of noise (no messages)",
    "unknown": "answers to what nobody asked",
    "late": "answers that came too late",
    "unrouted": "notifications for nobody",
    "early": "notifications before a host was ready",
}
#: How an error announces the last lines of stderr, which there is no room for in the overview: it shows the last one.
_ANNOUNCED: Final = "; last lines of stderr:"
#: What only a faulty server writes.
_FAULTS: Final = ("noise", "unknown")


@dataclass(slots=True)
class _Row:
    cells: tuple[str, ...]
    notes: list[str]


class _Named(msgspec.Struct):
    name: str


class _Whole(msgspec.Struct):
    """The answer of the daemon with its parts as they came, so that JSON for programs keeps what we do not know."""

    daemon: Raw
    servers: list[Raw]


def status(
    names: ServerNames = None,
    as_json: AsJson = False,
    with_usage: Annotated[
        bool, typer.Option("--usage", help="With what each server uses and how it is called (see smcp usage).")
    ] = False,
) -> None:
    """Show what runs.

    Of every server: state, pid, uptime, sessions, scope, restarts, profile, runtime, isolation and the last error; of
    each NAME also its network, mounts and limits. STOPPED is one that is started when a host needs it, unless it says
    that it was stopped by hand. A plus behind the profile says that the entry grants more; with NAME it is said what.
    In a narrow terminal some columns are left out.
    """
    with connected() as client:
        raw = client.ask(control.Status())
        if names:
            raw = _chosen(raw, names)
        only = names[0] if names and len(names) == 1 else None
        usage = client.ask(control.Usage(name=only, fresh=True)) if with_usage else None
        if usage is not None and names:
            usage = _chosen(usage, names)
    if as_json:
        print_json(raw if usage is None else _joined(raw, usage))
        return
    result = control.parse_result(raw, StatusResult)
    if not names:
        _print_daemon(result.daemon)
    if result.servers and usage is not None:
        _print_usage(result, control.parse_result(usage, UsageResult), whole=bool(names))
    elif result.servers:
        rows = [row for server in result.servers for row in _rows(server, whole=bool(names))]
        print_table(_COLUMNS, [row.cells for row in rows], [row.notes for row in rows], _SPARE)
    else:
        console().print("no servers are configured; add one with: smcp add NAME -- COMMAND")


def _joined(raw: Raw, usage: Raw) -> Raw:
    """Return the status with what is used beside it; both as they came."""
    whole = control.parse_result(raw, _Whole)
    return Raw(msgspec.json.encode({"daemon": whole.daemon, "servers": whole.servers, "usage": usage}))


def _print_usage(result: StatusResult, used: UsageResult, *, whole: bool) -> None:
    found = {server.name: server for server in used.servers}
    rows = []
    for server in result.servers:
        row, *more = _rows(server, whole=whole)
        state, pid, uptime, sessions = row.cells[1:5]
        usage = found.get(server.name, ServerUsage(name=server.name))
        runs = bool(usage.figures.processes)
        cells = (
            server.name,
            state,
            pid,
            uptime,
            sessions,
            percent(usage.figures.load) if runs else "-",
            size(usage.figures.memory) if runs else "-",
            str(len(usage.figures.processes)) if runs else "-",
            number(usage.total.calls),
            number(usage.total.errors),
            length(usage.total.p95),
        )
        rows.append(_Row(cells, [*row.notes, *(note for other in more for note in other.notes)]))
    print_table(_USAGE_COLUMNS, [row.cells for row in rows], [row.notes for row in rows])


def _chosen(raw: Raw, names: Sequence[str]) -> Raw:
    """Return an answer with these servers alone; all else as it came. Raise `UnknownServerError`."""
    whole = control.parse_result(raw, dict[str, Raw])
    found = control.parse_result(whole["servers"], list[Raw])
    servers = {control.parse_result(server, _Named).name: server for server in found}
    if missing := [name for name in names if name not in servers]:
        raise unknown(missing[0], list(servers))
    return Raw(msgspec.json.encode({**whole, "servers": [servers[name] for name in dict.fromkeys(names)]}))


def _print_daemon(daemon: DaemonStatus) -> None:
    screen = console()
    parts = [
        f"daemon pid {daemon.pid}",
        f"version {daemon.version}",
        f"up {span(daemon.uptime)}",
        count(daemon.sessions, "session"),
        daemon.socket,
    ]
    screen.print(printable(", ".join(parts)), soft_wrap=True)
    for problem in daemon.problems:
        screen.print(printable(f"problem: {problem}"), style="yellow", soft_wrap=True)
    for remark in daemon.hosts:
        screen.print(printable(f"hosts: {remark}"), style="yellow", soft_wrap=True)
    if daemon.logging != "ok":
        screen.print(printable(f"logging: {daemon.logging}"), style="yellow", soft_wrap=True)
    if daemon.audit != "ok":
        screen.print(printable(f"audit: {daemon.audit}"), style="yellow", soft_wrap=True)


def _rows(server: ServerStatus, *, whole: bool) -> Iterator[_Row]:
    """Given a server, return its lines: one, or with several instances one for the sum and one for each."""
    only = server.instances[0] if len(server.instances) == 1 else None
    cells = (
        server.name,
        only.state if only else server.state,
        _pid(only) if only else "-",
        span(only.uptime) if only else "-",
        str(server.sessions),
        server.scope,
        str(server.restarts),
        server.profile + ("+" if server.beyond else ""),
        _runtime(server.runtime, (only.isolation if only else "") or server.isolation),
    )
    yield _Row(cells, [*_promises(server, whole=whole), *_notes(only, server.last_error, whole=whole)])
    for instance in server.instances if only is None else ():
        cells = (
            f"  {server.name}",
            instance.state,
            _pid(instance),
            span(instance.uptime),
            str(instance.sessions),
            "",
            str(instance.restarts),
            "",
            _runtime("", instance.isolation),
        )
        error = instance.last_error if instance.last_error != server.last_error else None
        yield _Row(cells, _notes(instance, error, whole=whole))


def _promises(server: ServerStatus, *, whole: bool) -> Iterator[str]:
    """Return who stopped the server, and for the whole also what it reaches."""
    but = ", ".join(server.held_except)
    if server.held:
        yield f"stopped by hand{f', except in {but}' if but else ''}; started again with: smcp start {server.name}"
    elif but:
        yield f"stopped by hand in {but}"
    if whole and server.beyond:
        yield f"profile {server.profile}, and beyond it by its entry: {', '.join(server.beyond)}"
    if whole and server.network:
        yield f"network {server.network}"
    if whole:
        yield from (f"credential {credential}" for credential in server.credentials)


def _pid(instance: InstanceStatus) -> str:
    return "-" if instance.pid is None else str(instance.pid)


def _runtime(runtime: str, isolation: str) -> str:
    return f"{runtime} ({isolation})".strip() if isolation else runtime


def _notes(instance: InstanceStatus | None, error: str | None, *, whole: bool) -> list[str]:
    """Return for which project it runs, what a start is busy with, and the last error: its first line, or all of it."""
    notes = []
    if instance and instance.project:
        notes.append(f"project {instance.project}")
    if instance and instance.differs:
        notes.append(f"differs from the others in: {'; '.join(instance.differs)}")
    if instance and instance.phase:
        notes.append(instance.phase)
    if instance and instance.image and (whole or "smcp image accept" in instance.image):
        notes.append(f"image {instance.image}")
    if instance and whole:
        notes += [f"mount {mount}" for mount in instance.mounts]
        notes += [f"limit {limit}" for limit in instance.limits]
        notes += [f"not held back: {line}" for line in instance.uncovered]
    if instance and (dropped := _dropped(instance, whole=whole)):
        notes.append(f"dropped: {dropped}; smcp logs has the first of each run")
    lines = (error or "").strip().splitlines()
    if lines and not whole and lines[0].endswith(_ANNOUNCED):
        notes.append(f"last error: {lines[0].removesuffix(_ANNOUNCED)}; stderr: {lines[-1].strip()}")
    elif lines:
        more = " …" if len(lines) > 1 and not whole else ""
        notes.append(f"last error: {lines[0]}{more}")
    if whole:
        notes += [f"  {line}" for line in lines[1:]]
    return notes


def _dropped(instance: InstanceStatus, *, whole: bool) -> str:
    """Return what the server wrote that reached nobody, in words.

    What is late, or for a host that left, comes with every cancelled call: the overview is silent about it.
    """
    shown = (
        (kind, words) for kind, words in _DROPPED.items() if instance.dropped.get(kind) and (whole or kind in _FAULTS)
    )
    return ", ".join(f"{instance.dropped[kind]} {words}" for kind, words in shown)
