"""Receives the shims: makes a session of a greeting, finds its instance, moves it when the configuration changes."""

from __future__ import annotations

import dataclasses
import logging
import os
import secrets
from pathlib import Path
from typing import Any

import msgspec

from supervisord_mcp.errors import SmcpError
from supervisord_mcp.facts import Facts
from supervisord_mcp.journal import Journal
from supervisord_mcp.listener import Greeting
from supervisord_mcp.observer import Event, Observers
from supervisord_mcp.pipes import close_quietly
from supervisord_mcp.protocol import hello
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


class Reception:
    """The sessions of all shims."""

    def __init__(self, supervisor: Supervisor, directory: Path, observers: Observers) -> None:
        self._supervisor = supervisor
        self._directory = directory
        self._observers = observers
        self._sessions: dict[int, Session] = {}
        self._where: dict[int, ManagedServer] = {}

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
            session.finish(0, text)

    # Coming

    def _open(self, greeting: Greeting) -> None:
        said = greeting.hello
        facts = Facts(said.server, said.project, said.cwd, said.environ, greeting.peer_pid)
        self._supervisor.server(facts.server)
        unknown = self._needs_project(facts)
        if not unknown:
            self._supervisor.plan(facts)
        token = secrets.token_urlsafe(24)
        session = self._session(greeting, facts, Journal.create(self._directory, token), token)
        if unknown:
            self._wait_for_roots(session)
        else:
            session.begin(self._house(session, facts), self._gone)

    def _resume(self, greeting: Greeting, token: str) -> None:
        try:
            journal, recovered = Journal.recover(self._directory, token)
        except (FileNotFoundError, ValueError) as error:
            raise SmcpError(
                "the session was not kept over the restart of the daemon",
                remedy="reconnect the server in the host",
            ) from error
        kept: dict[str, Any] = recovered.state
        said = greeting.hello
        project = kept.get("project") or said.project
        facts = Facts(said.server, project, said.cwd, said.environ, greeting.peer_pid)
        try:
            self._supervisor.server(facts.server)
            state = msgspec.convert(kept.get("state", {}), State)
        except (SmcpError, msgspec.ValidationError) as error:
            journal.remove()
            raise (
                error if isinstance(error, SmcpError) else SmcpError(f"the session record is damaged: {error}")
            ) from error
        session = self._session(greeting, facts, journal, token)
        lines = session.recover(recovered)
        if self._needs_project(facts):
            self._wait_for_roots(session, state)
            return
        if not state.version:
            # The handshake itself was lost; the host got an error for it and may try again.
            session.begin(self._house(session, facts), self._gone)
            return
        take = self._house(session, facts, state)
        take(session, lines)
        session.begin(take, self._gone)

    def _needs_project(self, facts: Facts) -> bool:
        return facts.project is None and self._supervisor.scope(facts) == "project"

    def _session(self, greeting: Greeting, facts: Facts, journal: Journal, token: str) -> Session:
        daemon = self._supervisor.config.daemon
        wires = Wires(greeting.connection, *greeting.fds)
        key = self._supervisor.next_key()
        session = Session(key, facts, wires, journal, Limits(daemon.max_message, daemon.client_buffer))
        self._sessions[key] = session
        greeting.connection.send(hello.accept_line(token))
        data = {
            "session": key,
            "pid": facts.pid,
            "project": facts.project,
            "resumed": greeting.hello.resume is not None,
        }
        self._observers.publish(Event("session-opened", facts.server, data))
        return session

    def _house(self, session: Session, facts: Facts, state: State | None = None) -> Any:
        launch = self._supervisor.plan(facts)
        instance = self._supervisor.house(launch, facts, session.key)
        self._where[session.key] = instance
        instance.attach(session, state)

        def take(session: Session, lines: list[bytes | Oversized]) -> None:
            instance.from_session(session.key, lines)

        return take

    def _wait_for_roots(self, session: Session, state: State | None = None) -> None:
        name = session.facts.server
        anteroom = Anteroom(name, self._supervisor.catalogue_of(name), NO_PROJECT.format(name, name), state)

        def take(session: Session, lines: list[bytes | Oversized]) -> None:
            for number, line in enumerate(lines):
                before = anteroom.state
                admitted = self._follow(session, anteroom.from_session(line))
                if admitted is not None:
                    self._admit(session, admitted, lines[number + 1 :])
                    return
                if anteroom.state is not before:
                    session.remember(anteroom.state)

        self._follow(session, anteroom.begin())
        session.begin(take, self._gone)

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
            session.finish(error.exit_status, str(error))
            return
        session.redirect(take)
        # These were noted as waiting when they came, and are noted again by the instance.
        for identity in admitted.waiting:
            session.dropped(identity)
        take(session, [*admitted.lines, *rest])

    # Going

    def _gone(self, session: Session, reason: str) -> None:
        self._sessions.pop(session.key, None)
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
            for link in entry.instance.sessions:
                session = self._sessions.get(link.key)
                reason = "removed" if entry.removed else "changed"
                text = f"server '{name}' was {reason} in the configuration while this request was open"
                entry.instance.fail_session(link.key, text, f"server_{reason}")
                if session is None:
                    entry.instance.detach(link.key)
                elif entry.removed:
                    session.finish(4, f"server '{name}' was removed from the configuration")
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
