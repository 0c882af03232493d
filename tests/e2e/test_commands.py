"""A day with the commands: every one of them, as a person types it, against a daemon that really runs."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from typing import Any

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import KIT, PYTHON, ROOT, Daemon, daemon
from tests.kit.fhost import Host

SMCP = (sys.executable, "-m", "supervisord_mcp")
FAKE = (PYTHON, "-I", "-S", str(KIT / "fserver.py"))


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output, parsed."""
        return json.loads(self.out)


class Person:
    """Types commands."""

    def __init__(self, d: Daemon) -> None:
        self._d = d

    async def run(self, line: str, *words: str, expected: int = 0) -> Ran:
        """Run a command and look at its exit status."""
        command = [*SMCP, *shlex.split(line), *words]
        done = await asyncio.to_thread(
            subprocess.run, command, env=self._d.env, cwd=ROOT, capture_output=True, timeout=60, check=False
        )
        ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert ran.status == expected, (line, ran)
        return ran

    async def silent(self, line: str, *words: str) -> None:
        """Run a verb, which says nothing where it succeeds."""
        ran = await self.run(line, *words)
        assert (ran.out, ran.err) == ("", ""), line


@bounded(150)
async def test_a_day_with_the_commands() -> None:
    async with daemon(start=False) as d:
        person = Person(d)
        for line in ("status", "stop s", "reload", "down", "events"):
            said = (await person.run(line, expected=3)).err
            assert "no daemon" in said, line
        d.config.write_text("# mine\n")
        await person.run("up")
        await configure(d, person)
        await use(person)
        await stop_and_start(person)
        await person.silent("remove t")
        assert [server["name"] for server in (await person.run("list --json")).json["servers"]] == ["s"]
        assert d.config.read_text().startswith("# mine\n")
        # What was counted goes on with the next daemon.
        await person.run("down")
        await person.run("up")
        assert (await person.run("usage s --json")).json["servers"][0]["total"]["calls"] == 3
        await person.run("down")
        await person.run("status", expected=3)
        await probe.nothing_left(d.marks)


async def configure(d: Daemon, person: Person) -> None:
    """Add servers, look at the configuration, spoil it, and have that told."""
    await person.silent("add s --runtime bare --", *FAKE, "{}")
    await person.silent("add t --runtime bare --", *FAKE, "{}")
    assert "'s'" in (await person.run("add s --runtime bare --", *FAKE, expected=2)).err
    assert set(tomllib.loads(d.config.read_text())["servers"]) == {"s", "t"}
    assert "no faults" in (await person.run("config check")).out
    assert "servers" in tomllib.loads((await person.run("config show")).out)
    assert (await person.run("config schema")).json["$defs"]
    tomllib.loads((await person.run("config sample")).out)
    good = d.config.read_text()
    d.write_config(good.replace("command", "comand", 1))
    faults = (await person.run("config check", expected=2)).err
    assert "config.toml:" in faults
    assert "comand" in faults
    assert "command" in faults
    await person.run("reload", expected=2)
    assert (await person.run("status --json")).json["daemon"]["problems"]
    d.write_config(good)
    await person.run("reload")


async def use(person: Person) -> None:
    """Look at the servers, and call tools of one that is started by it."""
    version = (await person.run("version --json")).json
    status = (await person.run("status --json")).json
    assert status["daemon"]["pid"] == version["daemon"]["pid"]
    assert {"pid", "version", "uptime", "socket"} <= set(status["daemon"])
    assert {server["name"]: server["state"] for server in status["servers"]} == {"s": "STOPPED", "t": "STOPPED"}
    before = {server["name"]: server["catalogue"] for server in (await person.run("list --json")).json["servers"]}
    assert before == {"s": False, "t": False}
    assert (await person.run("call s echo", '{"value": "é"}')).out == "é\n"
    assert "Unknown tool" in (await person.run("call s nothing", expected=1)).err
    assert "echo" in (await person.run("tools s")).out
    catalogues = {server["name"]: server["catalogue"] for server in (await person.run("list --json")).json["servers"]}
    assert catalogues == {"s": True, "t": False}
    (server,) = (await person.run("status s --json")).json["servers"]
    (instance,) = server["instances"]
    assert (server["state"], instance["generation"], instance["sessions"]) == ("RUNNING", 1, 0)
    assert probe.alive(instance["pid"])
    assert "RUNNING" in (await person.run("status")).out
    assert "STARTING -> RUNNING" in (await person.run("logs s")).out
    await measured(person, instance["pid"])
    events = [json.loads(line) for line in (await person.run("events --json")).out.splitlines()]
    assert any(event["server"] == "s" for event in events)


async def measured(person: Person, pid: int) -> None:
    """Look at what the server costs and did."""
    (server,) = (await person.run("usage s --json --since 1h")).json["servers"]
    assert pid in {process["pid"] for process in server["figures"]["processes"]}
    assert {row["name"]: (row["calls"], row["errors"]) for row in server["tools"]} == {
        "echo": (1, 0),
        "nothing": (1, 1),
        "tools/list": (1, 0),
    }
    assert (server["starts"]["count"], server["starts"]["on_demand"]) == (1, 1)
    assert server["history"]
    for line in ("usage", "top --once", "status --usage"):
        assert "RUNNING" in (await person.run(line)).out
    calls = {one["name"]: one["total"]["calls"] for one in (await person.run("usage --json")).json["servers"]}
    assert calls == {"s": 3, "t": 0}


async def stop_and_start(person: Person) -> None:
    """Stop, start and restart, and have told what cannot be."""
    await person.silent("stop s")
    assert "is stopped" in (await person.run("call s echo {}", expected=5)).err
    await person.silent("start s")
    await person.silent("restart --all")
    states = {server["name"]: server["state"] for server in (await person.run("status --json")).json["servers"]}
    assert states == {"s": "RUNNING", "t": "RUNNING"}
    assert "known: s, t" in (await person.run("start nobody", expected=4)).err
    await person.run("call nobody echo {}", expected=4)
    await person.run("start", expected=2)
    await person.silent("add broken --runtime bare -- /no/such/program")
    assert "/no/such/program" in (await person.run("start broken", expected=6)).err
    await person.silent("remove broken")


@bounded(90)
async def test_two_hosts_that_wrap_a_command_share_it() -> None:
    async with daemon(start=False) as d:
        told = json.dumps({"journal": str(d.work / "w.journal")})
        command = [*SMCP, "wrap", "--runtime", "bare", "--name", "w", "--", *FAKE, told]
        hosts = [Host(command, name=name) for name in ("one", "two")]
        d.hosts += hosts
        for host in hosts:
            host.start(env=d.env, cwd=ROOT)
            await host.handshake(timeout=30)
            assert (await host.call("echo", value=host.name)).text == host.name
        assert len(d.journal("w").runs()) == 1
        (server,) = (await d.status())["servers"]
        assert (server["name"], server["sessions"]) == ("w", 2)
