"""Which instances there are, who gets which, and what a person's word and a new configuration do to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisord_mcp.config.trust import Trust
from supervisord_mcp.errors import SmcpError, UnknownServerError, UsageError
from supervisord_mcp.facts import Facts, Whence
from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import KIT, PYTHON
from tests.kit.estate import QUICK, Estate, estate
from tests.kit.workshop import text

LIMIT = 40
SESSION = {"scope": "session"}
PROJECT = {"scope": "project"}
BROKEN: dict[str, Any] = {"command": ["no-such-program-anywhere"], "runtime": "bare"}


def at(project: str | None, environ: dict[str, str] | None = None, *, narrow: bool = False) -> Whence:
    return Whence(Facts("", project, environ=environ or {}), narrow)


def states(one: Estate, name: str) -> dict[str | None, str]:
    return {instance.key.project: instance.state for instance in one.instances(name)}


def pids(one: Estate, name: str) -> list[int | None]:
    return [instance.pid for instance in one.instances(name)]


# Who shares what


@bounded(LIMIT)
async def test_everybody_shares_a_global_server(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        first, second = await one.greeted("s", project="/a"), await one.greeted("s", project="/b")
        await first.call("echo")
        await second.call("echo")
        assert len(one.journal("s").runs()) == 1
        (status,) = one.supervisor.status()
        assert (status.name, status.state, status.sessions, status.scope) == ("s", "RUNNING", 2, "global")
        (instance,) = status.instances
        assert (instance.pid, instance.generation, instance.sessions, instance.isolation) == (
            one.instance("s").pid,
            1,
            2,
            "none",
        )
        assert status.catalogue
        assert status.last_error is None


@bounded(LIMIT)
async def test_every_session_has_its_own_child_that_ends_with_it(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": SESSION}}) as one:
        first, second = await one.greeted("s"), await one.greeted("s")
        await first.call("echo")
        await second.call("echo")
        mine, other = pids(one, "s")
        assert mine != other
        first.close_stdin()
        assert await first.over() == "0"
        await one.left()
        assert pids(one, "s") == [other]
        assert not probe.alive(mine or 0)
        assert text(await second.call("echo", value="still here")) == "still here"


@bounded(LIMIT)
async def test_every_project_has_its_own_child(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.mkdir()
    b.mkdir()
    entry = {"command": [PYTHON, "-I", "-S", str(KIT / "fserver.py"), "{}", "${project}"], "runtime": "bare"}
    async with estate(tmp_path / "home", {"s": entry}) as one:
        guests = [await one.greeted("s", project=str(project)) for project in (a, b, a)]
        places = [text(await guest.call("where")) for guest in guests]
        assert len(one.instances("s")) == 2
        assert [str(a) in places[0], str(b) in places[1], places[2] == places[0]] == [True, True, False]
        assert [instance.key.project for instance in one.instances("s")] == [str(a), str(b)]
        assert sorted(status.project or "" for status in one.supervisor.status()[0].instances) == [str(a), str(b)]


@bounded(LIMIT)
async def test_another_environment_is_another_instance_if_it_matters(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": {"env": {"TOKEN": "${TOKEN:-}"}}}, "t": {}}) as one:
        for token in ("one", "two", "one"):
            await one.greeted("s", environ={"TOKEN": token})
            await one.greeted("t", environ={"TOKEN": token})
        assert len(one.instances("s")) == 2
        assert len(one.instances("t")) == 1


def installed(home: Path, place: str) -> Path:
    """Install the fake server as a program called ``tool`` in a directory."""
    program = home / place / "tool"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {PYTHON} -I -S {KIT / "fserver.py"} "$@"\n')
    program.chmod(0o755)
    return program


@bounded(LIMIT)
async def test_a_command_that_is_found_elsewhere_replaces_what_nobody_uses(tmp_path: Path) -> None:
    environ = {"PATH": f"{tmp_path}/new:{tmp_path}/old:/usr/bin:/bin"}
    entry = {**QUICK, "command": ["tool", "{}"], "env": {"A": "1"}}
    async with estate(tmp_path, {"s": entry}, environ=environ) as one:
        lost = one.guest("s")
        assert "not found" in str(await lost.greet())
        installed(tmp_path, "old")
        host = await one.greeted("s")
        first, second = one.supervisor.status()[0].instances
        assert (first.differs, second.differs) == (("program tool (not found)",), (f"program {tmp_path}/old/tool",))
        lost.close_stdin()
        await lost.over()
        assert one.instance("s").state == "RUNNING", "who could not be started is forgotten with its host"
        old = one.instance("s")
        installed(tmp_path, "new")
        await one.greeted("s")
        assert [instance.state for instance in one.instances("s")] == ["RUNNING", "RUNNING"], (
            "hosts keep what they have"
        )
        host.close_stdin()
        await host.over()
        await old.rested()
        assert one.instance("s").state == "RUNNING"
        assert one.supervisor.status()[0].instances[0].differs == ()


@pytest.mark.parametrize("word", ["start", "restart"])
@bounded(LIMIT)
async def test_a_word_takes_the_command_as_it_is_found_now(word: str, tmp_path: Path) -> None:
    environ = {"PATH": f"{tmp_path}/new:{tmp_path}/old:/usr/bin:/bin"}
    async with estate(tmp_path, {"s": {**QUICK, "command": ["tool", "{}"]}}, environ=environ) as one:
        installed(tmp_path, "old")
        await one.supervisor.start(["s"])
        old = one.instance("s")
        installed(tmp_path, "new")
        await getattr(one.supervisor, word)(["s"])
        assert old.resting
        assert one.instance("s").state == "RUNNING"
        assert one.instance("s").key != old.key


@bounded(LIMIT)
async def test_instances_that_nobody_needs_are_forgotten(tmp_path: Path) -> None:
    servers = {
        "p": {"entry": {**PROJECT, "era": "legacy"}},
        "s": {"entry": {"env": {"TOKEN": "${TOKEN:-}"}, "era": "legacy"}},
    }
    async with estate(tmp_path, servers) as one:
        guests = [one.guest("p", project="/tmp") for _ in range(2)]
        guests += [one.guest("s", environ={"TOKEN": str(number)}) for number in range(3)]
        assert (len(one.instances("p")), len(one.instances("s"))) == (1, 3)
        for guest in guests:
            guest.close_stdin()
            await guest.over()
        assert one.instances("p") == []
        assert len(one.instances("s")) == 1, "the last one tells how the server is"


@bounded(LIMIT)
async def test_what_runs_or_gave_up_is_not_forgotten(tmp_path: Path) -> None:
    async with estate(tmp_path, {"p": {"entry": PROJECT}, "bad": {**BROKEN, **PROJECT}}) as one:
        good = await one.greeted("p", project="/tmp")
        await good.call("echo")
        bad = one.guest("bad", project="/tmp")
        await bad.greet()
        for guest in (good, bad):
            guest.close_stdin()
            await guest.over()
        assert one.instance("p").state == "RUNNING"
        assert one.instance("bad").state == "FATAL"
        again = one.guest("bad", project="/tmp")
        assert "error" in await again.greet()
        assert one.instance("bad").generation == 1, "who comes later does not start it again"


@bounded(LIMIT)
async def test_one_that_nobody_uses_and_that_gave_up_says_nothing_of_the_server(tmp_path: Path) -> None:
    entry = {"command": [PYTHON, "-I", "-S", str(KIT / "fserver.py"), "${WHAT}"], "runtime": "bare", **PROJECT}
    good, bad = {"WHAT": "{}"}, {"WHAT": json.dumps({"exit_before_init": {"code": 3}})}
    async with estate(tmp_path, {"s": {**entry, "restart": "never"}}) as one:
        supervisor = one.supervisor
        with pytest.raises(SmcpError):
            await supervisor.start(["s"], at("/", bad))
        (status,) = supervisor.status()
        assert (status.state, "exit 3" in (status.last_error or "")) == ("EXITED", True), "there is no other"
        guest = await one.greeted("s", project="/tmp", environ=good)
        await guest.call("env")
        (status,) = supervisor.status()
        assert (status.state, status.last_error, len(status.instances)) == ("RUNNING", None, 2)
        other = await one.greeted("s", project="/usr", environ=good)
        other.close_stdin()
        await other.over()
        assert states(one, "s") == {"/tmp": "RUNNING"}, "the next one that leaves takes it along"


@pytest.mark.parametrize("word", ["start", "stop"])
@bounded(LIMIT)
async def test_a_word_clears_what_gave_up_and_nobody_uses(word: str, tmp_path: Path) -> None:
    entry = {"command": [PYTHON, "-I", "-S", str(KIT / "fserver.py"), "${WHAT}"], "runtime": "bare", **PROJECT}
    good, bad = {"WHAT": "{}"}, {"WHAT": json.dumps({"exit_before_init": {"code": 3}})}
    async with estate(tmp_path, {"s": {**entry, "restart": "never"}}) as one:
        with pytest.raises(SmcpError):
            await one.supervisor.start(["s"], at("/", bad))
        if word == "start":
            await one.supervisor.start(["s"], at("/tmp", good))
            assert states(one, "s") == {"/tmp": "RUNNING"}
        else:
            await one.supervisor.stop(["s"])
            assert states(one, "s") == {}


@bounded(LIMIT)
async def test_the_log_tells_the_instances_of_a_server_apart(tmp_path: Path) -> None:
    servers = {
        "g": {"entry": {"env": {"TOKEN": "${TOKEN:-}"}}},
        "p": {"entry": PROJECT},
        "s": {"entry": SESSION},
    }
    async with estate(tmp_path, servers) as one:
        for name in servers:
            guest = await one.greeted(name, project="/tmp")
            await guest.call("echo")
        other = await one.greeted("g", environ={"TOKEN": "x"})
        await other.call("echo")
        speakers = {name: {line.split(" ")[1] for line in one.logs[name].last(99)} for name in servers}
        second = one.instances("g")[1].key.digest
        assert speakers["g"] == {"smcp", f"smcp[{second}]"}
        assert speakers["p"] == {"smcp[/tmp]"}
        assert len(speakers["s"]) == 1
        assert next(iter(speakers["s"])).startswith("smcp[session-")


# What a person says


@bounded(LIMIT)
async def test_start_waits_until_it_runs_and_stop_until_it_is_gone(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}, "t": {}}) as one:
        await one.supervisor.start(["s", "t"])
        assert [one.instance(name).state for name in ("s", "t")] == ["RUNNING", "RUNNING"]
        pid = one.instance("s").pid or 0
        await one.supervisor.start(["s"])
        assert one.instance("s").pid == pid
        await one.supervisor.restart(["s"])
        assert one.instance("s").generation == 2
        assert not probe.alive(pid)
        await one.supervisor.stop(["s", "t"])
        assert [one.instance(name).state for name in ("s", "t")] == ["STOPPED", "STOPPED"]
        assert not one.supervisor.active


@bounded(LIMIT)
async def test_all_are_tried_although_one_cannot_start(tmp_path: Path) -> None:
    async with estate(tmp_path, {"a": BROKEN, "b": {}, "c": {**BROKEN, "args": ["x"]}}) as one:
        with pytest.raises(SmcpError, match="no-such-program") as raised:
            await one.supervisor.start(["a", "b"])
        assert (raised.value.code, raised.value.exit_status) == ("launch", 6)
        assert one.instance("b").state == "RUNNING"
        with pytest.raises(SmcpError) as raised:
            await one.supervisor.restart(["a", "c"])
        assert [line.partition(":")[0] for line in str(raised.value).splitlines() if line[0] != " "] == ["a", "c"]
        assert (raised.value.code, raised.value.exit_status) == ("launch", 6)
        assert {status.name: status.state for status in one.supervisor.status()} == {
            "a": "FATAL",
            "b": "RUNNING",
            "c": "FATAL",
        }


@bounded(LIMIT)
async def test_of_many_that_fail_each_in_its_way_none_is_left_out(tmp_path: Path) -> None:
    unset = {"entry": {"env": {"TOKEN": "${NO_SUCH_TOKEN}"}}}
    servers = {"c": BROKEN, "b": unset, "a": {"exit_before_init": {"code": 2}}, "d": {}, "e": {"entry": SESSION}}
    async with estate(tmp_path, servers) as one:
        await one.supervisor.stop(sorted(servers))
        with pytest.raises(SmcpError) as raised:
            await one.supervisor.start(["a", "b", "c", "d", "e"])
        told = [line for line in str(raised.value).splitlines() if line[0] != " "]
        assert [line[:2] for line in told] == ["a:", "b:", "c:"]
        assert "NO_SUCH_TOKEN" in told[1]
        assert (raised.value.code, raised.value.exit_status) == ("launch", 5)
        assert one.instance("d").state == "RUNNING"


@bounded(LIMIT)
async def test_an_unknown_name_is_told_with_the_known_ones(tmp_path: Path) -> None:
    async with estate(tmp_path, {"b": {}, "a": {}}) as one:
        for verb in (one.supervisor.start, one.supervisor.stop, one.supervisor.restart):
            with pytest.raises(UnknownServerError, match=r"no server 'x' .*known: a, b\)"):
                await verb(["x"])
        await one.supervisor.start(["a"])
        one.reconfigure({})
        with pytest.raises(UnknownServerError, match="known: none"):
            one.supervisor.server("x")


@pytest.mark.parametrize("entry", [SESSION, PROJECT])
@bounded(LIMIT)
async def test_a_server_that_needs_a_host_cannot_be_started_without_one(entry: dict[str, str], tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": entry}, "t": {}}) as one:
        with pytest.raises(SmcpError, match="session"):
            await one.supervisor.start(["s"])
        assert one.instances("s") == []
        assert list(one.supervisor.startable()) == ["t"]
        guest = await one.greeted("s", project="/tmp")
        assert list(one.supervisor.startable()) == ["s", "t"]
        await one.supervisor.start(["s"])
        assert one.instance("s").state == "RUNNING"
        assert text(await guest.call("echo", value="x")) == "x"


@pytest.mark.parametrize("entry", [{}, SESSION, PROJECT])
@bounded(LIMIT)
async def test_what_a_person_stopped_no_host_starts(entry: dict[str, str], tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": entry}}) as one:
        await one.supervisor.stop(["s"])
        guest = one.guest("s", project="/tmp")
        error = (await guest.greet())["error"]
        told = "is stopped in /tmp; start it with: smcp start s --project /tmp" if entry else "is stopped; start it"
        assert told in error["message"]
        assert one.journal("s").runs() == []
        guest.close_stdin()
        await guest.over()
        await one.supervisor.stop(["s"])
        if entry:
            await one.supervisor.start(["s"])
            assert one.instances("s") == [], "hosts may start it again"
        else:
            await one.supervisor.start(["s"])
            assert one.instance("s").state == "RUNNING"
        later = await one.greeted("s", project="/tmp")
        assert text(await later.call("echo", value="x")) == "x"


@bounded(LIMIT)
async def test_a_word_is_about_the_project_it_comes_from(tmp_path: Path) -> None:
    async with estate(tmp_path, {"p": {"entry": PROJECT}, "g": {}}) as one:
        supervisor = one.supervisor
        await supervisor.start(["p", "g"], at("/tmp"))
        assert (states(one, "p"), states(one, "g")) == ({"/tmp": "RUNNING"}, {None: "RUNNING"})
        await supervisor.restart(["p"], at("/usr"))
        assert states(one, "p") == {"/tmp": "RUNNING"}, "what runs is restarted, wherever the word comes from"
        assert one.instance("p").generation == 2
        await supervisor.start(["p"], at("/usr"))
        assert states(one, "p") == {"/tmp": "RUNNING", "/usr": "RUNNING"}
        await supervisor.restart(["p"], at("/usr", narrow=True))
        assert [instance.generation for instance in one.instances("p")] == [2, 2]
        await supervisor.stop(["p"], at("/usr", narrow=True))
        assert states(one, "p") == {"/tmp": "RUNNING"}
        usr, etc = await one.greeted("p", project="/usr"), await one.greeted("p", project="/etc")
        assert (await usr.call("echo"))["error"]["data"] == {"reason": "server_stopped"}
        assert text(await etc.call("echo", value="x")) == "x"
        await supervisor.stop(["p"])
        assert (await etc.call("echo"))["error"]["data"] == {"reason": "server_stopped"}
        await supervisor.start(["p"], at("/etc", narrow=True))
        assert text(await etc.call("echo", value="x")) == "x"
        tmp = await one.greeted("p", project="/tmp")
        assert "error" in await tmp.call("echo"), "everywhere else it stays stopped"


@bounded(LIMIT)
async def test_a_server_of_all_projects_cannot_be_stopped_in_one(tmp_path: Path) -> None:
    async with estate(tmp_path, {"p": {"entry": PROJECT}, "g": {}}) as one:
        await one.supervisor.start(["g", "p"], at("/tmp", narrow=True))
        for verb in (one.supervisor.stop, one.supervisor.restart):
            with pytest.raises(UsageError, match="'g' is shared by all projects"):
                await verb(["p", "g"], at("/tmp", narrow=True))
        assert (one.instance("p").state, one.instance("p").generation) == ("RUNNING", 1), "nothing is half done"
        assert one.supervisor.stoppable() == ("g", "p")
        assert one.supervisor.stoppable(at("/tmp", narrow=True)) == ("p",)
        assert one.supervisor.startable(at("/tmp", narrow=True)) == ("p",)
        assert one.supervisor.startable(at("/usr")) == ("g", "p")


@bounded(LIMIT)
async def test_a_word_brings_the_environment_that_a_host_would(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": {"env": {"TOKEN": "${TOKEN}"}, "inherit": ["MORE"]}}}) as one:
        with pytest.raises(SmcpError, match="TOKEN"):
            await one.supervisor.start(["s"], at(None))
        await one.supervisor.start(["s"], at(None, {"TOKEN": "one", "MORE": "x", "OTHER": "y"}))
        guest = await one.greeted("s", environ={"TOKEN": "one", "MORE": "x", "OTHER": "z"})
        found = json.loads(text(await guest.call("env")))["env"]
        assert (found["TOKEN"], found["MORE"], "OTHER" in found) == ("one", "x", False)
        (housing,) = one.supervisor._housed.values()
        assert housing.facts.environ.keys() == {"TOKEN", "MORE"}, "the rest is not kept"
        assert one.instance("s").generation == 1
        await one.supervisor.start(["s"], at(None, {"TOKEN": "two"}))
        assert one.instance("s").generation == 1, "one that is used here is what a start is about"


@bounded(LIMIT)
async def test_eager_servers_start_by_themselves(tmp_path: Path) -> None:
    eager = {"start": "eager"}
    servers = {
        "s": {"entry": {**eager, "idle_timeout": "100ms"}},
        "lazy": {},
        "own": {"entry": {**eager, **SESSION}},
        "bad": {**BROKEN, **eager},
    }
    async with estate(tmp_path, servers) as one:
        one.supervisor.start_eager(one.config.servers)
        await one.until(lambda: one.instance("s").state == "RUNNING" and one.instance("bad").state == "FATAL")
        assert one.instances("lazy") == one.instances("own") == []
        assert [event.server for event in one.events("not-started")] == ["own"]
        with pytest.raises(TimeoutError), anyio.fail_after(0.4):
            await one.until(lambda: one.instance("s").state != "RUNNING")
        await one.supervisor.stop(["s"])
        one.supervisor.start_eager(["s", "bad"])
        assert one.instance("s").state == "STOPPED"
        assert one.instance("bad").generation == 1


@pytest.mark.parametrize("entry", [{}, SESSION])
@bounded(LIMIT)
async def test_an_instance_that_comes_again_counts_its_runs_on(entry: dict[str, str], tmp_path: Path) -> None:
    first, second = ({"s": {"entry": {**entry, "args": [word]}}} for word in ("a", "b"))
    async with estate(tmp_path, first) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        for servers, generation in ((second, 1), (first, 2), (second, 2), (first, 3)):
            one.reconfigure(servers)
            assert text(await guest.call("echo", value="x")) == "x"
            assert one.instance("s").generation == generation
        guest.close_stdin()
        await guest.over()
        assert bool(one.supervisor._generations) == (not entry), "of a session that is over nothing is kept"


@bounded(LIMIT)
async def test_a_stop_waits_for_those_that_are_leaving(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"busy_at_eof": 200}}) as one:
        await one.supervisor.start(["s"])
        pid = one.instance("s").pid or 0
        one.reconfigure({"s": {"entry": {"args": ["other"]}}})
        assert one.supervisor.active
        await one.supervisor.stop(["s"])
        assert not probe.alive(pid)


@bounded(LIMIT)
async def test_shutting_down_waits_for_those_that_are_leaving(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": SESSION, "busy_at_eof": 200}, "t": {}}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        await one.supervisor.start(["t"])
        guest.close_stdin()
        await guest.over()
        assert one.instances("s") == []
        assert one.supervisor.active
        await one.supervisor.shut_down()
        assert one.journal("s").events("leaving")[-1]["why"] == "eof"
        assert one.journal("t").events("leaving")[-1]["why"] == "eof"


# A new configuration


@bounded(LIMIT)
async def test_what_is_the_same_is_left_alone(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        slow = guest.post_call("slow", seconds=0.3)
        await one.journal("s").wait(lambda j: j.calls("slow"))
        pid = one.instance("s").pid
        one.reconfigure({"s": {}})
        one.reconfigure({"s": {}, "t": {}})
        assert text(await guest.answer(slow)) == "slow"
        assert one.instance("s").pid == pid


@bounded(LIMIT)
async def test_only_new_rules_keep_the_child_and_its_calls(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        slow = guest.post_call("slow", seconds=0.3)
        await one.journal("s").wait(lambda j: j.calls("slow"))
        pid = one.instance("s").pid
        one.reconfigure({"s": {"entry": {"idle_timeout": "200ms", "restart": "never"}}})
        assert one.instance("s").pid == pid
        assert text(await guest.answer(slow)) == "slow"
        await one.until(lambda: one.instance("s").state == "STOPPED")
        assert one.instance("s").blueprint.policy.restart.mode == "never"
        assert guest.verdict is None
        assert not guest.ended


@bounded(LIMIT)
async def test_new_rules_of_the_daemon_reach_every_server(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        pid = one.instance("s").pid
        one.reconfigure({"s": {}}, {"max_message": "2M"})
        assert one.instance("s").blueprint.bounds.max_message == 2 << 20
        assert one.instance("s").pid == pid


@bounded(LIMIT)
async def test_a_changed_server_moves_its_sessions(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"busy_at_eof": 200}}) as one:
        first, second = await one.greeted("s"), await one.greeted("s")
        await first.ask("resources/subscribe", {"uri": "res://r1"})
        slow = first.post_call("slow", seconds=60)
        await one.journal("s").wait(lambda j: j.calls("slow"))
        await one.until(lambda: one.events("catalogue"))
        old = one.instance("s")
        pid = old.pid or 0
        one.reconfigure({"s": {"tools_extra": 1}})
        new = one.instance("s")
        assert new is not old
        error = (await first.answer(slow))["error"]
        assert error["message"] == "server 's' was changed in the configuration while this request was open"
        assert error["data"] == {"reason": "server_changed"}
        assert text(await second.call("echo", value="new")) == "new"
        assert not probe.alive(pid), "never two at a time: one may hold a lock"
        for guest in (first, second):
            await guest.note("notifications/tools/list_changed")
            assert not guest.notes("notifications/prompts/list_changed")
            assert len((await guest.ask("tools/list"))["result"]["tools"]) == 17
        await first.call("touch", uri="res://r1")
        assert await first.note("notifications/resources/updated", 1)
        assert len(one.journal("s").runs()) == 2


@bounded(LIMIT)
async def test_a_removed_server_ends_its_sessions(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}, "t": {}}) as one:
        guest, other = await one.greeted("s"), await one.greeted("t")
        slow = guest.post_call("slow", seconds=60)
        await one.journal("s").wait(lambda j: j.calls("slow"))
        one.reconfigure({"t": {}})
        assert await guest.over() == "4 server 's' was removed in the configuration"
        assert (await guest.answer(slow))["error"]["data"] == {"reason": "server_removed"}
        assert one.instances("s") == []
        assert text(await other.call("echo", value="t")) == "t"
        assert (await one.guest("s").over()).startswith("no 4 no server 's'")


@bounded(LIMIT)
async def test_a_server_that_can_no_longer_be_resolved_ends_its_sessions(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        one.reconfigure({"s": {"entry": {"env": {"X": "${NOT_SET_ANYWHERE}"}}}})
        assert "NOT_SET_ANYWHERE" in await guest.over()


@pytest.mark.parametrize(("before", "after"), [({}, SESSION), (SESSION, {}), ({}, PROJECT), (PROJECT, {})])
@bounded(LIMIT)
async def test_another_scope_is_another_instance(before: dict[str, str], after: dict[str, str], tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": before}}) as one:
        first, second = await one.greeted("s", project="/tmp"), await one.greeted("s", project="/tmp")
        one.reconfigure({"s": {"entry": after}})
        for guest in (first, second):
            assert text(await guest.call("echo", value="x")) == "x"
        assert len(one.instances("s")) == (2 if after is SESSION else 1)


@bounded(LIMIT)
async def test_a_change_while_the_new_child_starts_is_followed(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        one.reconfigure({"s": {"init_delay": 60_000}})
        held = guest.post_call("echo", value="held")
        await one.journal("s").wait(lambda j: len(j.runs()) == 2)
        one.reconfigure({"s": {}})
        assert (await guest.answer(held))["error"]["data"] == {"reason": "server_changed"}
        assert text(await guest.call("echo", value="back")) == "back"
        await one.left()
        assert len(probe.find([one.marker])) == 1


@bounded(LIMIT)
async def test_an_instance_with_an_old_name_hurts_no_new_one(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": PROJECT}}) as one:
        guest = await one.greeted("s", project="/tmp")
        await guest.call("echo")
        old = one.instance("s")
        one.reconfigure({})
        one.reconfigure({"s": {"entry": PROJECT}})
        later = await one.greeted("s", project="/tmp")
        new = one.instance("s")
        assert new.key == old.key
        one.supervisor.released(old)
        assert one.instance("s") is new
        assert text(await later.call("echo", value="x")) == "x"


@bounded(LIMIT)
async def test_a_stopped_server_stays_stopped_over_a_change(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        await one.supervisor.stop(["s"])
        one.reconfigure({"s": {"entry": {"start": "eager"}, "tools_extra": 1}})
        assert (await guest.call("echo"))["error"]["data"] == {"reason": "server_stopped"}
        assert len(one.journal("s").runs()) == 1
        one.reconfigure({})
        one.reconfigure({"s": {}})
        later = await one.greeted("s")
        assert text(await later.call("echo", value="x")) == "x", "a new one of that name was not stopped"


# Reports


@bounded(LIMIT)
async def test_entries_tell_what_is_configured_and_known(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}, "a": {"entry": SESSION}}) as one:
        a, s = one.supervisor.entries()
        assert (a.name, a.scope, a.catalogue, a.tools) == ("a", "session", False, None)
        assert (s.name, s.runtime, s.start, s.network) == ("s", "bare", "on-demand", "none")
        await one.supervisor.start(["s"])
        await one.until(lambda: one.events("catalogue"))
        s = one.supervisor.entries()[1]
        assert (s.catalogue, s.tools) == (True, 16)
        catalogue = one.supervisor.catalogue_of("s")
        assert catalogue is not None


@bounded(LIMIT)
async def test_a_server_shows_the_worst_of_its_instances(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": {"env": {"CODE": "${CODE}"}, "budget": {"restarts": 0}}}}) as one:
        good, bad = await one.greeted("s", environ={"CODE": "a"}), await one.greeted("s", environ={"CODE": "b"})
        await good.call("echo")
        await bad.call("crash", code=3, stderr="why")
        (status,) = one.supervisor.status()
        assert (status.state, status.sessions) == ("FATAL", 2)
        assert "why" in (status.last_error or "")
        assert [instance.state for instance in status.instances] == ["RUNNING", "FATAL"]


@bounded(LIMIT)
async def test_a_changed_project_file_starts_nothing_more_and_ends_nothing(tmp_path: Path) -> None:
    file = tmp_path / "project" / ".mcp.json"
    file.parent.mkdir()
    file.write_bytes(b"{}")
    project = str(file.parent)
    entry = {"project_file": str(file), "restart": "always", "budget": {"restarts": 5}}
    async with estate(tmp_path / "home", {"s": {"entry": entry}}) as one:
        trust = Trust.of(one.paths)
        refused = one.guest("s", project=project)
        assert (await refused.over()).startswith(f"no 8 the project file {file} is not trusted")
        assert one.instances("s") == []

        trust.add(file, b"{}")
        guest = await one.greeted("s", project=project)
        await guest.call("echo")
        assert [instance.key.project for instance in one.instances("s")] == [project]
        pid = one.instance("s").pid

        file.write_bytes(b'{"other": 1}')
        assert (await one.guest("s", project=project).over()).startswith("no 8 the project file")
        one.reconfigure({"s": {"entry": entry}}, {"max_message": "8M"})
        assert text(await guest.call("echo", value="goes on")) == "goes on"
        assert one.instance("s").pid == pid

        await guest.call("crash", code=3)
        await one.until(lambda: one.instance("s").state == "FATAL")
        assert "was changed since you trusted it" in (one.supervisor.status()[0].last_error or "")
        trust.add(file, b'{"other": 1}')
        await one.supervisor.start(["s"], at(project))
        assert text(await guest.call("echo", value="again")) == "again"


@bounded(LIMIT)
async def test_keys_of_sessions_are_never_used_again(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        keys = [one.supervisor.next_key() for _ in range(3)]
        assert len(set(keys)) == 3
        assert one.supervisor.scope(Facts("s")) == "global"
