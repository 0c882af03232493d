"""Case 4, two hundred times in virtual time: the first messages of hosts, in pieces, while the server starts."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.cases.test_case_04_order import opening
from tests.kit.estate import Estate, PipeGuest, estate
from tests.kit.fruntime import FakeRuntime, Script
from tests.kit.virtual import run_virtually

DAEMONS, ROUNDS, CALLS = 10, 20, 6
ENTRY = {"command": ["/bin/true"], "runtime": "bare", "idle_timeout": "300ms", "stop_grace": "100ms"}


async def open_in_pieces(one: Estate, chance: random.Random, pause: float) -> PipeGuest:
    """Let a host come that writes everything at once, or in pieces that end anywhere."""
    await asyncio.sleep(pause)
    guest = one.guest("s")
    data = opening(CALLS)
    cuts = sorted(chance.sample(range(len(data)), chance.choice([0, 0, 1, 5])))
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        guest.raw(data[begin:end])
        if end < len(data):
            await asyncio.sleep(chance.choice([0, 0.001, 0.05]))
    return guest


async def answered(guest: PipeGuest) -> None:
    """Wait for one result for each request."""
    wanted = {*range(4), *range(10, 10 + CALLS)}
    await guest.until(lambda: {message["id"] for message in guest.got if "id" in message} == wanted)
    answers = [message for message in guest.got if "id" in message]
    assert len(answers) == len(wanted), "none twice"
    assert [message for message in answers if "error" in message] == []


def check_handshakes(frames: list[tuple[int, dict[str, Any]]]) -> None:
    """Look whether each child saw one handshake, and saw it first."""
    of_child: defaultdict[int, list[str]] = defaultdict(list)
    for pid, message in frames:
        # The daemon's own question for the era comes before everything, and only until it is answered once.
        if message["method"] != "server/discover":
            of_child[pid].append(message["method"])
    for methods in of_child.values():
        assert methods[:2] == ["initialize", "notifications/initialized"]
        assert methods.count("initialize") == 1


def check_calls(calls: list[tuple[int, Any]], hosts: int) -> None:
    """Look whether the calls of some hosts arrived, once each, and those of a single host as they were written."""
    values = [params["arguments"]["value"] for _, params in calls]
    assert sorted(values) == sorted([*range(10, 10 + CALLS)] * hosts), "none is lost, none comes twice"
    if hosts == 1:
        assert values == list(range(10, 10 + CALLS)), "the order of writing"


@pytest.mark.parametrize("seed", range(DAEMONS))
def test_the_first_messages_arrive_in_their_order(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    runtime = FakeRuntime()

    def script(_: str) -> Script:
        return Script(spawning=chance.choice([0.0, 0.05, 0.5]), ready_after=chance.choice([0.0, 0.001, 0.2]))

    async def live() -> None:
        async with estate(tmp_path, {"s": ENTRY}, runtimes={"bare": runtime}) as one:
            runtime.script = script
            for _ in range(ROUNDS):
                runtime.calls.clear()
                hosts = chance.choice([1, 1, 3])
                opened = (open_in_pieces(one, chance, chance.choice([0, 0, 0.01])) for _ in range(hosts))
                guests = await asyncio.gather(*opened)
                await asyncio.gather(*map(answered, guests))
                check_calls(runtime.calls, hosts)
                for guest in guests:
                    guest.close()
                    one.guests.remove(guest)
                await asyncio.sleep(chance.choice([0, 1]))  # the next ones start it again, or find it running

    run_virtually(live, 1000.0, chance)
    check_handshakes(runtime.frames)
    assert len(runtime.launches) >= ROUNDS / 4, "it was started anew again and again"
