"""What differs between two texts, line by line, for a person to read; quick also for a file of megabytes.

`difflib` takes quadratic time on files whose lines are much alike, as those of JSON are. Here the texts are walked side
by side, and it only looks at the few lines around each place where they part.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence

#: So many lines around a difference are shown.
_CONTEXT = 3
#: Texts that parted are together again where so many lines are equal, at most so far from where they parted.
_TOGETHER, _FARTHEST = 5, 300
_NUMBER = re.compile(r"(?<= )([-+])(\d+)")

#: Lines from the first number up to the second of one text stand where those of the other text do.
Part = tuple[int, int, int, int]


def unified(before: Sequence[str], after: Sequence[str], names: tuple[str, str]) -> Iterator[str]:
    """Yield the lines of a unified diff, without line ends; none where the texts are equal."""
    for number, (start, end, other, other_end) in enumerate(_joined(parts(before, after))):
        first, other_first = max(start - _CONTEXT, 0), max(other - _CONTEXT, 0)
        one, two = before[first : end + _CONTEXT], after[other_first : other_end + _CONTEXT]
        # What was joined stays one piece, whatever is equal in it.
        lines = list(difflib.unified_diff(one, two, *names, lineterm="", n=_CONTEXT))
        for line in lines[2 if number else 0 :]:
            yield _moved(line, first, other_first) if line.startswith("@@") else line


def _moved(line: str, first: int, other_first: int) -> str:
    """Return the head of a piece with the numbers that its lines have in the whole texts."""

    def number(match: re.Match[str]) -> str:
        return f"{match[1]}{int(match[2]) + (first if match[1] == '-' else other_first)}"

    return _NUMBER.sub(number, line)


def _joined(found: Iterable[Part]) -> Iterator[Part]:
    """Yield differences, those together whose lines around them would be shown twice."""
    last: Part | None = None
    for part in found:
        if last is not None and part[0] - last[1] <= 2 * _CONTEXT:
            last = (last[0], part[1], last[2], part[3])
            continue
        if last is not None:
            yield last
        last = part
    if last is not None:
        yield last


def parts(before: Sequence[str], after: Sequence[str]) -> Iterator[Part]:
    """Yield where two texts differ, in their order; all lines between are equal."""
    at, other = 0, 0
    while True:
        while at < len(before) and other < len(after) and before[at] == after[other]:
            at, other = at + 1, other + 1
        if at == len(before) and other == len(after):
            return
        skip, other_skip = _until_together(before, after, at, other)
        yield at, at + skip, other, other + other_skip
        at, other = at + skip, other + other_skip


def _until_together(before: Sequence[str], after: Sequence[str], at: int, other: int) -> tuple[int, int]:
    """Return how many lines of each text are to be passed over until they go on alike; all of them if they never do."""
    for distance in range(1, _FARTHEST):
        for skip in range(distance + 1):
            one, two = at + skip, other + distance - skip
            if one > len(before) or two > len(after):
                continue
            alike = before[one : one + _TOGETHER] == after[two : two + _TOGETHER]
            if alike and (len(before) - one >= _TOGETHER or len(before) - one == len(after) - two):
                return skip, distance - skip
    return len(before) - at, len(after) - other
