"""A simulated machine for one instance: it carries out the commands of a lifecycle, later or never, and watches.

A *move* is something that may happen next; `World.moves` lists those that can. Spawns and exits complete when a move
says so, exits can be known to the machine before they are reported, timers fire late or, when cancelled, all the same.
Whatever must never be true is an assertion in here, so that every way to walk through the moves checks all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy

from supervisord_mcp.policy.events import (
    CancelSpawn,
    CancelTimer,
    CloseStdin,
    Command,
    Demand,
    Event,
    Exited,
    Idle,
    Installing,
    Kill,
    Ready,
    Replace,
    Restart,
    SetTimer,
    Spawn,
    Spawned,
    SpawnFailed,
    Start,
    Stop,
    Terminate,
    TimerFired,
)
from supervisord_mcp.policy.lifecycle import ENDING, After, Lifecycle, Policy, State, step

_ASKED_TO_RUN = (Start, Restart)
_UNDER_WAY = (State.SPAWNING, State.INSTALLING, State.STARTING, State.RUNNING)
_POLITE = (CloseStdin, Terminate, Kill)


class World:
    """The machine, the lifecycle that rules it, and what has happened so far."""

    def __init__(self, policy: Policy, jitter: float = 0.0) -> None:
        self.policy = policy
        self.jitter = jitter
        self.life = Lifecycle()
        self.now = 100.0
        self.spawning: int | None = None
        self.cancelled = False
        self.child: int | None = None
        self.child_dead = False
        self.ladder: list[type[Command]] = []
        self.timer: tuple[int, float] | None = None
        self.stale: list[Event] = []
        self.silent = False
        self.hopeless = False
        self.restarts: list[float] = []
        self.spawns: list[tuple[float, State, Event]] = []

    # What can happen

    def moves(self) -> Mapping[str, Callable[[], None]]:
        """Return the moves that are possible now, by name."""
        moves: dict[str, Callable[[], None]] = {
            "start": lambda: self.tell(Start()),
            "stop": lambda: self.tell(Stop()),
            "restart": lambda: self.tell(Restart()),
            "demand": lambda: self.tell(Demand()),
            "wait": lambda: self.pass_time(0.5),
            "wait long": lambda: self.pass_time(self.policy.restart.backoff.reset_after),
        }
        if self.stale:
            moves["old news"] = lambda: self.tell(self.stale.pop(0))
        if self.timer is not None:
            moves["timer"] = lambda: self.ring(late=0.0)
            moves["timer, late"] = lambda: self.ring(late=7.0)
        if self.spawning is not None:
            moves.update(self._spawn_moves(self.spawning))
        if self.child is not None:
            moves.update(self._child_moves(self.child))
        return moves

    def _spawn_moves(self, generation: int) -> Mapping[str, Callable[[], None]]:
        return {
            "installing": lambda: self.tell(Installing(generation)),
            "spawned": lambda: self.spawned(generation),
            "spawn failed": lambda: self.spawn_failed(generation, retryable=True),
            "no such file": lambda: self.spawn_failed(generation, retryable=False),
            "offline": lambda: self.spawn_failed(generation, retryable=True, blameless=True),
        }

    def _child_moves(self, generation: int) -> Mapping[str, Callable[[], None]]:
        if self.child_dead:
            return {
                "exit 0 reported": lambda: self.exited(generation, success=True),
                "exit 1 reported": lambda: self.exited(generation, success=False),
            }
        return {
            "ready": lambda: self.tell(Ready(generation)),
            "idle": lambda: self.tell(Idle(generation)),
            "dies": self.die,
            "replace": lambda: self.tell(Replace(generation)),
            "blameless": lambda: self.exited(generation, success=False, blameless=True),
            "exit 0": lambda: self.exited(generation, success=True),
            "exit 1": lambda: self.exited(generation, success=False),
            "beyond a limit": lambda: self.exited(generation, success=False, final=True),
        }

    def make(self, move: str) -> bool:
        """Make a move if it is possible, and return whether it was."""
        act = self.moves().get(move)
        if act is not None:
            act()
        return act is not None

    def pass_time(self, seconds: float) -> None:
        """Let time go by, a timer that is due meanwhile fires first."""
        until = self.now + seconds
        while self.timer is not None and self.timer[1] <= until:
            self.ring(late=0.0)
        self.now = max(self.now, until)

    def ring(self, *, late: float) -> None:
        """Let the timer fire, when it is due or later."""
        assert self.timer is not None
        serial, due = self.timer
        self.timer = None
        self.now = max(self.now, due + late)
        self.stale.append(TimerFired(serial))
        self.tell(TimerFired(serial))

    def spawned(self, generation: int) -> None:
        """Let the spawn succeed."""
        self.spawning, self.child, self.child_dead, self.ladder = None, generation, False, []
        self.tell(Spawned(generation))

    def spawn_failed(self, generation: int, *, retryable: bool, blameless: bool = False) -> None:
        """Let the spawn end without a child."""
        self.spawning = None
        asked_again = self.life.state is State.CANCELLING and self.life.after is After.SPAWN
        self.hopeless = not retryable and not asked_again
        self.stale += [SpawnFailed(generation, retryable, "old"), Spawned(generation)]
        cause = "cancelled" if self.cancelled else "cannot start"
        self.tell(SpawnFailed(generation, retryable, cause, blameless))

    def die(self) -> None:
        """Let the child die without a report yet."""
        self.child_dead = True

    def exited(self, generation: int, *, success: bool, blameless: bool = False, final: bool = False) -> None:
        """Report the end of the child."""
        self.child = None
        self.stale += [Exited(generation, success, "old"), Ready(generation), Idle(generation)]
        self.tell(Exited(generation, success, "exit 0" if success else "exit 1", blameless, final))

    # What the lifecycle makes of it

    def tell(self, event: Event) -> None:
        """Hand an event to the lifecycle and carry out its commands."""
        before = self.life
        self.life, commands = step(before, event, self.now, self.policy, self.jitter)
        self._remember_what_was_asked(before, event)
        for command in commands:
            self._carry_out(command, before, event)
        self._check(before)

    def _remember_what_was_asked(self, before: Lifecycle, event: Event) -> None:
        if isinstance(event, Stop):
            self.silent = True
        elif isinstance(event, _ASKED_TO_RUN):
            self.silent = False
            self.hopeless = False
            if isinstance(event, Restart) or before.state not in _UNDER_WAY:
                self.restarts.clear()

    def _carry_out(self, command: Command, before: Lifecycle, event: Event) -> None:
        if isinstance(command, SetTimer):
            assert command.seconds >= 0
            self._drop_timer()
            self.timer = (command.serial, self.now + command.seconds)
        elif isinstance(command, CancelTimer):
            assert self.timer is not None, "a timer is cancelled that does not run"
            self._drop_timer()
        elif isinstance(command, Spawn):
            self._spawn(command, before, event)
        elif isinstance(command, CancelSpawn):
            assert command.generation == self.spawning
            assert not self.cancelled, "a spawn is cancelled twice"
            self.cancelled = True
        else:
            assert command.generation == self.child, "a command for a child that is not there"
            self.ladder.append(type(command))

    def _drop_timer(self) -> None:
        if self.timer is not None:
            self.stale.append(TimerFired(self.timer[0]))
            self.timer = None

    def _spawn(self, command: Spawn, before: Lifecycle, event: Event) -> None:
        assert self.spawning is None, "two spawns at once"
        assert self.child is None, "a second child"
        assert not self.silent, "a spawn after a stop that nobody asked for"
        assert not self.hopeless, "a failure is retried that cannot be retried"
        assert command.generation == before.generation + 1
        self.spawning, self.cancelled = command.generation, False
        self.spawns.append((self.now, before.state, event))
        if isinstance(event, TimerFired | Demand) and before.state in (State.BACKOFF, State.EXITED):
            self.restarts.append(self.now)

    # What must always be true

    def _check(self, before: Lifecycle) -> None:
        life, budget = self.life, self.policy.restart.budget
        assert before.generation <= life.generation <= before.generation + 1
        assert (self.timer is None) == (life.timer is None)
        assert life.timer is None or self.timer == (life.timer.serial, life.timer.due)
        assert (self.spawning is not None) == (life.state in (State.SPAWNING, State.INSTALLING, State.CANCELLING))
        assert (self.child is not None) == (
            life.state in (State.STARTING, State.RUNNING, State.CLOSING, State.TERMINATING, State.KILLING)
        )
        assert life.generation in (self.spawning, self.child) or (self.spawning is None and self.child is None)
        assert not life.resting or (self.timer is None and self.spawning is None and self.child is None)
        assert (life.retry_at is not None) == (life.state is State.BACKOFF)
        assert not (self.silent and life.wanted), "stopped, and wanted all the same"
        assert self.ladder in ([], [CloseStdin], [CloseStdin, Terminate], [*_POLITE], [Kill])
        if self.restarts:
            window = [time for time in self.restarts if self.restarts[-1] - time < budget.within]
            assert len(window) <= budget.restarts, "more restarts than the budget allows"
        assert len(life.ledger.recent) <= max(1, budget.restarts)
        assert life.ledger.unready <= budget.restarts + 1

    # Ways to the end, and to compare

    def come_to_rest(self) -> None:
        """Ask for a stop, let the machine do its part, and see that it is enough."""
        self.tell(Stop())
        for _ in range(6):
            if self.life.resting:
                break
            if self.spawning is not None:
                self.spawned(self.spawning)
            elif self.ladder[-1:] == [Kill] and self.child is not None:
                self.exited(self.child, success=False)
            else:
                self.ring(late=0.0)
        assert self.life.state is State.STOPPED
        assert self.timer is None

    def copy(self) -> World:
        """Return a world that goes its own way from here."""
        twin = copy(self)
        twin.ladder, twin.stale = [*self.ladder], [*self.stale]
        twin.restarts, twin.spawns = [*self.restarts], [*self.spawns]
        return twin

    def snapshot(self) -> object:
        """Return what decides about the future, without the absolute numbers of runs, timers and seconds."""
        life, restart = self.life, self.policy.restart
        ages = tuple(self.now - time for time in life.ledger.recent)
        ledger = (
            min(life.ledger.failures, 3),
            life.ledger.unready,
            tuple(age for age in ages if age < restart.budget.within),
            tuple(self.now - time for time in self.restarts if self.now - time < restart.budget.within),
        )
        due = None if self.timer is None else self.timer[1] - self.now
        ran = min(self.now - life.since, restart.backoff.reset_after) if life.state is State.RUNNING else None
        after = life.after if life.state in ENDING else None
        return (life.state, after, ledger, due, ran, self.child_dead, self.cancelled, self.silent, self.hopeless)
