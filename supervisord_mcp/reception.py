"""Receives the shims: makes a session of a greeting, finds its instance, moves it when the configuration changes."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from supervisord_mcp.errors import SmcpError
from supervisord_mcp.facts import Facts
from supervisord_mcp.journal import Journal, discard, leftovers
from supervisord_mcp.listener import Greeting
from supervisord_mcp.observer import Event, Observers
from supervisord_mcp.pipes import close_quietly
from supervisord_mcp.protocol import hello, jsonrpc
from supervisord_mcp.protocol.anteroom import Admitted, Anteroom, Outcome, Reply, TurnedAway, Waits
from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.commands import Weight
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.server import ManagedServer
from supervisord_mcp.session import Limits, Session, Wires
from supervisord_mcp.supervisor import Displaced, Supervisor

_log = logging.getLogger(__name__)

NO_PROJECT = (
    "server '{}' works on a project, and the project of this session is not known.\n"
    "Start the host inside a project, or write --project DIRECTORY after 'smcp connect {}' in its configuration."
)


#: How long a shim may take to come back after the death of the daemon, before the record of its session is thrown
#: away, in seconds. Shims try for as long.
RETURN_PATIENCE = 900.0
#: How long a host may take to name its roots, in seconds.
ROOTS_PATIENCE = 60.0

Take: TypeAlias = Callable[[Session, list[bytes | Oversized]], None]


class Reception:
    """The sessions of all shims. Made in the event loop, before any of them comes."""

    def __init__(self, supervisor: Supervisor, directory: Path, observers: Observers) -> None:
        self._supervisor = supervisor
        self._directory = directory
        self._observers = observers
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[int, Session] = {}
        self._where: dict[int, ManagedServer] = {}
        self._tokens: dict[int, str] = {}
        self._missing = set(leftovers(directory))
        self._loop.call_later(RETURN_PATIENCE, self._forget_missing)

    @property
    def sessions(self) -> int:
        """How many hosts are connected."""
        return len(self._sessions)

    def receive(self, greeting: Greeting) -> None:
        """Take a shim in, or send it away with the reason."""
        try:
            if greeting.hello.resume is not None:
                self._resume(greeting, greeting.hello.resume)
            else:
                self._open(greeting)
        except SmcpError as error:
            refuse(greeting, error.exit_status, str(error))
        except OSError as error:
            refuse(greeting, 1, f"the session cannot be kept: {error}")

    def close_all(self, text: str = "") -> None:
        """End every session orderly: the shims must not come back."""
        for session in list(self._sessions.values()):
            if (instance := self._where.get(session.key)) is not None:
                instance.fail_session(session.key, "the smcp daemon was stopped", "daemon_stopped")
            session.finish(0, text)

    # Coming

    def _open(self, greeting: Greeting) -> None:
        said = greeting.hello
        facts = Facts(said.server, said.project, said.cwd, said.environ, greeting.peer_pid)
        if not self._needs_project(facts):
            self._supervisor.plan(facts)
        token = secrets.token_urlsafe(24)
        session = self._session(greeting, facts, Journal.create(self._directory, token), token)
        self._place(session, None, [])

    def _resume(self, greeting: Greeting, token: str) -> None:
        lost = SmcpError(
            "the session was not kept over the restart of the daemon", remedy="reconnect the server in the host"
        )
        if token in self._tokens.values():
            raise lost
        try:
            journal, recovered = Journal.recover(self._directory, token)
        except (FileNotFoundError, ValueError, msgspec.MsgspecError) as error:
            raise lost from error
        self._missing.discard(journal.name)
        kept: dict[str, Any] = recovered.state
        said = greeting.hello
        facts = Facts(said.server, kept.get("project") or said.project, said.cwd, said.environ, greeting.peer_pid)
        try:
            self._supervisor.server(facts.server)
            state = msgspec.convert(kept.get("state", {}), State)
        except SmcpError:
            journal.remove()
            raise
        except msgspec.ValidationError as error:
            journal.remove()
            raise lost from error
        session = self._session(greeting, facts, journal, token)
        lines = session.recover(recovered)
        # Without a version the handshake itself was lost: the host got an error for it and may try again.
        self._place(session, state if state.version else None, lines)

    def _place(self, session: Session, state: State | None, lines: list[bytes | Oversized]) -> None:
        """Bring a session to where it is served, with what it had and said before the daemon died."""
        if session.closed:
            return
        try:
            if self._needs_project(session.facts):
                take = self._wait_for_roots(session, state)
            else:
                take = self._house(session, session.facts, state)
        except SmcpError as error:
            session.finish(error.exit_status, str(error))
            return
        session.begin(take)
        take(session, lines)

    def _forget_missing(self) -> None:
        discard(self._directory, self._missing)
        self._missing.clear()

    def _needs_project(self, facts: Facts) -> bool:
        return facts.project is None and self._supervisor.scope(facts) == "project"

    def _session(self, greeting: Greeting, facts: Facts, journal: Journal, token: str) -> Session:
        daemon = self._supervisor.config.daemon
        wires = Wires(greeting.connection, *greeting.fds)
        key = self._supervisor.next_key()
        session = Session(key, facts, wires, journal, Limits(daemon.max_message, daemon.client_buffer))
        session.on_end = self._gone
        self._sessions[key], self._tokens[key] = session, token
        # A shim that is gone already is noticed by the session, like one that leaves later.
        with suppress(OSError):
            greeting.connection.send(hello.accept_line(token))
        data = {
            "session": key,
            "pid": facts.pid,
            "project": facts.project,
            "resumed": greeting.hello.resume is not None,
        }
        self._observers.publish(Event("session-opened", facts.server, data))
        return session

    def _house(self, session: Session, facts: Facts, state: State | None = None) -> Take:
        launch = self._supervisor.plan(facts)
        instance = self._supervisor.house(launch, facts, session.key)
        self._where[session.key] = instance
        instance.attach(session, state)

        def take(session: Session, lines: list[bytes | Oversized]) -> None:
            instance.from_session(session.key, lines)

        return take

    def _wait_for_roots(self, session: Session, state: State | None) -> Take:
        name = session.facts.server
        anteroom = Anteroom(name, self._supervisor.catalogue_of(name), NO_PROJECT.format(name, name), state)
        timers: list[asyncio.TimerHandle] = []

        def wait() -> None:
            timers.append(self._loop.call_later(ROOTS_PATIENCE, lambda: self._follow(session, anteroom.give_up())))

        def take(session: Session, lines: list[bytes | Oversized]) -> None:
            for number, line in enumerate(lines):
                before = anteroom.state
                admitted = self._follow(session, anteroom.from_session(line))
                if session.closed:
                    return
                if admitted is not None:
                    for timer in timers:
                        timer.cancel()
                    self._admit(session, admitted, lines[number + 1 :])
                    return
                if anteroom.state is not before:
                    session.remember(anteroom.state)
                    if anteroom.state.initialized:
                        wait()

        self._follow(session, anteroom.begin())
        if anteroom.state.initialized:
            wait()
        return take

    def _follow(self, session: Session, outcomes: list[Outcome]) -> Admitted | None:
        for outcome in outcomes:
            match outcome:
                case Reply(line):
                    session.send(line, Weight.MUST, ())
                case Waits(identity):
                    session.opened(identity)
                case Admitted():
                    return outcome
                case TurnedAway():
                    session.finish(1, NO_PROJECT.format(session.facts.server, session.facts.server))
        return None

    def _admit(self, session: Session, admitted: Admitted, rest: list[bytes | Oversized]) -> None:
        project = os.path.realpath(admitted.project)
        try:
            if not os.path.isdir(project):
                raise SmcpError(f"the host's root {admitted.project} is not a directory of this machine")
            session.facts = dataclasses.replace(session.facts, project=project)
            take = self._house(session, session.facts, admitted.state)
        except SmcpError as error:
            for identity in admitted.waiting:
                session.send(jsonrpc.error_line(identity, jsonrpc.INTERNAL_ERROR, str(error)), Weight.MUST, ())
            session.finish(error.exit_status, str(error))
            return
        session.redirect(take)
        # These were noted as waiting when they came, and are noted again by the instance.
        for identity in admitted.waiting:
            session.dropped(identity)
        take(session, [*admitted.lines, *rest])

    # Going

    def _gone(self, session: Session, reason: str) -> None:
        del self._sessions[session.key], self._tokens[session.key]
        instance = self._where.pop(session.key, None)
        if instance is not None:
            instance.detach(session.key)
            self._supervisor.released(instance)
        data = {"session": session.key, "reason": reason}
        self._observers.publish(Event("session-closed", session.facts.server, data))

    # Moving

    def rehouse(self, displaced: list[Displaced]) -> None:
        """Move the sessions of displaced instances to new ones, or end them where the server is gone."""
        for entry in displaced:
            name = entry.instance.key.server
            reason = "removed" if entry.removed else "changed"
            for link in entry.instance.sessions:
                text = f"server '{name}' was {reason} in the configuration while this request was open"
                entry.instance.fail_session(link.key, text, f"server_{reason}")
                session = self._sessions.get(link.key)
                if entry.removed or session is None:
                    link.finish(4, f"server '{name}' was {reason} in the configuration")
                else:
                    self._move(session, entry.instance)
            self._supervisor.retire(entry.instance)

    def _move(self, session: Session, old: ManagedServer) -> None:
        state = old.session_state(session.key)
        old.detach(session.key)
        try:
            take = self._house(session, session.facts, state)
        except SmcpError as error:
            session.finish(error.exit_status, str(error))
            return
        session.redirect(take)
        # The host knows the lists of the old instance; only a running child can tell what is different now.
        self._where[session.key].compare_with(old.catalogue)


def refuse(greeting: Greeting, status: int, text: str) -> None:
    """Send a shim away."""
    try:
        greeting.connection.send(hello.refuse_line(status, text))
    except OSError as error:
        _log.info("a shim left before it was refused: %s", error)
    greeting.connection.close()
    close_quietly(*greeting.fds)
