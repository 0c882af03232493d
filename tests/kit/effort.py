"""How much a test does: little on every change, and the whole numbers of its field case where one looks for longer."""

from __future__ import annotations

import os

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"


def effort(usual: int, deep: int) -> int:
    """Return how often, how long or how many; ``deep`` with ``HYPOTHESIS_PROFILE=deep``."""
    return deep if DEEP else usual
