"""Draws memory and processors of servers over time, with matplotlib, which only this needs: the extra ``plot``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Final

from supervisord_mcp.errors import SmcpError, UsageError
from supervisord_mcp.protocol.usage import ServerUsage, UsageResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KINDS: Final = (".svg", ".png")
_MIB: Final = 1 << 20


def check(file: Path) -> None:
    """Raise `UsageError` for a kind of file that is not drawn, `SmcpError` where the library is missing."""
    if file.suffix.lower() not in _KINDS:
        raise UsageError(f"--plot {file}: the name of the file must end in .svg or .png")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise SmcpError(
            "a plot needs matplotlib, which is not installed",
            remedy="pipx inject mcp-supervisord matplotlib, or: pip install 'mcp-supervisord[plot]'",
        ) from error


def draw(result: UsageResult, file: Path) -> None:
    """Draw the history of all servers. Raise `SmcpError` where there is none, or the file cannot be written."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    servers = [server for server in result.servers if server.history]
    if not servers:
        raise SmcpError("there is nothing to draw: no server ran in that time", remedy="try a longer --since")
    # Not pyplot: nothing global, and no window system is looked for.
    figure = Figure(figsize=(10, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for server in servers:
        _line(above, server, [point.memory / _MIB for point in server.history], label=server.name)
        _line(below, server, [point.load * 100 for point in server.history])
    above.set_ylabel("memory (PSS), MiB")
    below.set_ylabel("processors, % of one")
    for axes in (above, below):
        axes.set_ylim(0, max(axes.dataLim.y1 * 1.1, 0.1))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    locator = AutoDateLocator(tz=UTC)  # type: ignore[no-untyped-call]
    below.xaxis.set_major_locator(locator)
    below.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]
    below.set_xlabel("time (UTC); triangles mark starts")
    above.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    try:
        figure.savefig(file, dpi=120)
    except OSError as error:
        raise SmcpError(f"the plot cannot be written: {file}: {error.strerror or error}") from error


def _line(axes: Axes, server: ServerUsage, values: list[float], label: str | None = None) -> None:
    times, shown = zip(*_with_gaps(server, values), strict=True)
    (line,) = axes.plot(times, shown, label=label, linewidth=1.5)
    starts = [(_time(point.at), value) for point, value in zip(server.history, values, strict=True) if point.starts]
    if starts:
        when, where = zip(*starts, strict=True)
        axes.plot(when, where, linestyle="", marker="^", markersize=6, color=line.get_color())


def _with_gaps(server: ServerUsage, values: list[float]) -> Iterator[tuple[datetime, float]]:
    """Yield the points, and one without a value where the server did not run or was not looked at for long."""
    before: float | None = None
    for point, value in zip(server.history, values, strict=True):
        # A quiet server is looked at once a minute only.
        if before is not None and point.at - before > max(2.5 * server.step, 90.0):
            yield _time(before + server.step), nan
        yield _time(point.at), value
        before = point.at


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
