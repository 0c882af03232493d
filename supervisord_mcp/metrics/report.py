"""Makes the answer to `control.Usage` of what was seen and counted. Nothing is looked at here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from supervisord_mcp.metrics import latency
from supervisord_mcp.metrics.counts import Cell, Tally
from supervisord_mcp.metrics.ring import Point
from supervisord_mcp.metrics.sampler import Sample
from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.calls import Call
from supervisord_mcp.protocol.control import InstanceStatus, ServerStatus
from supervisord_mcp.protocol.usage import (
    CallUsage,
    Figures,
    InstanceUsage,
    PointUsage,
    Saved,
    ServerUsage,
    Starts,
)
from supervisord_mcp.runtimes.reading import Reading

#: Figures of which the sum over instances says nothing.
_NOT_ADDED = ("cpu_pressure", "memory_pressure", "disk_pressure", "most_files")


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one server: what was counted, which calls are open, and its history if somebody asked."""

    tally: Tally
    pending: Sequence[Call]
    step: float = 0.0
    history: Sequence[Point] = ()


def server_usage(status: ServerStatus, samples: dict[str, Sample], known: Known, now: float) -> ServerUsage:
    """Given the state of a server and what is known of it, return what is told. ``now`` is since the epoch."""
    instances = tuple(_instance(instance, samples.get(instance.key)) for instance in status.instances)
    tally, cells, pending = known.tally, known.tally.cells, known.pending
    return ServerUsage(
        name=status.name,
        state=status.state,
        sessions=status.sessions,
        figures=total([instance.figures for instance in instances if instance.figures is not None]),
        cpu=tally.cpu,
        since=tally.since or now,
        total=_calls("", cells, len(pending), now),
        tools=_rows(_tool_of_cell, _tool_of_call, known, now),
        hosts=_rows(lambda cell: cell.host, lambda call: call.host, known, now),
        starts=Starts(
            count=tally.starts,
            on_demand=tally.on_demand,
            restarts=tally.restarts,
            seconds=tally.waited,
            last_seconds=tally.waited_last,
        ),
        saved=saved(instances, tally, status.scope),
        breaches=tally.breaches,
        last_error=status.last_error,
        instances=instances,
        step=known.step,
        history=tuple(PointUsage(**dataclasses.asdict(point), load=point.load) for point in known.history),
    )


def figures(reading: Reading, load: float) -> Figures:
    """Return what was read of a tree, as the wire carries it."""
    return msgspec.convert({**dataclasses.asdict(reading), "load": load}, Figures)


def total(parts: Sequence[Figures]) -> Figures:
    """Return the sum of what several trees use; what nobody can tell of any of them stays unknown."""
    if len(parts) == 1:
        return parts[0]
    summed: dict[str, Any] = {}
    for name in Figures.__struct_fields__:
        values = [value for part in parts if (value := getattr(part, name)) is not None]
        if not values or name == "processes":
            continue
        summed[name] = max(values) if name in _NOT_ADDED else sum(values)
    return Figures(**summed, processes=tuple(process for part in parts for process in part.processes))


def saved(instances: Iterable[InstanceUsage], tally: Tally, scope: str) -> Saved:
    """Return what the sessions of a server would cost beyond what it costs now if each had a copy of its own.

    A copy is taken to cost what a running one shares with nobody: pages of files that copies would share are left out.
    """
    processes = memory = 0
    running = stopped = False
    for instance in instances:
        of_copy = instance.figures
        if of_copy is not None:
            spare = max(instance.sessions - 1, 0)
            processes += spare * len(of_copy.processes)
            memory += spare * of_copy.private
            running |= spare > 0
        elif instance.pid is None and scope != "session":
            processes += instance.sessions * tally.processes
            memory += instance.sessions * tally.private
            stopped |= instance.sessions > 0 and tally.processes > 0
    parts = []
    if running:
        parts.append("each session but the first of a running copy would take the memory that this shares with nobody")
    if stopped:
        parts.append("each session of one that does not run would take what it held when it last did")
    return Saved(processes=processes, memory=memory, basis="; ".join(parts))


def _instance(status: InstanceStatus, sample: Sample | None) -> InstanceUsage:
    if status.pid is None or (sample is not None and sample.target.generation != status.generation):
        sample = None
    return InstanceUsage(
        key=status.key,
        state=status.state,
        pid=status.pid,
        project=status.project,
        sessions=status.sessions,
        generation=status.generation,
        uptime=status.uptime,
        figures=None if sample is None else figures(sample.reading, sample.load),
    )


def _tool_of_cell(cell: Cell) -> str:
    return cell.tool or cell.method


def _tool_of_call(call: Call) -> str:
    return jsonrpc.string_of(call.tool) or call.method


def _rows(
    of_cell: Callable[[Cell], str], of_call: Callable[[Call], str], known: Known, now: float
) -> tuple[CallUsage, ...]:
    """Return the calls by a name that each cell and each open call has, those with the most calls first."""
    cells: dict[str, list[Cell]] = {}
    for cell in known.tally.cells:
        cells.setdefault(of_cell(cell), []).append(cell)
    pending: dict[str, int] = {}
    for call in known.pending:
        name = of_call(call)
        pending[name] = pending.get(name, 0) + 1
    rows = [_calls(name, cells.get(name, ()), pending.get(name, 0), now) for name in {**cells, **pending}]
    return tuple(sorted(rows, key=lambda row: (-row.calls, row.name)))


def _calls(name: str, cells: Sequence[Cell], pending: int, now: float) -> CallUsage:
    histogram = latency.total(cell.latency for cell in cells)
    answered = sum(histogram.values())
    last = max((cell.last for cell in cells), default=0.0)
    return CallUsage(
        name=name,
        calls=sum(cell.calls for cell in cells),
        pending=pending,
        errors=sum(cell.errors for cell in cells),
        cancelled=sum(cell.cancelled for cell in cells),
        timeouts=sum(cell.timeouts for cell in cells),
        asked=sum(cell.asked for cell in cells),
        told=sum(cell.told for cell in cells),
        p50=latency.quantile(histogram, 0.5),
        p95=latency.quantile(histogram, 0.95),
        p99=latency.quantile(histogram, 0.99),
        mean=sum(cell.seconds for cell in cells) / answered if answered else None,
        last=max(now - last, 0.0) if last else None,
    )
