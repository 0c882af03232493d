"""Hosts of 2026-07-28, built on the official SDK, at servers of the handshake era, through the real daemon."""

from __future__ import annotations

import asyncio
import json
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
EVERYTHING = {"command": ["npx", "-y", "@modelcontextprotocol/server-everything"], "scope": "session"}


def servers(**entries: dict[str, Any]) -> str:
    """Return a configuration with these servers."""
    return tomli_w.dumps({"servers": entries})


@bounded(120)
async def test_hosts_of_both_eras_share_a_server() -> None:
    async with daemon(start=False) as d:
        d.write_config(servers(time={"command": ["mcp-server-time"]}))
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
        await d.kill()
        assert await text_of_call(a, "echo", value="after") == "after"
        assert len(d.journal("s").runs()) == 2


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


async def _all_text(host: Any, tool: str, arguments: dict[str, Any]) -> str:
    result = await host.call_tool(tool, arguments)
    return "\n".join(block.text for block in result.content if block.type == "text")
