"""Real hosts are adopted, use the one process that smcp runs for them, and get their files back."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contrib.hosts import program
from supervisord_mcp.hosts.base import Surroundings
from supervisord_mcp.hosts.catalogue import HOSTS as KNOWN
from supervisord_mcp.hosts.files import read_content
from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import ROOT, Daemon, daemon
from tests.kit.required import need

pytestmark = [pytest.mark.hosts, pytest.mark.bwrap, pytest.mark.slow]

SMCP = (sys.executable, "-m", "supervisord_mcp")
COMMAND = [str(Path(sys.executable).parent / "mcp-server-time"), "--local-timezone", "UTC"]
#: Seconds for one host to start, to connect and to end.
PATIENCE = 90.0
#: None of them is to call home.
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
}


@dataclass(frozen=True, slots=True)
class Real:
    """A host: its name for smcp, its file below HOME as it is before, and how it tells that it reached its server."""

    key: str
    file: str
    text: str
    connects: Callable[[Daemon, Path], Awaitable[bool]]


async def claude(d: Daemon, project: Path) -> bool:
    return "time:" in (said := await run(d, project, "claude", "mcp", "list")) and "Connected" in said


async def gemini(d: Daemon, project: Path) -> bool:
    return "✓ time" in await run(d, project, "gemini", "mcp", "list")


async def opencode(d: Daemon, project: Path) -> bool:
    return "✓ time" in await run(d, project, "opencode", "mcp", "list")


async def codex(d: Daemon, project: Path) -> bool:
    """Its ``mcp list`` only shows what is configured; what an editor asks it connects."""
    assert "time" in await run(d, project, "codex", "mcp", "list")
    requests = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "test", "title": "test", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "mcpServerStatus/list", "params": {}},
    )
    async with asyncio.timeout(PATIENCE):
        process = await asyncio.create_subprocess_exec(
            *(program("codex"), "app-server"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment(d),
            cwd=project,
            limit=1 << 22,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(json.dumps(request).encode() + b"\n" for request in requests))
        found: dict[str, Any] = {}
        while found.get("id") != 2:
            found = json.loads(await process.stdout.readline())
        process.stdin.close()
        await process.wait()
    (server,) = found["result"]["data"]
    return server["name"] == "time" and "get_current_time" in server["tools"]


HOSTS = (
    Real(
        "claude-code",
        ".claude.json",
        json.dumps({"mcpServers": {"time": {"type": "stdio", "command": COMMAND[0], "args": COMMAND[1:]}}}),
        claude,
    ),
    Real(
        "codex",
        ".codex/config.toml",
        f"# mine\n\n[mcp_servers.time]  # the clock\ncommand = '{COMMAND[0]}'\nargs = {json.dumps(COMMAND[1:])}\n",
        codex,
    ),
    Real(
        "gemini",
        ".gemini/settings.json",
        f'{{\n    // mine\n    "mcpServers": {{ "time": {{"command": "{COMMAND[0]}",'
        f' "args": {json.dumps(COMMAND[1:])}}} }}\n}}',
        gemini,
    ),
    Real(
        "opencode",
        ".config/opencode/opencode.json",
        '{\r\n\t"$schema": "https://opencode.ai/config.json", // mine\r\n\t"mcp": {"time": {"type": "local",'
        f' "command": {json.dumps(COMMAND)},}},}},\r\n}}\r\n',
        opencode,
    ),
)


def environment(d: Daemon) -> dict[str, str]:
    return {**d.env, **QUIET, "NO_COLOR": "1"}


async def run(d: Daemon, directory: Path, name: str, *words: str) -> str:
    """Run a host and return what it says."""
    done = await asyncio.to_thread(
        subprocess.run,
        [str(program(name)), *words],
        env=environment(d),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return f"{done.stdout.decode()}\n{done.stderr.decode()}"


async def smcp(d: Daemon, *words: str) -> str:
    """Run a command that must succeed and return its output."""
    done = await asyncio.to_thread(
        subprocess.run, [*SMCP, *words], env=d.env, cwd=ROOT, capture_output=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, (words, done.stdout.decode(), done.stderr.decode())
    return done.stdout.decode()


async def process(d: Daemon) -> tuple[int, int]:
    """Return pid and generation of the only process of the only server, which everybody shares."""
    (server,) = json.loads(await smcp(d, "status", "--json"))["servers"]
    assert (server["name"], server["scope"]) == ("time", "global")
    (instance,) = server["instances"]
    return instance["pid"], instance["generation"]


def installed(d: Daemon) -> tuple[Path, Mapping[str, Path]]:
    """Write the files of all hosts; return the project in which they are run, and the files by host."""
    files = {}
    for host in HOSTS:
        file = files[host.key] = d.user / host.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(host.text.encode())
    project = d.user / "site"
    (project / ".git").mkdir(parents=True)
    # Gemini CLI starts servers only in folders that its owner trusts.
    (d.user / ".gemini" / "trustedFolders.json").write_text(json.dumps({str(project): "TRUST_FOLDER"}))
    return project, files


@bounded(400)
async def test_real_hosts_share_one_process_and_get_their_files_back() -> None:
    need(all(os.access(program(name), os.X_OK) for name in ("claude", "codex", "gemini", "opencode")), "real hosts")
    async with daemon(start=False) as d:
        project, files = installed(d)
        # Claude Code writes its file anew when it runs for the first time.
        assert await claude(d, project)
        before = {key: file.read_bytes() for key, file in files.items()}

        said = await smcp(d, "adopt", "--yes")
        assert "time works: 2 tools" in said
        assert all(f"adopted {file}" in said for file in files.values())
        assert all(file.read_bytes() != before[key] for key, file in files.items())
        started = await process(d)
        shown = json.loads(await smcp(d, "hosts", "--json"))
        ways = {one["host"]: one["files"][0]["servers"][0]["way"] for one in shown["hosts"]}
        assert ways == dict.fromkeys(files, "through")
        assert (shown["duplicates"], shown["drift"]) == ([], [])

        connected = await asyncio.gather(*(host.connects(d, project) for host in HOSTS))
        assert connected == [True] * len(HOSTS), dict(zip(files, connected, strict=True))
        assert await process(d) == started
        events = [json.loads(line) for line in (await smcp(d, "events", "--json")).splitlines()]
        assert sum(event["kind"] == "session-opened" for event in events) >= len(HOSTS)

        assert (await smcp(d, "release", "--yes")).count("every byte becomes what it was") == len(HOSTS)
        assert {key: file.read_bytes() for key, file in files.items()} == before
        await smcp(d, "down")
        await probe.nothing_left(d.marks)


#: How a host adds a server itself, in the file that was adopted.
ADDS = {
    "claude-code": ("claude", "mcp", "add", "--scope", "user", "other", "--", "other-mcp", "--flag"),
    "codex": ("codex", "mcp", "add", "other", "--", "other-mcp", "--flag"),
    "gemini": ("gemini", "mcp", "add", "--scope", "user", "other", "other-mcp", "word"),
}


def servers(key: str, file: Path) -> dict[str, tuple[str, list[str]]]:
    """Return the commands of the servers in the file of a host."""
    found = read_content(KNOWN[key].files(Surroundings(Path("/nowhere")))[0], file.read_bytes())
    assert found.problems == ()
    return {entry.name: (entry.words[0], list(entry.words[1:])) for entry in found.entries}


@bounded(300)
async def test_what_a_real_host_writes_itself_stays_when_it_gets_its_entry_back() -> None:
    need(all(os.access(program(name), os.X_OK) for name in ("claude", "codex", "gemini", "opencode")), "real hosts")
    async with daemon(start=False) as d:
        project, files = installed(d)
        await smcp(d, "adopt", "--yes", "--untried")
        for key, words in ADDS.items():
            await run(d, project, *words)
            (ours, theirs) = servers(key, files[key]).items()
            assert (ours[0], ours[1][1][-1]) == ("time", "time")
            assert theirs[1][0] == "other-mcp"
        drift = json.loads(await smcp(d, "hosts", "--json"))["drift"]
        assert [(one["host"], one["name"], one["change"]) for one in drift] == [(key, "other", "new") for key in ADDS]

        said = await smcp(d, "release", "--yes")
        assert said.count("was changed since; only the entries are put back") == len(ADDS)
        assert said.count("every byte becomes what it was") == 1
        for key in ADDS:
            found = servers(key, files[key])
            assert found["time"] == (COMMAND[0], COMMAND[1:])
            assert found["other"][0] == "other-mcp"
        assert json.loads(await smcp(d, "hosts", "--json"))["drift"] == []
