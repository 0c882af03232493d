"""One instance of a server: one lifecycle and one multiplexer, whose commands it carries out.

This is the one bridge from the pure parts to the world. Deciding and applying are both synchronous; only readers,
writers and the task that holds the child wait, so nothing comes between a decision and its effect (design.md 3).
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
from collections import deque

import anyio

from supervisord_mcp import reasons
from supervisord_mcp.announcements import Announcements
from supervisord_mcp.blueprint import Blueprint, Spawning, Surroundings
from supervisord_mcp.breaches import Breaches
from supervisord_mcp.conduit import Conduit, Fittings
from supervisord_mcp.congestion import Congestion
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.echoes import Echoes, TakeLine
from supervisord_mcp.errors import IsolationError, LaunchError, NotRunningError, SmcpError
from supervisord_mcp.logs import Log
from supervisord_mcp.policy import events as life
from supervisord_mcp.policy.lifecycle import Lifecycle, State, step
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.protocol import commands as talk
from supervisord_mcp.protocol.attachment import State as SessionState
from supervisord_mcp.protocol.calls import Call, SessionKey
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.multiplexer import Multiplexer
from supervisord_mcp.remarks import Remarks
from supervisord_mcp.runtimes.base import Child, ExitStatus
from supervisord_mcp.session import SessionLink
from supervisord_mcp.traffic import Around, Traffic

_log = logging.getLogger(__name__)


class ManagedServer:
    """One instance. Its methods are called from the event loop only."""

    def __init__(self, blueprint: Blueprint, around: Surroundings, log: Log, known: Catalogue | None) -> None:
        self.blueprint = blueprint
        self._around = around
        self._server_log = log
        self._loop = asyncio.get_running_loop()
        self._mux = Multiplexer(blueprint.key.server, relay=blueprint.relay, known=known, entropy=os.urandom)
        self._life = Lifecycle(generation=blueprint.generation)
        self._queue: deque[life.Event] = deque()
        self._stepping = False
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._used = self._loop.time()
        self._sessions: dict[SessionKey, SessionLink] = {}
        self._congestion = Congestion(self._sessions)
        self._spawning = anyio.CancelScope()
        self._conduit: Conduit | None = None
        self._changed = anyio.Event()
        self.remarks = Remarks(log)
        self.breaches = Breaches(self.key, around.observers, log, lambda: self.blueprint.breach)
        self._tell = Announcements(self.key, around.observers, log)
        self._messages = around.observers.messages[self.key.server]
        self.traffic = Traffic(
            blueprint.key, around.observers, Around(self._mux.host, self._mux.calls, self._loop.call_later)
        )
        self._echoes = Echoes(blueprint.key, log, around.observers)
        self._failure: SmcpError | None = None
        self._phase = self._ailment = self.last_error = ""

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
    def needed(self) -> bool:
        """Whether more keeps it than its idle time-out: the wish of a person, or something that goes on."""
        lasting = self.blueprint.idle_timeout is None
        return not self.resting and (lasting or self._mux.busy or self._life.state is not State.RUNNING)

    @property
    def unused(self) -> bool:
        """Whether nothing is lost with it: nobody uses it, nothing runs, and it did not give up."""
        return self._life.state in (State.ASLEEP, State.STOPPED) and not self._sessions

    @property
    def phase(self) -> str:
        """What a start is busy with, or what ails a child that runs."""
        return self._phase or (f"not healthy: {self._ailment}" if self._ailment else "")

    @property
    def restarts(self) -> int:
        """How often it was restarted since a person last asked for it."""
        return self._life.ledger.restarts

    @property
    def generation(self) -> int:
        """The number of the last run."""
        return self._life.generation

    @property
    def pid(self) -> int | None:
        """The process id of the child, while there is one."""
        return self.child.pid if self.child is not None else None

    @property
    def era(self) -> str:
        """The era in which the child is spoken to, or the empty text while there is none that is ready."""
        return self._mux.era if self._mux.ready else ""

    @property
    def child(self) -> Child | None:
        """The child, while there is one."""
        return self._conduit.child if self._conduit is not None else None

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

    def session_state(self, key: SessionKey) -> SessionState:
        """Return the slow state of a session, to move it to another instance."""
        return self._mux.state(key)

    # Sessions

    def attach(self, session: SessionLink, state: SessionState | None = None) -> None:
        """A host is there."""
        self._sessions[session.key] = session
        self._used = self._loop.time()
        self._apply(self._mux.attach(session.key, state, session.principal))
        if state is not None:
            session.remember(self._mux.state(session.key))

    def detach(self, key: SessionKey) -> None:
        """A host is gone."""
        session = self._sessions.pop(key, None)
        if session is None:
            return
        self._congestion.leave(session)
        self.traffic.left(key, self._mux.calls_of(key))
        self._used = self._loop.time()
        self._apply(self._mux.detach(key))
        self._check_congestion()

    def refit(self, blueprint: Blueprint) -> None:
        """Take new rules for what runs; the child, if there is one, stays unless it is of an era that is ruled out."""
        self.blueprint = blueprint
        if self._conduit is not None:
            self._conduit.on_line = self._taker()
        if self.era not in ("", blueprint.terms().pinned or self.era):
            self.restart()
        self._watch_idle()

    def compare_with(self, shown: Catalogue | None) -> None:
        """Hosts that moved here were shown other lists: tell them what is different, starting a child to know it."""
        if shown is not None:
            self._apply(self._mux.assume(shown))
        self.demand()

    def fail_session(self, key: SessionKey, text: str, reason: str) -> None:
        """Answer everything a host waits for with an error, before it is moved to another instance."""
        self._apply(self._mux.fail_session(key, text, {"reason": reason}))

    def from_session(self, key: SessionKey, lines: list[bytes | Oversized]) -> None:
        """A host sent lines."""
        self._used = self._loop.time()
        if self._congestion.waiting or (self._conduit is not None and self._conduit.queued):
            self._check_congestion()  # what waits by now is not of this host, what the child took is of nobody
        for line in lines:
            if (session := self._sessions.get(key)) is None:
                return
            if self._messages.watched:
                self.traffic.line(key, line, "from-host")
            self.traffic.heard = b"" if isinstance(line, Oversized) else line
            try:
                self._apply(self._mux.from_session(key, line))
            except Exception:  # noqa: BLE001 - a fault of ours with one message must leave nobody waiting for ever
                _log.exception("a message to server '%s' could not be handled", self.key.server)
                session.finish(1, "smcp failed on a message of this host; the log of the daemon has the cause")
        self.traffic.heard = b""  # which may be long
        if self._conduit is None or self._conduit.queued or self._mux.waiting:
            self._check_congestion(key)

    # What people ask for

    def start(self) -> None:
        """Start, or start again what gave up."""
        self._event(life.Start())

    def stop(self) -> None:
        """Stop, and stay stopped until asked."""
        self._event(life.Stop())
        if self._life.state is State.STOPPED and self._mux.waiting:
            self.demand()  # for a restart that will not come

    def restart(self) -> None:
        """Stop the child and start a new one."""
        self._event(life.Restart())

    def demand(self) -> None:
        """A child is needed; what waits for it gets an error at once if none will come soon."""
        self._event(life.Demand())
        if (reason := self._unavailable()) is not None:
            self._fail_held(reason)

    async def settled(self) -> None:
        """Wait until the instance runs, rests or waits for its next start. Raise the reason if it does not run."""
        while not self._life.resting and self._life.state not in (State.RUNNING, State.BACKOFF):
            await self._changed.wait()
        match self._life.state:
            case State.STOPPED if (reason := self._unavailable()) is not None:
                raise NotRunningError(reason.text)
            case State.ASLEEP if self._failure is None:
                return
            case State.FATAL | State.BACKOFF | State.EXITED | State.ASLEEP:
                now, key = self._loop.time(), self.key
                raise reasons.failure(key.server, self._life, self._failure, now, key.project)

    async def rested(self) -> None:
        """Wait until the instance rests, or somebody started it again: of the run before nothing is left then."""
        generation = self._life.generation
        while not self._life.resting and self._life.generation == generation:
            await self._changed.wait()

    # Lifecycle: events in, commands out

    def _event(self, event: life.Event) -> None:
        self._queue.append(event)
        if self._stepping:
            return
        self._stepping = True
        try:
            while self._queue:
                before, event, now = self._life, self._queue.popleft(), self._loop.time()
                self._life, commands = step(before, event, now, self.blueprint.policy, random.random())
                for command in commands:
                    self._carry_out(command)
                if self._life.shown != before.shown:
                    self._announce(before.shown, event)
        finally:
            self._stepping = False

    def _announce(self, before: str, event: life.Event) -> None:
        self._changed.set()
        self._changed = anyio.Event()
        if self._life.state is State.RUNNING:
            self._failure = None
            self._used = self._loop.time()
            self._watch_idle()
        self._tell.state(before, self._life, event, len(self._sessions))

    def _carry_out(self, command: life.Command) -> None:
        match command:
            case life.SetTimer(serial, seconds):
                self._cancel_timer()
                self._timer = self._loop.call_later(seconds, self._event, life.TimerFired(serial))
            case life.CancelTimer():
                self._cancel_timer()
            case life.Spawn(generation):
                # Made here: a spawn may be cancelled before its task has begun.
                self._spawning = anyio.CancelScope()
                self._around.tasks.start_soon(self._run, generation)
            case life.CancelSpawn():
                self._spawning.cancel()
            case life.CloseStdin():
                self._apply(self._mux.stopping())
                if self._conduit is not None:
                    self._conduit.close_stdin()
            case life.Terminate():
                if self._conduit is not None:
                    self._conduit.child.signal(signal.SIGTERM)
            case life.Kill():
                if self._conduit is not None:
                    self._conduit.child.kill()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # The child

    async def _run(self, generation: int) -> None:
        """Start a child and stay with it until nothing of it is left."""
        child = await self._spawn(generation)
        if child is None:
            return
        conduit = self._connect(child)
        status: ExitStatus | None = None
        try:
            self._event(life.Spawned(generation))
            self._apply(self._mux.child_started(self.blueprint.terms()))
            status = await child.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await conduit.aclose()
            self._conduit = None
            self._ended(generation, status, conduit)

    async def _spawn(self, generation: int) -> Child | None:
        told = Spawning(lambda: self._event(life.Installing(generation)), self._progress)
        child, failure = await self.blueprint.attempt(self._spawning, told)
        phase, self._phase = self._phase, ""
        if child is None:
            self._not_spawned(generation, failure, phase)
        return child

    def _not_spawned(self, generation: int, failure: SmcpError | None, phase: str) -> None:
        """The spawn failed, or was cancelled (no failure): by a person, or because it took too long in a phase."""
        self._failure = failure
        late = ": ".join(filter(None, (self._life.cause, phase)))
        text = masker.mask(str(failure)) if failure is not None else late or "the start was cancelled"
        retryable = not isinstance(failure, IsolationError) and getattr(failure, "retryable", failure is None)
        # One that is to run without being asked for has nobody who would ask again.
        blameless = getattr(failure, "unreachable", False) and self.blueprint.idle_timeout is not None
        self._event(life.SpawnFailed(generation, retryable, text, blameless))
        if failure is not None or self._life.state in (State.BACKOFF, State.FATAL, State.EXITED):
            self.last_error = text
            self._fail_held(reasons.Reason(text, {"reason": "server_not_started"}))
        elif self._mux.waiting:
            self.demand()

    def _progress(self, text: str) -> None:
        self._phase = text = masker.mask(text)
        self._server_log.write("smcp", text)

    def _connect(self, child: Child) -> Conduit:
        fittings = Fittings(self._taker(), self._check_congestion)
        self._conduit = Conduit(child, self._server_log, fittings, self.blueprint.bounds)
        return self._conduit

    def _taker(self) -> TakeLine:  # nothing looks at the lines of the child on the way unless that is wanted
        return self._echoes.watching(self._from_child) if self.blueprint.warn_on_echo else self._from_child

    def _ended(self, generation: int, status: ExitStatus | None, conduit: Conduit) -> None:
        if self._mux.doubtful and conduit.heard:
            # It died of being spoken to in an era that it does not know, which is no crash (pitfall 17).
            self._server_log.write("smcp", "it ended on the first message; the next one is spoken to in the other era")
            self._event(life.Exited(generation, False, "", blameless=True))
            self._apply(self._mux.child_lost("", blameless=True))
            return
        words = reasons.LastWords(conduit.tail, self.remarks.noise)
        status, final = self.breaches.ended(status)
        ending = reasons.ended(self.key.server, self._life, status, conduit.trouble, words)
        reason, self._ailment = ending.reason, ""
        if ending.unasked:
            self.last_error = ending.cause
            self._failure = LaunchError(reason.text)
        self.remarks.end_run()
        self._event(life.Exited(generation, bool(status and status.success), ending.cause, final=final))
        self._apply(self._mux.child_lost(reason.text, reason.data, blameless=False))
        if ending.unasked:
            self._fail_held(reason)
        elif self._mux.waiting:
            self.demand()
        self._check_congestion()

    def _from_child(self, line: bytes | Oversized) -> None:
        if self._messages.watched:
            self.traffic.line(0, line, "from-server")
        try:
            self._apply(self._mux.from_server(line))
        except Exception as error:  # noqa: BLE001 - as above: a fresh child is better than answers that never come
            _log.exception("a message of server '%s' could not be handled", self.key.server)
            if self._conduit is not None:
                self._conduit.kill(f"smcp failed on a message of it, {error!r}")
        if self._congestion.waiting:
            self._check_congestion()

    # Commands of the multiplexer

    def _apply(self, commands: list[talk.Command]) -> None:
        for command in commands:
            # Every call comes through here, and a pattern that binds names takes almost twice as long.
            match command:
                case talk.ToSession():
                    closes = command.closes
                    if closes:
                        self._used = self._loop.time()
                    if (session := self._sessions.get(command.session)) is not None:
                        session.send(command.data, command.weight, closes)
                    if closes:
                        self.traffic.answered(closes, command.data, self._used)
                    if self._messages.watched:
                        self.traffic.line(command.session, command.data, "to-host")
                case talk.ToServer():
                    if self._conduit is not None:
                        self._conduit.write(command.data)
                        if self._messages.watched:
                            self.traffic.line(0, command.data, "to-server")
                case Call():
                    if (session := self._sessions.get(command.session)) is not None:
                        session.opened(command.identity)
                    self.traffic.opened(command, self._used)
                case _:
                    self._apply_rare(command)

    def _apply_rare(self, command: talk.Command) -> None:
        match command:
            case talk.Dropped(call, overdue):
                if (session := self._sessions.get(call.session)) is not None:
                    session.dropped(call.identity)
                self.traffic.dropped(call, overdue=overdue)
            case talk.Remember(key):
                if (session := self._sessions.get(key)) is not None:
                    session.remember(self._mux.state(key))
            case talk.Parted(key, reason):
                if (session := self._sessions.get(key)) is not None:
                    session.finish(1, reason)
            case talk.Demand():
                self.demand()
            case talk.Ready():
                self._event(life.Ready(self._life.generation))
            case talk.Refused(reason):
                if self._conduit is not None:
                    self._conduit.kill(reason)
            case talk.Respawn():
                self._event(life.Replace(self._life.generation))
            case talk.Alarm(serial, seconds):
                self._loop.call_later(seconds, lambda: self._apply(self._mux.rang(serial)))
            case _:
                self._note(command)

    def _note(self, command: talk.Command) -> None:
        """Keep or tell what the multiplexer found out."""
        match command:
            case talk.Moved(key, roots):
                if (session := self._sessions.get(key)) is not None:
                    session.moved(roots)
            case talk.Judged(verdict):
                self.blueprint.judged(verdict)
            case talk.Learned(learnt, changed):
                self._around.catalogues.save(self.key.server, self.blueprint.kept_under(learnt.era), learnt)
                self._tell.catalogue(changed)
            case talk.Health(trouble):
                self._ailment = trouble = masker.mask(trouble, cut=True)
                self.last_error = trouble or self.last_error
                self._tell.health(trouble)
            case talk.Note(kind, text):
                self.remarks.take(kind, text)
            case talk.LogMessage():
                self._tell.said(command)

    def _unavailable(self) -> reasons.Reason | None:
        return reasons.unavailable(self.key.server, self._life, self._loop.time(), self.key.project)

    def _fail_held(self, reason: reasons.Reason) -> None:
        self._apply(self._mux.fail_held(reason.text, reason.data))
        self._check_congestion()

    # Congestion and idleness

    def _check_congestion(self, speaker: SessionKey | None = None) -> None:
        """Look what waits for the child, and hold back whose words they are; what is new is from ``speaker``."""
        waiting = self._mux.held_bytes + (0 if self._conduit is None else self._conduit.queued)
        self._congestion.settle(waiting, speaker)
        self._mux.crowded = self._congestion.crowded

    def _watch_idle(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        timeout = self.blueprint.idle_timeout
        if timeout is None or self._life.state is not State.RUNNING:
            return
        unused = self._loop.time() - self._used
        if unused >= timeout and not self._mux.busy:
            self._event(life.Idle(self._life.generation))
            return
        self._idle_timer = self._loop.call_later(timeout - (0 if self._mux.busy else unused), self._watch_idle)
