"""Bytes into lines, whatever the chunks and however long the lines."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.protocol.framing import KEPT, LineSplitter, Oversized

LIMIT = 40
Line = bytes | Oversized


def split(stream: bytes, limit: int) -> tuple[list[Line], Line | None]:
    """The reference: split the whole stream at once."""
    *lines, rest = (line if len(line) <= limit else cut(line) for line in stream.split(b"\n"))
    return lines, rest or None


def cut(line: bytes) -> Oversized:
    return Oversized(line[:KEPT], line[-KEPT:], len(line))


def feed(splitter: LineSplitter, chunks: Iterable[bytes]) -> list[Line]:
    return [line for chunk in chunks for line in splitter.feed(chunk)]


@given(st.lists(st.text("ab\n", max_size=60).map(str.encode), max_size=12))
def test_any_chunks_give_the_lines_of_the_whole(chunks: list[bytes]) -> None:
    splitter = LineSplitter(LIMIT)
    lines = feed(splitter, chunks)
    expected, rest = split(b"".join(chunks), LIMIT)
    assert lines == expected
    held = rest.length if isinstance(rest, Oversized) else len(rest or b"")
    assert (splitter.held, splitter.skipping) == (held, isinstance(rest, Oversized))
    assert splitter.finish() == rest
    assert (splitter.held, splitter.skipping) == (0, False)


@given(st.binary(max_size=3 * KEPT), st.integers(1, 3000))
def test_an_over_long_line_keeps_its_two_ends(line: bytes, size: int) -> None:
    line = line.replace(b"\n", b" ") + bytes(2 * KEPT)
    splitter = LineSplitter(KEPT)
    chunks = [line[at : at + size] for at in range(0, len(line), size)]
    assert feed(splitter, [*chunks, b"\nnext\n"]) == [cut(line), b"next"]


@pytest.mark.parametrize("length", [LIMIT - 1, LIMIT, LIMIT + 1])
@pytest.mark.parametrize("later", [False, True])
def test_the_limit_counts_the_line_without_its_newline(length: int, later: bool) -> None:
    line = b"x" * length
    chunks = [line, b"\ngood\n"] if later else [line + b"\ngood\n"]
    first, second = feed(LineSplitter(LIMIT), chunks)
    assert first == (line if length <= LIMIT else cut(line))
    assert second == b"good"
    assert feed(LineSplitter(LIMIT), [line + b"\n"]) == [first]


def test_pieces_of_one_line_are_not_kept_one_by_one() -> None:
    splitter = LineSplitter(1 << 20)
    for _ in range(10_000):
        splitter.feed(b"xy")
    assert len(splitter._parts) == 1
    big = b"z" * 2000
    assert splitter.feed(big + b"\n") == [b"xy" * 10_000 + big]


def test_a_line_whose_beginning_is_lost_is_skipped() -> None:
    splitter = LineSplitter(LIMIT)
    splitter.skip()
    assert splitter.skipping
    assert splitter.held
    splitter.feed(b"the rest of it")
    splitter.skip()
    lost, good = splitter.feed(b" and its end\ngood\n")
    assert isinstance(lost, Oversized)
    assert (lost.head, lost.tail) == (b"", b"the rest of it and its end")
    assert good == b"good"


def test_nothing_is_left_at_the_end_of_whole_lines() -> None:
    splitter = LineSplitter(LIMIT)
    assert splitter.feed(b"") == []
    assert splitter.feed(b"\n\na\n") == [b"", b"", b"a"]
    assert splitter.finish() is None
