"""The life of one instance, as a table: events in, commands out.

The theory. An instance goes through *runs*, numbered by a *generation*. A run begins with ``Spawn`` and ends with the
one event that says nothing of it is left: ``SpawnFailed`` before there is a child, ``Exited`` (the whole tree is gone)
after. Only the end of a run, or a state without one, leads to the next ``Spawn``: so there are never two children.

    state        shown     event -> next (commands)
    -----------  --------  -----------------------------------------------------------------------------------------
    ASLEEP       STOPPED   Start, Restart, Demand -> SPAWNING (SetTimer, Spawn) . Stop -> STOPPED
    STOPPED      STOPPED   Start, Restart -> SPAWNING
    SPAWNING     STARTING  Spawned -> STARTING (SetTimer) . Installing -> INSTALLING (SetTimer) . SpawnFailed -> crash
                           . Stop, Restart, timer -> CANCELLING (CancelSpawn)
    INSTALLING   STARTING  as SPAWNING; a further Installing sets the timer anew
    CANCELLING   STOPPING  SpawnFailed -> gone . Spawned -> KILLING (Kill)
    STARTING     STARTING  Ready -> RUNNING . Exited -> crash, or SPAWNING if it is blameless
                           . Stop, Restart, Replace, timer -> CLOSING (CloseStdin, SetTimer)
    RUNNING      RUNNING   Exited -> crash . Stop, Restart, Idle -> CLOSING (CloseStdin, SetTimer)
    CLOSING      STOPPING  Exited -> gone . timer -> TERMINATING (Terminate, SetTimer)
    TERMINATING  STOPPING  Exited -> gone . timer -> KILLING (Kill)
    KILLING      STOPPING  Exited -> gone
    BACKOFF      BACKOFF   timer -> SPAWNING . Start, Restart -> SPAWNING . Demand -> SPAWNING once . Stop -> STOPPED
    EXITED       EXITED    Start, Restart -> SPAWNING . Demand -> SPAWNING, or FATAL . Stop -> STOPPED
    FATAL        FATAL     Start, Restart -> SPAWNING . Stop -> STOPPED

*crash*: the policy leaves it -> EXITED; budget spent -> FATAL; else BACKOFF (SetTimer). A failure that cannot be
retried -> FATAL at once; a blameless one (a package that could not be fetched) -> ASLEEP, to be tried again when the
child is needed next, without a restart being spent: offline is no fault of the server; one that is final, for a limit
with that rule -> FATAL. *gone*: what `After` says. While
a run is being ended, `After` is all that Start, Restart, Stop and Demand change. What is not in the table is late or
changes nothing, and is ignored.

Who asks. ``Start``, ``Restart`` and ``Stop`` are the words of a person: the first two clear the ledger of restarts, and
after the third nothing is spawned until a person asks again. ``Demand`` is a message that needs the child, and may
come thousands of times. It wakes an instance that sleeps (one that was not yet used, or was idle). Where the last run
ended unasked it is only another way to restart, paid for from the same budget: from EXITED, and from the first wait
after a child that had been ready, so that a call which meets one crash is served at once. Every other wait holds for
hosts too, and nothing is spawned in it.

What costs nothing. A child that was spoken to in an era it does not know is replaced: by ``Replace`` while it lives, or
at once where it died of that (``Exited``, blameless). Neither is a restart. Who reports them does so at most once for
each era until a child gets ready, so that a server which dies of anything else still spends its budget.

Time. At most one timer runs; entering a state sets it or cancels it, so a resting state has none. A timer is known by
its serial: one that fires late is ignored. A spawn has ``start_timeout``, the time from Spawned to Ready has it again,
an install phase inside the spawn has ``install_timeout`` from the last ``Installing``: who waits for another
installation says ``Installing`` when it starts to wait, and again when its turn comes. CANCELLING and KILLING have no
timer, for there is no stronger step; the executor answers both.

The executor carries out commands in their order, before it hands in another event, and queues what they cause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

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
    OfRun,
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
from supervisord_mcp.policy.restart import GiveUp, Ledger, RestartPolicy, Retry, Run, judge


class State(StrEnum):
    """Where an instance is."""

    ASLEEP = "asleep"
    STOPPED = "stopped"
    SPAWNING = "spawning"
    INSTALLING = "installing"
    CANCELLING = "cancelling"
    STARTING = "starting"
    RUNNING = "running"
    CLOSING = "closing"
    TERMINATING = "terminating"
    KILLING = "killing"
    BACKOFF = "backoff"
    EXITED = "exited"
    FATAL = "fatal"


#: The states a person sees; those that are missing here are shown under their own name.
SHOWN: Mapping[State, str] = {
    State.ASLEEP: "STOPPED",
    State.SPAWNING: "STARTING",
    State.INSTALLING: "STARTING",
    State.CANCELLING: "STOPPING",
    State.CLOSING: "STOPPING",
    State.TERMINATING: "STOPPING",
    State.KILLING: "STOPPING",
}
#: The states in which an instance has neither child nor timer, and stays until it is asked.
RESTING = frozenset({State.ASLEEP, State.STOPPED, State.EXITED, State.FATAL})
#: The states in which a run is being ended; what comes then is `Lifecycle.after`.
ENDING = frozenset({State.CANCELLING, State.CLOSING, State.TERMINATING, State.KILLING})


class After(StrEnum):
    """What follows when the run that is being ended is gone."""

    STOP = "stop"
    SLEEP = "sleep"
    SPAWN = "spawn"
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class Policy:
    """The times and rules of one server, in seconds. ``stop_grace`` is the time of each of the two polite steps."""

    start_timeout: float = 60.0
    install_timeout: float = 600.0
    stop_grace: float = 3.0
    restart: RestartPolicy = field(default_factory=RestartPolicy)


@dataclass(frozen=True, slots=True)
class Timer:
    """The timer that runs: its serial, and when it is due."""

    serial: int
    due: float


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """All that is known about the life of one instance.

    ``generation`` numbers the runs from 1. ``after`` counts only in a state of `ENDING`. ``cause`` is how a run last
    ended unasked since a person asked for one, ``since`` the time at which the state was entered, ``timers`` the serial
    of the last timer.
    """

    state: State = State.ASLEEP
    generation: int = 0
    after: After = After.SLEEP
    ledger: Ledger = field(default_factory=Ledger)
    cause: str = ""
    since: float = 0.0
    timer: Timer | None = None
    timers: int = 0

    @property
    def shown(self) -> str:
        """The name of the state for people."""
        return SHOWN.get(self.state, self.state.name)

    @property
    def resting(self) -> bool:
        """Whether nothing will happen until somebody asks."""
        return self.state in RESTING

    @property
    def wanted(self) -> bool:
        """Whether there is a child to be used, or will be one without asking again, as far as the budget goes."""
        if self.state in ENDING:
            return self.after in (After.SPAWN, After.CRASH)
        return not self.resting

    @property
    def retry_at(self) -> float | None:
        """When the next start is due, while the instance waits for it."""
        return self.timer.due if self.state is State.BACKOFF and self.timer else None


Step: TypeAlias = tuple[Lifecycle, tuple[Command, ...]]


def step(life: Lifecycle, event: Event, now: float, policy: Policy, jitter: float = 0.0) -> Step:
    """Given an event, return the new state and what is to be done. ``jitter`` in [0, 1) varies the back-off."""
    if isinstance(event, OfRun) and event.generation != life.generation:
        return life, ()
    rule = TABLE[life.state].get(type(event))
    if rule is None:
        return life, ()
    if isinstance(event, TimerFired):
        if life.timer is None or event.serial != life.timer.serial:
            return life, ()
        life = replace(life, timer=None)
    return rule(_Turn(life, now, policy, jitter), event)


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a rule is given besides its event, and the only ways to an outcome."""

    life: Lifecycle
    now: float
    policy: Policy
    jitter: float

    @property
    def ready_for(self) -> float:
        """How long a running child has been ready."""
        return self.now - self.life.since

    def having(self, **changes: Any) -> _Turn:
        """The same turn with a changed state, for the rule that goes on from here."""
        return replace(self, life=replace(self.life, **changes))

    def forgiven(self) -> _Turn:
        """The same turn after a person asked: what went wrong before does not count."""
        return self.having(ledger=Ledger(), cause="")

    def stay(self) -> Step:
        """The outcome that only notes something."""
        return self.life, ()

    def to(self, state: State, *commands: Command, seconds: float | None = None, **changes: Any) -> Step:
        """The outcome that enters a state, whose timer runs for ``seconds``, or that has none."""
        since = self.life.since if state is self.life.state else self.now
        life = replace(self.life, state=state, since=since, timer=None, **changes)
        if seconds is not None:
            serial = life.timers + 1
            life = replace(life, timer=Timer(serial, self.now + seconds), timers=serial)
            return life, (SetTimer(serial, seconds), *commands)
        if self.life.timer is not None:
            return life, (CancelTimer(), *commands)
        return life, commands


# Rules: what stands in the cells of the table, and the steps that several of them share.

Rule: TypeAlias = Callable[[_Turn, Any], Step]


def _spawn(turn: _Turn, _event: object = None) -> Step:
    generation = turn.life.generation + 1
    return turn.to(State.SPAWNING, Spawn(generation), seconds=turn.policy.start_timeout, generation=generation)


def _spawn_afresh(turn: _Turn, _event: Start | Restart) -> Step:
    return _spawn(turn.forgiven())


def _spawn_again(turn: _Turn, _event: object = None) -> Step:
    return _spawn(turn.having(ledger=turn.life.ledger.restarted(turn.now, turn.policy.restart.budget)))


def _spawn_sooner(turn: _Turn, _event: Demand) -> Step:
    ledger = turn.life.ledger
    return _spawn_again(turn) if ledger.failures == 1 and not ledger.unready else turn.stay()


def _spawn_if_affordable(turn: _Turn, _event: Demand) -> Step:
    if reason := turn.life.ledger.spent(turn.now, turn.policy.restart.budget):
        return _give_up(turn, reason)
    return _spawn_again(turn)


def _install(turn: _Turn, _event: Installing) -> Step:
    return turn.to(State.INSTALLING, seconds=turn.policy.install_timeout)


def _handshake(turn: _Turn, _event: Spawned) -> Step:
    return turn.to(State.STARTING, seconds=turn.policy.start_timeout)


def _run(turn: _Turn, _event: Ready) -> Step:
    return turn.to(State.RUNNING)


def _rest(turn: _Turn, _event: Stop) -> Step:
    return turn.to(State.STOPPED)


def _end(turn: _Turn, after: After) -> Step:
    """End the run: politely where there is a child already."""
    generation = turn.life.generation
    if turn.life.state in (State.SPAWNING, State.INSTALLING):
        return turn.to(State.CANCELLING, CancelSpawn(generation), after=after)
    return turn.to(State.CLOSING, CloseStdin(generation), seconds=turn.policy.stop_grace, after=after)


def _end_to_stop(turn: _Turn, _event: Stop) -> Step:
    return _end(turn, After.STOP)


def _end_to_spawn(turn: _Turn, _event: Restart) -> Step:
    return _end(turn.forgiven(), After.SPAWN)


def _end_to_replace(turn: _Turn, _event: Replace) -> Step:
    # Nobody asked for it and nothing went wrong: the ledger stays as it is.
    return _end(turn, After.SPAWN)


def _end_to_sleep(turn: _Turn, _event: Idle) -> Step:
    ledger = turn.life.ledger.settled(Run(turn.ready_for), turn.policy.restart.backoff)
    return _end(turn.having(ledger=ledger), After.SLEEP)


def _end_overdue(turn: _Turn, _event: TimerFired) -> Step:
    if turn.life.state is State.INSTALLING:
        cause = f"not installed within {turn.policy.install_timeout:g} s"
    elif turn.life.state is State.STARTING:
        cause = f"did not answer initialize within {turn.policy.start_timeout:g} s"
    else:
        cause = f"not ready within {turn.policy.start_timeout:g} s"
    return _end(turn.having(cause=cause), After.CRASH)


def _then_stop(turn: _Turn, _event: Stop) -> Step:
    return turn.having(after=After.STOP).stay()


def _then_spawn(turn: _Turn, _event: Start | Restart) -> Step:
    return turn.forgiven().having(after=After.SPAWN).stay()


def _then_wake(turn: _Turn, _event: Demand) -> Step:
    return turn.having(after=After.SPAWN).stay() if turn.life.after is After.SLEEP else turn.stay()


def _terminate(turn: _Turn, _event: TimerFired) -> Step:
    return turn.to(State.TERMINATING, Terminate(turn.life.generation), seconds=turn.policy.stop_grace)


def _kill(turn: _Turn, _event: TimerFired | Spawned) -> Step:
    return turn.to(State.KILLING, Kill(turn.life.generation))


def _gone(turn: _Turn, _event: Exited | SpawnFailed) -> Step:
    if turn.life.after is After.STOP:
        return turn.to(State.STOPPED)
    if turn.life.after is After.SLEEP:
        return turn.to(State.ASLEEP)
    if turn.life.after is After.SPAWN:
        return _spawn(turn)
    return _crash(turn, Run())


def _cancelled(turn: _Turn, event: SpawnFailed) -> Step:
    # The failure may have been on its way already, and then it says more than the time-out that came first.
    if turn.life.after is After.CRASH and not event.retryable:
        return _not_spawned(turn, event)
    return _gone(turn, event)


def _not_spawned(turn: _Turn, event: SpawnFailed) -> Step:
    turn = turn.having(cause=event.cause)
    if event.blameless:
        return turn.to(State.ASLEEP)
    return _crash(turn, Run()) if event.retryable else turn.to(State.FATAL)


def _exited_early(turn: _Turn, event: Exited) -> Step:
    if event.blameless:
        return _spawn(turn)
    if event.final:
        return turn.to(State.FATAL, cause=event.cause)
    how, more, said = event.cause.partition(";")
    return _crash(turn.having(cause=f"{how} before it was ready{more}{said}"), Run(None, event.success))


def _exited(turn: _Turn, event: Exited) -> Step:
    if event.final:
        return turn.to(State.FATAL, cause=event.cause)
    return _crash(turn.having(cause=event.cause), Run(turn.ready_for, event.success))


def _crash(turn: _Turn, run: Run) -> Step:
    ledger, verdict = judge(turn.life.ledger, run, turn.policy.restart, turn.now, turn.jitter)
    turn = turn.having(ledger=ledger)
    if isinstance(verdict, Retry):
        return turn.to(State.BACKOFF, seconds=verdict.delay)
    if isinstance(verdict, GiveUp):
        return _give_up(turn, verdict.reason)
    return turn.to(State.EXITED)


def _give_up(turn: _Turn, reason: str) -> Step:
    return turn.to(State.FATAL, cause=f"{turn.life.cause}; {reason}")


# The table

Row: TypeAlias = Mapping[type[Event], Rule]

_SPAWN: Row = {
    Installing: _install,
    Spawned: _handshake,
    SpawnFailed: _not_spawned,
    Stop: _end_to_stop,
    Restart: _end_to_spawn,
    TimerFired: _end_overdue,
}
_ENDING: Row = {Start: _then_spawn, Restart: _then_spawn, Stop: _then_stop, Demand: _then_wake}

#: For every state, the events that mean something in it.
TABLE: Mapping[State, Row] = {
    State.ASLEEP: {Start: _spawn_afresh, Restart: _spawn_afresh, Demand: _spawn, Stop: _rest},
    State.STOPPED: {Start: _spawn_afresh, Restart: _spawn_afresh},
    State.SPAWNING: _SPAWN,
    State.INSTALLING: _SPAWN,
    State.CANCELLING: {**_ENDING, SpawnFailed: _cancelled, Spawned: _kill},
    State.STARTING: {
        Ready: _run,
        Exited: _exited_early,
        Stop: _end_to_stop,
        Restart: _end_to_spawn,
        Replace: _end_to_replace,
        TimerFired: _end_overdue,
    },
    State.RUNNING: {Exited: _exited, Stop: _end_to_stop, Restart: _end_to_spawn, Idle: _end_to_sleep},
    State.CLOSING: {**_ENDING, Exited: _gone, TimerFired: _terminate},
    State.TERMINATING: {**_ENDING, Exited: _gone, TimerFired: _kill},
    State.KILLING: {**_ENDING, Exited: _gone},
    State.BACKOFF: {
        TimerFired: _spawn_again,
        Start: _spawn_afresh,
        Restart: _spawn_afresh,
        Demand: _spawn_sooner,
        Stop: _rest,
    },
    State.EXITED: {Start: _spawn_afresh, Restart: _spawn_afresh, Demand: _spawn_if_affordable, Stop: _rest},
    State.FATAL: {Start: _spawn_afresh, Restart: _spawn_afresh, Stop: _rest},
}
