"""From ``smcp secret set`` to the variable of a sandboxed child, and to nobody else; then a rotation, with hosts on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import ROOT, Daemon, bare, daemon, fake
from tests.kit.fhost import Host, hello

VALUE, NEW, THIRD = "s3cret-before-5d1e7a", "s3cret-after-90f3c2", "s3cret-third-77aa01"
SMCP = (sys.executable, "-m", "supervisord_mcp")
SERVERS = ("vaulted", "filed", "plain", "bare")


async def smcp(d: Daemon, *words: str, stdin: str = "", expected: int = 0) -> str:
    """Type a command; return what it printed."""
    done = await asyncio.to_thread(
        subprocess.run, [*SMCP, *words], env=d.env, cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == expected, done
    assert VALUE not in done.stdout + done.stderr
    return done.stdout + done.stderr


async def variables(host: Host) -> dict[str, str]:
    """Return the environment of the child of a host."""
    found: dict[str, str] = (await host.call("env")).value["env"]
    return found


async def pids(d: Daemon) -> dict[str, int]:
    """Return the process of each server."""
    servers = (await d.status())["servers"]
    return {server["name"]: server["instances"][0]["pid"] for server in servers}


def configure(d: Daemon) -> None:
    grant: dict[str, Any] = {"credentials": {"TOKEN": "vault:github"}}
    copy = f'stat -c %a "$$TOKEN" > {d.work}/mode; cat "$$TOKEN" > {d.work}/copy; exec @CMD@'
    d.configure(
        fake("vaulted", entry=grant),
        fake("filed", entry={**grant, "deliver": "file"}, shell=copy),
        fake("plain"),
        bare("bare", entry={"credentials": {"TOKEN": "env:DAEMON_TOKEN"}}),
    )


def showing(*values: str) -> list[str]:
    """Return the processes whose arguments hold a value; everybody may read those."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            content = path.read_bytes()
        except OSError:
            continue
        found += [f"{path}: {content!r}" for value in values if value.encode() in content]
    return found


def holding(folder: Path, *values: str) -> list[str]:
    """Return the files below a folder that hold a value."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [str(path) for path in files if any(value.encode() in path.read_bytes() for value in values)]


@bounded(150)
async def test_a_secret_reaches_its_servers_and_nobody_else() -> None:
    async with daemon(start=False, env={"DAEMON_TOKEN": THIRD}) as d:
        configure(d)
        said = await smcp(d, "secret", "set", "github", stdin=f"{VALUE}\n")
        assert "Its key is in the file" in said
        await d.start()
        hosts = {name: await d.connected(name) for name in SERVERS}
        seen = {name: await variables(host) for name, host in hosts.items()}
        assert seen["vaulted"]["TOKEN"] == VALUE
        assert seen["bare"]["TOKEN"] == THIRD
        assert seen["filed"]["TOKEN"] == "/run/smcp/TOKEN"
        assert ((d.work / "copy").read_text(), (d.work / "mode").read_text()) == (VALUE, "600\n")
        (d.work / "copy").unlink()
        for name, found in seen.items():
            wanted = {"vaulted": {VALUE}, "bare": {THIRD}}.get(name, set())
            assert {value for value in (VALUE, THIRD) if value in found.values()} == wanted, name
        assert showing(VALUE, THIRD) == []
        # Journals and taps are the children's and the test's own words.
        assert holding(d.home / "state", VALUE, THIRD) + holding(d.home / "run", VALUE, THIRD) == []
        assert VALUE not in json.dumps(await d.status())
        before = await pids(d)
        listed = json.loads(await smcp(d, "secret", "list", "--json"))["secrets"]
        assert [row["secret"] for row in listed if row["last_use"]] == ["env:DAEMON_TOKEN", "vault:github"]
        assert "ok" in await smcp(d, "secret", "check")

        assert await smcp(d, "secret", "rotate", "github", stdin=NEW) == ""
        after = await pids(d)
        assert {name for name in SERVERS if after[name] != before[name]} == {"vaulted", "filed"}
        assert (await variables(hosts["vaulted"]))["TOKEN"] == NEW
        assert (d.work / "copy").read_text() == NEW
        assert (await variables(hosts["plain"])).get("TOKEN") is None
        assert probe.alive(before["plain"])


@bounded(90)
async def test_a_server_without_its_secret_does_not_start_and_says_why() -> None:
    async with daemon(fake("s", entry={"credentials": {"TOKEN": "vault:github"}})) as d:
        error = (await d.host("s").request("initialize", hello("2025-11-25"))).error
        assert error is not None
        wanted = "server 's' was not given TOKEN from vault:github: the vault has no secret 'github'"
        assert wanted in error["message"]
        assert "smcp secret set github" in error["message"]
        (server,) = (await d.status())["servers"]
        assert server["state"] == "FATAL"
        assert wanted in server["last_error"]
        # Stored under the same name, it is what the server lacked.
        await smcp(d, "secret", "set", "github", stdin=VALUE)
        assert (await variables(await d.connected("s")))["TOKEN"] == VALUE
