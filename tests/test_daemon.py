"""The whole daemon as a process: what it makes of its configuration, of signals, of its own end and of its death."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisord_mcp.config.paths import find_paths
from supervisord_mcp.daemon import marker_prefix
from supervisord_mcp.runtimes import proctable
from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import RUN, ControlError, Daemon, Fake, bare, daemon
from tests.kit.fhost import hello

LIMIT = 60
#: Runs the daemon as a shim does, but so that it looks around more often.
HASTY = (
    sys.executable,
    "-c",
    "from supervisord_mcp import daemon; daemon.LOOK_EVERY = 0.1; daemon.main(on_demand=True)",
)
#: Runs the daemon as a person does, but so that it does not look around by itself.
SLEEPY = (
    sys.executable,
    "-c",
    "from supervisord_mcp import daemon; daemon.LOOK_EVERY = 3600; daemon.main(on_demand=False)",
)


# The parts


def test_the_mark_of_children_is_that_of_their_home(tmp_path: Path) -> None:
    first, second = (find_paths({"SMCP_HOME": str(tmp_path / name)}, os.getuid()) for name in ("a", "b"))
    assert marker_prefix(first) == marker_prefix(find_paths({"SMCP_HOME": str(tmp_path / "a")}, os.getuid()))
    assert marker_prefix(first) != marker_prefix(second)
    assert marker_prefix(first).endswith(":")


# Start and end


@bounded(LIMIT)
async def test_it_serves_and_ends_in_order() -> None:
    async with daemon(bare("s", entry={"start": "eager"})) as d:
        status = (await d.status())["daemon"]
        assert d.process is not None
        assert status["pid"] == d.process.pid
        assert status["socket"] == str(d.socket)
        assert status["config"] == str(d.config)
        assert (status["problems"], status["logging"], status["sessions"]) == ([], "ok", 0)
        assert status["uptime"] > 0
        await d.in_state("s", "RUNNING")
        host = await d.connected("s")
        assert (await d.status())["daemon"]["sessions"] == 1
        assert await d.control("down") is None
        assert await host.exit_status() == 0
        assert await d.ended(d.process.pid) == 0
        assert host.stderr == b""
        assert "the daemon ends: smcp down" in d.logs()
        assert not d.socket.exists()
        assert list((d.home / "run" / "sessions").iterdir()) == []
        assert d.journal("s").events("leaving")[-1]["why"] == "eof"


@bounded(LIMIT)
async def test_open_calls_are_answered_before_it_ends() -> None:
    async with daemon(bare("s")) as d:
        host = await d.connected("s")
        call = host.post_call("slow", seconds=60)
        await d.journal("s").wait(lambda j: j.calls("slow"))
        assert await d.control("down") is None
        answer = await host.answer_of(call)
        assert answer.error is not None
        assert answer.error["data"] == {"reason": "daemon_stopped"}
        assert await host.exit_status() == 0
        assert d.process is not None
        assert await d.ended(d.process.pid) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@bounded(LIMIT)
async def test_a_signal_ends_it_in_order(number: int) -> None:
    async with daemon(bare("s", ignore_eof=True, ignore_term=True)) as d:
        host = await d.connected("s")
        await host.call("echo")
        assert d.process is not None
        d.process.send_signal(number)
        assert await d.ended(d.process.pid) == 0
        assert f"the daemon ends: {signal.Signals(number).name}" in d.logs()
        assert await host.exit_status() == 0
        assert [e["event"] for e in d.journal("s").events() if e["event"] in ("eof", "signal")] == ["eof", "signal"]


@bounded(LIMIT)
async def test_the_service_manager_is_told() -> None:
    for address in (f"/tmp/smcp-{uuid.uuid4().hex}", f"@smcp-{uuid.uuid4().hex}"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(address.replace("@", "\0"))
            manager.setblocking(False)
            async with daemon(bare("s"), env={"NOTIFY_SOCKET": address}) as d:
                assert manager.recv(100) == b"READY=1"
                assert (await (await d.connected("s")).call("env")).value["env"].get("NOTIFY_SOCKET") is None
            assert manager.recv(100) == b"STOPPING=1"
        if address.startswith("/"):
            os.unlink(address)


@bounded(LIMIT)
async def test_a_second_daemon_is_refused() -> None:
    async with daemon() as d:
        ended = await anyio.run_process(RUN, env=d.env, check=False)
        assert ended.returncode == 1
        assert b"is alive and listens" in ended.stderr
        assert await d.status()


@bounded(LIMIT)
async def test_a_faulty_configuration_is_no_start() -> None:
    async with daemon(start=False) as d:
        d.write_config('[servers.x]\ncommand = "a"\nnonsense = 1\n')
        ended = await anyio.run_process(RUN, env=d.env, check=False)
        assert ended.returncode == 2
        assert f"{d.config}:3: servers.x.nonsense" in ended.stderr.decode()


@asynccontextmanager
async def hasty(*fakes: Fake, **settings: Any) -> AsyncIterator[Daemon]:
    async with daemon(*fakes, settings=settings, start=False) as d:
        await d.start(args=HASTY)
        yield d


@bounded(LIMIT)
async def test_it_ends_when_nobody_needs_it() -> None:
    async with hasty(bare("s", entry={"idle_timeout": "300ms"}), idle_exit="500ms") as d:
        host = await d.connected("s")
        assert d.process is not None
        with pytest.raises(AssertionError, match="does not end"):
            await d.ended(d.process.pid, 1.5)
        await host.call("echo")
        host.close_stdin()
        assert await d.ended(d.process.pid) == 0
        assert not d.socket.exists()


@bounded(LIMIT)
async def test_a_server_that_only_waits_for_its_idle_time_ends_with_it() -> None:
    async with hasty(bare("s", entry={"idle_timeout": "1h"}), idle_exit="500ms") as d:
        assert d.process is not None
        await d.control("call", name="s", tool="echo", arguments={"value": "x"})
        pid = (await d.server("s"))["instances"][0]["pid"]
        assert await d.ended(d.process.pid) == 0
        assert not probe.alive(pid)
        assert "the daemon ends: nobody has needed it for 0.5 s, and with it the servers that nobody uses" in d.logs()


@pytest.mark.parametrize("entry", [{"idle_timeout": "off"}, {"start": "eager"}])
@bounded(LIMIT)
async def test_a_server_that_is_to_run_on_keeps_it(entry: dict[str, str]) -> None:
    async with hasty(bare("s", entry=entry), idle_exit="300ms") as d:
        assert d.process is not None
        await d.control("start", names=["s"])
        with pytest.raises(AssertionError, match="does not end"):
            await d.ended(d.process.pid, 1.5)
        await d.control("stop", names=["s"])
        assert await d.ended(d.process.pid) == 0


@bounded(LIMIT)
async def test_a_command_that_follows_keeps_it() -> None:
    async with hasty(bare("s"), idle_exit="300ms") as d:
        assert d.process is not None
        following = d.stream("events", follow=True)
        waiting = asyncio.ensure_future(anext(following))
        with pytest.raises(AssertionError, match="does not end"):
            await d.ended(d.process.pid, 1.5)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        await following.aclose()
        assert await d.ended(d.process.pid) == 0


@bounded(LIMIT)
async def test_one_that_a_person_started_does_not_end_by_itself() -> None:
    async with daemon(settings={"idle_exit": "1ms"}) as d:
        assert d.process is not None
        await d.control("version")
        with pytest.raises(AssertionError, match="does not end"):
            await d.ended(d.process.pid, 0.5)


@bounded(LIMIT)
async def test_one_that_was_told_to_stay_does_not_end_by_itself() -> None:
    async with hasty(idle_exit="500ms") as d:
        assert d.process is not None
        await d.control("stay")
        with pytest.raises(AssertionError, match="does not end"):
            await d.ended(d.process.pid, 1.5)


@bounded(LIMIT)
async def test_a_socket_that_was_deleted_is_made_again() -> None:
    async with hasty(bare("s"), idle_exit="off") as d:
        host = await d.connected("s")
        d.socket.unlink()
        while not d.socket.exists():
            await asyncio.sleep(0.02)
        await d.answers()
        assert (await host.call("echo", value="old")).text == "old"
        assert (await (await d.connected("s")).call("echo", value="new")).text == "new"


@bounded(LIMIT)
async def test_something_in_the_place_of_the_socket_stays() -> None:
    async with hasty(bare("s"), idle_exit="off") as d:
        host = await d.connected("s")
        d.socket.unlink()
        d.socket.write_text("not a socket")
        assert (await host.call("echo", value="x")).text == "x"
        assert d.socket.read_text() == "not a socket"
        d.socket.unlink()
        while not d.socket.exists():
            await asyncio.sleep(0.02)
        assert (await (await d.connected("s")).call("echo", value="new")).text == "new"


@bounded(LIMIT)
async def test_a_directory_that_cannot_be_used_hurts_no_session() -> None:
    async with hasty(bare("s"), idle_exit="off") as d:
        host = await d.connected("s")
        run = d.socket.parent
        run.rename(d.home / "away")
        run.write_text("in the way")
        while "new hosts cannot find this daemon" not in d.logs():
            await asyncio.sleep(0.02)
        assert (await host.call("echo", value="x")).text == "x"
        run.unlink()
        while not d.socket.exists():
            await asyncio.sleep(0.02)
        assert (await (await d.connected("s")).call("echo", value="new")).text == "new"
        assert d.logs().count("new hosts cannot find this daemon") == 1
        run.joinpath("sessions").exists() or (d.home / "away" / "sessions").rename(run / "sessions")


def delete(directory: Path) -> None:
    """Delete a directory in one step: a daemon that is about to write a file there is not in the way."""
    away = directory.with_name("away")
    directory.rename(away)
    shutil.rmtree(away, ignore_errors=True)


@bounded(LIMIT)
async def test_a_directory_that_was_deleted_is_taken_back_with_its_records() -> None:
    async with hasty(bare("s"), idle_exit="off") as d:
        host = await d.connected("s")
        pid = await d.pid()
        delete(d.socket.parent)
        while not list(d.socket.parent.glob("sessions/*.map")):
            await asyncio.sleep(0.02)
        assert await d.pid() == pid
        await d.kill()
        assert (await host.call("echo", value="kept")).text == "kept"
        assert host.garbage == []


def marked(prefix: str) -> list[int]:
    """Return the living children of a daemon and of any other one of the same directory."""
    found = []
    for entry in proctable.entries():
        text = proctable.environment(entry.pid) if entry.alive else None
        if text is not None and f"{proctable.MARKER_VARIABLE}={prefix}".encode() in text:
            found.append(entry.pid)
    return found


@pytest.mark.parametrize("entry", [{"start": "eager"}, {}])
@bounded(LIMIT)
async def test_of_two_daemons_the_one_that_lost_its_directory_gives_way(entry: dict[str, str]) -> None:
    async with daemon(bare("s", entry=entry)) as d:
        assert d.process is not None
        old = d.process.pid
        host = await d.connected("s")
        assert (await host.call("echo", value="before")).text == "before"
        delete(d.socket.parent)
        newcomer = await d.connected("s")
        assert (await newcomer.call("echo", value="new")).text == "new"
        assert await d.pid() != old
        assert await d.ended(old) == 0
        assert "its directory was deleted, and another one has the place" in d.logs()
        assert (await host.call("echo", value="on")).text == "on"
        assert (await newcomer.call("echo", value="still")).text == "still"
        assert len(host.answers_to('"hello"')) == 1
        assert host.garbage == []
        assert (await d.status())["daemon"]["sessions"] == 2
        assert marked(marker_prefix(find_paths(d.env, os.getuid()))) == [(await d.instances("s"))[0]["pid"]]
        assert d.socket.exists()


@bounded(LIMIT)
async def test_a_child_is_not_started_where_another_daemon_may_start_it() -> None:
    """The child of the old daemon is killed by the new one; to start another is when the old one notices."""
    async with daemon(bare("s"), start=False) as d:
        await d.start(args=SLEEPY)
        assert d.process is not None
        old = d.process.pid
        host = await d.connected("s")
        delete(d.socket.parent)
        newcomer = await d.connected("s")
        assert (await newcomer.call("echo", value="new")).text == "new"
        error = (await host.call("echo", value="x")).error
        assert error is None or error["data"] == {"reason": "daemon_restarted"}
        assert await d.ended(old) == 0
        assert (await host.call("echo", value="y")).text == "y"
        assert len(marked(marker_prefix(find_paths(d.env, os.getuid())))) == 1


# The configuration


@bounded(LIMIT)
async def test_a_save_is_noticed_and_only_what_changed_is_touched() -> None:
    async with daemon(bare("a"), bare("b")) as d:
        hosts = [await d.connected(name) for name in ("a", "b")]
        for host in hosts:
            await host.call("echo")
        pids = [(await d.instances(name))[0]["pid"] for name in ("a", "b")]
        slow = hosts[0].post_call("slow", seconds=1.5)
        await d.journal("a").wait(lambda j: j.calls("slow"))
        d.configure(bare("a"), bare("b", entry={"args": ["--changed"]}), bare("c", entry={"start": "eager"}))
        assert await appears(d, "c")
        await d.in_state("c", "RUNNING")
        assert (await hosts[0].answer_of(slow)).text == "slow"
        assert (await d.instances("a"))[0]["pid"] == pids[0]
        assert (await hosts[1].call("echo", value="b")).text == "b"
        assert (await d.instances("b"))[0]["pid"] != pids[1]
        d.configure(bare("a"))
        assert await hosts[1].exit_status() == 4
        assert b"was removed in the configuration" in hosts[1].stderr
        assert [s["name"] for s in (await d.status())["servers"]] == ["a"]


@bounded(LIMIT)
async def test_a_save_of_a_profile_touches_exactly_the_servers_that_use_it() -> None:
    profile = {"entry": {"profile": "mine"}}
    async with daemon(bare("a"), bare("c")) as d:
        directory = d.config.parent / "profiles"
        directory.mkdir()
        (directory / "mine.toml").write_text("description = 'x'\nextends = 'child'\n")
        (directory / "child.toml").write_text("description = 'x'\nlimits = { pids = 64 }\n")
        d.configure(bare("a"), bare("b", **profile), bare("c", entry={"profile": "mine", "limits": {"pids": 32}}))
        assert await appears(d, "b")
        hosts = {name: await d.connected(name) for name in "abc"}
        for host in hosts.values():
            await host.call("echo")
        pids = {name: (await d.instances(name))[0]["pid"] for name in hosts}
        (directory / "child.toml").write_text("description = 'y'\nlimits = { pids = 48 }\n")
        while (await d.instances("b"))[0]["pid"] == pids["b"]:
            await asyncio.sleep(0.03)
        for host in hosts.values():
            assert (await host.call("echo", value="x")).text == "x"
        assert [name for name in hosts if (await d.instances(name))[0]["pid"] != pids[name]] == ["b"]
        (directory / "child.toml").write_text("description = 'y'\nlimits = { pids = 'many' }\n")
        [problem] = await problems(d, some=True)
        assert problem.startswith(f"{directory}/child.toml:2: limits.pids: ")
        assert (await hosts["b"].call("echo", value="x")).text == "x"
        status = {server["name"]: server for server in (await d.status())["servers"]}
        assert [status[name]["profile"] for name in "abc"] == ["default", "mine", "mine"]


async def appears(d: Daemon, name: str) -> bool:
    """Return true once a server is configured."""
    while name not in [server["name"] for server in (await d.status())["servers"]]:
        await asyncio.sleep(0.03)
    return True


async def problems(d: Daemon, *, some: bool) -> list[str]:
    """Return the problems of the configuration, once there are some or none."""
    while bool(found := (await d.status())["daemon"]["problems"]) is not some:
        await asyncio.sleep(0.03)
    return list(found)


@bounded(LIMIT)
async def test_a_broken_file_keeps_everything_and_is_shown() -> None:
    async with daemon(bare("s")) as d:
        host = await d.connected("s")
        await host.call("echo")
        pid = (await d.instances("s"))[0]["pid"]
        good = d.config.read_text()
        d.write_config(good + "\n[servers.s2]\ncommand = 5\nnonsense = true\n")
        found = await problems(d, some=True)
        line = good.count("\n") + 3
        assert any(problem.startswith(f"{d.config}:{line}: servers.s2.command: ") for problem in found), found
        assert any(problem.startswith(f"{d.config}:{line + 1}: servers.s2.nonsense: ") for problem in found), found
        with pytest.raises(ControlError) as raised:
            await d.control("reload")
        assert (raised.value.error["code"], raised.value.error["exit"]) == ("config", 2)
        with pytest.raises(ControlError, match="are not in force") as raised:
            await d.control("start", names=["s2"])
        assert f"{d.config}:{line}: servers.s2.command: " in raised.value.error["message"]
        assert (await host.call("echo", value="x")).text == "x"
        d.write_config(good)
        assert await problems(d, some=False) == []
        with pytest.raises(ControlError, match=r"smcp add s2|no server 's2'") as raised:
            await d.control("start", names=["s2"])
        assert "in force" not in raised.value.error["message"]
        assert (await d.instances("s"))[0]["pid"] == pid
        kinds = [value["kind"] async for kind, value in d.stream("events") if kind == "event"]
        assert kinds.count("config-faulty") == 1


@bounded(LIMIT)
async def test_a_file_that_is_gone_keeps_everything_and_is_shown() -> None:
    async with daemon(bare("s")) as d:
        host = await d.connected("s")
        await host.call("echo")
        pid = (await d.instances("s"))[0]["pid"]
        good = d.config.read_text()
        d.config.rename(d.config.with_suffix(".bak"))
        assert await problems(d, some=True) == [f"{d.config}: the file is gone; everything runs on as it was"]
        assert (await host.call("echo", value="x")).text == "x"
        d.write_config(good)
        await problems(d, some=False)
        assert (await d.instances("s"))[0]["pid"] == pid


@bounded(LIMIT)
async def test_files_of_the_directory_come_and_go() -> None:
    async with daemon(bare("s")) as d:
        folder = d.config.parent / "conf.d"
        folder.mkdir()
        (folder / "more.toml").write_text('[servers.more]\ncommand = "x"\n')
        assert await appears(d, "more")
        (folder / "more.toml").unlink()
        while "more" in [server["name"] for server in (await d.status())["servers"]]:
            await asyncio.sleep(0.03)


@bounded(LIMIT)
async def test_who_wants_no_watching_says_when() -> None:
    async with daemon(bare("s"), settings={"reload": False}) as d:
        d.configure(bare("s"), bare("t"))
        assert d.process is not None
        d.process.send_signal(signal.SIGHUP)
        assert await appears(d, "t")
        d.configure(bare("s"))
        assert (await d.control("reload"))["removed"] == ["t"]
        d.configure(bare("s"), settings={"reload": True})
        assert await d.control("reload") == {"added": [], "changed": [], "removed": []}
        while "inotify" not in str(probe.fd_table(d.process.pid)):
            await asyncio.sleep(0.03)
        d.configure(bare("s"), bare("u"))
        assert await appears(d, "u")
        d.configure(bare("s"), settings={"reload": False})
        while "inotify" in str(probe.fd_table(d.process.pid)):
            await asyncio.sleep(0.03)


@bounded(LIMIT)
async def test_settings_of_the_daemon_are_taken_over() -> None:
    async with daemon(bare("s"), settings={"log_level": "error"}) as d:
        bin_dir = d.home / "bin"
        bin_dir.mkdir()
        (bin_dir / "mine").write_text(f"#!/bin/sh\nexec {' '.join(map(repr, d.entry(d.fakes['s'])['command']))}\n")
        (bin_dir / "mine").chmod(0o755)
        mine = bare("mine", entry={"command": ["mine"]})
        d.configure(bare("s"), mine, settings={"log_level": "info", "path": [str(bin_dir)]})
        assert await appears(d, "mine")
        assert (await d.control("call", name="mine", tool="echo", arguments={"value": "x"}))["content"]
        d.configure(bare("s"), settings={"log_level": "info"})
        while "configuration reloaded" not in d.logs():
            await asyncio.sleep(0.03)


@bounded(LIMIT)
async def test_reloads_at_the_same_time_end_with_the_last_content() -> None:
    async with daemon(bare("s")) as d:
        for number in range(8):
            d.configure(bare("s"), bare(f"t{number}"))
            await asyncio.gather(*(d.control("reload") for _ in range(3)))
            assert [s["name"] for s in (await d.status())["servers"]] == ["s", f"t{number}"]


@bounded(LIMIT)
async def test_logs_that_cannot_be_written_degrade_only_themselves() -> None:
    async with daemon(bare("s"), start=False) as d:
        logs = d.home / "state" / "logs"
        logs.parent.mkdir()
        await d.start()
        logs.rmdir()
        logs.write_text("in the way")
        host = await d.connected("s")
        assert (await host.call("stderr", bytes=300_000)).text == "written"
        assert (await d.status())["daemon"]["logging"].startswith(f"degraded: {logs}/s.log: ")
        logs.unlink()
        while (await d.status())["daemon"]["logging"] != "ok":
            await host.call("stderr", bytes=100)
            await asyncio.sleep(0.1)
        assert "lines are missing here" in (logs / "s.log").read_text()


# Death


async def is_back(d: Daemon) -> None:
    """Return once a shim has brought the daemon back."""
    d.process = None
    await d.answers()


@bounded(LIMIT)
async def test_after_its_death_hosts_go_on_and_nothing_runs_twice() -> None:
    async with daemon(bare("s", ignore_eof=True)) as d:
        host = await d.connected("s")
        await host.request("resources/subscribe", {"uri": "res://r1"})
        await host.request("logging/setLevel", {"level": "debug"})
        calls = [host.post_call("slow", seconds=60) for _ in range(5)]
        await d.journal("s").wait(lambda j: len(j.calls("slow")) == 5)
        old, dead = (await d.instances("s"))[0]["pid"], str(await d.pid())
        await d.kill()
        for call in calls:
            error = (await host.answer_of(call, timeout=20)).error
            assert error is not None
            assert error["data"] == {"reason": "daemon_restarted"}
        assert (await host.call("echo", value="on")).text == "on"
        assert not probe.alive(old)
        assert f"pid {dead}, did not end in order" in d.logs()
        assert ("event", "daemon-crashed", dead) in [
            (what, event["kind"], event["data"].get("pid")) async for what, event in d.stream("events") if event
        ]
        assert len(d.journal("s").calls("slow")) == 5
        run = d.journal("s").runs()[1]
        assert [e["params"] for e in d.journal("s").requests("resources/subscribe", run)] == [{"uri": "res://r1"}]
        assert [e["params"] for e in d.journal("s").requests("logging/setLevel", run)] == [{"level": "debug"}]
        assert len(d.journal("s").requests("initialize", run)) == 1
        assert len(host.answers_to('"hello"')) == 1
        assert host.garbage == []


@pytest.mark.parametrize("end", ["death", "down"])
@bounded(LIMIT)
async def test_what_a_person_stopped_stays_stopped_over_its_end(end: str) -> None:
    async with daemon(bare("s"), bare("e", entry={"start": "eager"})) as d:
        host = await d.connected("s")
        assert (await host.call("echo", value="x")).text == "x"
        await d.in_state("e", "RUNNING")
        await d.control("stop", names=["s", "e"])
        runs = [len(d.journal(name).runs()) for name in ("s", "e")]
        if end == "death":
            await d.kill()
            await is_back(d)
        else:
            assert d.process is not None
            pid = d.process.pid
            await d.control("down")
            assert await d.ended(pid) == 0
            await d.start()
            host = await d.connected("s")
        error = (await host.call("echo")).error
        assert error is not None
        assert error["data"] == {"reason": "server_stopped"}
        assert [len(d.journal(name).runs()) for name in ("s", "e")] == runs
        await d.control("start", names=["s", "e"])
        assert (await host.call("echo", value="y")).text == "y"
        await d.in_state("e", "RUNNING")
        assert not (d.home / "state" / "stopped.json").exists()


@bounded(LIMIT)
async def test_half_a_line_to_a_host_is_repaired() -> None:
    async with daemon(bare("s")) as d:
        host = await d.connected("s")
        host.stop_read()
        big = host.post_call("big", bytes=3_000_000)
        await anyio.wait_readable(host._fds["out"])
        await d.kill()
        await is_back(d)
        host.go_on_reading()
        error = (await host.answer_of(big, timeout=20)).error
        assert error is not None
        assert error["data"] == {"reason": "daemon_restarted"}
        assert len(host.garbage) == 1, "the half that came before"
        assert (await host.call("echo", value="whole")).text == "whole"
        assert len(d.journal("s").calls("big")) == 1


@bounded(LIMIT)
async def test_half_a_line_from_a_host_is_continued() -> None:
    async with daemon(bare("s")) as d:
        host = await d.connected("s")
        await host.call("echo")
        params = {"name": "echo", "arguments": {"value": "x" * 100_000}}
        line = json.dumps({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": params}).encode() + b"\n"
        answer = host.expect("77")
        host.raw(line[:70_000])
        await host.drained()
        await (await d.connected("s")).call("echo")
        await d.kill()
        await is_back(d)
        host.raw(line[70_000:])
        assert (await host.answer_of(answer, timeout=20)).text == "x" * 100_000


@bounded(LIMIT)
async def test_the_catalogue_answers_before_anything_runs() -> None:
    async with daemon(bare("s")) as d:
        host = await d.connected("s")
        tools = (await host.request("tools/list")).result
        await d.until("s", lambda found: found["catalogue"], "a catalogue")
        await d.terminate()
        d.switch("s", {"tools_extra": 1})
        await d.start()
        later = await d.connected("s")
        assert (await later.request("tools/list")).result == tools
        assert (await d.server("s"))["state"] == "STOPPED"
        assert (await later.call("echo", value="real")).text == "real"
        await later.note("notifications/tools/list_changed")
        assert len((await later.request("tools/list")).result["tools"]) == len(tools["tools"]) + 1


@bounded(LIMIT)
async def test_a_death_in_the_middle_of_a_handshake() -> None:
    async with daemon(bare("s", scripts=[{"init_delay": 60_000}, {}])) as d:
        host = d.host("s")
        answer = host.post("initialize", hello())
        await d.journal("s").wait(lambda j: j.requests("initialize"))
        await d.kill()
        assert (await host.answer_of(answer, timeout=20)).result["serverInfo"]["name"] == "fserver"
        host.notify("notifications/initialized")
        assert (await host.call("echo", value="x")).text == "x"
        assert len(host.answers) == 2


@bounded(LIMIT)
async def test_what_a_command_waits_for_ends_with_the_daemon() -> None:
    async with daemon(bare("s")) as d:
        stream = d.stream("logs", name="s", follow=True)

        async def follow() -> int:
            return len([event async for event in stream])

        following = asyncio.ensure_future(follow())
        await d.control("start", names=["s"])
        await d.control("down")
        assert d.process is not None
        await d.ended(d.process.pid)
        async with asyncio.timeout(20):
            assert await following >= 2


def test_it_can_be_imported_without_the_heavy_parts() -> None:
    heavy = ("typer", "rich", "docker", "psutil")
    code = f"import sys, supervisord_mcp.daemon; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert found.stdout.strip() == "[]"
