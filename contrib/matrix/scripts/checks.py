"""What a host on a Python SDK does with a server, and how the outcome is told: the part that is the same for both SDKs.

A host is started with its plan as JSON (see `contrib.matrix.plan`) and prints one line of JSON: the protocol revision
it spoke and, for each check, the empty text or what went wrong.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from typing import Any

#: Seconds for one check.
LIMIT = 25.0
ECHOES = 10


class Failed(Exception):
    """A check found something else than it should."""


def expect(condition: object, text: str) -> None:
    if not condition:
        raise Failed(text)


class Seen:
    """What the server sent by itself."""

    def __init__(self) -> None:
        self.logs: list[Any] = []
        self.updates: list[str] = []
        self.changed = asyncio.Event()

    def log(self, data: Any) -> None:
        self.logs.append(data)
        self.changed.set()

    def update(self, uri: str) -> None:
        self.updates.append(uri)
        self.changed.set()

    async def until(self, items: list[Any]) -> None:
        """Return once there is something in the list; the caller bounds it."""
        while not items:
            self.changed.clear()
            await self.changed.wait()


class Checks:
    """One method for each check; ``host`` is the SDK behind a small common face."""

    def __init__(self, host: Any, plan: dict[str, Any], seen: Seen) -> None:
        self.host = host
        self.plan = plan
        self.words = plan["words"]
        self.seen = seen

    async def tools(self) -> None:
        word = self.words["echo"]
        expect(word["tool"] in await self.host.tools(), "the tool is not listed")
        tags = [f"{self.plan['tag']}-{number}" for number in range(ECHOES)]
        told = await asyncio.gather(*(self.host.call(word["tool"], {word["argument"]: tag}) for tag in tags))
        for tag, text in zip(tags, told, strict=True):
            expect(tag in text, f"{text!r} is not the answer for {tag}")

    async def resources(self) -> None:
        word = self.words["resource"]
        await self.host.resources()
        expect(word["text"] in await self.host.read(word["uri"]), "another text was read")

    async def prompts(self) -> None:
        word = self.words["prompt"]
        expect(word["name"] in await self.host.prompts(), "the prompt is not listed")
        expect(word["text"] in await self.host.prompt(word["name"], word["arguments"]), "another prompt was told")

    async def completion(self) -> None:
        word = self.words["complete"]
        told = await self.host.complete(word["prompt"], word["argument"], word["value"])
        expect(told == [word["text"]], f"{told} was completed")

    async def progress(self) -> None:
        word, values = self.words["progress"], []
        await self.host.call(word["tool"], word["arguments"], values.append)
        expect(len(values) >= 2 and values == sorted(set(values)), f"progress was {values}")

    async def cancel(self) -> None:
        word, echo = self.words["nap"], self.words["echo"]
        await self.host.cancel_call(word["tool"], word["arguments"])
        expect("after" in await self.host.call(echo["tool"], {echo["argument"]: "after"}), "no answer afterwards")
        while "count" in word and int(await self.host.call(word["count"], {})) < 1:
            await asyncio.sleep(0.1)

    async def logging(self) -> None:
        word = self.words["log"]
        await self.host.set_level("debug")
        await self._toggle(word)
        await self.seen.until(self.seen.logs)

    async def subscriptions(self) -> None:
        word = self.words["subscribe"]
        async with self.host.subscribed(word["uri"]):
            await self._toggle(word)
            await self.seen.until(self.seen.updates)
            expect(self.seen.updates[0] == word["uri"], f"{self.seen.updates[0]} was updated")

    async def _toggle(self, word: dict[str, str]) -> None:
        """Start something at a server that may have it running for somebody else, and stops it then."""
        if "Stopped" in await self.host.call(word["tool"], {}):
            await self.host.call(word["tool"], {})

    async def elicitation(self) -> None:
        await self._asks("elicit")

    async def sampling(self) -> None:
        await self._asks("sample")

    async def roots(self) -> None:
        await self._asks("roots")

    async def _asks(self, what: str) -> None:
        word = self.words[what]
        told = await self.host.call(word["tool"], word.get("arguments", {}))
        expect(word["text"] in told, f"the answer was {told[:200]!r}")


async def outcome(checks: Checks, name: str) -> str:
    """Return the empty text if a check holds, else why it does not."""
    try:
        async with asyncio.timeout(LIMIT):
            await getattr(checks, name)()
    except TimeoutError:
        return f"no end within {LIMIT:g} s"
    except Exception as error:  # noqa: BLE001 - whatever happens is the outcome
        return f"{type(error).__name__}: {error}"[:300] or traceback.format_exc()[-300:]
    return ""


def plan() -> dict[str, Any]:
    """Return the plan of this host."""
    told: dict[str, Any] = json.loads(sys.argv[1])
    return told


def tell(version: str, checks: dict[str, str]) -> None:
    """Print what the runner reads."""
    sys.stdout.write(json.dumps({"version": version, "checks": checks}) + "\n")
