"""Who is beyond a limit, and that it is told once."""

from __future__ import annotations

import pytest

from supervisord_mcp.policy.breach import NOTHING, Bounds, Held, crossed

CALM = Held(memory=10, pids=1, cpu=0.1, nofile=3)


@pytest.mark.parametrize(
    ("bounds", "held", "beyond"),
    [
        (NOTHING, Held(1 << 40, 10_000, 99.0, 10_000), set()),
        (Bounds(100, 10, 1.0, 20), CALM, set()),
        (Bounds(memory=100), Held(101, 1, None, 3), {"memory"}),
        (Bounds(memory=100), Held(100, 1, None, 3), set()),
        (Bounds(pids=10), Held(0, 11, None, 3), {"pids"}),
        (Bounds(cpu=0.5), Held(0, 1, 0.6, 3), {"cpu"}),
        (Bounds(cpu=0.5), Held(0, 1, None, 3), set()),
        (Bounds(nofile=20), Held(0, 1, None, 20), {"nofile"}),
        (Bounds(nofile=20), Held(0, 1, None, 19), set()),
        (Bounds(100, 10, 1.0, 20), Held(101, 11, 1.1, 20), {"memory", "pids", "cpu", "nofile"}),
    ],
)
def test_who_is_beyond(bounds: Bounds, held: Held, beyond: set[str]) -> None:
    assert crossed(bounds, held, frozenset()) == (frozenset(beyond), tuple(sorted(beyond)))


def test_it_is_told_once_until_it_is_well_below_again() -> None:
    bounds, known = Bounds(memory=100), frozenset[str]()
    told = []
    for memory in (90, 101, 150, 95, 101, 89, 101):
        known, new = crossed(bounds, Held(memory, 1, None, 1), known)
        told.append(bool(new))
    assert told == [False, True, False, False, False, False, True]


def test_only_what_somebody_acts_upon_is_pressing() -> None:
    assert not NOTHING.pressing
    assert not Bounds(nofile=5).pressing
    assert all(bounds.pressing for bounds in (Bounds(memory=1), Bounds(pids=1), Bounds(cpu=1.0)))
