"""A server on the official Python SDK whose tools ask their host, as servers of the handshake revisions do."""

from __future__ import annotations

import warnings

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("asking")
warnings.simplefilter("ignore")


class Name(BaseModel):
    """What a form asks for."""

    name: str


@server.tool()
async def who(ctx: Context) -> str:
    """Ask the person at the host."""
    answer = await ctx.elicit("who?", Name)
    return answer.data.name if answer.action == "accept" else answer.action


@server.tool()
async def think(ctx: Context) -> str:
    """Ask the model of the host."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="hi"))
    answer = await ctx.session.create_message([message], max_tokens=9)
    return answer.content.text if isinstance(answer.content, TextContent) else "?"


@server.tool()
async def where(ctx: Context) -> str:
    """Ask for the directories of the host."""
    return ",".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


if __name__ == "__main__":
    server.run("stdio")
