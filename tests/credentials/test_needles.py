"""Finding many patterns at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.credentials.needles import Needles

NOBODY: frozenset[str] = frozenset()


def needles(*patterns: bytes) -> Needles:
    return Needles({pattern: frozenset({pattern.decode()}) for pattern in patterns})


def test_none_is_found_in_a_text_without_any() -> None:
    assert needles(b"abcdef").spans(b"abcde abcdf") == []
    assert needles(b"abcdef").names(b"abcde abcdf") == NOBODY


def test_overlapping_ones_take_up_one_part() -> None:
    found = needles(b"abcdef", b"defghi", b"cdef")
    assert found.spans(b"..abcdefghi.abcdef") == [(2, 11), (12, 18)]
    assert found.names(b"..abcdefghi") == {"abcdef", "defghi", "cdef"}


def test_what_touches_stays_apart() -> None:
    assert needles(b"abcdef").spans(b"abcdefabcdef") == [(0, 6), (6, 12)]


def test_bytes_that_are_no_text_are_no_values() -> None:
    assert needles(b"abcdef").spans(bytes(range(128, 256)) * 4 + bytes([0xF8]) * 40) == []


def test_the_beginning_of_one_at_the_end() -> None:
    found = needles(b"abcdef", b"bcdxyz")
    for text, begun in ((b"..a", 2), (b"..ab", 2), (b"..abc", 2), (b"..abcd", 2), (b"..bcdx", 2), (b"..abx", 5)):
        assert found.begun(text) == begun
    assert found.begun(b"") == 0
    assert found.begun(b"abcdef") == 6
    # Only what is in the last line can go on, as no pattern has more lines than one.
    assert found.begun(b"abcd\n") == 5
    assert found.begun(b"abcd\nab") == 5


def test_the_beginning_of_one_with_several_lines() -> None:
    found = needles(b"abc\ndef", b"xyzxyz")
    assert found.begun(b"..abc\n") == 2
    assert found.begun(b"..abc\nd") == 2
    assert found.begun(b"..abc\nx") == 6


patterns = st.lists(st.binary(min_size=3, max_size=9), min_size=1, max_size=70, unique=True)


@given(patterns, st.data())
def test_it_finds_what_a_simple_search_finds(wanted: list[bytes], data: st.DataObject) -> None:
    pieces = st.one_of(st.sampled_from(wanted), st.binary(max_size=4), st.sampled_from([p[:2] for p in wanted]))
    text = b"".join(data.draw(st.lists(pieces, max_size=12)))
    found = Needles({pattern: frozenset({pattern.hex()}) for pattern in wanted})
    covered = {
        at
        for pattern in wanted
        for start in range(len(text))
        if text.startswith(pattern, start)
        for at in range(start, start + len(pattern))
    }
    assert {at for start, end in found.spans(text) for at in range(start, end)} == covered
    assert found.names(text) == {pattern.hex() for pattern in wanted if pattern in text}
    starts = [at for at in range(len(text)) if any(p != text[at:] and p.startswith(text[at:]) for p in wanted)]
    assert found.begun(text) == min(starts, default=len(text))


def test_few_short_ones_and_many_long_ones() -> None:
    short = [f"{number:06d}-short".encode() for number in range(70)]
    long = [bytes([65 + number]) * 3000 + b"end" for number in range(3)]
    text = b" ".join([*short, *long])
    found = needles(*short, *long)
    assert found.names(text) == {pattern.decode() for pattern in (*short, *long)}
    assert len(found.spans(text)) == 73
