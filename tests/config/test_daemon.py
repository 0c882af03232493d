"""The settings of the daemon: their defaults, and that a wrong one is an error."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from supervisord_mcp.config.daemon import DaemonConfig, Metrics


def test_the_defaults() -> None:
    daemon = DaemonConfig()
    assert (daemon.idle_exit, daemon.max_message, daemon.log_level, daemon.reload) == (600.0, 64 << 20, "info", True)
    assert Metrics() == Metrics(usage=True, calls=True)


@pytest.mark.parametrize("wrong", [{"usage": "yes"}, {"calls": 1}, {"clals": True}])
def test_what_is_measured_is_said_with_true_and_false(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Metrics.model_validate(wrong)
