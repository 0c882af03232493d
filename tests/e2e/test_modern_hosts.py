"""Hosts of 2026-07-28, built on the official SDK, at real servers of both eras, through the shim and the daemon."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from mcp import types
from mcp.client.context import ClientRequestContext
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged
from pydantic import FileUrl

from tests.e2e.sdk import modern_host, sdk_host, text_of_call
from tests.kit.bounded import bounded
from tests.kit.daemon import daemon, fake

pytestmark = [pytest.mark.bwrap, pytest.mark.slow]
MODERN = "2026-07-28"
SERVER = Path(__file__).with_name("sdk_server.py")
HOSTS = 8
EVERYTHING = {"command": ["npx", "-y", "@modelcontextprotocol/server-everything"], "scope": "session"}


def servers(**entries: dict[str, Any]) -> str:
    """Return a configuration with these servers."""
    return tomli_w.dumps({"servers": entries})


@bounded(120)
async def test_hosts_of_both_eras_share_a_server() -> None:
    async with daemon(start=False) as d:
        d.write_config(servers(time={"command": ["mcp-server-time"], "era": "legacy"}))
        await d.start()

        async def zone(host: Any, name: str) -> str:
            return str(json.loads(await text_of_call(host, "get_current_time", timezone=name))["timezone"])

        async with (
            modern_host(d, "time") as a,
            modern_host(d, "time", mode=MODERN) as b,
            sdk_host(d, "time") as c,
        ):
            assert a.protocol_version == b.protocol_version == MODERN
            assert a.server_info is not None
            assert {tool.name for tool in (await a.list_tools()).tools} == {"get_current_time", "convert_time"}
            names = ["UTC", "Asia/Tokyo", "Europe/Oslo"]
            assert await asyncio.gather(*map(zone, (a, b, c), names)) == names
            assert len(await d.instances("time")) == 1


@bounded(120)
async def test_a_modern_host_listens() -> None:
    async with daemon(fake("s")) as d, modern_host(d, "s") as a, modern_host(d, "s") as b:
        async with (
            a.listen(tools_list_changed=True, resource_subscriptions=["res://r1"]) as changes,
            a.listen(resource_subscriptions=["res://r1"]) as other,
        ):
            assert changes.honored.tools_list_changed
            assert changes.honored.resource_subscriptions == ["res://r1"]
            await b.call_tool("touch", {"uri": "res://r1"})
            assert await anext(changes) == ResourceUpdated(uri="res://r1")
            assert await anext(other) == ResourceUpdated(uri="res://r1")
            await b.call_tool("change_tools", {})
            assert await anext(changes) == ToolsListChanged()
        assert len(d.journal("s").requests("resources/subscribe")) == 1
        await d.journal("s").wait(lambda journal: journal.requests("resources/unsubscribe"))


@bounded(120)
async def test_a_modern_session_goes_on_after_the_daemon_was_killed() -> None:
    async with daemon(fake("s")) as d, modern_host(d, "s") as a:
        assert await text_of_call(a, "echo", value="before") == "before"
        before = len(d.journal("s").runs())
        await d.kill()
        assert await text_of_call(a, "echo", value="after") == "after"
        assert len(d.journal("s").runs()) == before + 1


@pytest.mark.npm
@bounded(400)
async def test_everything_asks_a_modern_host_back() -> None:
    asked: list[str] = []

    async def elicit(_: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def sample(_: ClientRequestContext, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        asked.append("sampling")
        block = types.TextContent(type="text", text="sampled by the host")
        return types.CreateMessageResult(role="assistant", content=block, model="m")

    async def roots(_: ClientRequestContext) -> types.ListRootsResult:
        asked.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///of-the-host"), name="root")])

    async with daemon(start=False) as d:
        d.write_config(servers(everything=EVERYTHING))
        await d.start()
        callbacks: dict[str, Any] = {
            "elicitation_callback": elicit,
            "sampling_callback": sample,
            "list_roots_callback": roots,
        }
        # A probe may not wait for as long as an installation takes, so that the era is not left to one.
        async with modern_host(d, "everything", mode=MODERN, **callbacks) as host:
            names = {tool.name for tool in (await host.list_tools()).tools}
            assert {"trigger-elicitation-request", "trigger-sampling-request"} <= names
            assert "Ada" in await _all_text(host, "trigger-elicitation-request", {})
            assert "sampled by the host" in await _all_text(
                host, "trigger-sampling-request", {"prompt": "p", "maxTokens": 10}
            )
            seen: list[float] = []

            async def note(progress: float, total: float | None, message: str | None) -> None:
                seen.append(progress)

            await host.call_tool("trigger-long-running-operation", {"duration": 1, "steps": 4}, progress_callback=note)
            assert seen == sorted(seen)
            assert len(seen) >= 3
            assert (await host.list_prompts()).prompts
            resource = (await host.list_resources()).resources[0]
            assert (await host.read_resource(resource.uri)).contents
        assert "sampling" in asked
        assert len(asked) >= 2


# At a server of their own era


class Person:
    """Who sits at a host: answers everything with the own name."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def elicit(self, _: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Fill in a form, or look at a page."""
        form = isinstance(params, types.ElicitRequestFormParams)
        return types.ElicitResult(action="accept", content={"name": self.name} if form else None)

    async def sample(self, _: ClientRequestContext, _params: Any) -> types.CreateMessageResult:
        """Be the model."""
        text = types.TextContent(type="text", text=f"I am {self.name}")
        return types.CreateMessageResult(role="assistant", content=text, model="m")

    async def roots(self, _: ClientRequestContext) -> types.ListRootsResult:
        """Tell the roots."""
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(f"file:///home/{self.name}"))])

    @property
    def callbacks(self) -> dict[str, Any]:
        """What the SDK's client is to call."""
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "list_roots_callback": self.roots,
        }


def everyday(era: str) -> str:
    """Return a configuration with the server of both eras in one of them."""
    return servers(everyday={"command": [sys.executable, str(SERVER)], "runtime": "bare", "era": era})


@bounded(120)
async def test_eight_hosts_share_a_modern_server_and_are_asked_their_own_questions() -> None:
    async with daemon(start=False) as d:
        d.write_config(everyday("modern"))
        await d.start()
        kinds = ["form", "page", "model", "roots"]

        async def one(name: str) -> None:
            # A probe may not wait for as long as a start takes, so that the era is not left to one.
            async with modern_host(d, "everyday", mode=MODERN, **Person(name).callbacks) as host:
                answers = json.loads(await text_of_call(host, "ask", kinds=kinds))
                assert answers["form"] == {"action": "accept", "content": {"name": name}}
                assert answers["page"]["action"] == "accept"
                assert answers["model"]["content"]["text"] == f"I am {name}"
                assert answers["roots"]["roots"][0]["uri"] == f"file:///home/{name}"
                seen: list[float] = []

                async def note(progress: float, total: float | None, message: str | None) -> None:
                    seen.append(progress)

                await host.call_tool("count", {"upto": 3}, progress_callback=note)
                assert seen == [1, 2, 3]

        await asyncio.gather(*(one(f"h{number}") for number in range(HOSTS)))
        (instance,) = (await d.server("everyday"))["instances"]
        assert (instance["era"], instance["generation"], instance["restarts"]) == ("modern", 1, 0)


@bounded(120)
async def test_listens_at_a_modern_server_outlive_its_restart() -> None:
    async with daemon(start=False) as d:
        d.write_config(everyday("modern"))
        await d.start()
        async with modern_host(d, "everyday", mode=MODERN) as a, modern_host(d, "everyday", mode=MODERN) as b:
            async with a.listen(tools_list_changed=True, resource_subscriptions=["note://one"]) as changes:
                await b.call_tool("write", {"text": "x"})
                assert await anext(changes) == ResourceUpdated(uri="note://one")
                await b.call_tool("grow", {})
                assert await anext(changes) == ToolsListChanged()
                await d.control("restart", names=["everyday"])
                # What may have been missed is told; that a tool is gone again too, if the daemon had seen it.
                while await anext(changes) != ResourceUpdated(uri="note://one"):
                    pass
                await b.call_tool("write", {"text": "y"})
                assert await anext(changes) in (ResourceUpdated(uri="note://one"), ToolsListChanged())
            assert (await b.read_resource("note://one")).contents


@bounded(120)
async def test_a_server_of_both_eras_runs_in_that_of_its_host() -> None:
    async with daemon(start=False) as d:
        d.write_config(everyday("auto"))
        await d.start()
        async with modern_host(d, "everyday", mode=MODERN) as host:
            assert await text_of_call(host, "echo", value="x") == "x"
            eras = {instance["era"] for instance in (await d.server("everyday"))["instances"]}
            assert "modern" in eras


async def _all_text(host: Any, tool: str, arguments: dict[str, Any]) -> str:
    result = await host.call_tool(tool, arguments)
    return "\n".join(block.text for block in result.content if block.type == "text")
