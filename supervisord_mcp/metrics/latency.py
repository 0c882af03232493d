"""How long calls took, in buckets that grow by a fifth: a bounded number of them, and quantiles within a tenth."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping

#: Buckets for each doubling, and the end of the first one, in seconds.
_PER_DOUBLING = 4
_FIRST = 1e-5
#: The last bucket takes everything longer than about a week.
_LAST = 144
#: The longest time that belongs to each bucket but the last one, in seconds.
BOUNDS: tuple[float, ...] = tuple(_FIRST * 2.0 ** (number / _PER_DOUBLING) for number in range(_LAST))


def bucket(seconds: float) -> int:
    """Return the number of the bucket of a length of time."""
    return bisect_left(BOUNDS, seconds)


def count(seconds: Iterable[float], histogram: dict[int, int]) -> None:
    """Add calls that took so long to a histogram."""
    # Most take about as long as the others: in order they are looked at bucket by bucket, not one by one.
    ordered, first = sorted(seconds), 0
    while first < len(ordered):
        number = bucket(ordered[first])
        end = bisect_right(ordered, upper(number), first)
        histogram[number] = histogram.get(number, 0) + end - first
        first = end


def upper(number: int) -> float:
    """Return the longest time that belongs to a bucket, in seconds; infinity for the last one."""
    return math.inf if number >= _LAST else BOUNDS[number]


def total(histograms: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Return the sum of histograms (how many calls, by bucket)."""
    whole: dict[int, int] = {}
    for histogram in histograms:
        for number, count in histogram.items():
            whole[number] = whole.get(number, 0) + count
    return whole


def quantile(histogram: Mapping[int, int], part: float) -> float | None:
    """Return the time that a part of the calls (0.5: half) did not exceed, in seconds; None where there was no call."""
    wanted = part * sum(histogram.values())
    if wanted <= 0:
        return None
    number: int = next(number for number, reached in _cumulative(histogram) if reached >= wanted)
    if number >= _LAST:
        return BOUNDS[-1]
    # The middle of the bucket, as factors go.
    return float(_FIRST * 2.0 ** ((number - 0.5) / _PER_DOUBLING)) if number else _FIRST


def _cumulative(histogram: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    reached = 0
    for number in sorted(histogram):
        reached += histogram[number]
        yield number, reached
