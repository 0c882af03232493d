"""Case 14 (b): a thousand children end at the moment of their stop, and no exit code is lost."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import uuid
from collections import Counter

import anyio

from supervisord_mcp.runtimes.child import ProcessChild
from supervisord_mcp.runtimes.process import Program, spawn
from tests.kit.bounded import bounded

ROUNDS, AT_ONCE = 1000, 8
CHILD = ("/bin/sh", "-c", "read x; exit 7")


async def stopped_while_it_exits(chance: random.Random) -> str:
    """Let a child exit with 7 and stop it at the same moment; return how it is said to have ended."""
    child = ProcessChild(spawn(Program(CHILD, {"PATH": "/usr/bin:/bin"})), f"t-{uuid.uuid4()}")
    # What the stop ladder does, and the order and the distance of its steps that a busy machine may give them.
    steps = [child.close_stdin, lambda: child.signal(signal.SIGTERM), child.kill][: chance.randint(1, 3)]
    if chance.random() < 0.8:
        os.write(child.stdin, b"\n")
    else:
        # Told nothing and with its stdin open it waits for the signal, however long the machine takes to send that.
        steps = steps[1:] or [child.kill]
    waiting = asyncio.ensure_future(child.wait())
    for step in steps:
        for _ in range(chance.randint(0, 3)):
            await asyncio.sleep(chance.choice([0, 0, 0.0005, 0.002]))
        step()
    child.close_stdin()
    status = await waiting
    await child.aclose()
    assert status == await child.wait(), "asked again, it says the same"
    return str(status)


@bounded(150)
async def test_of_a_thousand_exits_during_a_stop_none_is_lost() -> None:
    chance = random.Random(14)
    ways: Counter[str] = Counter()
    gate = anyio.CapacityLimiter(AT_ONCE)

    async def once() -> None:
        async with gate:
            ways[await stopped_while_it_exits(chance)] += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(ROUNDS):
            tasks.start_soon(once)
    assert set(ways) <= {"exit 7", "killed by SIGTERM", "killed by SIGKILL"}
    assert ways.total() == ROUNDS
    assert 0 < ways["exit 7"] < ROUNDS, "both happened"
