"""The way of one session to its instance: over the threshold, through the anteroom where its roots are needed.

Which instance it is may depend on what only the host says: its era, what it can be asked, its roots (protocol.md 6.1
D2, D5, D6). Until that is known its words are taken here; then it is housed, and what it said meanwhile is said again.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.facts import Facts
from supervisord_mcp.observer import Channel, Message
from supervisord_mcp.protocol import jsonrpc, requests
from supervisord_mcp.protocol.anteroom import Admitted, Anteroom, Reply, TurnedAway, Waits
from supervisord_mcp.protocol.anteroom import Outcome as OfAnteroom
from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.calls import NAMELESS
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import Weight
from supervisord_mcp.protocol.eras import offers
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.profiles import Profile, Root, wants_roots, words_of
from supervisord_mcp.protocol.tapping import Direction
from supervisord_mcp.protocol.threshold import Decided, Threshold, Unknown
from supervisord_mcp.protocol.threshold import Outcome as OfThreshold
from supervisord_mcp.session import Session
from supervisord_mcp.shim import home_directory
from supervisord_mcp.supervisor import Supervisor
from supervisord_mcp.traffic import passing

NO_PROJECT = (
    "server '{}' works on a project, and the project of this session is not known.\n"
    "Start the host inside a project, or write --project DIRECTORY after 'smcp connect {}' in its configuration."
)
#: How long a host may take to name its roots, in seconds.
ROOTS_PATIENCE = 60.0

Take: TypeAlias = Callable[[Session, list[bytes | Oversized]], None]
#: Brings a session to its instance, with what it had before, and returns what takes its words there.
House: TypeAlias = Callable[[Session, Facts, State | None], Take]


def profiled(supervisor: Supervisor, facts: Facts) -> bool:
    """Whether hosts share an instance only with those that can be asked the same (protocol.md 6.1 D5).

    A modern server is told with every request what the host of that can do.
    """
    config = supervisor.server(facts.server)
    asks = config.sharing != "session" and config.callbacks != "off"
    return asks and supervisor.only_era(facts) != "modern"


def undecided(supervisor: Supervisor, facts: Facts) -> bool:
    """Whether it takes the first words of a host to know its instance (protocol.md 6.1 D2, D5)."""
    return supervisor.only_era(facts) is None or profiled(supervisor, facts)


class Admission:
    """One session before it is housed.

    ``take`` takes its words. What it had before the daemon died, or before it had to leave another instance, is given
    to `resume`.
    """

    def __init__(self, supervisor: Supervisor, session: Session, house: House, messages: Channel[Message]) -> None:
        """``messages`` are those of the server: what is answered here reaches no instance that would tell of it."""
        self._messages = messages
        self._supervisor = supervisor
        self._session = session
        self._house = house
        self._loop = asyncio.get_running_loop()
        self._room: Threshold | Anteroom = Threshold(self._discovered())
        self._lines: deque[bytes | Oversized] = deque()
        self._waiting: list[bytes] = []
        self._learning: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._trouble = ""
        self._greeting: bytes | None = None
        self._home: Take | None = None
        self._needs_project = session.facts.project is None and supervisor.scope(session.facts) == "project"
        self._profiled = profiled(supervisor, session.facts)

    def resume(self, state: State) -> Take:
        """Go on where the session was; return what takes its words. Raise `SmcpError` if it cannot be housed."""
        self._enter(Decided(state.era or "legacy", state.version, state.capabilities), state)
        return self._home or self.take

    def take(self, _session: Session, lines: list[bytes | Oversized]) -> None:
        """The host said something."""
        self._lines.extend(lines)
        self._go_on()

    def _go_on(self) -> None:
        while self._lines and self._learning is None and self._home is None and not self._session.closed:
            line = self._lines.popleft()
            room = self._room
            before = room.state if isinstance(room, Anteroom) else None
            outcomes = room.from_session(line)
            if _is_for_us(room, line, outcomes):
                self._tell(line, "from-host")
            self._follow(outcomes)
            if isinstance(room, Anteroom) and room.state is not before and not self._session.closed:
                self._session.remember(room.state)
                self._wait_for_roots(room)

    def _follow(self, outcomes: Iterable[OfThreshold | OfAnteroom]) -> None:
        for outcome in outcomes:
            match outcome:
                case Reply(line):
                    self._session.send(line, Weight.MUST, ())
                    self._tell(line, "to-host")
                case Waits(identity):
                    self._session.opened(identity)
                    self._waiting.append(identity)
                case Unknown():
                    self._learn(self._discovered_now)
                case Decided() | Admitted():
                    self._go_in(outcome)
                case TurnedAway():
                    name = self._session.facts.server
                    self._session.finish(1, NO_PROJECT.format(name, name))

    def _tell(self, line: bytes | Oversized, direction: Direction) -> None:
        """Tell who taps the server."""
        if self._messages.watched:
            session = self._session
            self._messages.tell(passing(session.facts.server, "", (session.key, NAMELESS), line, direction))

    def _go_in(self, outcome: Decided | Admitted) -> None:
        """Let the session go on, or answer what it waits for with the reason why not, and end it."""
        try:
            if isinstance(outcome, Decided):
                self._enter(outcome, None)
            else:
                self._admit(outcome)
        except SmcpError as error:
            waiting = self._waiting
            if isinstance(outcome, Decided):
                waiting = [identity for line in outcome.lines if (identity := jsonrpc.parse(line).id) is not None]
            for identity in waiting:
                told = jsonrpc.error_line(identity, jsonrpc.INTERNAL_ERROR, masker.mask(str(error)))
                self._session.send(told, Weight.MUST, ())
            self._session.finish(error.exit_status, str(error))

    # The threshold

    def _discovered(self) -> bytes | None:
        known = self._supervisor.catalogue_of(self._session.facts.server)
        return None if known is None else offers.known(known)

    def _enter(self, decided: Decided, state: State | None) -> None:
        """The era and the capabilities of the host are known."""
        session = self._session
        session.facts = replace(session.facts, era=decided.era)
        name = session.facts.server
        if self._needs_project and decided.era == "modern":
            raise SmcpError(NO_PROJECT.format(name, name))
        asks = self._profiled and decided.era == "legacy" and wants_roots(decided.capabilities)
        if not self._needs_project and not asks:
            self._move_in(self._profile(decided, None), state, decided.lines)
            return
        self._lines.extendleft(reversed(decided.lines))
        known = self._supervisor.catalogue_of(name)
        if known is None and state is None and not self._needs_project:
            self._note_handshake(decided)
            self._learn(lambda learnt: self._enter_anteroom(learnt, None))
        else:
            self._enter_anteroom(known, state)

    def _profile(self, decided: Decided, roots: tuple[Root, ...] | None) -> Profile | None:
        return Profile(words_of(decided.capabilities, decided.version), roots) if self._profiled else None

    def _discovered_now(self, learnt: Catalogue | None) -> None:
        assert isinstance(self._room, Threshold)
        if learnt is None:
            self._follow(self._room.failed(self._trouble))
        else:
            self._follow(self._room.learnt(offers.known(learnt)))
        for identity in self._waiting:
            self._session.dropped(identity)
        self._waiting.clear()

    def _learn(self, then: Callable[[Catalogue | None], None]) -> None:
        """Ask the server what it is; nothing more is read from the host meanwhile."""
        self._session.pause()

        async def ask() -> None:
            learnt: Catalogue | None = None
            try:
                learnt = await self._supervisor.learn(self._session.facts)
            except SmcpError as error:
                self._trouble = masker.mask(str(error))
            self._learning = None
            if self._session.closed:
                return
            then(learnt)
            self._session.resume()
            self._go_on()
            if self._greeting is not None:  # answered by now, by the anteroom
                self._session.dropped(self._greeting)
                self._greeting = None

        self._learning = self._loop.create_task(ask())

    def _note_handshake(self, decided: Decided) -> None:
        """The handshake waits for the server: note it, so that it is answered also if the daemon dies meanwhile."""
        message = jsonrpc.parse(decided.lines[0])
        assert message.id is not None
        said, self._greeting = requests.opening(message), message.id
        asking = message.id.decode()
        self._session.remember(
            State(version=said.version, capabilities=said.capabilities, client=said.client, asking=asking)
        )
        self._session.opened(message.id)

    # The anteroom

    def _enter_anteroom(self, known: Catalogue | None, state: State | None) -> None:
        name = self._session.facts.server
        remedy = NO_PROJECT.format(name, name) if self._needs_project else None
        room = self._room = Anteroom(name, known, remedy, state)
        self._follow(room.begin())
        if room.state.initialized:
            self._wait_for_roots(room)

    def _wait_for_roots(self, room: Anteroom) -> None:
        if room.state.initialized and self._timer is None and self._home is None:
            self._timer = self._loop.call_later(ROOTS_PATIENCE, self._give_up, room)

    def _give_up(self, room: Anteroom) -> None:
        if not self._session.closed:
            self._follow(room.give_up())

    def _admit(self, admitted: Admitted) -> None:
        if self._needs_project:
            self._session.facts = replace(self._session.facts, project=self._project(admitted.paths))
        state = admitted.state
        roots = admitted.roots if wants_roots(state.capabilities) else None
        profile = self._profile(Decided("legacy", state.version, state.capabilities), roots)
        self._move_in(profile, state, admitted.lines)

    def _project(self, roots: tuple[str, ...]) -> str:
        """Return the first root that is a project. Raise `SmcpError` if none is.

        As from everywhere else (`shim.find_project`), HOME and / are none: a host that was started nowhere names them.
        """
        facts = self._session.facts
        never = {"/", os.path.realpath(home_directory(facts.environ, os.getuid()))}
        for root in roots:
            if (path := os.path.realpath(root)) not in never and os.path.isdir(path):
                return path
        told = ", ".join(roots)
        raise SmcpError(
            f"{NO_PROJECT.format(facts.server, facts.server)}\n"
            f"The host works on {told}: HOME, / and what is no directory of this machine are not taken for a project."
        )

    def _move_in(self, profile: Profile | None, state: State | None, lines: Iterable[bytes]) -> None:
        session = self._session
        session.facts = replace(session.facts, profile=profile)
        take = self._home = self._house(session, session.facts, state)
        if self._timer is not None:
            self._timer.cancel()
        session.redirect(take)
        # These were noted as waiting when they came, and are noted again by the instance.
        for identity in self._waiting:
            session.dropped(identity)
        rest, self._lines = [*lines, *self._lines], deque()
        take(session, rest)


def _is_for_us(
    room: Threshold | Anteroom, line: bytes | Oversized, outcomes: Sequence[OfThreshold | OfAnteroom]
) -> bool:
    """Whether a line is answered here, or answers us: all others are said again where the session goes in."""
    if isinstance(room, Threshold):
        return not any(isinstance(one, Decided) for one in outcomes)
    return any(isinstance(one, Reply) or (isinstance(one, Admitted) and line not in one.lines) for one in outcomes)
