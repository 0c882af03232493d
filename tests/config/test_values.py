"""Durations and sizes as people write them, and tables that never change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.config.values import (
    LONGEST,
    FrozenTable,
    format_bound,
    format_duration,
    format_size,
    format_size_bound,
    parse_bound,
    parse_duration,
    parse_limit,
    parse_size,
    parse_size_bound,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10m", 600),
        ("90s", 90),
        ("500ms", 0.5),
        ("2h", 7200),
        ("1d", 86400),
        ("1.5h", 5400),
        ("7 ms", 0.007),
        ("3", 3),
        (3, 3),
        (0.25, 0.25),
        (0, 0),
    ],
)
def test_duration(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "value", ["", "m", "-1s", "1w", "1 0s", "1e3", "\u0661s", "10m ", True, None, [], {}, "off", "9" * 30]
)
def test_not_a_duration(value: object) -> None:
    with pytest.raises(ValueError, match="is not a duration; write"):
        parse_duration(value)


@pytest.mark.parametrize(
    "value", [-1, float("nan"), float("inf"), "366d", pytest.param(10**5000, id="huge"), -0.5, "99999999999999999999d"]
)
def test_duration_out_of_range(value: object) -> None:
    with pytest.raises(ValueError, match="out of range"):
        parse_duration(value)


def test_an_error_shows_a_short_value_only() -> None:
    with pytest.raises(ValueError, match=r'^"1 week" is not'):
        parse_duration("1 week")
    with pytest.raises(ValueError, match=r"^this value is not"):
        parse_duration("s" * 100)
    with pytest.raises(ValueError, match=r"^true is not"):
        parse_duration(True)


def test_limit() -> None:
    assert parse_limit("off") is None
    assert parse_limit(None) is None
    assert parse_limit("1m") == 60
    with pytest.raises(ValueError, match='or "off" for never'):
        parse_limit("never")


def test_bounds() -> None:
    assert (parse_bound("off"), parse_bound(3), parse_bound("x"), format_bound(None), format_bound(0.5)) == (
        *(None, 3, "x", "off", 0.5),
    )
    assert (parse_size_bound("off"), parse_size_bound(None), parse_size_bound("1M")) == (None, None, 1 << 20)
    assert (format_size_bound(None), format_size_bound(1 << 20)) == ("off", "1M")
    with pytest.raises(ValueError, match='or "off" for no limit'):
        parse_size_bound("much")


@given(st.none() | st.floats(0, LONGEST) | st.integers(0, int(LONGEST)).map(float))
def test_duration_round_trip(seconds: float | None) -> None:
    parsed = parse_limit(seconds)
    assert parse_limit(format_duration(parsed)) == parsed
    assert parsed == seconds or abs((parsed or 0) - (seconds or 0)) < 1e-6


@pytest.mark.parametrize(("seconds", "text"), [(600, "10m"), (0.5, "500ms"), (90, "90s"), (86400, "1d"), (0, "0s")])
def test_duration_is_written_short(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("text", "size"), [("512K", 512 << 10), ("64M", 64 << 20), ("1G", 1 << 30), ("9", 9), (9, 9)])
def test_size(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("value", ["", "K", "-1", "1.5M", "1MB", "1m", True, 1.0, None, "\u0663K"])
def test_not_a_size(value: object) -> None:
    with pytest.raises(ValueError, match="is not a size; write"):
        parse_size(value)


@pytest.mark.parametrize("value", [-1, "2T", 1 << 41, pytest.param(10**5000, id="huge")])
def test_size_out_of_range(value: object) -> None:
    with pytest.raises(ValueError, match="out of range"):
        parse_size(value)


@given(st.integers(0, 1 << 40) | st.integers(0, 1 << 10).map(lambda n: n << 30))
def test_size_round_trip(size: int) -> None:
    assert parse_size(format_size(size)) == size


def test_frozen_tables_compare_by_content() -> None:
    one, other = FrozenTable({"a": 1, "b": 2}), FrozenTable({"b": 2, "a": 1})
    assert one == other
    assert hash(one) == hash(other)
    assert one == {"a": 1, "b": 2}
    assert one != FrozenTable({"a": 1})
    assert (len(one), one["a"], sorted(one), repr(one)) == (2, 1, ["a", "b"], "{'a': 1, 'b': 2}")
    assert not hasattr(one, "__setitem__")


def test_a_frozen_table_does_not_follow_its_source() -> None:
    source = {"a": 1}
    table = FrozenTable(source)
    source["b"] = 2
    assert dict(table) == {"a": 1}
    assert dict(FrozenTable[int]()) == {}
