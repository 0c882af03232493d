"""Real children whose era is found out: probed once, replaced at no cost, and bridged where they lack an era (6.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.facts import Facts
from supervisord_mcp.protocol.eras.probe import UNKNOWN, Verdict
from supervisord_mcp.protocol.mcp import Era
from supervisord_mcp.protocol.profiles import Profile
from supervisord_mcp.server import ManagedServer
from tests.kit.bounded import bounded
from tests.kit.estate import Estate, estate
from tests.kit.workshop import Workshop, text, workshop

LIMIT = 40
LEGACY, MODERN, BOTH = Verdict(True, False), Verdict(False, True), Verdict(True, True)
DUAL: dict[str, Any] = {"eras": ["legacy", "modern"]}
ONLY: dict[str, Any] = {"eras": ["modern"]}


def probes(shop: Workshop) -> int:
    """Return how often a child was asked for its era."""
    return sum(len(shop.journal.requests("server/discover", run)) for run in shop.journal.runs())


@pytest.mark.parametrize("reaction", [-32601, -32602, 0, "silent"])
@bounded(LIMIT)
async def test_a_handshake_server_is_probed_once(reaction: Any, tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        one = shop.instance({"probe_reaction": reaction}, era=None)
        guest = await shop.greeted(one)
        assert text(await guest.call("echo", value="x")) == "x"
        assert (one.generation, one.restarts, one.era) == (1, 0, "legacy")
        assert shop.verdicts.load("s") == LEGACY
        one.restart()
        assert text(await guest.call("echo", value="y")) == "y"
        assert one.generation == 2
        # What the probe costs is paid once for each verdict.
        assert probes(shop) == 1


@bounded(LIMIT)
async def test_17_a_server_that_dies_of_the_probe_is_started_again_at_no_cost(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        one = shop.instance({"probe_reaction": {"exit": 1}}, era=None)
        guest = await shop.greeted(one)
        assert text(await guest.call("echo", value="x")) == "x"
        assert (one.generation, one.restarts, one.last_error) == (2, 0, "")
        assert "BACKOFF" not in shop.states
        assert shop.verdicts.load("s") == LEGACY
        one.restart()
        await guest.call("echo")
        assert (one.generation, probes(shop)) == (3, 1)


@bounded(LIMIT)
async def test_a_server_that_always_dies_spends_its_budget_and_no_more(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        one = shop.instance({"exit_before_init": {"code": 1, "stderr": "no key"}}, era=None)
        guest = shop.guest(one)
        assert "no key" in (await guest.greet())["error"]["message"]
        await shop.in_state(one, "FATAL")
        assert len(shop.journal.runs()) == 1 + 3
        assert shop.verdicts.load("s") == UNKNOWN


@bounded(LIMIT)
async def test_a_server_of_both_eras_is_replaced_once_for_its_legacy_hosts(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        one = shop.instance(DUAL, era=None)
        guest = await shop.greeted(one)
        assert text(await guest.call("echo", value="x")) == "x"
        assert (one.generation, one.restarts, one.era) == (2, 0, "legacy")
        assert shop.verdicts.load("s") == BOTH
        one.restart()
        await guest.call("echo")
        assert (one.generation, probes(shop)) == (3, 1)


@bounded(LIMIT)
async def test_a_server_without_handshake_serves_legacy_hosts(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        one = shop.instance(ONLY, era=None)
        first, second = await shop.greeted(one), await shop.greeted(one)
        assert text(await first.call("echo", value="x")) == "x"
        assert text(await second.call("echo", value="y")) == "y"
        assert (one.restarts, one.era) == (0, "modern")
        assert shop.verdicts.load("s") == MODERN
        generation = one.generation
        one.restart()
        await first.call("echo")
        assert one.generation == generation + 1
        assert len(shop.journal.runs()) == generation + 1


@bounded(LIMIT)
async def test_a_pinned_server_is_never_probed(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        legacy = shop.instance(DUAL, era="legacy")
        assert text(await (await shop.greeted(legacy)).call("echo", value="x")) == "x"
        assert probes(shop) == 0
        modern = shop.instance(DUAL, era="modern")
        assert text(await (await shop.greeted(modern)).call("echo", value="x")) == "x"
        assert (legacy.era, modern.era) == ("legacy", "modern")
        assert shop.verdicts.load("s") == UNKNOWN


@bounded(LIMIT)
async def test_input_that_a_modern_server_wants_is_asked_of_the_host(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        one = shop.instance({**ONLY, "tools_extra": 1}, era="modern")
        guest = await shop.greeted(one, elicitation={})
        call = guest.post_call("ask", kind="elicitation", rounds=2)
        for number in range(2):
            asked = (await guest.note("elicitation/create", number + 1))[-1]
            answer = {"action": "accept", "content": {"round": number}}
            guest.raw({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
        assert '"round": 1' in text(await guest.answer(call))
        mute = await shop.greeted(one)
        refused = await mute.call("ask", kind="elicitation")
        assert refused["result"]["isError"] is True


@bounded(LIMIT)
async def test_a_subscription_outlives_the_modern_child(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        one = shop.instance(ONLY, era="modern")
        a, b = await shop.greeted(one), await shop.greeted(one)
        updated = "notifications/resources/updated"
        assert (await a.ask("resources/subscribe", {"uri": "res://r1"}))["result"] == {}
        await b.call("touch", uri="res://r1", sub="/part")
        assert (await a.note(updated))[0]["params"] == {"uri": "res://r1/part"}
        one.restart()
        await b.call("echo")
        assert (await a.note(updated, 2))[1]["params"] == {"uri": "res://r1"}
        await b.call("touch", uri="res://r1")
        assert (await a.note(updated, 3))[2]["params"] == {"uri": "res://r1"}
        await b.call("change_tools")
        await a.note("notifications/tools/list_changed")


@bounded(LIMIT)
async def test_what_a_modern_server_offers_is_told_before_it_runs_again(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        one = shop.instance({**ONLY, "instructions": "be kind"}, era="modern")
        guest = await shop.greeted(one)
        listed = await guest.ask("tools/list")
        one.stop()
        await one.rested()
        another = shop.instance(ONLY, era="modern")
        late = shop.guest(another)
        assert (await late.greet())["result"]["instructions"] == "be kind"
        assert [tool["name"] for tool in (await late.ask("tools/list"))["result"]["tools"]] == [
            tool["name"] for tool in listed["result"]["tools"]
        ]
        assert another.generation == 0


# Instances


async def settled(one: Estate, **said: Any) -> str:
    """Let a host come and call; return the run of the child that served it."""
    guest = await one.greeted("s", **said)
    return text(await guest.call("where"))


@bounded(LIMIT)
async def test_a_server_of_one_era_has_one_instance_for_hosts_of_both(tmp_path: Path) -> None:
    for era in ("legacy", "modern"):
        async with estate(tmp_path / era, {"s": {"eras": [era]}}) as one:
            await settled(one)
            (instance,) = one.instances("s")
            assert instance.era == era
            facts = Facts("s", environ={})
            launch = one.supervisor.plan(facts, "modern")
            assert one.supervisor.house(launch, facts, one.supervisor.next_key()) is instance


@bounded(LIMIT)
async def test_a_server_of_both_eras_has_an_instance_for_each(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": DUAL}) as one:
        await settled(one)
        (legacy,) = one.instances("s")
        facts = Facts("s", environ={})
        launch = one.supervisor.plan(facts, "modern")
        modern = one.supervisor.house(launch, facts, one.supervisor.next_key())
        assert modern is not legacy
        modern.start()
        await modern.settled()
        assert (legacy.era, modern.era) == ("legacy", "modern")
        assert sorted(status.era for status in one.supervisor.status()[0].instances) == ["legacy", "modern"]
        # A new configuration that changes nothing of it leaves both alone.
        one.reconfigure({"s": {**DUAL, "entry": {"idle_timeout": "1h"}}})
        assert set(one.instances("s")) == {legacy, modern}


@bounded(LIMIT)
async def test_the_instance_of_the_first_host_stays_the_only_one(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"eras": ["legacy"]}}) as one:
        facts = Facts("s", environ={})
        first = one.supervisor.house(one.supervisor.plan(facts, "modern"), facts, one.supervisor.next_key())
        first.start()
        await first.settled()
        assert first.era == "legacy"
        await settled(one)
        assert one.instances("s") == [first]


FORMS, SAMPLES = Profile(("elicitation.form",)), Profile(("sampling",))


def housed(one: Estate, era: Era, profile: Profile | None) -> ManagedServer:
    """Return the instance for a host of that era that can be asked this."""
    facts = Facts("s", environ={}, era=era, profile=profile)
    return one.supervisor.house(one.supervisor.plan(facts, era), facts, one.supervisor.next_key())


async def declared(one: Estate, instance: ManagedServer) -> Any:
    """Start an instance, and return what its child was told in the handshake that clients can do; None without one."""
    instance.start()
    await instance.settled()
    handshakes = one.journal("s").requests("initialize", one.journal("s").runs()[-1])
    return handshakes[-1]["params"]["capabilities"] if handshakes else None


@bounded(LIMIT)
async def test_d5_hosts_that_came_before_the_era_was_known_share_with_those_that_can_be_asked_the_same(
    tmp_path: Path,
) -> None:
    asking = {"entry": {"callbacks": "on"}, "eras": ["legacy"]}
    async with estate(tmp_path, {"s": asking}) as one:
        first, other, silent = (housed(one, "modern", profile) for profile in (FORMS, SAMPLES, Profile()))
        assert len({first, other, silent}) == 3
        assert await declared(one, silent) == {}
        assert await declared(one, first) == {"elicitation": {}}
        # By now it is known that the server is a legacy one, and what the children were told still counts.
        for era in ("modern", "legacy"):
            assert [housed(one, era, profile) for profile in (FORMS, SAMPLES, Profile())] == [first, other, silent]
        assert housed(one, "legacy", Profile(("elicitation.url",))) not in (first, other, silent)
        # A new configuration that changes nothing of it leaves them alone.
        one.reconfigure({"s": {**asking, "entry": {"callbacks": "on", "idle_timeout": "1h"}}})
        assert {first, other, silent} <= set(one.instances("s"))


@pytest.mark.parametrize("callbacks", ["off", "on"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
@bounded(LIMIT)
async def test_what_a_server_offers_is_known_to_the_next_daemon_whoever_it_was_started_for(
    era: Era, callbacks: str, tmp_path: Path
) -> None:
    server = {"s": {"entry": {"callbacks": callbacks}, "eras": [era]}}
    hosts: tuple[Era, ...] = ("modern", "legacy")
    async with estate(tmp_path, server) as one:
        for host in hosts:
            instance = housed(one, host, FORMS)
            instance.start()
            await instance.settled()
        await one.until(lambda: one.supervisor.catalogue_of("s"))
        learnt = one.supervisor.catalogue_of("s")
        assert learnt is not None
        assert (learnt.era, learnt.offers > 0) == (era, True)
    # By now its era is known, and its instance bears another name.
    async with estate(tmp_path, server) as one:
        for host in hosts:
            assert housed(one, host, FORMS).catalogue == learnt
    # What is ruled out is not believed.
    other: Era = "modern" if era == "legacy" else "legacy"
    async with estate(tmp_path, {"s": {"entry": {"callbacks": callbacks, "era": other}, "eras": [era]}}) as one:
        assert housed(one, other, FORMS).catalogue is None


@pytest.mark.parametrize("eras", [["modern"], ["legacy", "modern"]])
@bounded(LIMIT)
async def test_d5_a_modern_child_is_shared_whatever_its_hosts_can_be_asked(eras: list[str], tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": {"callbacks": "on"}, "eras": eras}}) as one:
        legacy = housed(one, "legacy", FORMS)
        legacy.start()
        await legacy.settled()
        one.supervisor.retire(legacy)
    async with estate(tmp_path, {"s": {"entry": {"callbacks": "on"}, "eras": eras}}) as one:
        first = housed(one, "modern", FORMS)
        assert await declared(one, first) is None
        assert housed(one, "modern", SAMPLES) is first
        assert housed(one, "modern", None) is first
        assert (housed(one, "legacy", SAMPLES) is first) is (eras == ["modern"])


@bounded(LIMIT)
async def test_an_era_that_is_ruled_out_ends_the_child(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": DUAL}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        one.reconfigure({"s": {**DUAL, "entry": {"era": "modern"}}})
        assert text(await guest.call("echo", value="x")) == "x"
        assert {instance.era for instance in one.instances("s")} == {"modern"}
    async with estate(tmp_path / "other", {"s": ONLY}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        (instance,) = one.instances("s")
        assert instance.era == "modern"
        one.reconfigure({"s": {**ONLY, "entry": {"era": "legacy"}}})
        assert instance.state != "RUNNING"
