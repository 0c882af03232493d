"""What the benchmark says: samples with their spread, figures with their bar, and the table of all of them."""

from __future__ import annotations

import platform
import shutil
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

#: For how long is watched what else the machine does, in seconds.
_LOOK = 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The values of one quantity over the repetitions of one run."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> Sample:
        """Return the sample of these values, at least one."""
        return cls(tuple(values))

    @property
    def median(self) -> float:
        """The value to quote."""
        return statistics.median(self.values)

    def less(self, other: Sample) -> Sample:
        """Return how much more than the other each value is, repetition by repetition."""
        return Sample.of(mine - theirs for mine, theirs in zip(self.values, other.values, strict=True))

    def over(self, other: Sample) -> Sample:
        """Return how many times the other each value is, repetition by repetition."""
        return Sample.of(mine / theirs for mine, theirs in zip(self.values, other.values, strict=True))

    def times(self, factor: float) -> Sample:
        """Return the sample in another unit."""
        return Sample.of(value * factor for value in self.values)

    def plain(self) -> dict[str, Any]:
        """Return the sample as JSON values."""
        return {"median": self.median, "low": min(self.values), "high": max(self.values), "values": list(self.values)}


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure has to reach: at most the limit, or at least it."""

    limit: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Return whether a value reaches it."""
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. ``value`` is what the bar is about; ``direct`` and ``shared`` are what it came from."""

    what: str
    unit: str
    value: Sample
    bar: Bar | None = None
    direct: Sample | None = None
    shared: Sample | None = None
    base_unit: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the bar is reached; None where there is none."""
        return None if self.bar is None else self.bar.met(self.value.median)

    def plain(self) -> dict[str, Any]:
        """Return the figure as JSON values."""
        return {
            "what": self.what,
            "unit": self.unit,
            "value": self.value.plain(),
            "bar": None if self.bar is None else {"limit": self.bar.limit, "at_least": self.bar.at_least},
            "met": self.met,
            "direct": None if self.direct is None else self.direct.plain(),
            "smcp": None if self.shared is None else self.shared.plain(),
        }

    def cells(self) -> tuple[str, ...]:
        """Return the line as a person reads it."""
        base = self.base_unit or self.unit
        low, high = min(self.value.values), max(self.value.values)
        spread = f"{number(low)} … {number(high)}" if len(self.value.values) > 1 else ""
        bar = "" if self.bar is None else f"{'≥' if self.bar.at_least else '≤'} {_with(self.bar.limit, self.unit)}"
        verdict = {None: "", True: "met", False: "missed"}[self.met]
        return (
            self.what,
            "" if self.direct is None else _with(self.direct.median, base),
            "" if self.shared is None else _with(self.shared.median, base),
            f"**{_with(self.value.median, self.unit)}**",
            spread,
            bar,
            verdict,
        )


HEADINGS = ("what", "direct", "smcp", "figure", "min … max", "bar", "")


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as a table of Markdown."""
    return grid([HEADINGS, *(figure.cells() for figure in figures)])


def grid(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first of which is the head, as a table of Markdown."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    # Numbers are compared by their last digit, so every column but the first is aligned to the right.
    rule = "|".join(
        "-" * (width + 2) if number == 0 else "-" * (width + 1) + ":" for number, width in enumerate(widths)
    )
    lines = [_row(row, widths) for row in rows]
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    rest = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
    return f"| {' | '.join((first, *rest))} |"


def _with(value: float, unit: str) -> str:
    return f"{number(value)} {unit}".rstrip()


def number(value: float) -> str:
    """Return three significant digits, and never an exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def machine() -> dict[str, str]:
    """Return what the figures were measured on."""
    memory = psutil.virtual_memory().total / (1 << 30)
    return {
        "processor": f"{psutil.cpu_count()} × {_processor()}",
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "bubblewrap": _bubblewrap(),
        "busy before": f"{psutil.cpu_percent(interval=_LOOK):.0f} %",
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _bubblewrap() -> str:
    path = shutil.which("bwrap")
    if path is None:
        return "none"
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=10)
    return done.stdout.strip().removeprefix("bubblewrap ")
