"""What an engine tells of its containers: how each one ended, and whether one of their processes ran out of memory.

One thread listens for all containers of an engine. When the engine is gone, it is asked again and again, and what it
says of each container then counts as if it had been told.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio.to_thread

from supervisord_mcp.runtimes.container.engine import Engine, EngineError, EngineRefusedError

_log = logging.getLogger(__name__)

#: How far back an engine is asked to look: between its answer and its listening something may have happened.
_OVERLAP_SECONDS = 2.0
_PAUSES = (0.2, 5.0)
_READY_SECONDS = 10.0
_MISSING = 404
_JOIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a container ended: its exit code, None where nobody knows it any more."""

    code: int | None
    out_of_memory: bool = False


@dataclass(slots=True)
class Watched:
    """One container that somebody waits for. ``removed`` is set once the engine has forgotten it."""

    ended: asyncio.Future[Ending]
    removed: asyncio.Event = field(default_factory=asyncio.Event)
    out_of_memory: bool = False


class Watch:
    """Listens to one engine, while somebody waits for a container of it. Belongs to an event loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._watched: dict[str, Watched] = {}
        self._thread: threading.Thread | None = None
        self._listening = asyncio.Event()
        self._stopping = threading.Event()
        self._stream: Any = None

    async def ready(self) -> None:
        """Listen, unless that is done already. Raise `EngineError` where the engine does not answer."""
        if self._thread is None or self._stopping.is_set() or not self._thread.is_alive():
            self._stopping = threading.Event()
            self._listening.clear()
            self._thread = threading.Thread(target=self._run, args=(self._stopping,), name="engine", daemon=True)
            self._thread.start()
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await self._listening.wait()
        except TimeoutError:
            # It says why it does not answer, which the thread only repeats.
            await self._engine.call(lambda client: client.ping())
            raise EngineError(f"{self._engine.shown} does not tell what happens to containers") from None

    @property
    def listening(self) -> bool:
        """Whether the engine is heard at this moment."""
        return self._listening.is_set()

    @property
    def names(self) -> frozenset[str]:
        """The names of the containers that somebody waits for."""
        return frozenset(self._watched)

    def expect(self, name: str) -> Watched:
        """Return what will be known of a container, by its name; call it before it is started."""
        watched = self._watched[name] = Watched(self._loop.create_future())
        return watched

    def forget(self, name: str) -> None:
        """Wait for a container no more. With the last one the listening ends."""
        self._watched.pop(name, None)
        self.rest()

    def rest(self) -> None:
        """Listen no more, unless somebody waits for a container."""
        if not self._watched:
            self._stop()

    async def aclose(self) -> None:
        """Stop listening."""
        self._stop()
        if self._thread is not None:
            await anyio.to_thread.run_sync(self._thread.join, _JOIN_SECONDS)
            self._thread = None

    def _stop(self) -> None:
        self._stopping.set()
        self._listening.clear()
        stream, self._stream = self._stream, None
        if stream is not None:
            # The thread that reads from it is woken so.
            _wake(stream)

    def _run(self, stopping: threading.Event) -> None:
        """Listen until there is nobody to listen for. In a thread of its own."""
        pause, lost = _PAUSES[0], False
        while not stopping.is_set():
            try:
                for event in self._events(stopping):
                    if event is None:
                        pause = _PAUSES[0]
                        self._tell(self._heard, stopping)
                        if lost:
                            self._look()
                    else:
                        self._tell(self._happened, event)
            except Exception as error:  # noqa: BLE001 (whatever it was: the engine is asked again)
                _log.debug("%s is not heard: %s", self._engine.shown, error)
            lost = True
            if not stopping.is_set():
                self._tell(self._listening.clear)
            if not stopping.wait(pause):
                pause = min(pause * 2, _PAUSES[1])

    def _events(self, stopping: threading.Event) -> Iterator[Mapping[str, Any] | None]:
        """Yield None once the engine listens, then what it tells."""
        client = self._engine.connect()
        with contextlib.closing(client):
            stream = client.events(
                since=int(time.time() - _OVERLAP_SECONDS),
                decode=True,
                filters={"type": ["container"], "event": ["die", "died", "oom", "destroy", "remove"]},
            )
            self._stream = stream
            try:
                if not stopping.is_set():
                    yield None
                for event in stream:
                    if stopping.is_set():
                        return
                    yield event
            finally:
                _wake(stream)

    def _heard(self, stopping: threading.Event) -> None:
        if not stopping.is_set():
            self._listening.set()

    def _look(self) -> None:
        """Ask for every container what has become of it meanwhile."""
        for name in list(self._watched):
            try:
                told = self._engine.do(lambda client, name=name: client.inspect_container(name))  # type: ignore[misc]
            except EngineRefusedError as error:
                if error.status == _MISSING:
                    self._tell(self._gone, name)
                continue
            state = told.get("State") or {}
            if state.get("Status") in ("exited", "dead", "stopped"):
                self._tell(self._died, name, int(state.get("ExitCode", 0)), bool(state.get("OOMKilled")))

    def _tell(self, action: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(action, *arguments)

    def _happened(self, event: Mapping[str, Any]) -> None:
        actor = event.get("Actor") or {}
        attributes = actor.get("Attributes") or {}
        name = str(attributes.get("name", ""))
        match event.get("Action") or event.get("status"):
            case "die" | "died":
                code = attributes.get("exitCode", attributes.get("containerExitCode"))
                self._died(name, int(code) if code is not None else None)
            case "oom":
                if name in self._watched:
                    self._watched[name].out_of_memory = True
            case "destroy" | "remove":
                self._gone(name)

    def _died(self, name: str, code: int | None, out_of_memory: bool = False) -> None:
        watched = self._watched.get(name)
        if watched is not None and not watched.ended.done():
            watched.ended.set_result(Ending(code, out_of_memory or watched.out_of_memory))

    def _gone(self, name: str) -> None:
        watched = self._watched.get(name)
        if watched is not None:
            self._died(name, None)
            watched.removed.set()


def _wake(stream: Any) -> None:
    with contextlib.suppress(Exception):  # it may have ended meanwhile
        stream.close()
