"""Creating a container and starting it, and taking it away again where that was for nothing."""

from __future__ import annotations

import asyncio
import contextlib
import signal as signals
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.container.engine import Engine, EngineError, EngineRefusedError, hang_up

if TYPE_CHECKING:
    import docker

_LAST_WORDS_SECONDS = 1.0
_CONFLICT, _MISSING = 409, 404


@dataclass(slots=True)
class Started:
    """A container that was started: its first process, and what the gate writes where nobody else does."""

    pid: int
    output: Any = field(repr=False)

    def hang_up(self) -> None:
        """Listen to its output no more."""
        output, self.output = self.output, None
        if output is not None:
            hang_up(output)

    def last_words(self) -> str:
        """Return what was written so far. Blocks for a moment."""
        if self.output is None:
            return ""
        text = b""
        raw = getattr(self.output, "_sock", self.output)
        try:
            raw.settimeout(_LAST_WORDS_SECONDS)
            while (part := raw.recv(4096)) and len(text) < 1 << 14:
                text += part
        except OSError:
            pass
        lines = [line[8:] if line[:1] in (b"\x01", b"\x02") else line for line in text.splitlines()]
        return "; ".join(line.decode(errors="replace").strip() for line in lines[-3:])


def start(client: docker.APIClient, *, name: str, told: Mapping[str, Any], stdin: bool = False) -> Started:
    """Create a container and start it, listening to it from before."""
    output = None
    client.create_container_from_config(dict(told), name)  # type: ignore[no-untyped-call]
    try:
        output = client.attach_socket(name, params={"stdin": int(stdin), "stdout": 1, "stderr": 1, "stream": 1})
        client.start(name)
        pid = _first_process(client, name)
    except BaseException:
        if output is not None:
            hang_up(output)
        # Why it did not start is the reason; that nothing is there any more, or the engine is gone, is none.
        with contextlib.suppress(Exception):
            discard(client, name)
        raise
    return Started(pid, output)


def discard(client: docker.APIClient, name: str) -> None:
    """Remove a container, whatever it does, with the volumes that the engine made for it alone."""
    client.remove_container(name, v=True, force=True)


def _first_process(client: docker.APIClient, name: str) -> int:
    """Return the first process of a container, 0 for one that has ended and is gone already."""
    import docker.errors

    try:
        state = client.inspect_container(name).get("State") or {}
    except docker.errors.NotFound:
        return 0
    return int(state.get("Pid") or 0)


async def meet(meeting: asyncio.Future[None], ended: asyncio.Future[Any]) -> None:
    """Wait for the gate. Raise `IsolationError` where its container ends before."""
    await asyncio.wait((meeting, ended), return_when=asyncio.FIRST_COMPLETED)
    if not meeting.done():
        raise IsolationError(
            "its container ended before anything ran in it",
            remedy="See the log of the engine.",
        )
    await meeting


async def finished(starting: asyncio.Future[Started]) -> Started | None:
    """Wait for a start that nobody wants any more: what it leaves has to be removed."""
    with anyio.CancelScope(shield=True):
        await asyncio.wait((starting,))
    return None if starting.cancelled() or starting.exception() is not None else starting.result()


async def abandon(engine: Engine, name: str, started: Started | None) -> str:
    """Remove a container that was not to be; return the last that was written in it."""
    if started is None:
        return ""

    said = ""
    with contextlib.suppress(EngineError):
        await engine.call(lambda client: client.kill(name, signals.SIGKILL))
    said = await anyio.to_thread.run_sync(started.last_words)
    try:
        await engine.call(lambda client: discard(client, name))
    except EngineRefusedError as error:
        # It removes itself as well.
        if error.status not in (_MISSING, _CONFLICT):
            raise
    except EngineError:
        pass
    return said
