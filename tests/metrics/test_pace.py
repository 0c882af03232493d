"""How often is looked."""

from __future__ import annotations

from supervisord_mcp.metrics.pace import BUSY, LINGERING, QUIET, pause


def test_where_something_happens_is_looked_often() -> None:
    assert pause(100.0, 100.0, bounded=False) == BUSY
    assert pause(100.0 + LINGERING - 1, 100.0, bounded=False) == BUSY
    assert pause(100.0 + LINGERING, 100.0, bounded=False) == QUIET


def test_limits_are_looked_after_all_the_time() -> None:
    assert pause(1e6, 0.0, bounded=True) == BUSY
