"""Two texts are compared line by line, and quickly also where all of their lines are alike."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.hosts.differences import parts, unified

NAMES = ("a", "b")
_LINES = st.lists(st.sampled_from(["{", "}", "x", "y", "z", ""]), max_size=40)


def patched(before: Sequence[str], diff: Sequence[str]) -> list[str]:
    """Return a text to which a unified diff was applied; every line of the diff must fit."""
    result: list[str] = []
    at = 0
    for line in diff[2:]:
        if head := re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line):
            start = int(head[1]) - (head[2] != "0")
            result += before[at:start]
            at = start
            assert len(result) == int(head[3]) - (head[4] != "0")
            continue
        if line[0] != "+":
            assert before[at] == line[1:]
            at += 1
        if line[0] != "-":
            result.append(line[1:])
    return [*result, *before[at:]]


@given(_LINES, st.data())
def test_a_diff_makes_the_one_of_the_other(before: list[str], data: st.DataObject) -> None:
    after = list(before)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(after)))
        after[at : at + data.draw(st.integers(0, 4))] = data.draw(_LINES)
    diff = list(unified(before, after, NAMES))
    assert bool(diff) is (before != after)
    assert patched(before, diff) == after


def test_it_reads_as_every_diff_does() -> None:
    before = [str(number) for number in range(40)]
    after = [*before[:5], "new", *before[5:20], *before[21:]]
    assert list(unified(before, after, NAMES)) == [
        *("--- a", "+++ b", "@@ -3,6 +3,7 @@", " 2", " 3", " 4", "+new", " 5", " 6", " 7"),
        *("@@ -18,7 +19,6 @@", " 17", " 18", " 19", "-20", " 21", " 22", " 23"),
    ]
    assert list(unified([], ["x"], NAMES)) == ["--- a", "+++ b", "@@ -0,0 +1 @@", "+x"]


def test_differences_that_are_near_are_shown_together() -> None:
    before = [str(number) for number in range(20)]
    after = ["x" if number in (5, 11) else str(number) for number in range(20)]
    assert sum(line.startswith("@@") for line in unified(before, after, NAMES)) == 1
    # Fewer equal lines than these are no sign that the texts go on alike.
    after[14] = "y"
    assert list(parts(before, after)) == [(5, 6, 5, 6), (11, 15, 11, 15)]


def test_texts_that_have_nothing_in_common() -> None:
    before, after = ["a"] * 400, ["b"] * 500
    assert list(parts(before, after)) == [(0, 400, 0, 500)]
    assert patched(before, list(unified(before, after, NAMES))) == after


def test_a_long_text_of_lines_that_are_alike_is_walked_once() -> None:
    before = ["  {", "  }"] * 50_000
    after = list(before)
    for at in range(90_000, 0, -10_000):
        after[at:at] = ["new", "new too"]
    found = list(parts(before, after))
    assert len(found) == 9
    assert all(end == start and other_end - other == 2 for start, end, other, other_end in found)
