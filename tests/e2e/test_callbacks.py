"""Real servers ask real hosts back, eight of which share one of them (protocol.md 6.3)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
import tomli_w
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from pydantic import FileUrl

from tests.e2e.sdk import text_of_call
from tests.kit.bounded import bounded
from tests.kit.daemon import Daemon, daemon, shim

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")]
SERVER = Path(__file__).with_name("asking_server.py")
EVERYTHING = ["npx", "-y", "@modelcontextprotocol/server-everything"]
HOSTS = 8
ROOT = "file:///home/all"


def config(command: list[str], callbacks: str) -> str:
    """Return a configuration with a server that may ask back."""
    entry = {"command": command, "runtime": "bare", "callbacks": callbacks, "era": "legacy"}
    return tomli_w.dumps({"servers": {"s": entry}})


class Person:
    """Who sits at a host: answers with the own name, after a moment in which others are asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[str] = []

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Fill in a form."""
        self.asked.append("form")
        await asyncio.sleep(0)
        return types.ElicitResult(action="accept", content={"name": self.name})

    async def sample(self, context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        """Be the model."""
        self.asked.append("model")
        text = types.TextContent(type="text", text=f"I am {self.name}")
        return types.CreateMessageResult(role="assistant", content=text, model="m")

    async def roots(self, context: Any) -> types.ListRootsResult:
        """Tell the directories, which are the same for all."""
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(ROOT))])


@asynccontextmanager
async def host(d: Daemon, person: Person) -> AsyncIterator[ClientSession]:
    """Connect a host that can be asked everything."""
    program, *arguments = shim("s")
    parameters = StdioServerParameters(command=program, args=arguments, env=d.env, cwd=str(d.user))
    async with (
        stdio_client(parameters) as (reading, writing),
        ClientSession(
            reading,
            writing,
            elicitation_callback=person.elicit,
            sampling_callback=person.sample,
            list_roots_callback=person.roots,
        ) as session,
    ):
        await session.initialize()
        yield session


@pytest.mark.parametrize("callbacks", ["on", "cookie"])
@bounded(120)
async def test_eight_hosts_are_asked_by_one_server_of_the_python_sdk(callbacks: str) -> None:
    async with daemon(start=False) as d:
        d.write_config(config([sys.executable, str(SERVER)], callbacks))
        await d.start()

        async def one(number: int) -> tuple[list[str], list[str]]:
            person = Person(f"person {number}")
            async with host(d, person) as session:
                answers = await asyncio.gather(*(text_of_call(session, tool) for tool in ("who", "think", "where")))
                return list(answers), sorted(person.asked)

        found = await asyncio.gather(*map(one, range(HOSTS)))
        expected = [([f"person {number}", f"I am person {number}", ROOT], ["form", "model"]) for number in range(HOSTS)]
        assert found == expected
        status = await d.server("s")
        assert [instance["generation"] for instance in status["instances"]] == [1]


@pytest.mark.npm
@bounded(400)
async def test_eight_hosts_are_asked_by_one_server_everything() -> None:
    async with daemon(start=False) as d:
        d.write_config(config(EVERYTHING, "on"))
        await d.start()

        async def one(number: int) -> tuple[set[str], list[str]]:
            person = Person(f"person {number}")
            async with host(d, person) as session:
                tools = {tool.name for tool in (await session.list_tools()).tools}
                assert {"trigger-elicitation-request", "trigger-sampling-request", "get-roots-list"} <= tools
                elicited = (await session.call_tool("trigger-elicitation-request", {})).model_dump_json()
                sampled = (await session.call_tool("trigger-sampling-request", {"prompt": "hi"})).model_dump_json()
                rooted = (await session.call_tool("get-roots-list", {})).model_dump_json()
                assert person.name in elicited
                assert f"I am {person.name}" in sampled
                assert ROOT in rooted
                others = {f"person {other}" for other in range(HOSTS)} - {person.name}
                said = json.dumps([elicited, sampled, rooted])
                return {name for name in others if name in said}, person.asked

        found = await asyncio.gather(*map(one, range(HOSTS)))
        assert found == [(set(), ["form", "model"])] * HOSTS
        assert len((await d.server("s"))["instances"]) == 1
