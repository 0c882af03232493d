"""Amounts in columns: short, and never wider than their column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.cli.amounts import length, number, percent, size, sparkline


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (812, "812B"),
        (999, "999B"),
        (1000, "1.0K"),
        (4.2 * (1 << 20), "4.2M"),
        (981 << 20, "981M"),
        (1.3 * (1 << 30), "1.3G"),
        (1 << 50, "1024T"),
    ],
)
def test_sizes(count: float, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "0µs"),
        (0.000085, "85µs"),
        (0.0012, "1.2ms"),
        (0.34, "340ms"),
        (4.5, "4.5s"),
        (45, "45s"),
        (720, "12m"),
    ],
)
def test_lengths(seconds: float | None, text: str) -> None:
    assert length(seconds) == text


@pytest.mark.parametrize(("load", "text"), [(0.0, "0.0%"), (0.123, "12.3%"), (1.0, "100.0%"), (12.0, "1200%")])
def test_percentages(load: float, text: str) -> None:
    assert percent(load) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (9999, "9999"), (12_345, "12k"), (999_600, "1.0M"), (3_400_000, "3.4M")]
)
def test_numbers(count: int, text: str) -> None:
    assert number(count) == text


@given(st.integers(0, 1 << 60), st.floats(0, 1e7))
def test_nothing_is_wider_than_its_column(count: int, seconds: float) -> None:
    assert len(size(min(count, 1 << 50))) <= 5
    assert len(number(min(count, 10**15))) <= 5
    assert len(length(seconds)) <= 7


def test_a_sparkline_has_a_sign_for_each_value() -> None:
    assert sparkline([0.0, None, 1.0, 2.0], 6) == "  ▁ ▅█"
    assert sparkline([0.0, 0.0], 2) == "▁▁"
    assert sparkline([1.0, 2.0, 3.0], 2) == "▆█"
    assert sparkline([], 3) == "   "
    assert sparkline([0.5], 1, most=1.0) == "▅"
