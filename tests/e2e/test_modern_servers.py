"""Hosts of the handshake revisions at real servers of 2026-07-28, through the shim and the daemon (protocol.md 6.5)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
import tomli_w
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import FileUrl

from tests.kit.bounded import bounded
from tests.kit.daemon import Daemon, daemon, shim

pytestmark = pytest.mark.slow
SERVER = Path(__file__).with_name("sdk_server.py")
HOSTS = 8


def config(era: str) -> str:
    """Return a configuration with the server in an era."""
    command = [sys.executable, str(SERVER)]
    return tomli_w.dumps({"servers": {"everyday": {"command": command, "runtime": "bare", "era": era}}})


class Person:
    """Who sits at a host: answers everything with the own name, and keeps what is shown."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard: list[Any] = []
        self.told = anyio.Event()

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Fill in a form, or look at a page."""
        if isinstance(params, types.ElicitRequestURLParams):
            assert params.elicitation_id
            return types.ElicitResult(action="accept")
        return types.ElicitResult(action="accept", content={"name": self.name})

    async def sample(self, context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        """Be the model."""
        text = types.TextContent(type="text", text=f"I am {self.name}")
        return types.CreateMessageResult(role="assistant", content=text, model="m")

    async def roots(self, context: Any) -> types.ListRootsResult:
        """Tell the roots."""
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(f"file:///home/{self.name}"))])

    async def hear(self, message: Any) -> None:
        """Keep a notification."""
        self.heard.append(message)
        self.told.set()
        self.told = anyio.Event()

    async def until(self, kind: type[Any]) -> Any:
        """Return the first notification of a kind, once it is there."""
        while not (found := [message for message in self.heard if isinstance(message, kind)]):
            await self.told.wait()
        return found[0]


@asynccontextmanager
async def host(d: Daemon, person: Person) -> AsyncIterator[ClientSession]:
    """Connect a host of 2025-11-25, with all that it can do."""
    program, *arguments = shim("everyday")
    parameters = StdioServerParameters(command=program, args=arguments, env=d.env, cwd=str(d.user))
    async with (
        stdio_client(parameters) as (reading, writing),
        ClientSession(
            reading,
            writing,
            elicitation_callback=person.elicit,
            sampling_callback=person.sample,
            list_roots_callback=person.roots,
            message_handler=person.hear,
        ) as session,
    ):
        said = await session.initialize()
        assert said.protocol_version == "2025-11-25"
        assert said.server_info.name == "everyday"
        assert said.instructions == "Ask for anything."
        yield session


async def called(session: ClientSession, tool: str, **arguments: Any) -> types.CallToolResult:
    """Call a tool that works."""
    result = await session.call_tool(tool, arguments)
    assert isinstance(result, types.CallToolResult)
    assert not result.is_error, result
    return result


def text(result: types.CallToolResult) -> str:
    """Return the text of a result."""
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


@bounded(120)
async def test_eight_hosts_are_each_asked_their_own_questions() -> None:
    async with daemon(start=False) as d:
        d.write_config(config("modern"))
        await d.start()
        kinds = ["form", "page", "model", "roots"]

        async def one(name: str) -> None:
            person = Person(name)
            async with host(d, person) as session:
                answers = json.loads(text(await called(session, "ask", kinds=kinds)))
                assert answers["form"] == {"action": "accept", "content": {"name": name}}
                assert answers["page"]["action"] == "accept"
                assert answers["model"]["content"]["text"] == f"I am {name}"
                assert answers["roots"]["roots"][0]["uri"] == f"file:///home/{name}"
                assert text(await called(session, "echo", value=name)) == name

        await asyncio.gather(*(one(f"h{number}") for number in range(HOSTS)))
        (instance,) = (await d.server("everyday"))["instances"]
        assert (instance["era"], instance["generation"], instance["restarts"]) == ("modern", 1, 0)


@bounded(120)
async def test_lists_resources_prompts_progress_and_what_changes() -> None:
    async with daemon(start=False) as d:
        d.write_config(config("modern"))
        await d.start()
        first, second = Person("a"), Person("b")
        async with host(d, first) as a, host(d, second) as b:
            assert {tool.name for tool in (await a.list_tools()).tools} >= {"echo", "ask", "numbers"}
            assert [str(one.uri) for one in (await b.list_resources()).resources] == ["note://one"]
            assert (await b.get_prompt("greet", {"name": "x"})).messages
            seen: list[float] = []

            async def report(progress: float, total: float | None, message: str | None) -> None:
                seen.append(progress)

            result = await a.call_tool("count", {"upto": 3}, progress_callback=report)
            assert isinstance(result, types.CallToolResult)
            assert result.structured_content == {"result": 3}
            assert seen == [1, 2, 3]
            with pytest.warns(MCPDeprecationWarning):
                await b.subscribe_resource("note://one")
            await called(a, "write", text="hello")
            told = await second.until(types.ResourceUpdatedNotification)
            assert str(told.params.uri) == "note://one"
            assert not [one for one in first.heard if isinstance(one, types.ResourceUpdatedNotification)]
            contents = (await b.read_resource("note://one")).contents[0]
            assert isinstance(contents, types.TextResourceContents)
            assert contents.text == "hello"
            await called(a, "grow")
            for person in (first, second):
                await person.until(types.ToolListChangedNotification)
            assert "grown" in {tool.name for tool in (await b.list_tools()).tools}


@bounded(120)
async def test_a_server_of_both_eras_is_found_out_once_and_shares_the_era_of_its_hosts() -> None:
    async with daemon(start=False) as d:
        d.write_config(config("auto"))
        await d.start()
        async with host(d, Person("a")) as session:
            assert text(await called(session, "echo", value="x")) == "x"
            (instance,) = (await d.server("everyday"))["instances"]
            # The second child is the one that was not bound by the probe.
            assert (instance["era"], instance["generation"], instance["restarts"]) == ("legacy", 2, 0)
            await d.control("restart", names=["everyday"])
            assert text(await called(session, "echo", value="y")) == "y"
            (instance,) = (await d.server("everyday"))["instances"]
            assert (instance["era"], instance["generation"]) == ("legacy", 3)
