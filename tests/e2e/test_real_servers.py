"""Real servers from PyPI and npm do their real work for hosts of the official SDK, in the sandbox, shared."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from tests.e2e.sdk import sdk_host, text_of_call
from tests.e2e.test_confinement import website
from tests.kit.bounded import bounded
from tests.kit.daemon import daemon

pytestmark = [pytest.mark.bwrap, pytest.mark.slow]
HOSTS = 5


def servers(**entries: dict[str, Any]) -> str:
    """Return a configuration with these servers."""
    return tomli_w.dumps({"servers": entries})


def make_repository(path: Path) -> None:
    """Make a repository whose one commit has the name of the directory as its message."""
    path.mkdir()
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", path.name]):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, *words], cwd=path, check=True)


@bounded(120)
async def test_time_is_shared_by_hosts_of_the_sdk() -> None:
    async with daemon(start=False) as d:
        d.write_config(servers(time={"command": ["mcp-server-time"]}))
        await d.start()

        async def host(zone: str) -> str:
            async with sdk_host(d, "time") as session:
                assert {tool.name for tool in (await session.list_tools()).tools} == {
                    "get_current_time",
                    "convert_time",
                }
                return str(json.loads(await text_of_call(session, "get_current_time", timezone=zone))["timezone"])

        zones = ["UTC", "Asia/Tokyo", "Europe/Oslo", "America/Lima", "Africa/Cairo"]
        assert await asyncio.gather(*map(host, zones)) == zones
        status = await d.server("time")
        assert [(instance["restarts"], instance["era"]) for instance in status["instances"]] == [(0, "legacy")]
        assert status["isolation"] == "sandbox"


@bounded(120)
async def test_time_works_with_landlock_alone_and_status_says_what_that_does_not_cover() -> None:
    async with daemon(start=False) as d:
        d.write_config(servers(time={"command": ["mcp-server-time"], "runtime": "landlock"}))
        await d.start()
        async with sdk_host(d, "time") as session:
            assert "UTC" in await text_of_call(session, "get_current_time", timezone="UTC")
        status = await d.server("time")
        assert status["isolation"] == "reduced"
        (instance,) = status["instances"]
        assert any("/dev/shm" in line for line in instance["uncovered"])


@bounded(120)
async def test_git_reads_the_repository_that_is_mounted_and_no_other(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    make_repository(inside)
    make_repository(outside)
    async with daemon(start=False) as d:
        entry = {"command": ["mcp-server-git"], "mounts": [{"path": str(inside)}]}
        d.write_config(servers(git=entry))
        await d.start()
        async with sdk_host(d, "git") as session:
            assert "inside" in await text_of_call(session, "git_log", repo_path=str(inside))
            refused = await session.call_tool("git_log", {"repo_path": str(outside)})
            assert "outside" not in refused.model_dump_json().replace(str(outside), "")


@pytest.mark.npm
@bounded(400)
async def test_npx_installs_once_and_runs_without_network(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("seen from the sandbox")
    async with daemon(start=False) as d:
        command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", str(tmp_path)]
        d.write_config(servers(files={"command": command, "mounts": [{"path": str(tmp_path), "access": "rw"}]}))
        await d.start()

        async def host(name: str) -> str:
            async with sdk_host(d, "files") as session:
                await session.call_tool("write_file", {"path": str(tmp_path / name), "content": name})
                return await text_of_call(session, "read_text_file", path=str(tmp_path / "note.txt"))

        names = [f"host{number}" for number in range(HOSTS)]
        assert await asyncio.gather(*map(host, names)) == ["seen from the sandbox"] * HOSTS
        assert [(tmp_path / name).read_text() for name in names] == names
        first = (await d.instances("files"))[0]
        assert first["generation"] == 1
        await d.control("restart", names=["files"], timeout=60)
        assert await host("again") == "seen from the sandbox"


@pytest.mark.npm
@bounded(400)
async def test_everything_serves_tools_prompts_resources_and_progress() -> None:
    async with daemon(start=False) as d:
        d.write_config(servers(everything={"command": ["npx", "-y", "@modelcontextprotocol/server-everything"]}))
        await d.start()
        async with sdk_host(d, "everything") as a, sdk_host(d, "everything") as b:
            assert "a says" in await text_of_call(a, "echo", message="a says")
            assert "b says" in await text_of_call(b, "echo", message="b says")
            assert (await a.list_prompts()).prompts
            resources = (await b.list_resources()).resources
            assert (await b.read_resource(resources[0].uri)).contents
            seen: list[float] = []

            async def note(progress: float, total: float | None, message: str | None) -> None:
                seen.append(progress)

            arguments = {"duration": 1, "steps": 4}
            await a.call_tool("trigger-long-running-operation", arguments, progress_callback=note)
            assert seen == sorted(seen)
            assert len(seen) >= 3
        assert len(await d.instances("everything")) == 1


@pytest.mark.npm
@bounded(300)
async def test_memory_keeps_its_file_where_the_profile_lets_it_write(tmp_path: Path) -> None:
    place = tmp_path / "kept"
    place.mkdir()
    async with daemon(start=False) as d:
        entry: dict[str, Any] = {
            "command": ["npx", "-y", "@modelcontextprotocol/server-memory"],
            "profile": "node",
            "mounts": [{"path": str(place), "access": "rw"}],
            "env": {"MEMORY_FILE_PATH": str(place / "memory.json")},
        }
        d.write_config(servers(memory=entry))
        await d.start()
        entity = {"name": "smcp", "entityType": "program", "observations": ["shares servers"]}
        async with sdk_host(d, "memory") as one, sdk_host(d, "memory") as other:
            await one.call_tool("create_entities", {"entities": [entity]})
            assert "shares servers" in await text_of_call(other, "search_nodes", query="smcp")
    assert "shares servers" in (place / "memory.json").read_text()


@pytest.mark.npm
@bounded(300)
async def test_sequential_thinking_counts_thoughts_without_any_grant() -> None:
    async with daemon(start=False) as d:
        command = ["npx", "-y", "@modelcontextprotocol/server-sequential-thinking"]
        d.write_config(servers(thinking={"command": command, "profile": "node"}))
        await d.start()
        thought = {"thought": "first", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 2}
        async with sdk_host(d, "thinking") as session:
            assert json.loads(await text_of_call(session, "sequentialthinking", **thought))["thoughtHistoryLength"] == 1


@bounded(300)
async def test_fetch_reads_the_page_that_its_rules_name_and_no_other() -> None:
    with website() as port:
        async with daemon(start=False) as d:
            entry = {
                "command": ["uvx", "mcp-server-fetch", "--allow-private-ips", "--ignore-robots-txt"],
                "profile": "fetch",
                "network": {"allow": [f"host-loopback:{port}"]},
                # Where it finds Node it installs a package at its first page, which no rule lets it do.
                "env": {"PATH": "/none"},
            }
            d.write_config(servers(fetch=entry))
            await d.start()
            async with sdk_host(d, "fetch") as session:
                page = await session.call_tool("fetch", {"url": f"http://host-loopback:{port}/"})
                assert "the page" in str(page.content[0])
                refused = await session.call_tool("fetch", {"url": "http://evil.example/"})
                assert refused.is_error
            # The program that makes listeners is kept for a next sandbox; the end of the daemon is its end too.
            assert await d.terminate() == 0
