"""Finding many values in a text at once, at the speed of memory where there is none of them.

A search that only asks whether anything is there comes first, with the vector instructions of the processor; it takes
a limited number of patterns, so there is one for each group of them. Only where it finds something, the places are
looked for one by one, those that overlap too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

#: The library looks for single rare bytes where patterns begin with three different ones or fewer, and these bytes are
#: not rare in logs. So some patterns are added that no text has: the bytes never occur in UTF-8. They are short, for
#: by the shortest pattern goes how many bytes are compared at once: three take a quarter less time than four.
_UNLIKELY = tuple(bytes([first]) * 3 for first in range(0xF8, 0xFC))
#: Up to 32 patterns are searched twice as fast as up to 64, on every processor; more are searched without vectors.
_GROUP = 32 - len(_UNLIKELY)
#: The fastest automaton takes about a kilobyte for each byte of its patterns: not for a key file.
_FAST = 4096
#: So many bytes of a pattern are looked for at the end of a text, before all of it is compared.
_HEAD = 3

Span = tuple[int, int]
Search = Callable[[bytes], list[tuple[int, int, int]]]


class Needles:
    """A set of patterns, each with the names of whose value it is a form of. Every one has at least `_HEAD` bytes."""

    def __init__(self, patterns: Mapping[bytes, frozenset[str]]) -> None:
        self._patterns = tuple(sorted(patterns))
        self._names = tuple(patterns[pattern] for pattern in self._patterns)
        # The long ones together: they are searched with less memory and more time.
        by_length = sorted(self._patterns, key=len)
        self._quick = [_search(by_length[at : at + _GROUP]) for at in range(0, len(by_length), _GROUP)]
        self._exact = BytesAhoCorasick(self._patterns, implementation=Implementation.ContiguousNFA)
        self._longest = max(map(len, self._patterns), default=0)
        self._in_a_line = not any(b"\n" in pattern for pattern in self._patterns)
        self._by_head: dict[bytes, list[bytes]] = {}
        for pattern in self._patterns:
            self._by_head.setdefault(pattern[:_HEAD], []).append(pattern)
        self._heads = re.compile(b"|".join(map(re.escape, self._by_head)))
        self._beginnings = {head[:length] for head in self._by_head for length in range(1, _HEAD)}

    def spans(self, data: bytes) -> list[Span]:
        """Return the parts of a text that values take up, in order and apart from each other."""
        spans: list[Span] = []
        if not (matches := self._matches(data)):
            return spans
        for _, start, end in sorted(matches, key=lambda match: match[1]):
            if spans and start < spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((start, end))
        return spans

    def names(self, data: bytes) -> frozenset[str]:
        """Return the names of the values that are in a text."""
        return frozenset().union(*(self._names[number] for number, _, _ in self._matches(data)))

    def begun(self, data: bytes) -> int:
        """Return where the end of a text begins that may be the beginning of a value, or the length of the text."""
        first = max(0, len(data) - self._longest + 1)
        if self._in_a_line:
            first = max(first, data.rfind(b"\n") + 1)
        at = first
        while (match := self._heads.search(data, at)) is not None:
            rest = data[match.start() :]
            if any(len(pattern) > len(rest) and pattern.startswith(rest) for pattern in self._by_head[match[0]]):
                return match.start()
            at = match.start() + 1
        for length in range(min(_HEAD - 1, len(data) - first), 0, -1):
            if data[-length:] in self._beginnings:
                return len(data) - length
        return len(data)

    def _matches(self, data: bytes) -> list[tuple[int, int, int]]:
        for quick in self._quick:  # a generator would take as long as a tenth of the search
            if quick(data):
                return self._exact.find_matches_as_indexes(data, overlapping=True)
        return []


def _search(patterns: list[bytes]) -> Search:
    """Return what finds the first of some patterns, and hardly ever anything else."""
    kind = Implementation.DFA if sum(map(len, patterns)) <= _FAST else Implementation.ContiguousNFA
    return BytesAhoCorasick((*patterns, *_UNLIKELY), MatchKind.LeftmostLongest, kind).find_matches_as_indexes
