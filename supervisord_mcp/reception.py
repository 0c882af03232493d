"""Receives the shims: makes a session of a greeting, finds its instance, moves it when the configuration changes."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from supervisord_mcp.admission import Admission, Take, profiled, undecided
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.facts import Facts, user
from supervisord_mcp.housing import Displaced
from supervisord_mcp.journal import Journal, discard, leftovers
from supervisord_mcp.listener import Greeting
from supervisord_mcp.observer import Event, Observers
from supervisord_mcp.pipes import close_quietly
from supervisord_mcp.protocol import hello
from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.profiles import Profile, Root, wants_roots, words_of
from supervisord_mcp.protocol.resumption import resume
from supervisord_mcp.server import ManagedServer
from supervisord_mcp.session import Limits, Session, Wires
from supervisord_mcp.supervisor import Supervisor
from supervisord_mcp.traffic import name_shown

_log = logging.getLogger(__name__)

#: How long a shim may take to come back after the death of the daemon, before the record of its session is thrown
#: away, in seconds. Shims try for as long.
RETURN_PATIENCE = 900.0


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
        self._journals: dict[int, Journal] = {}
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
            self._refuse(greeting, error)
        except OSError as error:
            self._refuse(greeting, SmcpError(f"the session cannot be kept: {error}"))

    def _refuse(self, greeting: Greeting, error: SmcpError) -> None:
        data = {"pid": greeting.peer_pid, "code": error.code, "cause": str(error)}
        self._observers.publish(Event("session-refused", greeting.hello.server, data))
        refuse(greeting, error.exit_status, str(error))

    def close_all(self, text: str = "") -> None:
        """End every session orderly: the shims must not come back."""
        for session in list(self._sessions.values()):
            if (instance := self._where.get(session.key)) is not None:
                instance.fail_session(session.key, "the smcp daemon was stopped", "daemon_stopped")
            session.finish(0, text)

    def keep_records(self) -> None:
        """Write down again what is kept of the sessions, where somebody deleted it."""
        for journal in self._journals.values():
            journal.renew()

    def hand_over(self) -> None:
        """Leave every session to another daemon: once this one has ended, without a verdict, the shims go there."""
        text = "the smcp daemon was restarted while this request was open; it is not sent again"
        for session in list(self._sessions.values()):
            if (instance := self._where.pop(session.key, None)) is not None:
                instance.fail_session(session.key, text, "daemon_restarted")
                if not session.closed:
                    instance.detach(session.key)
            # What the host says from now on is for the other one.
            session.pause()
        self.keep_records()

    # Coming

    def _open(self, greeting: Greeting) -> None:
        said = greeting.hello
        facts = self._facts(greeting, said.project)
        if not self._needs_project(facts):
            self._supervisor.check(self._supervisor.plan(facts), facts.server)
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
        facts = self._facts(greeting, kept.get("project") or said.project)
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
        resumption = resume(recovered.pending, recovered.unprocessed, state)
        lines = session.recover(recovered, resumption)
        self._place(session, resumption.state, lines)

    @staticmethod
    def _facts(greeting: Greeting, project: str | None) -> Facts:
        said, principal = greeting.hello, user(greeting.peer_uid)
        return Facts(said.server, project, said.cwd, said.environ, greeting.peer_pid, principal=principal)

    def _place(self, session: Session, state: State | None, lines: list[bytes | Oversized]) -> None:
        """Bring a session to where it is served, with what it had and said before the daemon died."""
        if session.closed:
            return
        try:
            take = self._way_in(session, state)
        except SmcpError as error:
            session.finish(error.exit_status, str(error))
            return
        session.begin(take)
        take(session, lines)
        session.recovered()

    def _way_in(self, session: Session, state: State | None) -> Take:
        """Return what takes the words of a session, which has or had this state."""
        if not self._needs_project(session.facts) and not undecided(self._supervisor, session.facts):
            return self._house(session, session.facts, state)
        admission = Admission(self._supervisor, session, self._house, self._observers.messages[session.facts.server])
        return admission.take if state is None or not state.version else admission.resume(state)

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
        session.on_roots = self._rooted
        session.on_greeted = self._greeted
        self._sessions[key], self._tokens[key], self._journals[key] = session, token, journal
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

    def _greeted(self, session: Session, state: State) -> None:
        client = state.client
        said = {
            key: name_shown(value) if isinstance(value := client.get(key), str) else "" for key in ("name", "version")
        }
        data = {
            "session": session.key,
            "host": said["name"],
            "version": said["version"],
            "revision": state.version,
        }
        self._observers.publish(Event("session-greeted", session.facts.server, data))

    def _house(self, session: Session, facts: Facts, state: State | None = None) -> Take:
        launch = self._supervisor.plan(facts, facts.era)
        instance = self._supervisor.house(launch, facts, session.key)
        self._where[session.key] = instance
        data = {"session": session.key, "instance": str(instance.key)}
        self._observers.publish(Event("session-housed", facts.server, data))
        instance.attach(session, state)

        def take(session: Session, lines: list[bytes | Oversized]) -> None:
            instance.from_session(session.key, lines)

        return take

    # Going

    def _gone(self, session: Session, reason: str) -> None:
        del self._sessions[session.key], self._tokens[session.key], self._journals[session.key]
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
                    self._move(session, entry.instance, self._way_in)
            self._supervisor.retire(entry.instance)
        for session in list(self._sessions.values()):
            self._reconsider(session)

    def _reconsider(self, session: Session) -> None:
        """Move a session that can be asked to an instance that asks, if its server may do so only now (6.1 D5)."""
        old = self._where.get(session.key)
        if old is None or session.facts.profile is not None or not profiled(self._supervisor, session.facts):
            return
        state = old.session_state(session.key)
        if state.version and not words_of(state.capabilities, state.version) and not wants_roots(state.capabilities):
            session.facts = dataclasses.replace(session.facts, profile=Profile())
            return
        text = f"server '{session.facts.server}' was changed in the configuration while this request was open"
        old.fail_session(session.key, text, "server_changed")
        self._move(session, old, self._way_in)
        self._supervisor.released(old)

    def _move(self, session: Session, old: ManagedServer, way: Callable[[Session, State | None], Take]) -> None:
        state = old.session_state(session.key)
        old.detach(session.key)
        del self._where[session.key]
        try:
            take = way(session, state)
        except SmcpError as error:
            session.finish(error.exit_status, str(error))
            return
        session.redirect(take)
        if (new := self._where.get(session.key)) is not None:
            # The host knows the lists of the old instance; only a running child can tell what is different now.
            new.compare_with(old.catalogue)

    def _rooted(self, session: Session, roots: tuple[Root, ...]) -> None:
        """A host works on other directories now: it moves to the instance whose child was told of those (6.1 D6)."""
        old, profile = self._where.get(session.key), session.facts.profile
        if session.closed or old is None or profile is None:
            return
        session.facts = dataclasses.replace(session.facts, profile=dataclasses.replace(profile, roots=roots))
        self._move(session, old, self._home)
        self._supervisor.released(old)

    def _home(self, session: Session, state: State | None) -> Take:
        return self._house(session, session.facts, state)


def refuse(greeting: Greeting, status: int, text: str) -> None:
    """Send a shim away."""
    try:
        greeting.connection.send(hello.refuse_line(status, masker.mask(text)))
    except OSError as error:
        _log.info("a shim left before it was refused: %s", error)
    greeting.connection.close()
    close_quietly(*greeting.fds)
