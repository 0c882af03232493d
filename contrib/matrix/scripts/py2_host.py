"""A host on the Python SDK 2, in either era."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from checks import Checks, Seen, outcome, plan, tell
from mcp import Client, StdioServerParameters
from mcp.shared.subscriptions import ResourceUpdated

warnings.simplefilter("ignore")
PLAN = plan()


class Host:
    """The SDK behind the face that the checks use."""

    def __init__(self, client: Client, seen: Seen) -> None:
        self.client = client
        self.seen = seen
        self.modern = client.protocol_version >= "2026"

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, name: str, arguments: Any, note: Callable[[float], None] | None = None) -> str:
        async def progress(value: float, total: float | None, message: str | None) -> None:
            if note is not None:
                note(value)

        told = await self.client.call_tool(name, arguments, progress_callback=progress if note else None)
        return " ".join(getattr(block, "text", "") for block in told.content)

    async def resources(self) -> list[str]:
        return [str(one.uri) for one in (await self.client.list_resources()).resources]

    async def read(self, uri: str) -> str:
        return str(getattr((await self.client.read_resource(uri)).contents[0], "text", ""))

    async def prompts(self) -> list[str]:
        return [prompt.name for prompt in (await self.client.list_prompts()).prompts]

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        return str((await self.client.get_prompt(name, arguments)).messages[0].content)

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        ref = types.PromptReference(type="ref/prompt", name=prompt)
        told = await self.client.complete(ref, {"name": argument, "value": value})
        return list(told.completion.values)

    async def cancel_call(self, name: str, arguments: Any) -> None:
        call = asyncio.create_task(self.client.call_tool(name, arguments))
        await asyncio.sleep(0.5)
        call.cancel()
        try:
            await call
        except asyncio.CancelledError:
            return

    async def set_level(self, level: Any) -> None:
        if not self.modern:
            await self.client.set_logging_level(level)

    @asynccontextmanager
    async def subscribed(self, uri: str) -> AsyncIterator[None]:
        if not self.modern:
            await self.client.subscribe_resource(uri)
            yield
            await self.client.unsubscribe_resource(uri)
            return
        async with self.client.listen(resource_subscriptions=[uri]) as listening:

            async def hear() -> None:
                async for event in listening:
                    if isinstance(event, ResourceUpdated):
                        self.seen.update(event.uri)

            task = asyncio.create_task(hear())
            try:
                yield
            finally:
                task.cancel()


async def elicit(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=PLAN["words"]["elicit"]["content"])


async def sample(context: Any, params: Any) -> types.CreateMessageResult:
    text = types.TextContent(type="text", text="sampled by the host")
    return types.CreateMessageResult(role="assistant", content=text, model="none")


async def list_roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///matrix/root", name="root")])


async def run(command: list[str], names: list[str], found: dict[str, str]) -> str:
    """Do these checks on one connection; return the revision that was spoken."""
    seen = Seen()

    async def log(params: Any) -> None:
        seen.log(params.data)

    async def any_message(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            seen.update(str(message.params.uri))

    client = Client(
        StdioServerParameters(command=command[0], args=command[1:], env=PLAN["env"]),
        mode="legacy" if PLAN["era"] == "legacy" else "auto",
        log_level="debug",
        logging_callback=log,
        message_handler=any_message,
        elicitation_callback=elicit,
        sampling_callback=sample,
        list_roots_callback=list_roots,
    )
    async with client:
        checks = Checks(Host(client, seen), PLAN, seen)
        for name in names:
            found[name] = await outcome(checks, name)
        return client.protocol_version


async def main() -> None:
    found: dict[str, str] = {}
    version = ""
    for command, names in PLAN["connections"]:
        version = await run(command, names, found)
    tell(version, found)


asyncio.run(main())
