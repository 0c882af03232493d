"""A server that runs in a container."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal as signals
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import anyio

from supervisord_mcp.runtimes import proctable
from supervisord_mcp.runtimes.accounting import Gauge, TreeMeter
from supervisord_mcp.runtimes.base import Child, ExitStatus
from supervisord_mcp.runtimes.child import Companion, Gatekeeper, forget
from supervisord_mcp.runtimes.container.engine import Engine, EngineError
from supervisord_mcp.runtimes.container.starting import discard
from supervisord_mcp.runtimes.container.stats import StatsMeter
from supervisord_mcp.runtimes.container.watch import Ending, Watch, Watched
from supervisord_mcp.runtimes.reading import Meter
from supervisord_mcp.runtimes.watcher import Bounds, Watcher

#: How long an engine has to end a container by itself, and to remove what is left of it.
_KILL_SECONDS = 2.0
_REMOVE_SECONDS = 10.0
#: How long one that hangs is waited for when it is asked to; it is asked again by the next daemon.
_DISCARD_SECONDS = 5.0
#: How long after its first process an engine may take to say how a container ended.
_TOLD_SECONDS = 10.0
#: The same where nobody hears the engine, which has gone away itself.
_UNHEARD_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Running:
    """A container that was started: its name, its first process here (0 where it is not on this machine)."""

    name: str
    pid: int
    stop_signal: int = signals.SIGTERM
    memory: str = ""


class ContainerChild(Child):
    """A container and all that runs in it. Made in the event loop that is to watch it."""

    def __init__(
        self, engine: Engine, watch: Watch, watched: Watched, running: Running, pipes: tuple[int, int, int]
    ) -> None:
        self.pid = running.pid
        self.stdin, self.stdout, self.stderr = pipes
        self._engine, self._watch, self._watched, self._running = engine, watch, watched, running
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[ExitStatus] = self._loop.create_future()
        self._companions: list[Companion] = []
        #: Who decides what it reaches, where that is not nothing.
        self.gatekeeper: Gatekeeper | None = None
        self.gauge: Gauge | None = None
        #: Ends what carries its bytes, where that is an engine: one that cannot deliver them does not see the end.
        self.cut: Callable[[], None] = lambda: None
        self._watcher: Watcher | None = None
        self._reason = ""
        self._killing = False
        self._last: asyncio.Task[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._pidfd = _open(running.pid)
        if self._pidfd >= 0:
            self._loop.add_reader(self._pidfd, self._first_gone)
        watched.ended.add_done_callback(self._engine_told)

    def attach(self, companion: Companion) -> None:
        """Close a companion when the child has ended, however that happens."""
        self._companions.append(companion)
        self._ended.add_done_callback(lambda _: companion.close())

    def watch(self, bounds: Bounds) -> None:
        """Keep limits that the engine cannot, by looking."""
        self._watcher = Watcher(bounds, lambda: proctable.descendants(self.pid), self.end)
        self._watcher.start()

    def refused(self) -> tuple[str, ...]:
        """Return the first places of the network that the child asked for and was refused."""
        return () if self.gatekeeper is None else self.gatekeeper.refused

    def meter(self) -> Meter:
        """Return what reads how much the container uses: by its processes where they are on this machine."""
        if self.pid == 0:
            return StatsMeter(self._engine, self._running.name)
        # What is below a process of its group may be in a group of its own, where a container may make some.
        return TreeMeter(lambda held: proctable.descendants(self.pid), lambda: self.gauge, self._traffic)

    def _traffic(self) -> tuple[int, int] | None:
        return None if self.gatekeeper is None else self.gatekeeper.traffic()

    @property
    def exited(self) -> bool:
        """Whether nothing of the container runs any more."""
        return self._ended.done()

    async def wait(self) -> ExitStatus:
        """Return how the server ended, once nothing runs in the container."""
        return await asyncio.shield(self._ended)

    def close_stdin(self) -> None:
        """Close the daemon's end of the child's stdin; the child sees end of file. Idempotent."""
        if self.stdin >= 0:
            forget(self._loop, self.stdin)
            self.stdin = -1

    def signal(self, number: int) -> None:
        """Send a signal to the server, which passes it on to whom it started; one that is gone is no error.

        What an image wants to be stopped by takes the place of SIGTERM, as with ``docker stop``.
        """
        if self.exited:
            return
        number = self._running.stop_signal if number == signals.SIGTERM else number
        # One that was stopped hears nothing before it goes on.
        self._send(number, signals.SIGCONT) if number != signals.SIGSTOP else self._send(number)

    def kill(self) -> None:
        """End everything in the container at once; one that is gone is no error."""
        if self.exited or self._killing:
            return
        self._killing = True
        self._send(signals.SIGKILL)
        self.cut()
        self._timers.append(self._loop.call_later(_KILL_SECONDS, self._remove))

    def end(self, reason: str) -> None:
        """Kill the container, and name a reason in how it ended; the first one counts."""
        self._reason = self._reason or reason
        self.kill()

    async def aclose(self) -> None:
        """Kill what still runs, wait until the engine has forgotten it, and close every descriptor. Idempotent."""
        try:
            self.kill()
            with anyio.CancelScope(shield=True):
                await self.wait()
                await self._settle()
                self._watch.forget(self._running.name)
                # What carries its bytes from an engine far away waits for more of them, or the end.
                self.close_stdin()
                for companion in self._companions:
                    await companion.aclose()
        finally:
            self.close_stdin()
            for name in ("stdout", "stderr"):
                if (descriptor := getattr(self, name)) >= 0:
                    forget(self._loop, descriptor)
                    setattr(self, name, -1)

    async def _settle(self) -> None:
        """Wait until the engine has removed the container; it does that by itself, a moment after the end."""
        if self._watched.removed.is_set():
            return
        with anyio.move_on_after(_REMOVE_SECONDS):
            await self._watched.removed.wait()
            return
        with contextlib.suppress(EngineError), anyio.move_on_after(_DISCARD_SECONDS):
            await self._engine.call(lambda client: discard(client, self._running.name))

    def _send(self, *numbers: int) -> None:
        """Send signals, in the order in which this is called; through the engine where the kernel refuses."""
        with contextlib.suppress(OSError):
            if self._pidfd >= 0 and (self._last is None or self._last.done()):
                for number in numbers:
                    signals.pidfd_send_signal(self._pidfd, number)
                return
        self._later(lambda: self._ask(numbers))

    async def _ask(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            with contextlib.suppress(EngineError):
                await self._engine.call(lambda client, number=number: client.kill(self._running.name, number))  # type: ignore[misc]

    def _remove(self) -> None:
        """Ask the engine to do what its own way did not."""

        async def remove() -> None:
            with contextlib.suppress(EngineError):
                await self._engine.call(lambda client: discard(client, self._running.name))

        if not self.exited:
            self._later(remove)
            self._timers.append(self._loop.call_later(_KILL_SECONDS, self._remove))

    def _later(self, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        before = self._last

        async def run() -> None:
            if before is not None:
                await asyncio.wait([before])
            await action()

        self._last = self._loop.create_task(run())

    def _first_gone(self) -> None:
        """The first process has ended, and with it all in its namespace. The engine says how, unless it is gone."""
        self._loop.remove_reader(self._pidfd)
        wait = _TOLD_SECONDS if self._watch.listening else _UNHEARD_SECONDS
        self._timers.append(self._loop.call_later(wait, self._finish, Ending(None)))

    def _engine_told(self, ended: asyncio.Future[Ending]) -> None:
        if not ended.cancelled():
            self._finish(ended.result())

    def _finish(self, ending: Ending) -> None:
        if self.exited:
            return
        for timer in self._timers:
            timer.cancel()
        if self._watcher is not None:
            self._watcher.stop()
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self._ended.set_result(self._status(ending))

    def _status(self, ending: Ending) -> ExitStatus:
        code = ending.code
        if code is None:
            return ExitStatus(signal=signals.SIGKILL, cause=self._reason or "the engine does not say how it ended")
        cause = self._reason
        if ending.out_of_memory and code != 0:
            cause = cause or self._running.memory
        # The init of the engine exits with the signal of the server, as a shell does.
        if 128 < code <= 192:
            return ExitStatus(signal=code - 128, cause=cause)
        return ExitStatus(code=code, cause=cause)


def _open(pid: int) -> int:
    if pid <= 0:
        return -1
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1
