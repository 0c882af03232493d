"""Tables about restarts and logs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from supervisord_mcp.config.lifetime import Backoff, Budget, Log


def test_the_first_wait_is_the_shortest() -> None:
    assert Backoff(first=2, most=2).most == 2.0
    with pytest.raises(ValidationError, match="first must not be longer than most"):
        Backoff(first=3, most=2)


def test_defaults() -> None:
    assert (Budget().restarts, Budget().within) == (5, 60.0)
    assert (Log().max_size, Log().keep) == (2 << 20, 5)
