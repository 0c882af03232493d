"""Every operation of the control socket, and every way to misuse it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisord_mcp import __version__
from supervisord_mcp import control as module
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.errors import ConfigError, Problem
from supervisord_mcp.launch import Launch
from supervisord_mcp.observer import Event
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.control import ReloadResult
from supervisord_mcp.runtimes.base import Child
from tests.kit.bounded import bounded
from tests.kit.daemon import KIT, PYTHON
from tests.kit.estate import Estate, estate
from tests.kit.fhost import hello

LIMIT = 40
BROKEN: dict[str, Any] = {"command": ["no-such-program-anywhere"], "runtime": "bare"}


def content(result: Any) -> str:
    """Return the text of a tool result."""
    return str(result["content"][0]["text"])


# Reports


@bounded(LIMIT)
async def test_who_answers_and_what_runs(tmp_path: Path) -> None:
    async with estate(tmp_path, {"b": {}, "a": {}}) as one:
        command = one.command()
        version = await command.ask("version")
        assert version["version"] == __version__
        status = await command.ask("status")
        assert status["daemon"]["logging"] == "ok"
        assert [(server["name"], server["state"]) for server in status["servers"]] == [
            ("a", "STOPPED"),
            ("b", "STOPPED"),
        ]
        await command.ask("start", names=["b"])
        status = await command.ask("status")
        (instance,) = status["servers"][1]["instances"]
        assert (instance["state"], instance["pid"]) == ("RUNNING", one.instance("b").pid)
        listed = (await command.ask("list"))["servers"]
        assert [server["name"] for server in listed] == ["a", "b"]
        assert listed[0]["command"][0] == PYTHON


@bounded(LIMIT)
async def test_what_followed_the_greeting_is_served(tmp_path: Path) -> None:
    async with estate(tmp_path) as one:
        command = one.command(b'\n{"id":7,"op":"version"}\n{"id":8,"op":"ver')
        assert (await command.reply(7))["result"]["version"] == __version__
        command.raw(b'sion"}\n')
        assert "result" in await command.reply(8)


# Verbs


@bounded(LIMIT)
async def test_start_restart_and_stop(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}, "t": {}, "own": {"entry": {"scope": "session"}}}) as one:
        command = one.command()
        assert await command.ask("start", names=["s", "t"]) is None
        assert await command.ask("restart", names=["s"]) is None
        assert (one.instance("s").generation, one.instance("t").generation) == (2, 1)
        assert await command.ask("stop", names=["s"]) is None
        assert (one.instance("s").state, one.instance("t").state) == ("STOPPED", "RUNNING")
        await command.ask("start", all=True)
        assert one.instance("s").state == "RUNNING"
        await command.ask("restart", all=True)
        assert (one.instance("s").generation, one.instance("t").generation) == (4, 2)
        guest = await one.greeted("own")
        await guest.call("echo")
        await command.ask("stop", all=True)
        assert not one.supervisor.active
        assert (await guest.call("echo"))["error"]["data"] == {"reason": "server_stopped"}
        await command.ask("start", all=True)
        assert one.instance("own").state == "RUNNING"


@bounded(LIMIT)
async def test_a_command_is_served_as_the_host_that_it_could_be(tmp_path: Path) -> None:
    entry = {"scope": "project", "env": {"TOKEN": "${TOKEN}"}}
    async with estate(tmp_path, {"s": {"entry": entry}}, environ={"TOKEN": "of the daemon"}) as one:
        command = one.command(environ={"TOKEN": "mine", "OTHER": "x"})
        assert await command.ask("start", names=["s"], project="/tmp") is None
        assert await command.ask("start", all=True, project="/tmp") is None
        result = await command.ask("call", name="s", tool="env", project="/tmp")
        assert json.loads(content(result))["env"]["TOKEN"] == "mine"
        assert (one.instance("s").generation, one.instance("s").key.project) == (1, "/tmp")
        host = await one.greeted("s", project="/tmp", environ={"TOKEN": "mine", "OTHER": "y"})
        await host.call("echo")
        assert len(one.instances("s")) == 1
        await command.ask("restart", names=["s"], project="/tmp", narrow=True)
        assert one.instance("s").generation == 2
        await command.ask("stop", all=True, project="/tmp", narrow=True)
        assert one.instance("s").state == "STOPPED"


@pytest.mark.parametrize(("verb", "said"), [("restart", "was restarted"), ("stop", "was stopped")])
@bounded(LIMIT)
async def test_an_open_call_is_told_what_a_person_did(verb: str, said: str, tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        command = one.command()
        call = command.post("call", name="s", tool="slow", arguments={"seconds": 60})
        await one.journal("s").wait(lambda j: j.calls("slow"))
        await command.ask(verb, names=["s"])
        error = (await command.reply(call))["error"]
        assert (error["message"], error["code"], error["exit"]) == (f"server 's' {said}", "not-running", 5)


@bounded(LIMIT)
async def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": BROKEN, "t": {"exit_before_init": {"code": 2, "stderr": "bad option"}}}) as one:
        command = one.command()
        error = await command.fail("start", names=["s"])
        assert (error["code"], error["exit"]) == ("launch", 6)
        assert "no-such-program-anywhere" in error["message"]
        error = await command.fail("start", names=["t"])
        assert (error["code"], error["exit"]) == ("launch", 5), "it is tried again"
        assert "exit 2" in error["message"]
        assert "bad option" in error["message"]


@bounded(LIMIT)
async def test_who_waits_for_an_installation_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, real = anyio.Event(), Launch.start

    async def slow(self: Launch, installing: Callable[[], None], progress: Callable[[str], None]) -> Child:
        installing()
        progress("it waits for another one")
        installing()
        await done.wait()
        return await real(self, installing, progress)

    monkeypatch.setattr(Launch, "start", slow)
    async with estate(tmp_path, {"s": {}, "t": {}}) as one:
        command = one.command()
        command.raw(b'{"id":101,"op":"start","args":{"names":["s"]},"progress":true}\n')
        assert await command.events(101, 1) == [{"text": "installing s …"}]
        command.raw(b'{"id":102,"op":"call","args":{"name":"s","tool":"echo"},"progress":true}\n')
        assert await command.events(102, 1) == [{"text": "installing s …"}], "one that goes on is told as well"
        plain, other = command.post("call", name="s", tool="echo"), command.post("version")
        await command.reply(other)
        done.set()
        for identity in (101, 102, plain):
            assert "result" in await command.reply(identity)
        assert len([reply for reply in command.replies if "event" in reply]) == 2
        assert [event.server for event in one.events("installing")] == ["s"]


@bounded(LIMIT)
async def test_requests_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"init_delay": 300}}) as one:
        command = one.command()
        start, version = command.post("start", names=["s"]), command.post("version")
        await command.reply(version)
        assert [reply["id"] for reply in command.replies] == [version]
        await command.reply(start)


@bounded(LIMIT)
async def test_reload_stay_and_down_are_passed_on(tmp_path: Path) -> None:
    async with estate(tmp_path) as one:
        command = one.command()
        assert (await command.ask("reload"))["added"] == ["new"]
        assert await command.ask("stay") is None
        assert await command.ask("down") is None
        assert (one.reloads, one.stays, one.downs) == (1, 1, 1)


@bounded(LIMIT)
async def test_a_faulty_configuration_is_told(tmp_path: Path) -> None:
    async with estate(tmp_path) as one:

        async def fail() -> ReloadResult:
            raise ConfigError((Problem("/c.toml", 3, "servers.x", "unknown key"),))

        one.control._office = dataclasses.replace(one.control._office, reload=fail)
        error = await one.command().fail("reload")
        assert (error["code"], error["exit"]) == ("config", 2)
        assert error["message"] == "/c.toml:3: servers.x: unknown key"


# Tools and calls


@bounded(LIMIT)
async def test_tools_come_from_the_catalogue_unless_asked_anew(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"list_pages": 3}}) as one:
        command = one.command()
        tools = (await command.ask("tools", name="s"))["tools"]
        assert [tool["name"] for tool in tools][:2] == ["echo", "slow"]
        assert len(tools) == 16
        await command.ask("stop", names=["s"])
        assert (await command.ask("tools", name="s"))["tools"] == tools
        assert one.instance("s").state == "STOPPED"
        error = await command.fail("tools", name="s", refresh=True)
        assert (error["code"], error["exit"]) == ("not-running", 5)
        await command.ask("start", names=["s"])
        assert (await command.ask("tools", name="s", refresh=True))["tools"] == tools
        assert one.instance("s").sessions == ()


@bounded(LIMIT)
async def test_tools_of_a_server_that_is_busy_are_what_it_offered_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisord_mcp.control.BUSY_AFTER", 0.1)
    async with estate(tmp_path, {"s": {"list_pages": 3}}) as one:
        command = one.command()
        tools = (await command.ask("tools", name="s"))["tools"]
        await one.until(lambda: one.events("catalogue"))
        pid = one.instance("s").pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        assert await command.ask("tools", name="s") == {"tools": tools, "busy": True}
        waiting = command.post("tools", name="s", refresh=True)
        os.kill(pid, signal.SIGCONT)
        assert (await command.reply(waiting))["result"] == {"tools": tools, "busy": False}


@bounded(LIMIT)
async def test_a_call_starts_the_server_and_returns_what_it_said(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        command = one.command()
        result = await command.ask("call", name="s", tool="echo", arguments={"value": "é\u2028\n"})
        assert content(result) == "é\u2028\n"
        odd = '{"n":1e400,"big":123456789012345678901234567890}'
        command.post("call", name="s", tool="raw", arguments={"result": odd})
        await command.reply(2)
        assert command.replies[-1]["result"]["big"] == 123456789012345678901234567890
        assert one.instance("s").sessions == ()
        assert len(one.journal("s").runs()) == 1


@bounded(LIMIT)
async def test_a_result_with_line_ends_is_one_line(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        command = one.command()
        result = await command.ask("call", name="s", tool="raw", arguments={"result": '{"a":\r[1,\r2]}'})
        assert result == {"a": [1, 2]}


@bounded(LIMIT)
async def test_a_call_that_fails_says_how(tmp_path: Path) -> None:
    servers = {"s": {}, "bad": BROKEN, "p": {"entry": {"scope": "project"}}}
    async with estate(tmp_path, servers) as one:
        command = one.command()
        error = await command.fail("call", name="s", tool="nonsense")
        assert (error["code"], error["exit"]) == ("call-failed", 1)
        assert error["message"] == "Unknown tool: nonsense (error -32602)"
        error = await command.fail("call", name="s", tool="crash", arguments={"code": 3, "stderr": "why"})
        assert (error["code"], error["exit"]) == ("not-running", 5)
        assert "why" in error["message"]
        error = await command.fail("call", name="bad", tool="x")
        assert (error["code"], error["exit"]) == ("launch", 6)
        error = await command.fail("call", name="nobody", tool="x")
        assert (error["code"], error["exit"]) == ("unknown-server", 4)
        error = await command.fail("call", name="p", tool="echo")
        assert "project of this session is not known" in error["message"]
        assert "--project" in error["remedy"]
        result = await command.ask("call", name="p", tool="echo", arguments={"value": "x"}, project=str(tmp_path))
        assert content(result) == "x"


@bounded(LIMIT)
async def test_a_call_works_in_the_project_it_names(tmp_path: Path) -> None:
    entry = {"command": [PYTHON, "-I", "-S", str(KIT / "fserver.py"), "{}", "${project}"], "runtime": "bare"}
    async with estate(tmp_path / "home", {"s": entry}) as one:
        result = await one.command().ask("call", name="s", tool="where", project=str(tmp_path))
        assert json.loads(content(result))["cwd"] == str(tmp_path)


@pytest.mark.parametrize("op", ["call", "tools"])
@bounded(LIMIT)
async def test_without_a_project_a_command_is_told_what_a_host_is(op: str, tmp_path: Path) -> None:
    entry = {"command": [PYTHON, "-I", "-S", str(KIT / "fserver.py"), "{}", "${project}"], "runtime": "bare"}
    async with estate(tmp_path / "home", {"s": entry}) as one:
        error = await one.command().fail(op, name="s", **({"tool": "where"} if op == "call" else {}))
        guest = one.guest("s")
        await guest.ask("initialize", hello())
        assert (await guest.over()).replace("\u2028", "\n") == f"{error['exit']} {error['message']}"
        assert error["message"].startswith("server 's' works on a project, and the project of this session is not kn")
        assert (error["code"], error["exit"]) == ("failed", 1)


@bounded(LIMIT)
async def test_a_call_that_takes_too_long_is_cancelled(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"init_delay": 300}}) as one:
        command = one.command()
        error = await command.fail("call", name="s", tool="slow", arguments={"seconds": 60}, timeout=0.2)
        assert error["message"] == "no answer from 's' within 0.2 s"
        await one.journal("s").wait(lambda j: j.notes("notifications/cancelled"))
        call = one.journal("s").calls("slow")[0]
        assert one.journal("s").notes("notifications/cancelled")[0]["params"]["requestId"] == call["id"]
        assert one.instance("s").sessions == ()


@bounded(LIMIT)
async def test_a_command_that_leaves_breaks_its_call_off(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}, "own": {"entry": {"scope": "session"}}}) as one:
        for name in ("s", "own"):
            command = one.command()
            command.post("call", name=name, tool="slow", arguments={"seconds": 60})
            await one.journal(name).wait(lambda j: j.calls("slow"))
            command.leave()
            await one.journal(name).wait(lambda j: j.notes("notifications/cancelled") or j.events("eof"))
        await one.left()
        assert one.instance("s").sessions == ()
        assert one.instances("own") == []


@bounded(LIMIT)
async def test_a_command_that_leaves_at_once_leaves_nothing(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"init_delay": 200}}) as one:
        for _ in range(3):
            command = one.command()
            command.post("call", name="s", tool="echo")
            command.post("logs", name="s", follow=True)
            command.post("events", follow=True)
            command.leave()
        watchers = len(one.observers.events._watchers)
        command = one.command()
        await command.ask("version")
        assert len(one.observers.events._watchers) == watchers == 2
        assert not one.observers.lines.watched


# Streams


@bounded(LIMIT)
async def test_logs_are_followed_over_a_rotation(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": {"log": {"max_size": "1K", "keep": 2}}}}) as one:
        log = one.logs["s"]
        log.write("stderr", "before")
        command = one.command()
        stream = command.post("logs", name="s", lines=5, follow=True)
        assert [event["line"].split(" ", 1)[1] for event in await command.events(stream, 1)] == ["stderr before"]
        for number in range(100):
            log.write("stderr", f"line {number}")
        events = await command.events(stream, 101)
        assert [event["line"].split(" ", 1)[1] for event in events[1:]] == [f"stderr line {n}" for n in range(100)]
        command.leave()
        other = one.command()
        last = other.post("logs", name="s", lines=3)
        assert (await other.reply(last))["result"] is None
        lines = [event["line"].split(" ", 1)[1] for event in await other.events(last, 3)]
        assert lines == ["stderr line 97", "stderr line 98", "stderr line 99"]
        while one.observers.lines.watched:
            await asyncio.sleep(0)


@bounded(LIMIT)
async def test_logs_of_a_server_that_never_ran_are_empty(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        command = one.command()
        assert await command.ask("logs", name="s") is None
        assert (await command.fail("logs", name="x"))["code"] == "unknown-server"


@bounded(LIMIT)
async def test_what_the_log_had_counted_is_read_and_not_told_as_well(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        log = one.logs["s"]
        for _ in range(4):
            log.write("stderr", "again")
        command = one.command()
        stream = command.post("logs", name="s", follow=True, mark=True)
        (mark,) = await command.events(stream, 1)
        assert mark["size"] == log.path.stat().st_size, "what was counted is in the file"
        log.write("stderr", "more")
        assert [event["text"] for event in (await command.events(stream, 2))[1:]] == ["more"]


@bounded(LIMIT)
@pytest.mark.parametrize(("operation", "who"), [("logs", "the reader of the log of s"), ("events", "the reader of ev")])
async def test_who_is_taken_out_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, who: str
) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        one.observers.publish(Event("first", "s"))
        one.logs["s"].write("stderr", "first")
        command = one.command()
        stream = command.post(operation, name="s", follow=True)
        await command.events(stream, 1)
        real = control.event_line

        def refuse(request: int, event: Any) -> bytes:
            if getattr(event, "kind", "") == "second" or getattr(event, "text", "") == "second":
                raise ValueError("no room")
            return real(request, event)

        monkeypatch.setattr(control, "event_line", refuse)
        one.observers.publish(Event("second", "s"))
        one.logs["s"].write("stderr", "second")
        error = (await command.reply(stream))["error"]
        assert error["message"].startswith(who)
        assert error["message"].endswith("was taken out, so that no host feels it: no room")
        assert any(who in name for name in one.observers.dropped)


@bounded(LIMIT)
async def test_events_are_remembered_and_followed(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        one.observers.publish(Event("first", "s", {"instance": "s-1", "n": 1}))
        command = one.command()
        stream = command.post("events", follow=True)
        (event,) = await command.events(stream, 1)
        assert (event["kind"], event["server"], event["instance"]) == ("first", "s", "s-1")
        assert event["data"] == {"instance": "s-1", "n": 1}
        assert abs(event["time"] - one.observers.recent[0].at.timestamp()) < 0.001
        await command.ask("start", names=["s"])
        states = [e["data"]["to"] for e in await command.events(stream, 3) if e["kind"] == "state"]
        assert states[:2] == ["STARTING", "RUNNING"]
        count = len(one.observers.events._watchers)
        command.leave()
        while len(one.observers.events._watchers) == count:
            await asyncio.sleep(0)
        one.observers.publish(Event("second"))
        one.observers.publish(Event("third", "gone"))
        other = one.command()
        for wanted, kinds in (
            ({"name": "s", "kinds": ["first", "second"]}, ["first"]),
            ({"kinds": ["first", "second"]}, ["first", "second"]),
            ({"name": "gone"}, ["third"]),
        ):
            chosen = other.post("events", **wanted)
            assert (await other.reply(chosen))["result"] is None
            assert [event["kind"] for event in await other.events(chosen, len(kinds))] == kinds
        assert (await other.fail("events", name="x"))["code"] == "unknown-server"
        once = other.post("events")
        assert (await other.reply(once))["result"] is None
        assert len(await other.events(once, 3)) >= 3


@bounded(LIMIT)
async def test_a_command_that_does_not_read_loses_its_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_UNREAD", 100_000)
    async with estate(tmp_path, {"s": {}}) as one:
        command = one.command()
        stream = command.post("logs", name="s", follow=True)
        one.logs["s"].write("stderr", "first")
        await command.events(stream, 1)
        command.stop_reading()
        number = 0
        while one.observers.lines.watched:
            number += 1
            one.logs["s"].write("stderr", f"{number} {'x' * 5000}")
            await asyncio.sleep(0)


# Misuse


@pytest.mark.parametrize(
    "line",
    [
        b"no JSON",
        b"[]",
        b'"text"',
        b"{}",
        b'{"id":"1","op":"version"}',
        b'{"id":1}',
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"id":1,"op":5}',
    ],
)
@bounded(LIMIT)
async def test_what_is_no_request_is_told_so(line: bytes, tmp_path: Path) -> None:
    async with estate(tmp_path) as one:
        command = one.command()
        command.raw(line + b"\n")
        error = (await command.reply(0))["error"]
        assert error["code"] == "framing"
        assert await command.ask("version"), "the connection goes on"


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("fly", {}),
        ("start", {}),
        ("start", {"names": ["s"], "all": True}),
        ("start", {"names": "s"}),
        ("call", {"name": "s"}),
        ("call", {"name": "s", "tool": "x", "arguments": []}),
        ("call", {"name": "s", "tool": "x", "timeout": "soon"}),
        ("logs", {"name": "s", "lines": "many"}),
    ],
)
@bounded(LIMIT)
async def test_what_makes_no_sense_is_told_so(op: str, args: dict[str, Any], tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        error = await one.command().fail(op, **args)
        assert (error["code"], error["exit"]) == ("usage", 2)
        assert one.instances("s") == []


@bounded(LIMIT)
async def test_a_request_that_is_too_long_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MAX_LINE", 1000)
    async with estate(tmp_path) as one:
        command = one.command()
        command.raw(b"x" * 2000 + b"\n")
        error = (await command.reply(0))["error"]
        assert "longer than 1000 bytes" in error["message"]
        assert await command.ask("version")


@bounded(LIMIT)
async def test_a_fault_of_ours_costs_one_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with estate(tmp_path) as one:

        def fail() -> None:
            raise ZeroDivisionError

        broken(one, fail)
        command = one.command()
        error = await command.fail("down")
        assert (error["code"], error["message"]) == ("failed", "the daemon failed; its log has the cause")
        assert "ZeroDivisionError" in caplog.text
        assert await command.ask("version")


def broken(one: Estate, fail: Any) -> None:
    """Let one operation have a fault."""
    one.control._office = dataclasses.replace(one.control._office, shut_down=fail)


@bounded(LIMIT)
async def test_names_that_are_no_text_can_be_told(tmp_path: Path) -> None:
    async with estate(
        tmp_path, {"s": {"command": ["${ODD}"], "runtime": "bare"}}, environ={"ODD": "/odd\udcff"}
    ) as one:
        command = one.command()
        assert "/odd?" in (await command.fail("start", names=["s"]))["message"]
        (status,) = (await command.ask("status"))["servers"]
        assert "/odd?" in status["last_error"]
        stream = command.post("events")
        await command.reply(stream)
        assert "/odd?" in str(await command.events(stream, 2))


@bounded(LIMIT)
async def test_many_commands_at_once(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one, anyio.create_task_group() as tasks:

        async def call(number: int) -> None:
            command = one.command()
            result = await command.ask("call", name="s", tool="echo", arguments={"value": str(number)})
            assert content(result) == str(number)
            command.leave()

        for number in range(30):
            tasks.start_soon(call, number)


@bounded(LIMIT)
async def test_our_words_are_masked_and_those_of_a_server_are_not(tmp_path: Path) -> None:
    masker.learn("no-such-program-anywhere", "MY_TOKEN")
    masker.learn("said-by-the-server", "vault:other")
    async with estate(tmp_path, {"broken": BROKEN, "s": {}}) as one:
        command = one.command()
        assert "command not found: ***" in (await command.fail("start", names=["broken"]))["message"]
        status = json.dumps(await command.ask("status"))
        assert "***" in status
        assert "no-such-program" not in status
        result = await command.ask("call", name="s", tool="echo", arguments={"value": "said-by-the-server"})
        assert content(result) == "said-by-the-server"
