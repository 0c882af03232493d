"""One host with one server: through the daemon, directly, and eight at once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from contrib.matrix import world as world_of
from contrib.matrix.peers import ASKING, BASIC, MANY, Host, Server
from contrib.matrix.world import World

#: Seconds for a host with all its checks.
HOST = 300.0
EIGHT = 8

#: The command of a server as the host starts it, and the checks to be done there.
Connection = tuple[Sequence[str], Sequence[str]]


@dataclass(slots=True)
class Outcome:
    """What a host found: the revision it spoke, and for each check the empty text or what went wrong."""

    version: str = ""
    checks: dict[str, str] = field(default_factory=dict)


async def shared(world: World, host: Host, server: Server, names: Sequence[str] = (*BASIC, *ASKING)) -> Outcome:
    """Do the checks through the daemon."""
    connections = [
        (world.connect(server.name), [name for name in names if name in BASIC]),
        (world.connect(server.name + world_of.ASKING), [name for name in names if name in ASKING and name != "roots"]),
        (world.connect(server.name + world_of.OWN), [name for name in names if name == "roots"]),
    ]
    return await _host(world, host, server, [one for one in connections if one[1]])


async def direct(world: World, host: Host, server: Server) -> Outcome:
    """Do the checks without the daemon: what fails here, the two cannot do with each other anyway."""
    return await _host(world, host, server, [(server.command(world.place), (*BASIC, *ASKING))])


async def eight(world: World, host: Host, server: Server) -> str:
    """Let eight hosts call and be asked at once; return the empty text or the first thing that went wrong."""
    connections = [
        (world.connect(server.name), ("tools",)),
        (world.connect(server.name + world_of.ASKING), ("elicitation",)),
    ]
    outcomes = await asyncio.gather(
        *(_host(world, host, server, connections, f"host{number}") for number in range(EIGHT))
    )
    return next((text for outcome in outcomes for text in outcome.checks.values() if text), "")


async def through(world: World, host: Host, server: Server) -> Outcome:
    """Do everything through the daemon."""
    outcome = await shared(world, host, server)
    outcome.checks[MANY] = await eight(world, host, server)
    return outcome


def _own_answer(word: Mapping[str, Any], tag: str) -> dict[str, Any]:
    """Return the words of an elicitation such that every host gives and wants an answer of its own."""
    return {**word, "content": dict.fromkeys(word["content"], tag), "text": tag}


async def _host(
    world: World, host: Host, server: Server, connections: Sequence[Connection], tag: str = "host"
) -> Outcome:
    plan: dict[str, Any] = {
        "connections": connections,
        "words": {**server.words, "elicit": _own_answer(server.words["elicit"], tag)},
        "era": host.era,
        "tag": tag,
        "env": world.environment,
    }
    process = await asyncio.create_subprocess_exec(
        *host.kit.script(world.place, "host"),
        json.dumps(plan),
        env=world.environment,
        cwd=world.place,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    names = [name for _, some in connections for name in some]
    try:
        async with asyncio.timeout(HOST):
            told, complaints = await process.communicate()
    except TimeoutError:
        return Outcome("", dict.fromkeys(names, f"the host did not end within {HOST:g} s"))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    try:
        found = json.loads(told.splitlines()[-1])
    except (IndexError, ValueError):
        text = complaints.decode(errors="replace").strip()[-300:]
        return Outcome("", dict.fromkeys(names, f"the host ended with status {process.returncode}: {text}"))
    return Outcome(found["version"], found["checks"])
