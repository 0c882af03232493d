"""Reading the journal of a fake server: what really reached it, and what it did."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kit.traffic import Connection
from tests.kit.wire import Side

Event = dict[str, Any]


class Journal:
    """The events in one journal file; ``runs`` are the processes that wrote it, in the order of their start."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def events(self, event: str | None = None, run: str | None = None) -> list[Event]:
        """Return the events so far, of one kind and one process if named."""
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")[:-1]
        found: list[Event] = [json.loads(line) for line in lines]
        return [e for e in found if event in (None, e["event"]) and run in (None, e["run"])]

    def runs(self) -> list[str]:
        """Return the processes that started, in order."""
        return [event["run"] for event in self.events("started")]

    def requests(self, method: str | None = None, run: str | None = None) -> list[Event]:
        """Return the requests that reached the server."""
        frames = [e for e in self.events("in", run) if "method" in e and "id" in e]
        return [e for e in frames if method in (None, e["method"])]

    def calls(self, tool: str | None = None, run: str | None = None) -> list[Event]:
        """Return the tool calls that reached the server."""
        return [e for e in self.requests("tools/call", run) if tool in (None, e.get("params", {}).get("name"))]

    def notes(self, method: str, run: str | None = None) -> list[Event]:
        """Return the notifications of one method that reached the server."""
        return [e for e in self.events("in", run) if e.get("method") == method and "id" not in e]

    def answers(self, run: str | None = None) -> list[Event]:
        """Return the answers to the server's own requests that reached it."""
        return [e for e in self.events("in", run) if "method" not in e]

    def traffic(self) -> list[Connection]:
        """Return what was said between smcp and each process."""
        found = {run: Connection(f"{self.path.stem} {run}", "client", limit=None) for run in self.runs()}
        for event in self.events():
            # A frame that is long is in the journal by its head alone, or not at all.
            whole = "raw" in event and event["size"] == len(event["raw"])
            if whole and event["event"] in ("in", "out") and event["run"] in found:
                side: Side = "client" if event["event"] == "in" else "server"
                found[event["run"]].add(side, event["raw"].encode("latin-1"))
        return list(found.values())

    async def wait(self, wanted: Callable[[Journal], object], timeout: float = 10.0, what: str = "") -> None:
        """Return once the journal satisfies the condition. Raise with the journal's tail after the time-out."""
        end = time.monotonic() + timeout
        while not wanted(self):
            if time.monotonic() > end:
                raise AssertionError(f"not in the journal within {timeout} s: {what or 'the condition'}\n{self.tail()}")
            await asyncio.sleep(0.01)

    def tail(self, count: int = 30) -> str:
        """Return the last events as text."""
        shown = [f"  {e['at']:.3f} {e['run']} {e['event']} {_brief(e)}" for e in self.events()[-count:]]
        return "\n".join([f"journal {self.path.name}:", *shown])


def _brief(event: Event) -> str:
    rest = {key: value for key, value in event.items() if key not in ("at", "run", "event", "raw", "size")}
    return str(event.get("raw", rest))[:200]
