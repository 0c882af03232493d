"""A host on the Python SDK 1. Runs in an environment of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from checks import Checks, Seen, outcome, plan, tell
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import McpError

PLAN = plan()
spoken: dict[str, str] = {}


class Host:
    """The SDK behind the face that the checks use."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def call(self, name: str, arguments: Any, note: Callable[[float], None] | None = None) -> str:
        async def progress(value: float, total: float | None, message: str | None) -> None:
            if note is not None:
                note(value)

        told = await self.session.call_tool(name, arguments, progress_callback=progress if note else None)
        return " ".join(getattr(block, "text", "") for block in told.content)

    async def resources(self) -> list[str]:
        return [str(one.uri) for one in (await self.session.list_resources()).resources]

    async def read(self, uri: str) -> str:
        return str((await self.session.read_resource(types.AnyUrl(uri))).contents[0].text)  # type: ignore[union-attr]

    async def prompts(self) -> list[str]:
        return [prompt.name for prompt in (await self.session.list_prompts()).prompts]

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        return str((await self.session.get_prompt(name, arguments)).messages[0].content)

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        ref = types.PromptReference(type="ref/prompt", name=prompt)
        return (await self.session.complete(ref, {"name": argument, "value": value})).completion.values

    async def cancel_call(self, name: str, arguments: Any) -> None:
        # The SDK has no call for it: the notification is sent by hand, under the id it gives to its next request.
        identity = self.session._request_id
        call = asyncio.create_task(self.session.call_tool(name, arguments))
        await asyncio.sleep(0.5)
        params = types.CancelledNotificationParams(requestId=identity, reason="enough")
        await self.session.send_notification(
            types.ClientNotification(types.CancelledNotification(method="notifications/cancelled", params=params))
        )
        await asyncio.sleep(0.1)
        call.cancel()
        try:
            await call
        except (asyncio.CancelledError, McpError):
            return

    async def set_level(self, level: Any) -> None:
        await self.session.set_logging_level(level)

    @asynccontextmanager
    async def subscribed(self, uri: str) -> AsyncIterator[None]:
        await self.session.subscribe_resource(types.AnyUrl(uri))
        yield
        await self.session.unsubscribe_resource(types.AnyUrl(uri))


async def elicit(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=PLAN["words"]["elicit"]["content"])


async def sample(context: Any, params: Any) -> types.CreateMessageResult:
    text = types.TextContent(type="text", text="sampled by the host")
    return types.CreateMessageResult(role="assistant", content=text, model="none")


async def list_roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri=types.FileUrl("file:///matrix/root"), name="root")])


async def run(command: list[str], names: list[str], found: dict[str, str]) -> None:
    """Do these checks on one connection, and note the revision that was spoken."""
    seen = Seen()

    async def log(params: Any) -> None:
        seen.log(params.data)

    async def any_message(message: Any) -> None:
        update = getattr(message, "root", None)
        if isinstance(update, types.ResourceUpdatedNotification):
            seen.update(str(update.params.uri))

    parameters = StdioServerParameters(command=command[0], args=command[1:], env=PLAN["env"])
    callbacks = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": list_roots}
    async with (
        stdio_client(parameters) as (reading, writing),
        ClientSession(reading, writing, logging_callback=log, message_handler=any_message, **callbacks) as session,
    ):
        spoken["version"] = str((await session.initialize()).protocolVersion)
        checks = Checks(Host(session), PLAN, seen)
        for name in names:
            found[name] = await outcome(checks, name)


async def main() -> None:
    found: dict[str, str] = {}
    for command, names in PLAN["connections"]:
        try:
            await run(command, names, found)
        except* anyio.BrokenResourceError:
            # The SDK fails in closing a connection on which the server still says something.
            if not found.keys() >= set(names):
                raise
    tell(spoken["version"], found)


asyncio.run(main())
