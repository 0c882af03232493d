"""Case 37 for what was adopted: a daemon that watches the files of hosts names what changed in them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

from tests.kit.bounded import bounded
from tests.kit.daemon import KIT, PYTHON, ROOT, Daemon, daemon

FAKE = {"command": PYTHON, "args": ["-I", "-S", str(KIT / "fserver.py"), "{}"]}


async def smcp(d: Daemon, *words: str) -> str:
    command = [sys.executable, "-m", "supervisord_mcp", *words]
    done = await asyncio.to_thread(
        subprocess.run, command, env=d.env, cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done
    return done.stdout.decode()


async def remarks(d: Daemon, count: int) -> list[str]:
    """Return what the daemon says of hosts, once it is so much."""
    while len(found := (await d.status())["daemon"]["hosts"]) != count:
        await asyncio.sleep(0.05)
    return list(found)


@bounded(90)
async def test_a_host_that_changes_an_adopted_file() -> None:
    async with daemon(start=False) as d:
        d.config.write_text("[daemon]\nwatch_hosts = true\n")
        file = d.user / ".cursor" / "mcp.json"
        file.parent.mkdir()
        file.write_text(json.dumps({"mcpServers": {"a": FAKE}}))
        await smcp(d, "adopt", "--yes", "--network", "none")
        assert await remarks(d, 0) == []

        data: dict[str, Any] = json.loads(file.read_text())
        data["mcpServers"] |= {"a": FAKE, "b": {**FAKE, "env": {"B": "1"}}}
        other = file.with_suffix(".new")
        other.write_text(json.dumps(data))
        other.replace(file)
        assert await remarks(d, 2) == [
            f"a in {file} runs beside smcp again: smcp adopt cursor",
            f"b in {file} is new and runs beside smcp: smcp adopt cursor",
        ]
        assert "hosts: a in" in await smcp(d, "status")
        # It only says so: without a person who confirms it nothing is taken over, and here none can be asked.
        asked = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "supervisord_mcp", "adopt"],
            env=d.env,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert asked.returncode == 2
        assert b"nobody can be asked here; nothing was changed" in asked.stderr
        assert json.loads(file.read_text()) == data
        assert [one["name"] for one in (await d.status())["servers"]] == ["a"]
        assert len(await remarks(d, 2)) == 2
        assert (await smcp(d, "events", "--json")).count('"host-changed"') == 2

        await smcp(d, "adopt", "--yes", "--network", "none")
        assert await remarks(d, 0) == []
        d.config.write_text("")
        file.write_text(json.dumps(data))
        await smcp(d, "reload")
        assert await remarks(d, 0) == []
