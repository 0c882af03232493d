"""How often to look: often while something happens or somebody watches, seldom else, never where nothing runs."""

from __future__ import annotations

#: While something happens, and while nothing does, in seconds.
BUSY, QUIET = 5.0, 60.0
#: How long after the last call, or after somebody looked, something still counts as happening.
LINGERING = 300.0
#: A tree that uses more of a processor than this does something.
ACTIVE = 0.02
#: Who looks is shown what was read at most this long ago.
FRESH = 1.0


def pause(now: float, happened: float, *, bounded: bool) -> float:
    """Return how long to wait for the next look, given when something last happened.

    ``bounded`` says that limits depend on it.
    """
    return BUSY if bounded or now - happened < LINGERING else QUIET
