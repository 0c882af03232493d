"""What came of all trials: for each row and measure the values, or why there is none; and the tables of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from contrib.bench.field.trial import Found
from contrib.bench.figures import Sample, grid, number


@dataclass(frozen=True, slots=True)
class Measure:
    """One column. ``part_of`` are the steps of a trial whose failure is why there is no figure either."""

    name: str
    shown: str
    part_of: tuple[str, ...] = ()
    headline: bool = False


MEASURES = (
    Measure("ready", "ready, ms"),
    Measure("p50", "call p50, ms", ("calls",), headline=True),
    Measure("p95", "p95, ms", ("calls",)),
    Measure("p99", "p99, ms", ("calls",), headline=True),
    Measure("rate_1", "calls/s, 1 client"),
    Measure("rate_crowd", "10 clients", ("crowd",), headline=True),
    Measure("rate_many", "50 clients", headline=True),
    Measure("pss", "gateway PSS, MiB", ("memory",), headline=True),
    Measure("per_client", "a client more, MiB", ("crowd", "memory"), headline=True),
    Measure("servers", "servers for 10", ("crowd",), headline=True),
    Measure("left", "left after 2 s", headline=True),
    Measure("new", "new client after a crash, ms", ("crash",), headline=True),
    Measure("old", "old client, ms", ("crash",), headline=True),
    Measure("blob", "16 MiB, ms", headline=True),
    Measure("blob_memory", "peak for it, MiB", ("blob",)),
    Measure("start", "server start, ms", headline=True),
)
#: Numbers of something that is counted.
_COUNTS = {"servers", "left"}


@dataclass(slots=True)
class Row:
    """A peer in front of a server, and what its trials found."""

    shown: str
    version: str
    server: str
    trials: list[Found] = field(default_factory=list)
    #: Why there is no trial at all.
    absent: str = ""
    #: Where the peer itself says that it is started so.
    documented: str = ""

    def sample(self, measure: Measure) -> Sample | None:
        """Return the values of all trials that have one."""
        found = (trial.get(measure.name) for trial in self.trials)
        values = [value for value in found if isinstance(value, int | float)]
        return Sample.of(values) if values else None

    def reason(self, measure: Measure) -> str:
        """Return why a figure is missing, in the last trial where one is; empty if it was not looked for."""
        for trial in reversed(self.trials):
            for name in (measure.name, *measure.part_of, "ready"):
                match trial.get(name):
                    case {"reason": str(reason)} if measure.name not in trial or name == measure.name:
                        return reason
        return self.absent

    def plain(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        cells: dict[str, Any] = {}
        for measure in MEASURES:
            if sample := self.sample(measure):
                cells[measure.name] = sample.plain() | {"unit": measure.shown}
            if reason := self.reason(measure):
                cells.setdefault(measure.name, {})["reason"] = reason
        named = {"peer": self.shown, "version": self.version, "server": self.server, "documented": self.documented}
        return named | {"measures": cells}


def tables(rows: Sequence[Row], *, headline: bool = False) -> str:
    """Return the rows as a table of Markdown, with the reasons for what is missing below it."""
    measures = [measure for measure in MEASURES if measure.headline or not headline]
    notes: dict[str, int] = {}
    shown = [("what", *(measure.shown for measure in measures))]
    for row in rows:
        version = f" {row.version.rpartition('@')[2].rpartition('=')[2]}" if row.version else ""
        behind = "" if row.server == "tiny" else f" · {row.server}"
        cells = [_cell(row, measure, notes) for measure in measures]
        shown.append((f"{row.shown}{version}{behind}", *cells))
    below = [f"[{count}] {text}" for text, count in notes.items()]
    return "\n\n".join([grid(shown), "  \n".join(below)] if below else [grid(shown)])


def _cell(row: Row, measure: Measure, notes: dict[str, int]) -> str:
    sample, reason = row.sample(measure), row.reason(measure)
    note = f"[{notes.setdefault(_short(reason), len(notes) + 1)}]" if reason else ""
    if sample is None:
        return f"– {note}".rstrip() if reason else ""
    text = f"{sample.median:g}" if measure.name in _COUNTS else number(sample.median)
    low, high = min(sample.values), max(sample.values)
    if low != high:
        text += f" ({number(low)}…{number(high)})" if measure.name not in _COUNTS else f" ({low:g}…{high:g})"
    return f"{text} {note}".rstrip()


def _short(reason: str) -> str:
    """Return a reason as one line of a table's notes; what a peer said may be anything."""
    text = " ".join(reason.replace("|", "/").split())
    return text if len(text) <= 160 else f"{text[:159]}…"


def from_plain(content: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the rows that were written as JSON values."""
    rows = []
    for entry in content:
        row = Row(entry["peer"], entry["version"], entry["server"], documented=entry.get("documented", ""))
        measures = entry["measures"]
        most = max((len(cell.get("values", ())) for cell in measures.values()), default=0)
        row.trials = [{} for _ in range(max(most, 1))]
        for name, cell in measures.items():
            for trial, value in zip(row.trials, cell.get("values", ()), strict=False):
                trial[name] = value
            if "reason" in cell:
                if len(cell.get("values", ())) == len(row.trials):
                    row.trials.append({})
                row.trials[-1][name] = {"reason": cell["reason"]}
        rows.append(row)
    return rows
