"""Hosts built on the official Python SDK, which reach a test's daemon through the real shim."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.kit.daemon import Daemon, shim
from tests.kit.traffic import tapped


@asynccontextmanager
async def sdk_host(daemon: Daemon, server: str, *options: str) -> AsyncIterator[ClientSession]:
    """Connect a host to a server and make the handshake."""
    program, *arguments = tapped(daemon.taps, f"{server}-host", shim(server, *options))
    parameters = StdioServerParameters(command=program, args=arguments, env=daemon.env, cwd=str(daemon.user))
    async with stdio_client(parameters) as (reading, writing), ClientSession(reading, writing) as session:
        await session.initialize()
        yield session


async def text_of_call(session: ClientSession | Client, tool: str, **arguments: Any) -> str:
    """Call a tool and return the text of its first content block."""
    result = await session.call_tool(tool, arguments)
    block = result.content[0]
    assert block.type == "text", block
    return block.text


@asynccontextmanager
async def modern_host(
    daemon: Daemon, server: str, *options: str, mode: str = "auto", **told: Any
) -> AsyncIterator[Client]:
    """Connect a host of 2026-07-28 to a server; ``told`` are further arguments of the SDK's client."""
    program, *arguments = shim(server, *options)
    parameters = StdioServerParameters(command=program, args=arguments, env=daemon.env, cwd=str(daemon.user))
    async with Client(stdio_client(parameters), mode=mode, **told) as client:
        yield client
