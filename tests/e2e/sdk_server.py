"""A server on the official Python SDK that does what servers do; as a process it speaks both eras.

It asks for input through results, which the SDK has on the wire of 2026-07-28 only.
"""

from __future__ import annotations

import json
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)

server = MCPServer("everyday", instructions="Ask for anything.")
counts = {"note": 0}

QUESTIONS: dict[str, Any] = {
    "form": ElicitRequest(
        params=ElicitRequestFormParams(
            message="who?", requested_schema={"type": "object", "properties": {"name": {"type": "string"}}}
        )
    ),
    "page": ElicitRequest(params=ElicitRequestURLParams(message="look", url="https://example.com/x")),
    "model": CreateMessageRequest(
        params=CreateMessageRequestParams(
            messages=[SamplingMessage(role="user", content=TextContent(type="text", text="hi"))], max_tokens=9
        )
    ),
    "roots": ListRootsRequest(),
}


@server.tool()
async def echo(value: str) -> str:
    """Return a value."""
    return value


@server.tool()
async def count(upto: int, ctx: Context) -> int:
    """Report progress and log on the way."""
    for number in range(1, upto + 1):
        await ctx.report_progress(number, upto)
    await ctx.info(f"counted to {upto}")
    return upto


@server.tool()
async def numbers() -> list[int]:
    """Return what is no object."""
    return [1, 2, 3]


@server.tool()
async def ask(kinds: list[str], ctx: Context) -> str | InputRequiredResult:
    """Ask for input of these kinds, one round for each, and return all answers."""
    known: dict[str, Any] = json.loads(ctx.request_state or "{}")
    known |= {key: value.model_dump(exclude_none=True) for key, value in (ctx.input_responses or {}).items()}
    for kind in kinds:
        if kind not in known:
            return InputRequiredResult(
                input_requests={kind: QUESTIONS[kind]}, request_state=json.dumps(known, default=str)
            )
    return json.dumps({kind: known[kind] for kind in kinds}, default=str)


@server.tool()
async def write(text: str, ctx: Context) -> str:
    """Change the note, and tell those who listen."""
    counts["note"] += 1
    counts["text"] = text  # type: ignore[assignment]
    await ctx.notify_resource_updated("note://one")
    return "written"


@server.tool()
async def grow(ctx: Context) -> str:
    """Add a tool, and tell those who listen."""
    server.add_tool(numbers, name="grown")
    await ctx.notify_tools_changed()
    return "grown"


@server.resource("note://one")
async def note() -> str:
    """Return the note."""
    return str(counts.get("text", "empty"))


@server.prompt()
async def greet(name: str) -> str:
    """Return a greeting."""
    return f"Hello {name}"


if __name__ == "__main__":
    server.run("stdio")
