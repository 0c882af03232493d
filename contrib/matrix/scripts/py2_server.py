"""A server on the Python SDK 2, which speaks both eras: one small thing of every kind."""

from __future__ import annotations

import asyncio
import warnings
from typing import Annotated, Any

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from pydantic import BaseModel

warnings.simplefilter("ignore")
MEMO = "memo://one"
#: Seconds between two steps: some hosts forget who waits for progress as soon as the answer is there.
PAUSE = 0.05

server = MCPServer("matrix-py2")
state = {"cancelled": 0}


class Colour(BaseModel):
    colour: str


def ask_colour() -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


def ask_model() -> Sample:
    question = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="say it"))
    return Sample([question], max_tokens=10)


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool()
async def echo(text: str) -> str:
    return text


@server.tool()
async def steps(count: int, ctx: Context) -> str:
    for step in range(1, count + 1):
        await asyncio.sleep(PAUSE)
        await ctx.report_progress(step, count)
    await asyncio.sleep(PAUSE)
    return "done"


@server.tool()
async def nap() -> str:
    try:
        await asyncio.sleep(30)
    except BaseException:
        state["cancelled"] += 1
        raise
    return "slept"


@server.tool()
async def cancelled() -> str:
    return str(state["cancelled"])


@server.tool()
async def speak(ctx: Context) -> str:
    await ctx.log("warning", "spoken")
    return "spoke"


@server.tool()
async def touch(ctx: Context) -> str:
    await ctx.notify_resource_updated(MEMO)
    if not str(ctx.protocol_version or "") >= "2026":
        await ctx.session.send_resource_updated(MEMO)
    return "touched"


@server.tool()
async def ask(colour: Annotated[Colour, Resolve(ask_colour)]) -> str:
    return f"accept {colour.colour}"


@server.tool()
async def sample(told: Annotated[types.CreateMessageResult, Resolve(ask_model)]) -> str:
    return str(getattr(told.content, "text", told.content))


@server.tool()
async def roots(found: Annotated[types.ListRootsResult, Resolve(ask_roots)]) -> str:
    return " ".join(str(root.uri) for root in found.roots)


@server.resource(MEMO)
def memo() -> str:
    return "the memo"


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}"


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
    return types.Completion(values=[name for name in ("anna", "bert") if name.startswith(argument.value)])


async def nothing(ctx: Any, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


for method, kind in (
    ("resources/subscribe", types.SubscribeRequestParams),
    ("resources/unsubscribe", types.UnsubscribeRequestParams),
    ("logging/setLevel", types.SetLevelRequestParams),
):
    server._lowlevel_server.add_request_handler(method, kind, nothing)

server.run()
