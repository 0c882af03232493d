"""Case 3: the second `initialize`."""

from __future__ import annotations

import pytest

from tests.kit.bounded import bounded
from tests.kit.daemon import daemon, fake
from tests.kit.fhost import hello

pytestmark = pytest.mark.bwrap


@bounded(60)
async def test_one_handshake_per_process_and_each_host_its_version() -> None:
    info = {"name": "strict", "version": "7.1"}
    said = "Use it well – ü\u2028 and slowly."
    async with daemon(fake("s", strict_init=True, strict_order=True, server_info=info, instructions=said)) as d:
        asked = [("2025-06-18", {"roots": {"listChanged": True}}), ("2025-11-25", {}), ("2024-11-05", {})]
        hosts = []
        for number, (version, capabilities) in enumerate(asked):
            host = d.host("s")
            answer = await host.handshake(version, capabilities, id=number, timeout=20)
            assert answer.id == str(number)
            assert answer.result["protocolVersion"] == version
            assert answer.result["serverInfo"] == info
            assert answer.result["instructions"] == said
            hosts.append(host)
        for host in hosts:
            assert (await host.call("echo", value=host.name)).text == host.name

        failed = await hosts[0].call("crash", signal=9)
        assert failed.error is not None
        assert failed.error["code"] == -32603
        for host in hosts:
            assert (await host.call("echo", value=host.name)).text == host.name

        journal = d.journal("s")
        runs = journal.runs()
        assert len(runs) == 2
        for run in runs:
            assert len(journal.requests("initialize", run)) == 1
            assert len(journal.notes("notifications/initialized", run)) == 1
            frames = [event.get("method") for event in journal.events("in", run)]
            # The first child was asked for its era, and nobody asks that again.
            probe = ["server/discover"] if run == runs[0] else []
            assert frames[: len(probe) + 2] == [*probe, "initialize", "notifications/initialized"]
        declared = [event["params"]["capabilities"] for event in journal.requests("initialize")]
        assert declared == [{}, {}], "with callbacks off nothing of a host is declared"


@bounded(40)
async def test_a_second_initialize_of_one_host_stays_here() -> None:
    async with daemon(fake("s", strict_init=True)) as d:
        host = await d.connected("s")
        await host.call("echo")
        again = await host.request("initialize", hello("2025-06-18"))
        assert again.error is not None
        assert (await host.call("echo", value="alive")).text == "alive"
        assert len(d.journal("s").requests("initialize")) == 1


@bounded(40)
async def test_unknown_versions_get_the_newest_and_malformed_ones_an_error() -> None:
    async with daemon(fake("s")) as d:
        host = d.host("s")
        assert (await host.handshake("1999-01-01", timeout=20)).result["protocolVersion"] == "2025-11-25"
        bad = d.host("s")
        answer = await bad.request("initialize", hello() | {"protocolVersion": 5}, timeout=20)
        assert answer.error is not None
        assert answer.error["code"] == -32602


@bounded(40)
async def test_capabilities_are_those_of_the_negotiated_revision() -> None:
    async with daemon(fake("s", tasks=True)) as d:
        old = (await d.host("s").handshake("2024-11-05", timeout=20)).result["capabilities"]
        new = (await d.host("s").handshake("2025-11-25", timeout=20)).result["capabilities"]
        assert not {"completions", "tasks"} & set(old)
        assert {"completions", "tools", "resources", "prompts", "logging"} <= set(new)
