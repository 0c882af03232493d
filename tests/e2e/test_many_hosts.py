"""Forty hosts at once on one server, and what they see when it or the daemon is killed under load."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tests.e2e.sdk import sdk_host, text_of_call
from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import Daemon, daemon, fake
from tests.kit.fhost import Host

pytestmark = [pytest.mark.bwrap, pytest.mark.slow]
HOSTS = 40
BACK = 15.0


@bounded(180)
async def test_forty_sdk_hosts_share_one_process() -> None:
    async with daemon(fake("s")) as d:

        async def host(number: int) -> list[str]:
            async with sdk_host(d, "s") as session:
                calls = (text_of_call(session, "echo", value=f"{number}/{call}") for call in range(10))
                return list(await asyncio.gather(*calls))

        answers = await asyncio.gather(*map(host, range(HOSTS)))
        assert answers == [[f"{number}/{call}" for call in range(10)] for number in range(HOSTS)]
        assert len(d.journal("s").runs()) == 1
        await d.until("s", lambda found: found["sessions"] == 0, "end of the sessions")


class Load:
    """Hosts that call without a break; every answer is counted as one of its own value, an error, or wrong."""

    def __init__(self, d: Daemon) -> None:
        self._daemon = d
        self.hosts: list[Host] = []
        self.answered = self.failed = 0
        self.wrong: list[str] = []
        self._end = asyncio.Event()

    async def run(self, kill: object, seconds: float) -> None:
        """Call from all hosts, do the damage in the middle, and go on until every host was served again."""
        self.hosts = list(await asyncio.gather(*(self._daemon.connected("s") for _ in range(HOSTS))))
        tasks = [asyncio.create_task(self._call(host)) for host in self.hosts]
        await asyncio.sleep(seconds / 2)
        await kill()  # type: ignore[operator]
        await asyncio.sleep(seconds / 2)
        self._end.set()
        await asyncio.gather(*tasks)

    async def _call(self, host: Host) -> None:
        number, served = 0, True
        while not self._end.is_set() or not served:
            number += 1
            value = f"{host.name}/{number}"
            answer = await host.call("echo", value=value, timeout=BACK)
            served = answer.error is None
            if answer.error is not None:
                self.failed += 1
                await asyncio.sleep(0.02)
            elif answer.text == value:
                self.answered += 1
            else:
                self.wrong.append(f"{value}: {answer.text}")

    def executed_twice(self) -> list[str]:
        """Return the values of calls that reached a server more than once."""
        values = [call["params"]["arguments"]["value"] for call in self._daemon.journal("s").calls("echo")]
        return sorted({value for value in values if values.count(value) > 1}) if len(set(values)) < len(values) else []


@bounded(180)
async def test_child_killed_under_load() -> None:
    async with daemon(fake("s")) as d:
        load = Load(d)

        async def kill() -> None:
            os.kill((await d.instances("s"))[0]["pid"], signal.SIGKILL)

        await load.run(kill, 4.0)
        assert load.wrong == []
        assert load.answered > HOSTS
        assert load.executed_twice() == []
        assert len(d.journal("s").runs()) == 2
        assert all(len({a.id for a in host.answers}) == len(host.answers) for host in load.hosts)


@bounded(180)
async def test_daemon_killed_under_load() -> None:
    async with daemon(fake("s")) as d:
        load = Load(d)
        old = 0

        async def kill() -> None:
            nonlocal old
            old = (await d.instances("s"))[0]["pid"]
            await d.kill()

        await load.run(kill, 6.0)
        assert load.wrong == []
        assert load.answered > HOSTS
        assert load.executed_twice() == []
        assert not probe.alive(old), "the child of the dead daemon is gone"
        assert (await d.server("s"))["sessions"] == HOSTS
