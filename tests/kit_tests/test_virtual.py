"""The loop in virtual time: it jumps, it says when nothing can happen, and its chance changes what comes first."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from tests.kit.virtual import run_virtually, virtual

DAY = 86400.0


@virtual(2 * DAY)
async def test_a_day_passes_at_once_and_timers_keep_their_order() -> None:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    fired: list[int] = []
    for hours in (3, 1, 2):
        loop.call_later(hours * 3600, fired.append, hours)
    await asyncio.sleep(DAY)
    assert fired == [1, 2, 3]
    assert round((loop.time() - begin) / DAY, 3) == 1


@virtual(10)
async def test_what_is_due_a_moment_later_is_reached() -> None:
    loop = asyncio.get_running_loop()
    count = 0

    def again() -> None:
        nonlocal count
        count += 1
        if loop.time() < due:
            loop.call_later((due - loop.time()) / 1e12, again)

    due = loop.time() + 1e-4
    again()
    await asyncio.sleep(1)
    assert count > 1


def test_time_is_limited() -> None:
    with pytest.raises(TimeoutError):
        run_virtually(lambda: asyncio.sleep(100), 50)


def test_chance_decides_what_comes_first() -> None:
    orders: set[tuple[int, ...]] = set()

    async def race() -> None:
        loop = asyncio.get_running_loop()
        pipes = [os.pipe() for _ in range(3)]
        seen: list[int] = []

        def take(number: int, read: int) -> None:
            loop.remove_reader(read)
            seen.append(number)

        for number, (read, write) in enumerate(pipes):
            os.write(write, b"x")
            loop.add_reader(read, take, number, read)
        while len(seen) < 3:
            await asyncio.sleep(0.001)
        orders.add(tuple(seen))
        for ends in pipes:
            for end in ends:
                os.close(end)

    for seed in range(20):
        run_virtually(race, 10, random.Random(seed))
    assert len(orders) > 3
