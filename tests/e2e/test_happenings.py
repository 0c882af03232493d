"""What happens, as a program of a person hears it: README's own example, and the logs, at a daemon that really runs."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from supervisord_mcp.protocol.kinds import KINDS
from tests.e2e.test_commands import Person
from tests.kit.bounded import bounded
from tests.kit.daemon import ROOT, Daemon, bare, daemon

(EXAMPLE,) = [
    block
    for block in re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    if '"op": "events"' in block
]


class Heard:
    """What the program prints."""

    def __init__(self, output: asyncio.StreamReader) -> None:
        self._output = output
        self.events: list[tuple[str, str, dict[str, Any]]] = []

    async def until(self, kind: str, **data: object) -> dict[str, Any]:
        """Return the data of the next event of a kind that has these parts."""
        while True:
            line = (await self._output.readline()).decode()
            assert line, f"the program ended before {kind}: {self.events}"
            name, server, text = line.split(" ", 2)
            found = json.loads(text)
            self.events.append((name, server, found))
            if name == kind and found.items() >= data.items():
                return dict(found)


@asynccontextmanager
async def listening(d: Daemon) -> AsyncIterator[Heard]:
    """Run the program of README."""
    (d.home / "bin").mkdir()
    smcp = d.home / "bin" / "smcp"
    smcp.write_text(f'#!/bin/sh\nexec {sys.executable} -m supervisord_mcp "$@"\n')
    smcp.chmod(0o755)
    environ = {**d.env, "PATH": f"{smcp.parent}:{d.env['PATH']}", "PYTHONPATH": str(ROOT)}
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", EXAMPLE, env=environ, cwd=d.user, stdout=subprocess.PIPE, limit=1 << 20
    )
    assert program.stdout is not None
    try:
        yield Heard(program.stdout)
    finally:
        with suppress(ProcessLookupError):  # it ends with the daemon
            program.kill()
        await program.communicate()


@bounded(90)
async def test_a_program_hears_what_happens() -> None:
    secret = {"TOKEN": "env:E2E_TOKEN"}
    async with (
        daemon(bare("s"), bare("t", entry={"credentials": secret}), env={"E2E_TOKEN": "t0ken-of-the-test"}) as d,
        listening(d) as heard,
    ):
        person = Person(d)
        await heard.until("daemon-started", pid=await d.pid())
        host = await d.connected("s", name="editor")
        opened = await heard.until("session-opened", resumed=False)
        session = opened["session"]
        housed = await heard.until("session-housed", session=session)
        greeted = await heard.until("session-greeted", session=session)
        assert (greeted["host"], greeted["revision"]) == ("editor", "2025-11-25")
        await heard.until("state", **{"from": "STOPPED", "to": "STARTING", "instance": housed["instance"]})
        await heard.until("state", to="RUNNING", cause="")
        await host.call("echo")
        await d.control("start", names=["t"])
        given = await heard.until("credentials-given")
        assert given["secrets"] == ["TOKEN from env:E2E_TOKEN"]
        await d.control("secret-changed", secrets=["env:E2E_TOKEN"])
        await heard.until("secrets-changed", restarted=["t"])
        host.post_call("crash", code=3)
        crashed = await heard.until("state", to="BACKOFF")
        assert "3" in crashed["cause"]
        assert crashed["why"] == "exited"
        d.configure(bare("s"), bare("t", entry={"credentials": {"TOKEN": "env:E2E_NOWHERE"}}))
        await heard.until("config-reloaded", changed=["t"])
        await person.run("start t", expected=1)
        assert "E2E_NOWHERE" in (await heard.until("credentials-refused"))["cause"]
        d.write_config("[servers.s]\n")
        await heard.until("config-faulty")
        project = d.home / "site"
        project.mkdir()
        file = project / ".mcp.json"
        file.write_text('{"mcpServers": {"here": {"command": "true"}}}')
        await person.run("trust --yes", str(file))
        await heard.until("trust-changed", files=[str(file)], trusted=True)
        await person.run("trust --revoke", str(file))
        await heard.until("trust-changed", trusted=False)
        refused = d.host("nobody")
        assert (await heard.until("session-refused"))["code"] == "unknown-server"
        await refused.aclose()
        await host.aclose()
        await heard.until("session-closed", session=session)
        await person.run("down")
        await heard.until("daemon-ending", cause="smcp down")
    assert heard.events
    for kind, _, data in heard.events:
        assert data.keys() == KINDS[kind].fields.keys(), kind


@bounded(60)
async def test_the_log_of_a_server_has_everything_about_it() -> None:
    async with daemon(bare("s"), bare("own", entry={"scope": "session"})) as d:
        person = Person(d)
        host = await d.connected("s", name="editor")
        await host.request("logging/setLevel", {"level": "debug"})
        await host.call("log", level="warning", data="the disk is slow")
        await host.call("stderr", bytes=200)
        found = [json.loads(line) for line in (await person.run("logs s --json")).out.splitlines()]
        assert {one["source"] for one in found} == {"smcp", "stderr", "message"}
        assert [one["time"] for one in found] == sorted(one["time"] for one in found)
        (message,) = [one for one in found if one["source"] == "message"]
        assert "the disk is slow" in message["text"]
        session = message["session"]
        assert session > 0
        own = [json.loads(line) for line in (await person.run(f"logs s --session {session} --json")).out.splitlines()]
        assert {one["source"] for one in own} == {"smcp", "message"}
        assert any("editor" in one["text"] for one in own)
        alone = await d.connected("own")
        await alone.call("stderr", bytes=100)
        lines = (await person.run("logs own --grep 00000000e")).out.splitlines()
        assert lines
        assert all(re.search(r" stderr\[session-\d+\] ", line) for line in lines)
        follower = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "supervisord_mcp", "logs", "s", "-f", "-n", "0"),
            env=d.env,
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        assert follower.stdout is not None
        while (await d.control("logs", name="s", lines=1)) is not None:
            pass
        told = asyncio.create_task(follower.stdout.readline())
        while not told.done():
            await host.call("stderr", bytes=100)
            await asyncio.sleep(0.05)
        assert b" stderr 0000" in await told
        follower.kill()
        await follower.communicate()


@bounded(60)
async def test_calls_are_recorded_from_the_moment_that_it_is_wanted() -> None:
    async with daemon(bare("s")) as d:
        person = Person(d)
        host = await d.connected("s", name="editor")
        await host.call("echo", value="before")
        text = d.config.read_text()
        d.write_config(f'{text}\n[audit]\nenabled = true\narguments = "masked"\n')
        await d.control("reload")
        await host.call("echo", value="hello")
        await person.run('call s echo {"value":"there"}'.replace('"', '\\"'))
        d.write_config(text)
        await d.control("reload")
        await host.call("echo", value="after")
        while len(lines := (await person.run("audit --json --server s")).out.splitlines()) < 2:
            await asyncio.sleep(0.05)
        first, second = map(json.loads, lines)
        assert (first["host"], first["tool"], first["arguments"]) == ("editor", "echo", {"value": "hello"})
        assert (second["host"], second["arguments"], second["outcome"]) == ("smcp", {"value": "there"}, "ok")
        assert first["pid"] != second["pid"]
        assert first["duration"] > 0
        assert "echo" in (await person.run("audit --tool echo -n 1")).out


@bounded(60)
async def test_a_full_disk_is_told_and_felt_by_no_host() -> None:
    async with daemon(bare("s"), start=False) as d:
        (d.home / "state").mkdir()
        (d.home / "state" / "audit").write_text("in the way")
        d.write_config(f"{d.config.read_text()}\n[audit]\nenabled = true\n")
        await d.start()
        person = Person(d)
        host = await d.connected("s")
        while "audit: " not in (await person.run("status")).out:
            assert (await host.call("echo", value="fine")).text == "fine"
            await asyncio.sleep(0.05)
        events = [json.loads(line) for line in (await person.run("events --json")).out.splitlines()]
        assert sum(event["kind"] == "logging" for event in events) == 1
        assert "audit" in json.dumps(json.loads((await person.run("doctor --json")).out)["findings"])


def test_the_example_needs_nothing_but_the_standard_library() -> None:
    assert set(re.findall(r"^import (.*)$", EXAMPLE, re.MULTILINE)) == {"json, os, socket, subprocess"}
