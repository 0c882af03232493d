"""Sizes, times and parts as people read them in a column."""

from __future__ import annotations

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"


def size(count: float) -> str:
    """Given bytes, return them in at most five characters: 0, 812B, 4.2M, 981M, 1.3G."""
    if count < 1:
        return "0"
    for unit in "BKMGT":
        if count < 999.5 or unit == "T":
            return f"{count:.1f}{unit}" if count < 9.95 and unit != "B" else f"{count:.0f}{unit}"
        count /= 1024
    raise AssertionError("there is a last unit")


def percent(load: float) -> str:
    """Given how many processors are busy, return it as the percentage of one."""
    return f"{load * 100:.1f}%" if load < 9.995 else f"{load * 100:.0f}%"


def length(seconds: float | None) -> str:
    """Given a short length of time, return it in at most six characters: 85µs, 1.2ms, 340ms, 4.5s, 12m."""
    if seconds is None:
        return "-"
    for limit, factor, unit in ((0.0009995, 1e6, "µs"), (0.9995, 1e3, "ms"), (99.5, 1.0, "s")):
        if seconds < limit:
            value = seconds * factor
            return f"{value:.1f}{unit}" if value < 9.95 and unit != "µs" else f"{value:.0f}{unit}"
    return f"{seconds / 60:.0f}m"


def number(count: int) -> str:
    """Given a count, return it in at most five characters: 999, 12k, 3.4M."""
    if count < 10_000:
        return str(count)
    for unit in "kMGT":
        count_of = count / 1000
        if count_of < 999.5:
            return f"{count_of:.1f}{unit}" if count_of < 9.95 else f"{count_of:.0f}{unit}"
        count = round(count_of)
    return "many"


def sparkline(values: Sequence[float | None], width: int, most: float | None = None) -> str:
    """Given values, the newest last, return one character for each of the last ones; a blank where there is none.

    ``most`` is what the highest bar stands for; the largest value if it is left out.
    """
    shown = list(values)[-width:]
    top = most or max((value for value in shown if value is not None), default=0.0)
    bars = "".join(
        " " if value is None else _BARS[min(int(value / top * len(_BARS)), len(_BARS) - 1) if top > 0 else 0]
        for value in shown
    )
    return bars.rjust(width)
