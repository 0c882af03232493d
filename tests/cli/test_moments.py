"""How long ago, or when."""

from __future__ import annotations

import time

import pytest

from supervisord_mcp.cli.moments import moment, until_now
from supervisord_mcp.errors import UsageError


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("10m", 1_000_000.0 - 600),
        ("1d", 1_000_000.0 - 86400),
        ("1970-01-02", 86400.0),
        ("1970-01-01T00:01", 60.0),
        ("1970-01-01T00:00:01.250Z", 1.25),
        ("1970-01-01T01:00:00+01:00", 0.0),
        # Now it is 13:46:40.
        ("10:30", 11 * 86400.0 + 10.5 * 3600),
        ("14:00", 10 * 86400.0 + 14 * 3600),
        ("23:30+10:00", 11 * 86400.0 + 13.5 * 3600),
        ("23:50+10:00", 10 * 86400.0 + 13 * 3600 + 50 * 60),
        ("01:00-01:00", 11 * 86400.0 + 2 * 3600),
    ],
)
def test_it_is_a_length_of_time_or_a_time(text: str, wanted: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0)
    assert moment(text) == wanted


@pytest.mark.parametrize("text", ["", "yesterday", "10 parsecs", "2026-13-01", "25:00", "10:"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a time"):
        moment(text)


@pytest.mark.parametrize(
    ("text", "words"), [("10m", "last 10m"), ("10:30", "since 10:30"), ("2026-12-01", "since 2026-12-01")]
)
def test_what_lies_between_it_and_now(text: str, words: str) -> None:
    assert until_now(text) == words
