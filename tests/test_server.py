"""One instance with real children that do everything a server should not do."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisord_mcp.blueprint import Spawning
from supervisord_mcp.congestion import SHARE, SHARES
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.errors import IsolationError, LaunchError, NotRunningError, SmcpError
from supervisord_mcp.policy.restart import Backoff, Budget, RestartPolicy
from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.remarks import LOGGED
from supervisord_mcp.runtimes.base import Child
from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import KIT, PYTHON
from tests.kit.fhost import hello
from tests.kit.workshop import QUICK, Workshop, text, workshop

LIMIT = 40
MIB = 1 << 20


# The way it should be


@bounded(LIMIT)
async def test_a_request_starts_the_child_and_many_share_it(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        assert (instance.state, instance.pid, instance.generation, instance.resting) == ("STOPPED", None, 0, True)
        first, second = await shop.greeted(instance), await shop.greeted(instance)
        assert text(await first.call("echo", value="one")) == "one"
        assert text(await second.call("echo", value="two")) == "two"
        assert first.open == second.open == []
        assert len(shop.journal.runs()) == 1
        assert (instance.state, instance.generation, instance.restarts) == ("RUNNING", 1, 0)
        assert instance.pid == shop.journal.events("started")[0]["pid"]
        assert instance.uptime is not None
        assert instance.sessions == (first, second)
        assert shop.states == ["STARTING", "RUNNING"]
        assert not instance.unused


@bounded(LIMIT)
async def test_a_host_that_leaves_cancels_what_it_waits_for(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        first, second = await shop.greeted(instance), await shop.greeted(instance)
        first.post_call("slow", seconds=60)
        await shop.journal.wait(lambda j: j.calls("slow"))
        instance.detach(first.key)
        instance.detach(first.key)
        await shop.journal.wait(lambda j: j.notes("notifications/cancelled"))
        assert text(await second.call("echo", value="two")) == "two"
        assert instance.sessions == (second,)
        instance.from_session(first.key, [b'{"jsonrpc":"2.0","id":9,"method":"ping"}'])
        assert first.answers(9) == []


@bounded(LIMIT)
async def test_a_host_that_comes_back_gets_its_state(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        state = State(version="2025-06-18", initialized=True, level="debug", uris=["res://r1"])
        guest = shop.guest(instance, state)
        assert guest.states == [state]
        await shop.journal.wait(lambda j: j.requests("resources/subscribe"))
        assert [event["params"] for event in shop.journal.requests("logging/setLevel")] == [{"level": "debug"}]
        await guest.call("touch", uri="res://r1")
        assert (await guest.note("notifications/resources/updated"))[-1]["params"] == {"uri": "res://r1"}


# Crashes


@bounded(LIMIT)
async def test_a_crash_answers_what_was_open_and_the_next_call_is_served(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        first, second = await shop.greeted(instance), await shop.greeted(instance)
        slow = second.post_call("slow", seconds=60)
        answer = await first.call("crash", code=3, stderr="no such table")
        for error in (answer["error"], (await second.answer(slow))["error"]):
            assert error["message"] == "server 's' ended: exit 3; last lines of stderr:\nno such table"
            data = {"reason": "server_exited", "exitCode": 3, "signal": None, "stderrTail": "no such table"}
            assert error["data"] == data
        assert first.open == second.open == []
        assert text(await second.call("echo", value="again")) == "again"
        assert (instance.generation, instance.restarts) == (2, 1)
        assert "no such table" in instance.last_error
        assert shop.states == ["STARTING", "RUNNING", "BACKOFF", "STARTING", "RUNNING"]
        assert len(shop.journal.calls("slow")) == 1, "nothing is sent twice"
        assert "stderr no such table" in shop.logged()


@bounded(LIMIT)
async def test_a_crash_by_a_signal_says_which(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        guest = await shop.greeted(shop.instance())
        error = (await guest.call("crash", signal=11))["error"]
        assert error["message"] == "server 's' ended: killed by SIGSEGV"
        assert (error["data"]["exitCode"], error["data"]["signal"]) == (None, 11)


@bounded(LIMIT)
async def test_the_last_answer_of_a_child_that_ends_arrives(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        guest = await shop.greeted(shop.instance({"exit_after": {"n": 7, "code": 0}}, {}))
        calls = [guest.post_call("echo", value=number) for number in range(4)]
        answers = [await guest.answer(identity) for identity in calls]
        assert text(answers[0]) == "0"
        assert [answer["error"]["data"]["exitCode"] for answer in answers[1:]] == [0, 0, 0]


@pytest.mark.parametrize("how", ["exit", "refuses the handshake", "speaks another version"])
@bounded(LIMIT)
async def test_a_child_that_never_gets_ready_is_tried_so_often_and_no_more(how: str, tmp_path: Path) -> None:
    faults: dict[str, tuple[dict[str, Any], str]] = {
        "exit": ({"exit_before_init": {"code": 2, "stderr": "bad option"}}, "exit 2"),
        "refuses the handshake": ({"strict_order": True, "fragile": True, "era": "x"}, "protocol version 'x'"),
        "speaks another version": ({"era": "1999-01-01"}, "protocol version '1999-01-01'"),
    }
    switches, cause = faults[how]
    async with workshop(tmp_path) as shop:
        instance = shop.instance(switches)
        guest = shop.guest(instance)
        error = (await guest.ask("initialize", hello()))["error"]
        assert cause in error["message"]
        assert error["data"]["reason"] == "server_exited"
        await shop.in_state(instance, "FATAL")
        assert len(shop.journal.runs()) == 4, "one start and three restarts"
        assert instance.restarts == 3
        error = (await guest.ask("initialize", hello()))["error"]
        assert cause in error["message"]
        assert "smcp start s" in error["message"]
        assert error["data"] == {"reason": "server_fatal"}
        assert len(shop.journal.runs()) == 4, "hosts start nothing any more"
        assert guest.open == []
        assert not instance.unused


@bounded(LIMIT)
async def test_a_stop_answers_those_who_wait_for_a_restart(tmp_path: Path) -> None:
    patient = replace(QUICK, restart=RestartPolicy(backoff=Backoff(first=1.5, most=1.5)))
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"exit_before_init": {"code": 2}}, policy=patient)
        guest = shop.guest(instance)
        await guest.ask("initialize", hello())
        await shop.in_state(instance, "BACKOFF")
        waiting = guest.post("initialize", hello())
        assert guest.answers(waiting) == [], "a restart that is due soon is waited for"
        instance.stop()
        error = (await guest.answer(waiting))["error"]
        assert error["message"] == "server 's' is stopped; start it with: smcp start s"
        assert guest.open == []


@bounded(LIMIT)
async def test_who_waits_for_the_end_is_not_held_by_a_start_right_after_it(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        instance.start()
        await instance.settled()
        eager = [True]
        shop.observers.add(
            lambda event: instance.start() if event.data.get("to") == "STOPPED" and eager.pop() else None
        )
        instance.stop()
        await instance.rested()
        assert instance.generation == 2
        eager.append(False)


@bounded(LIMIT)
async def test_a_person_starts_what_gave_up(tmp_path: Path) -> None:
    failing = {"exit_before_init": {"code": 2}}
    once = replace(QUICK, restart=RestartPolicy(backoff=Backoff(first=0.01), budget=Budget(restarts=1, within=60.0)))
    async with workshop(tmp_path) as shop:
        instance = shop.instance(failing, failing, {}, policy=once)
        instance.start()
        with pytest.raises(LaunchError, match="exit 2"):
            await instance.settled()
        await shop.in_state(instance, "FATAL")
        with pytest.raises(LaunchError, match="exit 2"):
            await instance.settled()
        instance.start()
        await instance.settled()
        assert instance.state == "RUNNING"
        assert instance.restarts == 0


@bounded(LIMIT)
async def test_a_child_that_hangs_at_its_start_is_ended_and_told(tmp_path: Path) -> None:
    hasty = replace(QUICK, start_timeout=0.3, stop_grace=0.1)
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"init_delay": 60_000, "stderr": {"bytes": 50}}, {}, policy=hasty)
        guest = shop.guest(instance)
        error = (await guest.ask("initialize", hello()))["error"]
        said = "did not answer initialize within 0.3 s"
        assert error["message"].startswith(f"server 's' failed to start: {said}; last lines of stderr:\n000000000eeee")
        assert error["data"]["reason"] == "server_exited"
        assert said in instance.last_error
        assert any(line.endswith(f"-> BACKOFF: {said}") for line in shop.logged())
        assert "STOPPING" in shop.states
        assert "result" in await guest.greet()


@bounded(LIMIT)
async def test_a_program_that_speaks_no_mcp_is_shown_by_what_it_says(tmp_path: Path) -> None:
    hasty = replace(QUICK, start_timeout=0.5, stop_grace=0.1)
    async with workshop(tmp_path) as shop:

        async def launch(spawning: Spawning) -> Child:
            return await shop.launch({}, ("/bin/sh", "-c", "echo 'Welcome to the shell'; echo two; exec sleep 60"))

        instance = shop.instance(policy=hasty, spawn=launch)
        error = (await shop.guest(instance).ask("initialize", hello()))["error"]
        noise = "it wrote 2 lines that are not MCP to stdout, first: Welcome to the shell"
        assert error["message"] == f"server 's' failed to start: did not answer initialize within 0.5 s; {noise}"


@bounded(LIMIT)
async def test_a_spawn_that_hangs_is_ended_and_told(tmp_path: Path) -> None:
    hasty = replace(QUICK, start_timeout=0.2)
    cancelled: list[bool] = []

    async def hang(spawning: Spawning) -> Child:
        spawning.progress("waiting for the moon")
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)
        raise AssertionError

    async with workshop(tmp_path) as shop:
        instance = shop.instance(policy=hasty, spawn=hang)
        guest = shop.guest(instance)
        identity = guest.post("initialize", hello())
        await asyncio.sleep(0)
        await shop.in_state(instance, "STARTING")
        while not instance.phase:
            await asyncio.sleep(0)
        assert instance.phase == "waiting for the moon"
        error = (await guest.answer(identity))["error"]
        assert error["message"] == "not ready within 0.2 s: waiting for the moon"
        assert error["data"] == {"reason": "server_not_started"}
        assert cancelled
        assert instance.phase == ""
        assert "smcp waiting for the moon" in shop.logged()


@pytest.mark.parametrize("lasting", [False, True])
@bounded(LIMIT)
async def test_a_package_that_cannot_be_fetched_is_tried_again_with_the_next_call(
    lasting: bool, tmp_path: Path
) -> None:
    tried: list[bool] = []

    async def fail(spawning: Spawning) -> Child:
        tried.append(True)
        raise LaunchError("cannot install s", remedy="Check the network.", unreachable=True)

    async with workshop(tmp_path) as shop:
        patient = replace(QUICK, restart=RestartPolicy(backoff=Backoff(first=100.0, most=100.0)))
        instance = shop.instance(policy=patient, spawn=fail, idle_timeout=None if lasting else 60.0)
        guest = shop.guest(instance)
        for _ in range(1 if lasting else 9):
            assert "cannot install s" in (await guest.ask("initialize", hello()))["error"]["message"]
        if lasting:
            assert instance.state == "BACKOFF", "nobody may ask again for one that is to run by itself"
            return
        instance.start()
        with pytest.raises(LaunchError, match="tries again with the next call"):
            await instance.settled()
        assert (instance.state, instance.restarts, len(tried)) == ("STOPPED", 0, 10)
        assert instance.last_error == "cannot install s\n  Check the network."


@pytest.mark.parametrize(
    ("failure", "state"),
    [
        (LaunchError("no-such-program: not found", retryable=False), "FATAL"),
        (IsolationError("no user namespaces"), "FATAL"),
        (SmcpError("an unknown variable"), "FATAL"),
        (LaunchError("too many processes"), "BACKOFF"),
        (OSError(11, "Resource temporarily unavailable"), "BACKOFF"),
    ],
)
@bounded(LIMIT)
async def test_only_what_may_pass_is_tried_again(failure: Exception, state: str, tmp_path: Path) -> None:
    async def fail(spawning: Spawning) -> Child:
        raise failure

    patient = replace(QUICK, restart=RestartPolicy(backoff=Backoff(first=100.0, most=100.0)))
    async with workshop(tmp_path) as shop:
        instance = shop.instance(policy=patient, spawn=fail)
        guest = shop.guest(instance)
        error = (await guest.ask("initialize", hello()))["error"]
        told = failure.strerror if isinstance(failure, OSError) else str(failure)
        assert told is not None
        assert told in error["message"]
        assert error["data"] == {"reason": "server_not_started"}
        assert instance.state == state
        assert told in instance.last_error
        with pytest.raises(SmcpError, match=told) as raised:
            await instance.settled()
        assert isinstance(failure, OSError) or raised.value is failure or state == "BACKOFF"
        assert ("tries again in" in str(raised.value)) == (state == "BACKOFF")


@bounded(LIMIT)
async def test_who_comes_while_it_waits_is_told_how_long(tmp_path: Path) -> None:
    patient = replace(QUICK, restart=RestartPolicy(backoff=Backoff(first=100.0, most=100.0)))
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"exit_before_init": {"code": 2, "stderr": "why"}}, policy=patient)
        first = shop.guest(instance)
        await first.ask("initialize", hello())
        assert instance.state == "BACKOFF"
        error = (await shop.guest(instance).ask("initialize", hello()))["error"]
        assert "is started again in" in error["message"]
        assert "why" in error["message"]
        assert error["data"]["reason"] == "server_backoff"
        assert 70 < error["data"]["retryAfter"] <= 100
        assert len(shop.journal.runs()) == 1


@bounded(LIMIT)
async def test_who_comes_just_before_the_next_start_waits_for_it(tmp_path: Path) -> None:
    soon = replace(QUICK, restart=RestartPolicy(backoff=Backoff(first=0.4, most=0.4)))
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"exit_before_init": {"code": 2}}, {}, policy=soon)
        await shop.guest(instance).ask("initialize", hello())
        assert instance.state == "BACKOFF"
        assert "result" in await shop.guest(instance).greet()


@bounded(LIMIT)
async def test_a_server_that_is_not_restarted_says_so(tmp_path: Path) -> None:
    never = replace(QUICK, restart=RestartPolicy(mode="never", budget=Budget(restarts=0, within=60.0)))
    async with workshop(tmp_path) as shop:
        instance = shop.instance(policy=never)
        guest = await shop.greeted(instance)
        await guest.call("crash", code=4)
        assert instance.state == "EXITED"
        error = (await guest.call("echo"))["error"]
        assert "exit 4" in error["message"]
        assert len(shop.journal.runs()) == 1
        instance.start()
        await instance.settled()
        assert text(await guest.call("echo", value="up")) == "up"


@bounded(LIMIT)
async def test_a_server_that_ended_in_order_is_started_by_the_next_call(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        guest = await shop.greeted(instance)
        await guest.call("crash", code=0)
        assert instance.state == "EXITED"
        assert text(await guest.call("echo", value="up")) == "up"
        assert instance.restarts == 1


# Stopping


@bounded(LIMIT)
async def test_a_child_is_ended_politely_first(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        guest = await shop.greeted(instance)
        slow = guest.post_call("slow", seconds=60)
        await shop.journal.wait(lambda j: j.calls("slow"))
        instance.stop()
        await instance.rested()
        error = (await guest.answer(slow))["error"]
        assert error["message"] == "server 's' was stopped"
        assert error["data"]["reason"] == "server_stopped"
        assert instance.state == "STOPPED"
        assert instance.last_error == ""
        assert [e["event"] for e in shop.journal.events()][-2:] == ["eof", "leaving"]
        assert shop.states == ["STARTING", "RUNNING", "STOPPING", "STOPPED"]


@bounded(LIMIT)
async def test_one_that_does_not_end_is_made_to(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"ignore_eof": True, "ignore_term": True, "spawn_child": "setsid"})
        await shop.greeted(instance)
        instance.stop()
        await instance.rested()
        events = [e["event"] for e in shop.journal.events() if e["event"] in ("eof", "signal")]
        assert events == ["eof", "signal"]
        assert [e["signal"] for e in shop.journal.events("signal")] == [signal.SIGTERM]
        await probe.nothing_left([shop.marker], 0.0)


@bounded(LIMIT)
async def test_a_child_that_waits_for_a_host_gets_its_answer_before_the_end(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"wait_at_eof": True}, relay=True)
        guest = await shop.greeted(instance, elicitation={})
        guest.post_call("ask", kind="elicitation")
        await guest.note("elicitation/create")
        instance.stop()
        await instance.rested()
        answered = shop.journal.answers()[-1]
        assert answered["result"] == {"action": "cancel"}
        ended = [e for e in shop.journal.events() if e["event"] in ("eof", "signal")]
        assert [e["event"] for e in ended] == ["eof"], "no signal is needed"
        assert answered["at"] < ended[0]["at"]
        assert guest.notes("notifications/cancelled")


@bounded(LIMIT)
async def test_what_a_person_stopped_stays_stopped(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        guest = await shop.greeted(instance)
        instance.stop()
        during = guest.post_call("echo")
        await instance.rested()
        for error in ((await guest.answer(during))["error"], (await guest.call("echo"))["error"]):
            assert error["message"] == "server 's' is stopped; start it with: smcp start s"
            assert error["data"] == {"reason": "server_stopped"}
        instance.demand()
        with pytest.raises(NotRunningError, match="is stopped"):
            await instance.settled()
        assert len(shop.journal.runs()) == 1
        assert guest.open == []
        assert not instance.unused
        instance.detach(guest.key)
        assert instance.unused


@bounded(LIMIT)
async def test_a_start_can_be_stopped_at_once(tmp_path: Path) -> None:
    begun: list[bool] = []

    async def hang(spawning: Spawning) -> Child:
        begun.append(True)
        spawning.installing()
        await anyio.sleep_forever()
        raise AssertionError

    async with workshop(tmp_path) as shop:
        instance = shop.instance(spawn=hang)
        for turns in range(4):
            instance.start()
            for _ in range(turns):
                await asyncio.sleep(0)
            instance.stop()
            await instance.rested()
            assert instance.state == "STOPPED"
            assert instance.last_error == ""
        assert begun


@bounded(LIMIT)
async def test_a_child_can_be_stopped_at_any_moment_of_its_start(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        for delay in (0.0, 0.001, 0.003, 0.01, 0.03, 0.06, 0.1):
            instance.start()
            await asyncio.sleep(delay)
            instance.stop()
            await instance.rested()
            assert (instance.state, instance.pid) == ("STOPPED", None)
            await probe.nothing_left([shop.marker], 0.0)


@bounded(LIMIT)
async def test_who_waits_for_a_start_is_told_that_somebody_stopped_it(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"init_delay": 60_000})
        instance.start()
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                with pytest.raises(NotRunningError, match="is stopped"):
                    await instance.settled()

            tasks.start_soon(wait)
            await shop.journal.wait(lambda j: j.requests("initialize"))
            instance.stop()
        assert instance.resting


# Restarting


@bounded(LIMIT)
async def test_a_restart_serves_those_who_came_meanwhile(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"busy_at_eof": 100}, {})
        guest = await shop.greeted(instance)
        slow = guest.post_call("slow", seconds=60)
        await shop.journal.wait(lambda j: j.calls("slow"))
        instance.restart()
        during = guest.post_call("echo", value="held")
        assert text(await guest.answer(during)) == "held"
        error = (await guest.answer(slow))["error"]
        assert error["message"] == "server 's' was restarted"
        assert error["data"]["reason"] == "server_restarted"
        assert instance.generation == 2
        assert instance.last_error == ""
        runs = shop.journal.runs()
        assert [len(shop.journal.calls("echo", run)) for run in runs] == [0, 1]


@bounded(LIMIT)
async def test_a_restart_during_the_start_keeps_those_who_wait(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"init_delay": 60_000}, {})
        guest = shop.guest(instance)
        greeting = guest.post("initialize", hello())
        await shop.journal.wait(lambda j: j.requests("initialize"))
        instance.restart()
        assert "result" in await guest.answer(greeting)
        assert instance.generation == 2


@bounded(LIMIT)
async def test_after_a_restart_everything_is_as_it_was(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({}, {"tools_extra": 1}, {"tools_extra": 1})
        first, second = await shop.greeted(instance), await shop.greeted(instance)
        await first.ask("resources/subscribe", {"uri": "res://r1"})
        await first.ask("logging/setLevel", {"level": "debug"})
        tools = (await second.ask("tools/list"))["result"]["tools"]
        for _ in range(2):
            instance.restart()
            await instance.settled()
        runs = shop.journal.runs()
        await shop.journal.wait(lambda j: j.requests("resources/subscribe", runs[2]))
        for run in runs:
            assert [e["params"] for e in shop.journal.requests("resources/subscribe", run)] == [{"uri": "res://r1"}]
            assert {"level": "debug"} in [e["params"] for e in shop.journal.requests("logging/setLevel", run)]
        await second.note("notifications/tools/list_changed")
        more = (await second.ask("tools/list"))["result"]["tools"]
        assert len(more) == len(tools) + 1
        await second.call("echo")
        assert len(second.notes("notifications/tools/list_changed")) == 1, "the last restart changed nothing"
        assert not second.notes("notifications/prompts/list_changed")


@bounded(LIMIT)
async def test_a_host_that_was_told_of_more_than_a_later_child_offers_is_let_go(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({}, {"capabilities": {"tools": {}}})
        first = await shop.greeted(instance)
        instance.restart()
        held = first.post_call("echo")
        error = (await first.answer(held))["error"]
        assert error["data"] == {"reason": "server_changed"}
        assert first.verdict == (1, error["message"])
        assert "does not offer" in error["message"]
        assert instance.sessions == ()
        second = await shop.greeted(instance)
        assert text(await second.call("echo", value="x")) == "x"
        assert len(shop.journal.calls("echo")) == 1


@bounded(LIMIT)
async def test_a_child_that_offers_nothing_any_more_is_not_called_healthy(tmp_path: Path) -> None:
    nothing = {"drop_tools": True, "capabilities": {"tools": {"listChanged": True}}}
    async with workshop(tmp_path) as shop:
        instance = shop.instance({}, nothing, {})
        guest = await shop.greeted(instance)
        await guest.call("echo")
        await shop.until(lambda: shop.events("catalogue"))
        assert instance.phase == ""
        instance.restart()
        await shop.until(lambda: shop.events("health"))
        assert instance.state == "RUNNING"
        assert instance.phase.startswith("not healthy: it runs, but offers nothing of the ")
        assert "offers nothing" in instance.last_error
        assert any(line.startswith("smcp not healthy") for line in shop.logged())
        offered = instance.catalogue
        assert offered is not None
        assert offered.offers, "what it offered is not forgotten"
        instance.restart()
        await instance.settled()
        assert instance.phase == ""


# Idleness


@bounded(LIMIT)
async def test_an_idle_child_is_stopped_and_the_next_call_starts_it(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance(idle_timeout=0.2)
        guest = await shop.greeted(instance)
        await guest.call("echo")
        await shop.in_state(instance, "STOPPED")
        assert (instance.resting, instance.sessions) == (True, (guest,))
        assert guest.verdict is None
        assert text(await guest.call("echo", value="again")) == "again"
        assert (instance.generation, instance.restarts) == (2, 0)
        assert not guest.notes("notifications/tools/list_changed")
        instance.detach(guest.key)
        await shop.in_state(instance, "STOPPED")
        assert instance.unused


@pytest.mark.parametrize("what", ["a call", "a subscription"])
@bounded(LIMIT)
async def test_what_is_in_use_is_not_idle(what: str, tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance(idle_timeout=0.1)
        guest = await shop.greeted(instance)
        if what == "a call":
            assert text(await guest.call("slow", seconds=0.5)) == "slow"
        else:
            await guest.ask("resources/subscribe", {"uri": "res://r1"})
            with pytest.raises(TimeoutError), anyio.fail_after(0.5):
                await shop.in_state(instance, "STOPPING", "STOPPED")
            await guest.ask("resources/unsubscribe", {"uri": "res://r1"})
        assert instance.generation == 1
        await shop.in_state(instance, "STOPPED")


@bounded(LIMIT)
async def test_a_child_that_talks_to_itself_is_idle(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        chatty = "import time\nwhile True: print('busy', flush=True); time.sleep(0.02)"

        async def launch(spawning: Spawning) -> Child:
            script = f"{PYTHON} -c \"{chatty}\" & exec {PYTHON} -I -S {KIT / 'fserver.py'} '{{}}'"
            return await shop.launch({}, ("/bin/sh", "-c", script))

        instance = shop.instance(idle_timeout=0.3, spawn=launch)
        guest = await shop.greeted(instance)
        await guest.call("echo")
        await shop.in_state(instance, "STOPPED")
        assert "smcp noise: busy" in shop.logged()


@bounded(LIMIT)
async def test_a_call_that_meets_the_idle_stop_is_served(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"busy_at_eof": 200}, {}, idle_timeout=0.2)
        guest = await shop.greeted(instance)
        await shop.in_state(instance, "STOPPING")
        assert text(await guest.call("echo", value="late")) == "late"
        assert instance.generation == 2
        assert instance.restarts == 0


@bounded(LIMIT)
async def test_new_rules_are_kept_to_without_a_new_child(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        guest = await shop.greeted(instance)
        await guest.call("echo")
        instance.refit(replace(instance.blueprint, idle_timeout=0.1))
        await shop.in_state(instance, "STOPPED")
        instance.refit(replace(instance.blueprint, idle_timeout=None))
        await guest.call("echo")
        with pytest.raises(TimeoutError), anyio.fail_after(0.4):
            await shop.in_state(instance, "STOPPED")
        assert instance.generation == 2


@bounded(LIMIT)
async def test_a_person_may_start_what_was_long_idle(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance(idle_timeout=0.5)
        instance._used -= 1000
        instance.start()
        await instance.settled()
        assert instance.state == "RUNNING"
        await shop.in_state(instance, "STOPPED")


# Back pressure


@bounded(LIMIT)
async def test_a_child_that_does_not_read_slows_who_talks_to_it_and_is_ended(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"not_reading": {"after": 6}}, {}, write_timeout=0.5)
        first, second = await shop.greeted(instance), await shop.greeted(instance)
        calls = []
        while not first.paused:
            calls.append(first.post_call("echo", value="x" * 100_000))
        assert len(calls) < 20
        third = shop.guest(instance)
        assert not second.paused
        assert not third.paused
        assert "result" in await third.greet()
        assert "result" in await second.ask("ping")
        assert "result" in await second.ask("logging/setLevel", {"level": "info"})
        waiting = second.post_call("echo", value="waits")
        second.say("notifications/cancelled", {"requestId": waiting})
        assert second.open == []
        assert first.paused
        error = (await first.answer(calls[-1]))["error"]
        assert "not reading" in error["message"]
        assert not any(guest.paused for guest in (first, second, third))
        assert text(await second.call("echo", value="up")) == "up"
        assert first.open == []


@bounded(LIMIT)
async def test_a_child_that_stops_reading_before_it_is_ready_to_work_is_ended(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"not_reading": {"after": 1}, "init_delay": 200}, {}, write_timeout=0.3)
        guest = shop.guest(instance)
        guest.post("initialize", hello())
        held = [guest.post_call("echo", value="x" * 100_000) for _ in range(5)]
        error = (await guest.answer(held[-1]))["error"]
        assert "not reading" in error["message"]


@bounded(LIMIT)
async def test_hosts_are_slowed_while_too_much_waits_for_a_start(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"init_delay": 300})
        guest = shop.guest(instance)
        guest.post("initialize", hello())
        calls = []
        while not guest.paused:
            calls.append(guest.post_call("echo", value="x" * 100_000))
        assert SHARE // 100_000 <= len(calls) <= SHARE // 100_000 + 2
        for identity in calls:
            assert len(text(await guest.answer(identity))) == 100_000
        assert not guest.paused


@bounded(LIMIT)
async def test_many_hosts_that_fill_their_shares_are_refused_more(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"not_reading": {"after": 6}}, {}, write_timeout=1.5)
        guests = [await shop.greeted(instance) for _ in range(SHARES + 2)]
        for guest in guests:
            while not guest.paused and not instance._mux.crowded:
                guest.post_call("echo", value="x" * 100_000)
        last = guests[-1]
        assert not last.paused
        error = (await last.call("echo", value="one more"))["error"]
        assert "is not reading, and too much waits for it" in error["message"]
        assert error["data"] == {"reason": "server_not_reading"}
        assert "result" in await last.ask("ping")
        await guests[0].until(lambda: not guests[0].paused)
        assert text(await last.call("echo", value="up")) == "up"


@bounded(LIMIT)
async def test_a_host_that_leaves_while_it_is_held_back_is_let_go(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"not_reading": {"after": 6}}, {}, write_timeout=0.5)
        first, second = await shop.greeted(instance), await shop.greeted(instance)
        while not first.paused:
            first.post_call("echo", value="x" * 100_000)
        instance.detach(first.key)
        assert [guest.paused for guest in (first, second)] == [False, False]
        await shop.until(lambda: "BACKOFF" in shop.states)
        assert text(await second.call("echo", value="up")) == "up"


@bounded(LIMIT)
async def test_hosts_go_on_when_the_start_they_waited_for_fails(tmp_path: Path) -> None:
    gate = anyio.Event()

    async def fail(spawning: Spawning) -> Child:
        await gate.wait()
        raise LaunchError("no", retryable=False)

    async with workshop(tmp_path) as shop:
        instance = shop.instance(spawn=fail)
        first, second = shop.guest(instance), shop.guest(instance)
        first.post("initialize", hello())
        while not first.paused:
            first.post_call("echo", value="x" * 100_000)
        gate.set()
        await first.until(lambda: not first.paused)
        assert not second.paused
        assert first.open == []


@pytest.mark.parametrize("who", ["the one that sent it", "another one"])
@bounded(LIMIT)
async def test_a_host_that_leaves_takes_its_brake_with_it(who: str, tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"init_delay": 60_000})
        first, second = shop.guest(instance), shop.guest(instance)
        first.post("initialize", hello())
        while not first.paused:
            first.post_call("echo", value="x" * 100_000)
        leaving, staying = (first, second) if who == "the one that sent it" else (second, first)
        instance.detach(leaving.key)
        assert not leaving.paused, "where it goes it is read again"
        assert staying.paused is (who == "another one")


# Callbacks, moving, noise


@bounded(LIMIT)
async def test_a_child_of_its_own_may_ask_its_host(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance(relay=True)
        guest = await shop.greeted(instance, sampling={})
        identity = guest.post_call("ask", kind="sampling", ask_id="mine")
        await guest.note("sampling/createMessage")
        asked = guest.notes("sampling/createMessage")[0]
        guest.raw({"jsonrpc": "2.0", "id": asked["id"], "result": {"role": "assistant"}})
        reply = json.loads(text(await guest.answer(identity)))
        assert (reply["id"], reply["result"]) == ("mine", {"role": "assistant"})
        assert shop.journal.requests("initialize")[0]["params"]["capabilities"] == {"sampling": {}}


@bounded(LIMIT)
async def test_a_shared_child_is_refused_at_once(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        guest = await shop.greeted(shop.instance(), sampling={})
        reply = json.loads(text(await guest.call("ask", kind="sampling")))
        assert reply["error"]["code"] == -32601
        assert not guest.notes("sampling/createMessage")


@bounded(LIMIT)
async def test_a_session_moves_with_its_state_and_is_told_what_changed(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        old, new = shop.instance(), shop.instance({"tools_extra": 1})
        guest = await shop.greeted(old)
        await guest.ask("resources/subscribe", {"uri": "res://r2"})
        slow = guest.post_call("slow", seconds=60)
        await shop.until(lambda: shop.events("catalogue"))
        old.fail_session(guest.key, "server 's' was changed", "server_changed")
        error = (await guest.answer(slow))["error"]
        assert (error["message"], error["data"]) == ("server 's' was changed", {"reason": "server_changed"})
        state = old.session_state(guest.key)
        assert (state.initialized, state.uris) == (True, ["res://r2"])
        old.detach(guest.key)
        guest.instance = new
        new.attach(guest, state)
        new.compare_with(old.catalogue)
        await guest.note("notifications/tools/list_changed")
        assert not guest.notes("notifications/resources/list_changed")
        await shop.journal.wait(lambda j: len(j.requests("resources/subscribe")) == 2)
        assert guest.open == []


@bounded(LIMIT)
async def test_noise_is_counted_and_only_the_first_of_it_is_logged(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        guest = await shop.greeted(instance)
        await guest.call("emit", data="".join(f"noise {number}\n" for number in range(LOGGED + 50)))
        instance.stop()
        await instance.rested()
        assert "smcp noise: noise 0" in shop.logged()
        assert len([line for line in shop.logged() if "noise:" in line]) == LOGGED
        assert "smcp and 50 more lines of noise that are not shown" in shop.logged()
        assert instance.remarks.dropped == {"noise": LOGGED + 50}


@bounded(LIMIT)
async def test_what_is_learnt_is_kept_and_answers_without_a_child(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        guest = await shop.greeted(shop.instance())
        tools = (await guest.ask("tools/list"))["result"]
        await shop.until(lambda: shop.events("catalogue"))
        instance = shop.instance({"tools_extra": 1})
        later = await shop.greeted(instance)
        assert (await later.ask("tools/list"))["result"] == tools
        assert instance.resting
        assert len(shop.journal.runs()) == 1
        assert text(await later.call("echo", value="real")) == "real"
        assert len(shop.journal.runs()) == 2
        await later.note("notifications/tools/list_changed")
        assert len((await later.ask("tools/list"))["result"]["tools"]) == len(tools["tools"]) + 1


@bounded(LIMIT)
async def test_the_end_of_the_daemon_ends_the_child(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        shop = Workshop(tmp_path, tasks)
        instance = shop.instance({"ignore_eof": True, "ignore_term": True})
        guest = await shop.greeted(instance)
        slow = guest.post_call("slow", seconds=60)
        pid = instance.pid or 0
        assert probe.alive(pid)
        tasks.cancel_scope.cancel()
    assert not probe.alive(pid)
    assert "error" in guest.answers(slow)[0]
    instance.stop()
    shop.log.close()


@bounded(LIMIT)
async def test_restarts_do_not_leak(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        await shop.greeted(instance)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            instance.restart()
            await instance.settled()
        assert len(os.listdir("/proc/self/fd")) == before
        assert instance.generation == 6


# Faults of ours


@bounded(LIMIT)
async def test_a_fault_in_a_start_costs_that_server_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(spawning: Spawning) -> Child:
        raise ZeroDivisionError

    async with workshop(tmp_path) as shop:
        broken, whole = shop.instance(spawn=fail), shop.instance()
        error = (await shop.guest(broken).ask("initialize", hello()))["error"]
        assert "a fault of smcp, ZeroDivisionError()" in error["message"]
        assert broken.state == "FATAL"
        assert "ZeroDivisionError" in caplog.text
        assert text(await (await shop.greeted(whole)).call("echo", value="x")) == "x"


@bounded(LIMIT)
async def test_a_fault_with_a_message_of_a_host_costs_that_host_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        first, second = await shop.greeted(instance), await shop.greeted(instance)
        await first.call("echo")
        right = instance._mux.from_session

        def fail(key: int, line: Any) -> Any:
            if b"poison" in line:
                raise ZeroDivisionError
            return right(key, line)

        monkeypatch.setattr(instance._mux, "from_session", fail)
        first.post_call("echo", value="poison")
        assert first.verdict is not None
        assert first.verdict[0] == 1
        assert "ZeroDivisionError" in caplog.text
        assert text(await second.call("echo", value="x")) == "x"


@bounded(LIMIT)
async def test_a_fault_with_a_message_of_a_child_ends_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        guest = await shop.greeted(instance)
        await guest.call("echo")
        right = instance._mux.from_server

        def fail(line: Any) -> Any:
            if b"poison" in line:
                raise ZeroDivisionError
            return right(line)

        monkeypatch.setattr(instance._mux, "from_server", fail)
        error = (await guest.call("echo", value="poison"))["error"]
        assert error["message"] == "server 's' ended: smcp failed on a message of it, ZeroDivisionError()"
        assert "ZeroDivisionError" in caplog.text
        assert text(await guest.call("echo", value="x")) == "x"


@bounded(LIMIT)
async def test_an_echo_is_told_from_the_moment_that_it_is_wanted(tmp_path: Path) -> None:
    masker.learn("s3cret-value", "vault:mine")
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        guest = await shop.greeted(instance)
        assert text(await guest.call("echo", value="s3cret-value")) == "s3cret-value"
        assert "echo:" not in shop.logged()
        # Nothing looks at the messages of a server of which nobody wants to know it.
        assert instance._taker() == instance._from_child
        instance.refit(replace(instance.blueprint, warn_on_echo=True))
        assert text(await guest.call("echo", value="s3cret-value")) == "s3cret-value"
        assert "smcp echo: it sent a secret in a message to a host: vault:mine" in shop.logged()
        instance.refit(replace(instance.blueprint, warn_on_echo=False))
        assert instance._taker() == instance._from_child
        assert instance.generation == 1
