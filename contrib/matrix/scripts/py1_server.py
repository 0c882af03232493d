"""A server on the Python SDK 1: one small thing of every kind. Runs in an environment of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
from mcp import types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server

MEMO = "memo://one"
#: Seconds between two steps: some hosts forget who waits for progress as soon as the answer is there.
PAUSE = 0.05
COLOURS = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
NUMBER = {"type": "object", "properties": {"count": {"type": "integer"}}}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = {"echo": TEXT, "steps": NUMBER, "nap": {"type": "object"}, "cancelled": {"type": "object"}}
TOOLS |= {name: {"type": "object"} for name in ("speak", "touch", "ask", "sample", "roots")}

server: Server[Any, Any] = Server("matrix-py1", "1")
state = {"cancelled": 0}


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    return [types.Tool(name=name, description=name, inputSchema=schema) for name, schema in TOOLS.items()]


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
    return [types.TextContent(type="text", text=await answer(name, arguments))]


async def answer(name: str, arguments: dict[str, Any]) -> str:
    context = server.request_context
    session = context.session
    match name:
        case "echo":
            return str(arguments["text"])
        case "steps":
            token = context.meta.progressToken if context.meta else None
            for step in range(1, int(arguments["count"]) + 1):
                await asyncio.sleep(PAUSE)
                if token is not None:
                    await session.send_progress_notification(token, step, int(arguments["count"]))
            await asyncio.sleep(PAUSE)
            return "done"
        case "nap":
            try:
                await asyncio.sleep(30)
            except BaseException:
                state["cancelled"] += 1
                raise
            return "slept"
        case "cancelled":
            return str(state["cancelled"])
        case "speak":
            await session.send_log_message("warning", "spoken")
            return "spoke"
        case "touch":
            await session.send_resource_updated(types.AnyUrl(MEMO))
            return "touched"
        case "ask":
            said = await session.elicit("Which colour?", COLOURS)
            return f"{said.action} {said.content}"
        case "sample":
            question = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="say it"))
            told = await session.create_message([question], max_tokens=10)
            return str(getattr(told.content, "text", told.content))
        case "roots":
            return " ".join(str(root.uri) for root in (await session.list_roots()).roots)
    raise ValueError(f"no tool {name}")


@server.list_resources()
async def list_resources() -> list[types.Resource]:
    return [types.Resource(uri=types.AnyUrl(MEMO), name="one")]


@server.read_resource()
async def read_resource(uri: types.AnyUrl) -> str:
    if str(uri) != MEMO:
        raise ValueError(f"no resource {uri}")
    return "the memo"


@server.subscribe_resource()
async def subscribe(uri: types.AnyUrl) -> None:
    pass


@server.unsubscribe_resource()
async def unsubscribe(uri: types.AnyUrl) -> None:
    pass


@server.set_logging_level()
async def set_level(level: types.LoggingLevel) -> None:
    pass


@server.list_prompts()
async def list_prompts() -> list[types.Prompt]:
    return [types.Prompt(name="greet", arguments=[types.PromptArgument(name="name", required=True)])]


@server.get_prompt()
async def get_prompt(name: str, arguments: dict[str, str] | None) -> types.GetPromptResult:
    text = types.TextContent(type="text", text=f"Greet {(arguments or {})['name']}")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])


@server.completion()
async def complete(ref: Any, argument: types.CompletionArgument, context: Any) -> types.Completion:
    return types.Completion(values=[name for name in ("anna", "bert") if name.startswith(argument.value)])


async def main() -> None:
    options = server.create_initialization_options(NotificationOptions())
    # The SDK does not derive it from the handler.
    if options.capabilities.resources:
        options.capabilities.resources.subscribe = True
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, options)


anyio.run(main)
