"""Many hosts at once, each a client of the official Python SDK with a process of its own on the other end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TextIO

import anyio
from anyio.abc import TaskStatus
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.types import TextContent

from contrib.demo.servers import Question, Server

#: Seconds for a connection to be ready; the first one of a server may install its package.
CONNECT = 300.0
#: Seconds for one call.
CALL = 60.0


class WrongAnswerError(Exception):
    """A client was given an answer that is not for its question."""


@dataclass(frozen=True, slots=True)
class Host:
    """A connected client: the server it talks to, its number among the clients of that server, and its session."""

    server: Server
    number: int
    session: ClientSession

    async def ask(self) -> None:
        """Ask the question that only this client asks. Raise `WrongAnswerError` if the answer is not the one to it."""
        question = self.server.ask(self.number)
        text = await self._call(question)
        if question.answer not in text:
            raise WrongAnswerError(f"client {self.number} of {self.server.name} asked {question} and was told {text!r}")

    async def _call(self, question: Question) -> str:
        with anyio.fail_after(CALL):
            result = await self.session.call_tool(question.tool, question.arguments)
        return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a host will sit: its server and number, and the command that its configuration would name."""

    server: Server
    number: int
    command: StdioServerParameters


@asynccontextmanager
async def connected(seats: Sequence[Seat], stderr: TextIO) -> AsyncIterator[list[Host]]:
    """Connect a host for each seat, all at the same time; leaving the context ends them all."""
    hosts: list[Host] = []
    leaving = anyio.Event()

    async def sit(seat: Seat, task_status: TaskStatus[Host]) -> None:
        async with stdio_client(seat.command, stderr) as streams, ClientSession(*streams) as session:
            await session.initialize()
            task_status.started(Host(seat.server, seat.number, session))
            await leaving.wait()

    async with anyio.create_task_group() as sitting:

        async def seated(seat: Seat) -> None:
            hosts.append(await sitting.start(partial(sit, seat)))

        with anyio.fail_after(CONNECT):
            async with anyio.create_task_group() as opening:
                for seat in seats:
                    opening.start_soon(seated, seat)
        try:
            yield sorted(hosts, key=lambda host: (host.server.name, host.number))
        finally:
            leaving.set()


async def ask_all(hosts: Sequence[Host]) -> None:
    """Let every host ask its question at the same time."""
    with anyio.fail_after(2 * CALL):
        async with anyio.create_task_group() as asking:
            for host in hosts:
                asking.start_soon(host.ask)
