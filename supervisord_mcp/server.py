"""One instance of a server: one lifecycle and one multiplexer, whose commands it carries out.

This is the one bridge from the pure parts to the world. Deciding and applying are both synchronous; only readers,
writers and the task that holds the child wait, so nothing comes between a decision and its effect (design.md 3).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup

from supervisord_mcp.catalogues import Catalogues
from supervisord_mcp.errors import IsolationError, LaunchError, SmcpError
from supervisord_mcp.logs import ServerLog, StderrSink
from supervisord_mcp.observer import Event, Observers
from supervisord_mcp.pipes import ChunkReader, QueueWriter
from supervisord_mcp.policy import events as life
from supervisord_mcp.policy.lifecycle import Lifecycle, Policy, State, step
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.protocol import commands as talk
from supervisord_mcp.protocol.attachment import State as SessionState
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.framing import LineSplitter, Oversized
from supervisord_mcp.protocol.multiplexer import Multiplexer
from supervisord_mcp.runtimes.base import Child, ExitStatus

_log = logging.getLogger(__name__)

#: Above this many bytes waiting for the child, its hosts are not read from.
CONGESTED = 1 << 20
#: How long a child may leave its stdin unread while something waits for it, in seconds.
WRITE_TIMEOUT = 30.0
#: How long a request waits for a restart that is due, in seconds; a later one is answered with an error at once.
PATIENCE = 2.0
#: How many lines of noise on stdout are logged for each run; the rest is counted.
LOGGED_NOISE = 100


class SessionLink(Protocol):
    """What an instance needs of a session."""

    key: talk.SessionKey

    def send(self, data: bytes, weight: talk.Weight, closes: tuple[bytes, ...]) -> None:
        """Write a line to the host."""

    def opened(self, identity: bytes) -> None:
        """Note that a request of the host waits for its answer."""

    def dropped(self, identity: bytes) -> None:
        """Note that a request of the host needs no answer any more."""

    def remember(self, state: SessionState) -> None:
        """Keep the slow state over a death of the daemon."""

    def pause(self) -> None:
        """Do not read from the host for now."""

    def resume(self) -> None:
        """Read from the host again."""

    def finish(self, status: int, text: str = "") -> None:
        """End the session orderly."""


@dataclass(frozen=True, slots=True)
class Spawning:
    """What a spawn may tell while it goes on: that it installs, and a line of progress for `status`."""

    installing: Callable[[], None]
    progress: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What an instance is made of: its name, its rules, and how a child of it is started."""

    key: InstanceKey
    policy: Policy
    relay: bool
    idle_timeout: float | None
    max_message: int
    isolation: str
    spawn: Callable[[Spawning], Awaitable[Child]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an instance shares with all others."""

    tasks: TaskGroup
    observers: Observers
    catalogues: Catalogues


class ManagedServer:
    """One instance. Its methods are called from the event loop only."""

    def __init__(self, blueprint: Blueprint, around: Surroundings, log: ServerLog, known: Catalogue | None) -> None:
        self.blueprint = blueprint
        self._around = around
        self._server_log = log
        self._loop = asyncio.get_running_loop()
        self._mux = Multiplexer(blueprint.key.server, relay=blueprint.relay, known=known)
        self._life = Lifecycle()
        self._queue: deque[life.Event] = deque()
        self._stepping = False
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._used = self._loop.time()
        self._sessions: dict[talk.SessionKey, SessionLink] = {}
        self._paused = False
        self._scope: anyio.CancelScope | None = None
        self._child: Child | None = None
        self._reader: ChunkReader | None = None
        self._stderr: ChunkReader | None = None
        self._writer: QueueWriter | None = None
        self._splitter = LineSplitter(blueprint.max_message)
        self._sink = StderrSink(log)
        self._changed = anyio.Event()
        self._noise = 0
        self._failure: SmcpError | None = None
        self.phase = ""
        self.trouble = ""
        self.last_error = ""
        self.restarts = 0

    # What others may know

    @property
    def key(self) -> InstanceKey:
        """The instance key."""
        return self.blueprint.key

    @property
    def state(self) -> str:
        """The state as people see it."""
        return self._life.shown

    @property
    def resting(self) -> bool:
        """Whether there is neither a child nor a plan to start one."""
        return self._life.resting

    @property
    def generation(self) -> int:
        """The number of the last run."""
        return self._life.generation

    @property
    def pid(self) -> int | None:
        """The process id of the child, while there is one."""
        return self._child.pid if self._child is not None else None

    @property
    def uptime(self) -> float | None:
        """For how many seconds the child has been ready."""
        return self._loop.time() - self._life.since if self._life.state is State.RUNNING else None

    @property
    def sessions(self) -> tuple[SessionLink, ...]:
        """The sessions that are attached."""
        return tuple(self._sessions.values())

    @property
    def catalogue(self) -> Catalogue | None:
        """What is known of the server's offers."""
        return self._mux.catalogue

    def session_state(self, key: talk.SessionKey) -> SessionState:
        """Return the slow state of a session, to move it to another instance."""
        return self._mux.state(key)

    # Sessions

    def attach(self, session: SessionLink, state: SessionState | None = None) -> None:
        """A host is there."""
        self._sessions[session.key] = session
        self._touch()
        self._apply(self._mux.attach(session.key, state))
        if state is not None:
            session.remember(self._mux.state(session.key))
        if self._paused:
            session.pause()

    def detach(self, key: talk.SessionKey) -> None:
        """A host is gone."""
        if self._sessions.pop(key, None) is not None:
            self._apply(self._mux.detach(key))
            self._touch()

    def refit(self, blueprint: Blueprint) -> None:
        """Take new rules for what runs; the child, if there is one, stays."""
        self.blueprint = blueprint
        self._watch_idle()

    def compare_with(self, shown: Catalogue | None) -> None:
        """Hosts that moved here were shown other lists: tell them what is different, starting a child to know it."""
        if shown is not None:
            self._apply(self._mux.assume(shown))
        self.demand()

    def fail_session(self, key: talk.SessionKey, text: str, reason: str) -> None:
        """Answer everything a host waits for with an error, before it is moved to another instance."""
        self._apply(self._mux.fail_session(key, text, {"reason": reason}))

    def from_session(self, key: talk.SessionKey, lines: list[bytes | Oversized]) -> None:
        """A host sent lines."""
        self._used = self._loop.time()
        for line in lines:
            if key not in self._sessions:
                return
            self._apply(self._mux.from_session(key, line))
        if self._writer is None or self._writer.queued or self._mux.waiting:
            self._check_congestion()

    # What people ask for

    def start(self) -> None:
        """Start, or start again what gave up."""
        self._event(life.Start())

    def stop(self) -> None:
        """Stop, and stay stopped until asked."""
        self._event(life.Stop())

    def restart(self) -> None:
        """Stop the child and start a new one."""
        self._event(life.Restart())

    def demand(self) -> None:
        """A child is needed; what waits for it gets an error at once if none will come soon."""
        self._event(life.Demand())
        if (reason := self._unavailable()) is not None:
            self._apply(self._mux.fail_held(*reason))

    async def settled(self) -> None:
        """Wait until the instance runs or rests. Raise the reason if it failed."""
        while self._life.state is not State.RUNNING and not self._life.resting:
            if self._life.state is State.BACKOFF:
                break
            await self._changed.wait()
        if self._life.state in (State.FATAL, State.BACKOFF, State.EXITED):
            raise self._failure or LaunchError(f"server '{self.key.server}' failed: {self._life.cause}")

    async def rested(self) -> None:
        """Wait until the instance rests."""
        while not self._life.resting:
            await self._changed.wait()

    # Lifecycle: events in, commands out

    def _event(self, event: life.Event) -> None:
        self._queue.append(event)
        if self._stepping:
            return
        self._stepping = True
        try:
            while self._queue:
                before = self._life
                now = self._loop.time()
                self._life, commands = step(before, self._queue.popleft(), now, self.blueprint.policy, random.random())
                for command in commands:
                    self._carry_out(command)
                if self._life.shown != before.shown:
                    self._announce(before.shown)
        finally:
            self._stepping = False

    def _announce(self, before: str) -> None:
        self._changed.set()
        self._changed = anyio.Event()
        if self._life.state is State.RUNNING:
            self._failure = None
            self.restarts = self._life.ledger.restarts
            self._watch_idle()
        data: dict[str, Any] = {
            "instance": str(self.key),
            "generation": self._life.generation,
            "from": before,
            "to": self._life.shown,
        }
        if self._life.cause and self._life.shown in ("BACKOFF", "FATAL", "EXITED"):
            data["cause"] = self._life.cause
        self._around.observers.publish(Event("state", self.key.server, data))
        text = f"{before} -> {self._life.shown}" + (f": {data['cause']}" if "cause" in data else "")
        self._server_log.write("smcp", text)

    def _carry_out(self, command: life.Command) -> None:
        match command:
            case life.SetTimer(serial, seconds):
                self._cancel_timer()
                self._timer = self._loop.call_later(seconds, self._event, life.TimerFired(serial))
            case life.CancelTimer():
                self._cancel_timer()
            case life.Spawn(generation):
                self._around.tasks.start_soon(self._run, generation)
            case life.CancelSpawn():
                if self._scope is not None:
                    self._scope.cancel()
            case life.CloseStdin():
                self._close_stdin()
            case life.Terminate():
                if self._child is not None:
                    self._child.signal(15)
            case life.Kill():
                if self._child is not None:
                    self._child.kill()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_stdin(self) -> None:
        self._apply(self._mux.stopping())
        if self._writer is not None:
            self._writer.flush()
            self._writer.close()
        if self._child is not None:
            self._child.close_stdin()

    # The child

    async def _run(self, generation: int) -> None:
        """Start a child and stay with it until nothing of it is left."""
        child = await self._spawn(generation)
        if child is None:
            return
        self._connect(child)
        self._event(life.Spawned(generation))
        self._apply(self._mux.child_started())
        status: ExitStatus | None = None
        try:
            status = await child.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await self._disconnect(child)
            self._ended(generation, status)

    async def _spawn(self, generation: int) -> Child | None:
        failure: SmcpError | None = None
        child: Child | None = None

        def installing() -> None:
            self._event(life.Installing(generation))

        with anyio.CancelScope() as self._scope:
            try:
                child = await self.blueprint.spawn(Spawning(installing, self._progress))
            except SmcpError as error:
                failure = error
            except OSError as error:
                failure = LaunchError(f"server '{self.key.server}' cannot be started: {error}")
        self._scope = None
        self.phase = ""
        if child is not None:
            return child
        self._failure = failure
        text = str(failure) if failure is not None else self._life.cause or "the start was cancelled"
        self.last_error = text
        retryable = not isinstance(failure, IsolationError) and getattr(failure, "retryable", failure is None)
        self._event(life.SpawnFailed(generation, retryable, text))
        if failure is not None or self._life.resting:
            self._apply(self._mux.fail_held(text, {"reason": "server_not_started"}))
        return None

    def _progress(self, text: str) -> None:
        self.phase = text
        self._server_log.write("smcp", text)

    def _connect(self, child: Child) -> None:
        self._child = child
        self._noise = 0
        self.trouble = ""
        self._splitter = LineSplitter(self.blueprint.max_message)
        self._sink = StderrSink(self._server_log)
        self._writer = QueueWriter(child.stdin, self._deaf, self._drained)
        self._reader = ChunkReader(child.stdout, self._from_child, self._mute)
        self._stderr = ChunkReader(child.stderr, self._sink.feed, lambda _: None)

    async def _disconnect(self, child: Child) -> None:
        assert self._reader is not None
        assert self._stderr is not None
        assert self._writer is not None
        self._reader.drain()
        if (rest := self._splitter.finish()) is not None:
            self._apply(self._mux.from_server(rest))
        self._stderr.drain()
        self._sink.finish()
        self._writer.close()
        self._cancel_write_timer()
        self._child = self._reader = self._stderr = self._writer = None
        await child.aclose()

    def _ended(self, generation: int, status: ExitStatus | None) -> None:
        unasked = self._life.state in (State.STARTING, State.RUNNING)
        ended = str(status) if status is not None else "was abandoned"
        cause = self.trouble or ended
        tail = self._sink.tail
        name = self.key.server
        data: dict[str, Any] = {"reason": "server_exited" if unasked else "server_stopped"}
        if status is not None:
            data["exitCode"] = status.code
            data["signal"] = status.signal
        if unasked:
            if tail:
                data["stderrTail"] = tail
                cause = f"{cause}; last lines of stderr:\n{tail}"
            self.last_error = cause
            self._failure = LaunchError(f"server '{name}' ended: {cause}")
        text = f"server '{name}' ended: {cause}" if unasked else f"server '{name}' was stopped"
        self._event(life.Exited(generation, bool(status and status.success), cause))
        self._apply(self._mux.child_lost(text, data))
        if self._mux.waiting:
            self.demand()
        self._check_congestion()

    def _deaf(self, error: OSError) -> None:
        """The child closed its stdin."""
        self._give_up(f"it closed its stdin ({error.strerror})")

    def _mute(self, error: OSError | None) -> None:
        """The child closed its stdout: nothing more can come of it."""
        self._give_up("it closed its stdout")

    def _give_up(self, trouble: str) -> None:
        """Let a child that cannot be talked to end by itself, and end it if it does not."""
        child, generation = self._child, self._life.generation

        def end() -> None:
            if child is not None and self._child is child and self._life.generation == generation:
                self.trouble = trouble
                child.kill()

        self._loop.call_later(self.blueprint.policy.stop_grace, end)

    def _from_child(self, chunk: bytes) -> None:
        self._used = self._loop.time()
        for line in self._splitter.feed(chunk):
            self._apply(self._mux.from_server(line))

    # Commands of the multiplexer

    def _apply(self, commands: list[talk.Command]) -> None:
        for command in commands:
            match command:
                case talk.ToSession(key, data, weight, closes):
                    if (session := self._sessions.get(key)) is not None:
                        session.send(data, weight, closes)
                case talk.ToServer(data):
                    if self._writer is not None:
                        self._writer.write(data)
                case talk.Opened(key, identity):
                    if (session := self._sessions.get(key)) is not None:
                        session.opened(identity)
                case talk.Dropped(key, identity):
                    if (session := self._sessions.get(key)) is not None:
                        session.dropped(identity)
                case talk.Remember(key):
                    if (session := self._sessions.get(key)) is not None:
                        session.remember(self._mux.state(key))
                case _:
                    self._apply_rare(command)

    def _apply_rare(self, command: talk.Command) -> None:
        match command:
            case talk.Demand():
                self.demand()
            case talk.Ready():
                self._event(life.Ready(self._life.generation))
            case talk.Refused(reason):
                self.trouble = reason
                if self._child is not None:
                    self._child.kill()
            case talk.Learned(learnt, changed):
                self._around.catalogues.save(self.key.server, self.key.digest, learnt)
                data = {"instance": str(self.key), "changed": list(changed)}
                self._around.observers.publish(Event("catalogue", self.key.server, data))
            case talk.Health(trouble):
                self.trouble = trouble
                if trouble:
                    self.last_error = trouble
                    self._server_log.write("smcp", f"not healthy: {trouble}")
                    self._around.observers.publish(Event("health", self.key.server, {"trouble": trouble}))
            case talk.Note(kind, text):
                self._noise += 1
                if self._noise <= LOGGED_NOISE:
                    self._server_log.write("smcp", f"{kind}: {text}")

    def _unavailable(self) -> tuple[str, dict[str, Any]] | None:
        """Return why no child will come soon, for those who wait for it, or None if one will."""
        name = self.key.server
        match self._life.state:
            case State.STOPPED:
                return f"server '{name}' is stopped; start it with: smcp start {name}", {"reason": "server_stopped"}
            case State.FATAL:
                text = f"server '{name}' is not restarted any more: {self._life.cause}"
                return f"{text}\nstart it with: smcp start {name}", {"reason": "server_fatal"}
            case State.EXITED:
                return f"server '{name}' has ended: {self._life.cause}", {"reason": "server_exited"}
            case State.BACKOFF:
                wait = (self._life.retry_at or 0.0) - self._loop.time()
                if wait > PATIENCE:
                    text = f"server '{name}' failed and is started again in {wait:.0f} s: {self._life.cause}"
                    return text, {"reason": "server_backoff", "retryAfter": round(wait, 1)}
        return None

    # Congestion and idleness

    def _drained(self) -> None:
        self._cancel_write_timer()
        self._check_congestion()

    def _check_congestion(self) -> None:
        """Stop reading from the hosts while too much waits for the child, so that nothing grows without bound."""
        waiting = self._mux.held_bytes if self._mux.waiting else 0
        if self._writer is not None and self._writer.queued:
            waiting += self._writer.queued
            if self._write_timer is None:
                self._write_timer = self._loop.call_later(WRITE_TIMEOUT, self._write_overdue)
        if (waiting > CONGESTED) == self._paused:
            return
        self._paused = waiting > CONGESTED
        for session in self.sessions:
            if self._paused:
                session.pause()
            else:
                session.resume()

    def _write_overdue(self) -> None:
        self._write_timer = None
        if self._writer is None or self._child is None or not self._writer.queued:
            return
        idle = self._loop.time() - self._writer.progressed
        if idle < WRITE_TIMEOUT:
            self._write_timer = self._loop.call_later(WRITE_TIMEOUT - idle, self._write_overdue)
            return
        self.trouble = f"not reading: it took nothing from its stdin for {WRITE_TIMEOUT:g} s"
        self._child.kill()

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _touch(self) -> None:
        self._used = self._loop.time()

    def _watch_idle(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        timeout = self.blueprint.idle_timeout
        if timeout is None or self._life.state is not State.RUNNING:
            return
        unused = self._loop.time() - self._used
        if unused >= timeout and not self._mux.busy:
            self._event(life.Idle(self._life.generation))
            return
        wait = timeout if self._mux.busy else timeout - unused
        self._idle_timer = self._loop.call_later(wait, self._watch_idle)
