"""Quantiles of a histogram are those of the values, within a tenth."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.metrics.latency import bucket, count, quantile, total, upper

seconds = st.floats(2e-5, 1e5)


@given(st.lists(seconds, min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_quantile_is_within_a_tenth(values: list[float], part: float) -> None:
    histogram = total({bucket(value): 1} for value in values)
    found = quantile(histogram, part)
    exact = sorted(values)[math.ceil(part * len(values)) - 1]
    assert found == pytest.approx(exact, rel=0.1)


@given(st.floats(0, 1e9))
def test_a_value_is_in_its_bucket(value: float) -> None:
    number = bucket(value)
    assert value <= upper(number)
    assert number == 0 or value > upper(number - 1)


@given(st.lists(st.sampled_from([-1.0, 0.0, 1e-5, 1.1e-5, 1e9, 1e12, math.inf]) | seconds, max_size=50))
def test_times_are_counted_where_they_belong(values: list[float]) -> None:
    histogram = {0: 1}
    # Again and again the same one, as calls of a server are.
    repeated = [value for value in values for _ in range(3)]
    count(repeated, histogram)
    assert histogram == total([{0: 1}, *({bucket(value): 1} for value in repeated)])


def test_the_ends() -> None:
    assert quantile({}, 0.5) is None
    assert bucket(0.0) == bucket(-1.0) == 0
    assert quantile({0: 3}, 0.99) == 1e-5
    assert upper(bucket(1e9)) == math.inf
    assert quantile({bucket(1e9): 1}, 0.5) == pytest.approx(1e-5 * 2 ** (143 / 4))
