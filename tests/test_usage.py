"""What is measured of real children and counted of real calls, and what follows from a limit that is exceeded."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisord_mcp.errors import UnknownServerError
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.usage import ServerUsage, UsageResult
from supervisord_mcp.usage import UsageDesk
from tests.kit.bounded import bounded
from tests.kit.estate import Estate, estate

LIMIT = 40


async def told(one: Estate, **more: Any) -> ServerUsage:
    """Return what is told of the one server."""
    result = await one.usage.report(control.Usage(fresh=True, **more))
    (server,) = result.servers
    return server


@bounded(LIMIT)
async def test_calls_are_counted_by_tool_and_host(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        first, second = await one.greeted("s"), await one.greeted("s")
        for guest in (first, first, second):
            assert "result" in await guest.call("echo")
        assert "error" in await first.ask("tools/call", {"name": "no such tool"})
        server = await told(one)
        rows = {row.name: row for row in server.tools}
        assert rows["echo"].calls == 3
        assert rows["no such tool"].errors == 1
        assert server.total.pending == 0
        assert server.total.p50 is not None
        assert rows["echo"].asked > 0 < rows["echo"].told
        [host] = server.hosts
        assert host.calls == server.total.calls
        assert (server.starts.count, server.starts.restarts) == (1, 0)
        assert server.starts.on_demand == 1
        assert server.starts.seconds > 0


@bounded(LIMIT)
async def test_what_runs_is_measured_and_what_it_saves(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guests = [await one.greeted("s") for _ in range(3)]
        await guests[0].call("echo")
        server = await told(one, since=time.time() - 60)
        [instance] = server.instances
        assert instance.figures is not None
        assert instance.pid in {process.pid for process in instance.figures.processes}
        assert server.figures.memory > 1 << 20
        assert server.saved.processes == 2 * len(instance.figures.processes)
        assert server.saved.memory == 2 * instance.figures.private
        assert (server.step, len(server.history)) == (5.0, 1)
        assert server.history[0].starts == 1
        result = await one.usage.report(control.Usage())
        assert result.daemon.memory > 1 << 20
        assert result.saved.memory == server.saved.memory
        for guest in guests:
            guest.close_stdin()
            assert await guest.over() == "0"
        await one.supervisor.stop(["s"])
        stopped = await told(one)
        assert stopped.instances[0].figures is None
        assert stopped.total.calls == 1


@bounded(LIMIT)
async def test_what_ended_is_not_counted_for_the_daemon(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        before = await one.usage.report(control.Usage())
        burn = "import time\nwhile time.process_time() < 2: pass"
        await anyio.run_process([sys.executable, "-I", "-S", "-c", burn])
        assert (await one.usage.report(control.Usage())).daemon.cpu - before.daemon.cpu < 1.5


@bounded(LIMIT)
async def test_the_answer_comes_over_the_control_socket(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}, "t": {}}) as one:
        command = one.command()
        found = await command.ask("usage", name="t")
        assert [server["name"] for server in found["servers"]] == ["t"]
        assert (await command.fail("usage", name="u"))["code"] == "unknown-server"
        with pytest.raises(UnknownServerError):
            await one.usage.report(control.Usage(name="u"))


@bounded(LIMIT)
async def test_counts_go_on_with_the_next_daemon(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        one.usage.close()
        files = one.paths.counts_file, one.paths.history_file
        next_one = UsageDesk(one.supervisor, one.observers, *files)
        await guest.call("echo")
        result = await next_one.report(control.Usage())
        assert result.servers[0].total.calls == 2
        next_one.configure(one.configured({"t": {}}))
        assert "s" not in next_one.counts.tallies


@bounded(LIMIT)
async def test_what_was_used_is_known_to_the_next_daemon(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        before = await told(one, since=time.time() - 60)
        one.usage.close()
        next_one = UsageDesk(one.supervisor, one.observers, one.paths.counts_file, one.paths.history_file)
        result = await next_one.report(control.Usage(since=time.time() - 60))
        [kept] = result.servers[0].history
        assert kept.memory == before.history[0].memory > 1 << 20
        assert kept.starts == 1
        one.instance("s").restart()
        await guest.call("echo")
        again = await next_one.report(control.Usage(fresh=True, since=time.time() - 60))
        assert sum(point.starts for point in again.servers[0].history) == 2, "restarts are marked"


@bounded(LIMIT)
async def test_metrics_begin_with_the_daemon(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        assert sum(cell.calls for cell in (await one.usage.snapshot()).tallies["s"].cells) == 1
        one.usage.close()
        next_one = UsageDesk(one.supervisor, one.observers, one.paths.counts_file, one.paths.history_file)
        assert [cell.calls for cell in (await next_one.snapshot()).tallies["s"].cells] == [0]
        await guest.call("echo")
        told = await next_one.snapshot()
        assert [cell.calls for cell in told.tallies["s"].cells] == [1]
        assert told.usage.servers[0].total.calls == 2
        assert told.started <= time.time()


@bounded(LIMIT)
async def test_nothing_is_counted_where_that_is_not_wanted(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        off = one.config.model_copy(update={"metrics": one.config.metrics.model_copy(update={"calls": False})})
        one.usage.configure(off)
        guest = await one.greeted("s")
        await guest.call("echo")
        assert (await told(one)).total.calls == 0
        assert not one.observers.bundles.watched
        one.usage.configure(one.config)
        await guest.call("echo")
        assert (await told(one)).total.calls == 1


@bounded(LIMIT)
async def test_what_is_over_is_counted_before_counting_ends(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        for _ in range(3):
            await guest.call("echo")
        # The server is another one from now on, too.
        one.reconfigure({"s": {"tools_extra": 1}}, metrics={"calls": False})
        assert [cell.calls for cell in one.usage.counts.tallies["s"].cells] == [3]


@bounded(LIMIT)
async def test_what_ends_with_a_server_is_counted_for_none(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}, "t": {}}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        open_call = guest.post("tools/call", {"name": "echo", "arguments": {"value": 1, "delay": 60}})
        while not list(one.instance("s").traffic.waiting):
            await asyncio.sleep(0.01)
        one.reconfigure({"t": {}})
        assert "error" in await guest.answer(open_call)
        while any(instance.key.server == "s" for instance in one.supervisor.instances):
            await asyncio.sleep(0.01)
        one.usage.settle()
        assert "s" not in one.usage.counts.tallies
        one.reconfigure({"s": {}, "t": {}})
        await (await one.greeted("s")).call("echo")
        one.usage.settle()
        assert [cell.calls for cell in one.usage.counts.tallies["s"].cells] == [1]


@bounded(LIMIT)
async def test_it_looks_and_keeps_while_it_runs(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.usage.run)
            while not one.usage.sampler.samples:
                await asyncio.sleep(0.01)
            tasks.cancel_scope.cancel()
        result: UsageResult = await one.usage.report(control.Usage())
        assert result.servers[0].figures.processes


@bounded(LIMIT)
async def test_an_observer_that_was_taken_out_is_told_of(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        one.observers.calls.add(lambda call: 1 / 0, "divider")
        guest = await one.greeted("s")
        assert "result" in await guest.call("echo")
        await told(one)
        assert "result" in await guest.call("echo")
        assert one.usage.problems == ("observer divider is not told any more: division by zero",)


# Limits that act


@bounded(LIMIT)
@pytest.mark.parametrize(("breach", "state"), [("restart", "RUNNING"), ("stop", "FATAL"), ("warn", "RUNNING")])
async def test_what_follows_from_a_limit_is_the_choice_of_its_entry(tmp_path: Path, breach: str, state: str) -> None:
    limits = {"memory": "off", "pids": "off", "cpu": 0.5}
    async with estate(tmp_path, {"s": {"entry": {"breach": breach, "limits": limits}}}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        [target] = one.usage._targets()
        assert target.bounds.cpu == 0.5
        target.exceeded("cpu", False)
        await one.until(lambda: one.events("limit"))
        [event] = one.events("limit")
        outcome = "warned" if breach == "warn" else "ended"
        assert (event.data["limit"], event.data["outcome"], event.data["policy"]) == ("cpu", outcome, breach)
        if breach != "warn":
            await one.until(lambda: one.instance("s").state in ("BACKOFF", "FATAL"))
        if breach == "restart":
            await one.until(lambda: one.instance("s").state == "RUNNING")
        assert one.instance("s").state == state
        assert one.instance("s").generation == (2 if breach == "restart" else 1)
        server = await told(one)
        assert server.breaches == {"cpu": 1}
        cause = "" if server.last_error is None else server.last_error
        assert ("processor limit 0.5" in cause) is (breach != "warn")
        assert ("not started again" in cause) is (breach == "stop")
        assert any("processor limit 0.5 exceeded" in line for line in one.logs["s"].last(20))


@bounded(LIMIT)
async def test_a_refusal_is_told_and_changes_nothing(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": {"breach": "stop"}}}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        [target] = one.usage._targets()
        assert target.bounds.nofile == 1024
        target.exceeded("nofile", True)
        [event] = one.events("limit")
        assert (event.data["cause"], event.data["outcome"]) == ("open files limit 1024", "refused")
        assert "result" in await guest.call("echo")


@bounded(LIMIT)
async def test_what_is_only_warned_of_is_not_kept_but_measured(tmp_path: Path) -> None:
    limits = {"memory": "1M", "pids": 1000}
    async with estate(tmp_path, {"s": {"entry": {"breach": "warn", "limits": limits}}}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        shown = one.supervisor.status()[0].instances[0].limits
        assert [line for line in shown if "memory" in line] == [
            'memory, pids and cpu only measured, for breach is "warn"'
        ]
        await one.usage.sampler.fresh()
        [event] = one.events("limit")
        assert (event.data["cause"], event.data["outcome"]) == ("memory limit 1M", "warned")
        assert "result" in await guest.call("echo")
