"""Draws memory and processors of servers over time, with matplotlib, which only this needs: the extra ``plot``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Final

from supervisord_mcp.errors import SmcpError, UsageError
from supervisord_mcp.protocol.usage import ServerUsage, UsageResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KINDS: Final = (".svg", ".png")
_MIB: Final = 1 << 20
#: How large it is at least, what each name in the legend needs of the height, and each character beyond so many of the
#: width, in inches.
_WIDTH, _HEIGHT, _PER_NAME, _PER_CHARACTER, _SHORT = 10.0, 6.0, 0.22, 0.09, 24
#: There are ten colours; of more servers the lines differ in this besides.
_COLOURS: Final = 10
_STROKES: Final = ("-", "--", ":", "-.")
#: The time axis is at least so long, in seconds.
_SHORTEST: Final = 60.0


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
    figure = Figure(figsize=_size(servers), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for number, server in enumerate(servers):
        stroke = _STROKES[number // _COLOURS % len(_STROKES)]
        _line(above, server, [point.memory / _MIB for point in server.history], stroke, label=server.name)
        _line(below, server, [point.load * 100 for point in server.history], stroke)
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
    below.set_xlim(*_span(servers))
    # Of the figure, not of one of the axes, which would have to be as high as all the names.
    figure.legend(loc="outside right upper", frameon=False)
    try:
        figure.savefig(file, dpi=120)
    except OSError as error:
        raise SmcpError(f"the plot cannot be written: {file}: {error.strerror or error}") from error


def _size(servers: Sequence[ServerUsage]) -> tuple[float, float]:
    """Return how wide and high the figure is: such that the names fit beside the lines."""
    longest = max(len(server.name) for server in servers)
    return (
        _WIDTH + _PER_CHARACTER * max(longest - _SHORT, 0),
        max(_HEIGHT, _PER_NAME * (len(servers) + 1)),
    )


def _span(servers: Sequence[ServerUsage]) -> tuple[datetime, datetime]:
    """Return the ends of the time axis. One of a single moment would be drawn as years."""
    first = min(server.history[0].at for server in servers)
    last = max(server.history[-1].at for server in servers)
    margin = max(0.05 * (last - first), (_SHORTEST - (last - first)) / 2)
    return _time(first - margin), _time(last + margin)


def _line(axes: Axes, server: ServerUsage, values: list[float], stroke: str, label: str | None = None) -> None:
    times, shown = zip(*_with_gaps(server, values), strict=True)
    (line,) = axes.plot(times, shown, label=label, linewidth=1.5, linestyle=stroke)
    starts = [(_time(point.at), value) for point, value in zip(server.history, values, strict=True) if point.starts]
    # A line needs two points; one between gaps would not be seen.
    edged = (nan, *shown, nan)
    lone = [
        (when, value)
        for when, before, value, after in zip(times, edged, shown, edged[2:], strict=False)
        if isnan(before) and isnan(after) and not isnan(value)
    ]
    for points, marker in ((starts, "^"), (lone, ".")):
        if points:
            when, where = zip(*points, strict=True)
            axes.plot(when, where, linestyle="", marker=marker, markersize=6, color=line.get_color())


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
