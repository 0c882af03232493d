"""A ring is a list of slots, the newest of which count: compared with one that keeps everything."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.metrics.ring import History, Point, Ring

STEP = 5.0

points = st.builds(
    Point,
    at=st.floats(0, 400),
    seconds=st.sampled_from([1.0, 5.0]),
    cpu=st.sampled_from([0.0, 0.5, 2.0]),
    memory=st.integers(0, 1 << 34),
    resident=st.integers(0, 1 << 34),
    processes=st.integers(0, 300),
    threads=st.integers(0, 1000),
    files=st.integers(0, 5000),
    read=st.integers(0, 1 << 30),
    written=st.integers(0, 1 << 30),
    sent=st.integers(0, 1 << 30),
    received=st.integers(0, 1 << 30),
    starts=st.integers(0, 2),
)


def model(added: Iterable[Point], size: int) -> dict[int, Point]:
    """Return what a ring should hold, by slot, without any bound on memory."""
    slots: dict[int, Point] = {}
    for point in added:
        if slots and max(slots) - int(point.at // STEP) >= size:
            slots = {}  # the clock was set back by more than is held
        slot = max([int(point.at // STEP), *slots])
        slots[slot] = slots[slot].joined(point) if slot in slots else point
    newest = max(slots, default=0)
    return {slot: point for slot, point in slots.items() if slot > newest - size}


@given(st.lists(points, max_size=60), st.integers(2, 12))
def test_a_ring_holds_the_newest_slots(added: list[Point], size: int) -> None:
    ring = Ring(STEP, size)
    for point in added:
        ring.add(point)
    expected = model(added, size)
    found = list(ring.since(0.0))
    assert [point.at for point in found] == [slot * STEP for slot in sorted(expected)]
    assert len(ring) <= size
    for point in found:
        wanted = expected[int(point.at // STEP)]
        assert point.cpu == pytest.approx(wanted.cpu)
        assert point.seconds == pytest.approx(wanted.seconds)
        assert (point.processes, point.threads, point.files, point.starts) == (
            *(wanted.processes, wanted.threads, wanted.files, wanted.starts),
        )
        for name in ("memory", "resident", "read", "written", "sent", "received"):
            # Kept in KiB, rounded up.
            assert 0 <= getattr(point, name) - getattr(wanted, name) < 1024


@given(st.lists(points, max_size=60), st.floats(0, 420))
def test_what_is_older_is_left_out(added: list[Point], since: float) -> None:
    ring = Ring(STEP, 12)
    for point in added:
        ring.add(point)
    assert list(ring.since(since)) == [point for point in ring.since(0.0) if point.at + STEP > since]


def test_a_clock_that_was_far_ahead_for_a_moment_does_not_stop_a_ring() -> None:
    ring = Ring(STEP, 4)
    for at in (5.0, 10.0, 1e9, 15.0, 20.0, 25.0, 30.0, 35.0):
        ring.add(Point(at, cpu=1.0))
    assert [(point.at, point.cpu) for point in ring.since(0.0)] == [(at, 1.0) for at in (20.0, 25.0, 30.0, 35.0)]


def test_nothing_grows_beyond_its_column() -> None:
    ring = Ring(STEP, 3)
    ring.add(Point(0.0, memory=1 << 60, processes=1 << 40, files=1 << 40))
    ring.add(Point(5.0))
    first, _ = ring.since(0.0)
    assert (first.memory, first.processes, first.files) == (((1 << 32) - 1) << 10, (1 << 16) - 1, (1 << 32) - 1)


def test_a_load_is_what_was_spent_over_what_was_watched() -> None:
    assert Point(0.0, seconds=4.0, cpu=2.0).load == 0.5
    assert Point(0.0, cpu=2.0).load == 0.0


def test_a_day_is_kept_in_steps_of_a_minute_and_no_more() -> None:
    history, now = History(), 200_000_000.0
    for second in range(0, 2 * 86400, 30):
        history.add(Point(now - 2 * 86400 + second, seconds=30.0, cpu=1.0))
    for reach in (86400, 3 * 86400):
        step, points = history.since(now - reach, now)
        assert (step, len(points)) == (60.0, 1440)
        assert sum(point.cpu for point in points) == pytest.approx(2880.0, rel=0.001)


def test_a_history_is_as_fine_as_it_reaches() -> None:
    history, now = History(), 100_000.0
    assert history.since(now - 60, now) == (5.0, [])
    for second in range(0, 7200, 5):
        history.add(Point(now - 7200 + second, seconds=5.0, cpu=1.0, starts=second % 3600 == 0))
    step, fine = history.since(now - 600, now)
    assert (step, len(fine)) == (5.0, 120)
    step, fine = history.since(now - 3600, now + 0.25)
    assert (step, len(fine)) == (5.0, 720)
    step, coarse = history.since(now - 3605, now)
    assert (step, len(coarse)) == (60.0, 61)
    step, coarse = history.since(now - 7200, now)
    assert step == 60.0
    assert len(coarse) in (120, 121)
    assert sum(point.cpu for point in coarse) == pytest.approx(1440.0)
    assert sum(point.starts for point in coarse) == 2
