"""Case 40 for what was adopted: entries of hosts with variables, started by hosts with any environment or none."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from typing import Any

from tests.kit.bounded import bounded
from tests.kit.daemon import KIT, PYTHON, ROOT, Daemon, daemon
from tests.kit.fhost import Host

FAKE = [PYTHON, "-I", "-S", str(KIT / "fserver.py"), "{}"]


async def adopted(d: Daemon, **servers: Mapping[str, Any]) -> dict[str, Any]:
    """Adopt servers of Cursor and return the entries that it has then."""
    file = d.user / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"mcpServers": servers}))
    words = [sys.executable, "-m", "supervisord_mcp", "adopt", "--yes", "--untried", "--network", "none"]
    done = await asyncio.to_thread(
        subprocess.run, words, env=d.env, cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done
    entries: dict[str, Any] = json.loads(file.read_text())["mcpServers"]
    return entries


async def start(d: Daemon, entry: Mapping[str, Any], env: Mapping[str, str], workspace: str = "") -> Host:
    """Start an entry as a host does: with its own variables, ``${env:NAME}`` replaced, over those of the host.

    In its words ``${workspaceFolder}`` is replaced by the directory that the host has open.
    """
    own = {}
    for name, text in entry.get("env", {}).items():
        own[name] = env.get(text[6:-1], "") if text.startswith("${env:") else text
    words = [entry["command"], *entry["args"]]
    host = Host([word.replace("${workspaceFolder}", workspace) for word in words])
    d.hosts.append(host)
    return host.start(env={**env, **own}, cwd="/")


async def environment(host: Host) -> dict[str, str]:
    await host.handshake("2025-11-25", None, id='"hello"', timeout=20)
    found: dict[str, str] = (await host.call("env")).value["env"]
    return found


@bounded(90)
async def test_a_desktop_that_passes_no_environment_at_all() -> None:
    async with daemon(start=False) as d:
        entries = await adopted(d, s={"command": FAKE[0], "args": FAKE[1:], "env": {"EMPTY": "", "TEXT": "$5 ~ {x}"}})
        assert entries["s"]["env"] == {"SMCP_HOME": str(d.home)}
        # HOME, and the mark by which the test finds what it has to end; no PATH.
        bare = {name: d.env[name] for name in d.env if name not in ("PATH", "LANG", "SMCP_HOME")}
        found = await environment(await start(d, entries["s"], bare))
        assert (found["EMPTY"], found["TEXT"]) == ("", "$5 ~ {x}")
        assert {"PATH", "HOME", "USER", "LANG", "TMPDIR"} <= found.keys()


@bounded(90)
async def test_two_hosts_with_different_values_have_two_instances_and_none_is_an_error() -> None:
    async with daemon(start=False) as d:
        env = {"T": "${env:LEVEL_OF_HOST}"}
        entries = await adopted(d, s={"command": FAKE[0], "args": [*FAKE[1:], "${env:WORD}"], "env": env})
        assert entries["s"]["env"]["T"] == "${env:LEVEL_OF_HOST}"
        values = []
        for level in ("one", "two", "one"):
            host = await start(d, entries["s"], {**d.env, "WORD": "w", "LEVEL_OF_HOST": level})
            values.append((await environment(host))["T"])
        assert values == ["one", "two", "one"]
        assert len((await d.server("s"))["instances"]) == 2
        # Neither a literal text nor an empty one: the error names entry and variable.
        host = await start(d, entries["s"], {**d.env, "LEVEL_OF_HOST": "one"})
        assert await host.exit_status() != 0
        told = host.stderr.decode()
        assert "servers.s.command[5]" in told
        assert "${WORD} is not set" in told


@bounded(90)
async def test_an_entry_that_names_the_workspace_serves_the_one_that_its_host_has_open() -> None:
    async with daemon(start=False) as d:
        words = [*FAKE[1:], "${workspaceFolder}/notes"]
        entries = await adopted(d, s={"command": FAKE[0], "args": words, "env": {"PROJECT": "${workspaceFolder}"}})
        assert entries["s"]["args"][-3:] == ["s", "--project", "${workspaceFolder}"]
        assert tomllib.loads(d.config.read_text())["servers"]["s"]["scope"] == "project"
        folders, seen = [], []
        for name in ("one", "two", "one"):
            folder = d.user / name
            folder.mkdir(exist_ok=True)
            (folder / "notes").touch()
            folders.append(str(folder))
            # Neither the directory in which the host starts it nor a variable says what it has open.
            host = await start(d, entries["s"], d.env, str(folder))
            await host.handshake("2025-11-25", None, id='"hello"', timeout=20)
            seen.append((await host.call("where", look=[str(d.user / n / "notes") for n in ("one", "two")])).value)
        assert [found["project"] for found in seen] == folders
        assert [list(found["seen"].values()) for found in seen] == [[True, False], [False, True], [True, False]]
        assert seen[0]["run"] == seen[2]["run"] != seen[1]["run"]
        server = await d.server("s")
        assert server["scope"] == "project"
        assert sorted(one["project"] for one in server["instances"]) == sorted(set(folders))
