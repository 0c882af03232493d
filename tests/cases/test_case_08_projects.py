"""Case 8: context of one project in another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.kit.bounded import bounded
from tests.kit.daemon import Daemon, bare, daemon, fake
from tests.kit.fhost import Host, hello

PROJECT = {"env": {"PROJECT": "${project}"}}


async def four(d: Daemon, server: str = "s") -> tuple[list[str], list[Host]]:
    """Return two projects and four hosts, two in each."""
    folders = []
    for name in ("one", "two"):
        folder = d.user / name
        folder.mkdir(exist_ok=True)
        (folder / ".git").mkdir(exist_ok=True)
        (folder / f"file-{name}").touch()
        folders.append(str(folder))
    pairs = [(folder, folder) for folder in folders for _ in range(2)]
    hosts = [await d.connected(server, "--project", folder, cwd=cwd) for folder, cwd in pairs]
    return folders, hosts


async def where(host: Host, **more: Any) -> dict[str, Any]:
    """Return where the host's server thinks it is."""
    found: dict[str, Any] = (await host.call("where", **more)).value
    return found


@pytest.mark.parametrize(
    ("entry", "processes", "scope"),
    [
        ({}, 1, "global"),
        (PROJECT, 2, "project"),
        ({"scope": "project"}, 2, "project"),
        ({"scope": "global"}, 1, "global"),
        ({"scope": "session"}, 4, "session"),
    ],
)
@bounded(60)
async def test_who_shares_a_process(entry: dict[str, Any], processes: int, scope: str) -> None:
    async with daemon(bare("s", entry=entry)) as d:
        folders, hosts = await four(d)
        seen = await asyncio.gather(*map(where, hosts))
        runs = [found["run"] for found in seen]
        assert len(set(runs)) == processes
        if processes == 2:
            assert (runs[0], runs[2]) == (runs[1], runs[3])
        if entry is PROJECT:
            assert [found["project"] for found in seen] == [folders[0]] * 2 + [folders[1]] * 2
        status = await d.server("s")
        assert status["scope"] == scope
        assert sorted(one["sessions"] for one in status["instances"]) == [4 // processes] * processes
        if processes == 2:
            assert sorted(one["project"] for one in status["instances"]) == folders


@bounded(60)
async def test_a_relative_cwd_is_one_of_the_project() -> None:
    async with daemon(bare("s", entry={"cwd": "."})) as d:
        folders, hosts = await four(d)
        seen = [await where(host) for host in hosts]
        assert [found["cwd"] for found in seen] == [folders[0]] * 2 + [folders[1]] * 2


@pytest.mark.bwrap
@bounded(60)
async def test_mounts_are_those_of_one_project() -> None:
    async with daemon(fake("s", entry={"mounts": [{"path": "${project}", "access": "rw"}]})) as d:
        (one, two), hosts = await four(d)
        files = [f"{one}/file-one", f"{two}/file-two"]
        seen = [(await where(host, look=files))["seen"] for host in hosts]
        assert seen[0] == seen[1] == {files[0]: True, files[1]: False}
        assert seen[2] == seen[3] == {files[0]: False, files[1]: True}


@bounded(60)
async def test_two_values_of_a_variable_are_two_instances() -> None:
    async with daemon(bare("s", entry={"env": {"PROJECT": "${WHOSE}"}})) as d:
        hosts = [await d.connected("s", env={"WHOSE": value}) for value in ("a", "b", "a")]
        seen = [await where(host) for host in hosts]
        assert [found["project"] for found in seen] == ["a", "b", "a"]
        assert seen[0]["run"] == seen[2]["run"] != seen[1]["run"]


@pytest.mark.parametrize("entry", [PROJECT, {"cwd": "."}, {"mounts": [{"path": "${project}"}]}])
@bounded(60)
async def test_what_uses_the_project_cannot_be_global(entry: dict[str, Any]) -> None:
    async with daemon(bare("s")) as d:
        host = await d.connected("s")
        run = (await where(host))["run"]
        d.configure(bare("s", entry={**entry, "scope": "global"}))
        try:
            await d.control("reload")
        except AssertionError as error:
            assert "global" in str(error)  # noqa: PT017 - an error and a line in the status are both an answer
        problems = (await d.status())["daemon"]["problems"]
        assert any("global" in problem and "s" in problem for problem in problems)
        assert (await where(host))["run"] == run, "the running configuration stays"


@bounded(60)
async def test_no_project_is_refused_with_the_remedy() -> None:
    async with daemon(bare("s", entry=PROJECT)) as d:
        host = d.host("s", cwd=Path("/"))
        answer = await host.request("initialize", hello())
        if answer.error is None:
            host.notify("notifications/initialized")
            answer = await host.call("where")
        assert answer.error is not None
        assert "--project" in answer.error["message"]
        assert d.journal("s").runs() == []


@bounded(60)
async def test_the_roots_of_a_host_are_its_project() -> None:
    async with daemon(bare("s", entry=PROJECT)) as d:
        folder = d.user / "rooted"
        folder.mkdir()
        host = d.host("s", cwd=Path("/"))
        host.replies["roots/list"] = {"roots": [{"uri": f"file://{folder}"}]}
        await host.handshake(capabilities={"roots": {}}, timeout=20)
        assert (await where(host))["project"] == str(folder)
