"""The table of the lifecycle: its cells one by one, its promises on random walks, and on every short one."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisord_mcp.policy.events import (
    CancelSpawn,
    CancelTimer,
    CloseStdin,
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
from supervisord_mcp.policy.lifecycle import RESTING, TABLE, After, Lifecycle, Policy, State, Timer, step
from supervisord_mcp.policy.restart import Backoff, Budget, Ledger, RestartMode, RestartPolicy
from tests.policy.world import World

NEVER = Policy(restart=RestartPolicy(mode="never"))
ALWAYS = Policy(restart=RestartPolicy(mode="always"))


def world(*moves: str, policy: Policy | None = None) -> World:
    """Return a world in which these moves were made, each of which must have been possible."""
    made = World(policy or Policy())
    for move in moves:
        assert made.make(move), f"{move} is not possible in {made.life.state}"
    return made


STARTING = ("start", "spawned")
RUNNING = (*STARTING, "ready")
WAYS_TO: dict[State, tuple[str, ...]] = {
    State.ASLEEP: (),
    State.STOPPED: ("stop",),
    State.SPAWNING: ("start",),
    State.INSTALLING: ("start", "installing"),
    State.CANCELLING: ("start", "stop"),
    State.STARTING: STARTING,
    State.RUNNING: RUNNING,
    State.CLOSING: (*RUNNING, "idle"),
    State.TERMINATING: (*RUNNING, "stop", "timer"),
    State.KILLING: (*RUNNING, "stop", "timer", "timer"),
    State.BACKOFF: (*RUNNING, "exit 1"),
    State.EXITED: (*RUNNING, "exit 0"),
    State.FATAL: ("start", "no such file"),
}


class TestCells:
    """What single events do, with the commands in their order."""

    def test_every_state_can_be_reached_and_is_shown_under_a_known_name(self) -> None:
        shown = {state: world(*way).life.shown for state, way in WAYS_TO.items()}
        assert {state: world(*way).life.state for state, way in WAYS_TO.items()} == {state: state for state in State}
        assert shown == {
            State.ASLEEP: "STOPPED",
            State.STOPPED: "STOPPED",
            State.SPAWNING: "STARTING",
            State.INSTALLING: "STARTING",
            State.CANCELLING: "STOPPING",
            State.STARTING: "STARTING",
            State.RUNNING: "RUNNING",
            State.CLOSING: "STOPPING",
            State.TERMINATING: "STOPPING",
            State.KILLING: "STOPPING",
            State.BACKOFF: "BACKOFF",
            State.EXITED: "EXITED",
            State.FATAL: "FATAL",
        }

    def test_the_table_names_every_state_and_only_events(self) -> None:
        assert set(TABLE) == set(State)
        assert {event for row in TABLE.values() for event in row} == set(get_args(Event))

    @pytest.mark.parametrize("event", [Start(), Stop(), Restart(), Demand()])
    @pytest.mark.parametrize("state", list(State))
    def test_who_asks_is_answered_in_every_state(self, state: State, event: Event) -> None:
        made = world(*WAYS_TO[state])
        made.tell(event)
        if not isinstance(event, Demand):
            assert made.life.wanted == (not isinstance(event, Stop))
        made.come_to_rest()

    def test_a_start_sets_the_timer_and_then_spawns(self) -> None:
        life, commands = step(Lifecycle(), Start(), 5.0, Policy(start_timeout=9.0))
        assert commands == (SetTimer(1, 9.0), Spawn(1))
        assert (life.state, life.generation, life.since) == (State.SPAWNING, 1, 5.0)
        assert life.timer == Timer(1, 14.0)

    def test_a_start_of_what_runs_changes_nothing(self) -> None:
        life = world(*RUNNING).life
        assert step(life, Start(), 200.0, Policy()) == (life, ())

    def test_each_phase_has_a_time_of_its_own(self) -> None:
        policy = Policy(start_timeout=10.0, install_timeout=100.0)
        life, _ = step(Lifecycle(), Start(), 0.0, policy)
        life, commands = step(life, Installing(1), 9.0, policy)
        assert commands == (SetTimer(2, 100.0),)
        life, commands = step(life, Installing(1), 50.0, policy)
        assert commands == (SetTimer(3, 100.0),)
        assert life.since == 9.0
        life, commands = step(life, Spawned(1), 149.0, policy)
        assert commands == (SetTimer(4, 10.0),)
        life, commands = step(life, Ready(1), 150.0, policy)
        assert commands == (CancelTimer(),)
        assert life.shown == "RUNNING"

    def test_the_ladder_of_a_stop(self) -> None:
        policy = Policy(stop_grace=2.0)
        life = world(*RUNNING).life
        life, commands = step(life, Stop(), 200.0, policy)
        assert commands == (SetTimer(3, 2.0), CloseStdin(1))
        life, commands = step(life, TimerFired(3), 202.0, policy)
        assert commands == (SetTimer(4, 2.0), Terminate(1))
        life, commands = step(life, TimerFired(4), 204.0, policy)
        assert commands == (Kill(1),)
        life, commands = step(life, Exited(1, False, "killed by SIGKILL"), 204.1, policy)
        assert (life.state, life.cause, commands) == (State.STOPPED, "", ())

    def test_a_stop_during_a_spawn_cancels_it_and_kills_a_child_that_came_first(self) -> None:
        life = world("start").life
        life, commands = step(life, Stop(), 101.0, Policy())
        assert commands == (CancelTimer(), CancelSpawn(1))
        assert step(life, SpawnFailed(1, True, "cancelled"), 102.0, Policy())[0].state is State.STOPPED
        life, commands = step(life, Spawned(1), 102.0, Policy())
        assert (life.state, commands) == (State.KILLING, (Kill(1),))

    @pytest.mark.parametrize("way", [("start",), STARTING, RUNNING, (*RUNNING, "stop"), ("start", "stop")])
    def test_a_restart_ends_the_run_and_begins_the_next(self, way: tuple[str, ...]) -> None:
        made = world(*way, "restart")
        assert made.life.shown == "STOPPING"
        assert made.make("exit 1") or made.make("spawn failed")
        assert (made.life.state, made.life.generation) == (State.SPAWNING, 2)
        assert made.life.ledger == Ledger()

    @pytest.mark.parametrize("way", [("blameless",), ("replace", "exit 1"), ("replace", "exit 0")])
    def test_a_child_that_is_spoken_to_in_another_way_costs_nothing(self, way: tuple[str, ...]) -> None:
        made = world(*STARTING, *way)
        assert (made.life.state, made.life.generation, made.life.cause) == (State.SPAWNING, 2, "")
        assert made.life.ledger == Ledger()
        # And what went wrong before is not forgotten for it.
        made = world(*STARTING, "exit 1", "timer", "spawned")
        before = made.life.ledger
        for move in way:
            made.make(move)
        assert (made.life.state, made.life.ledger) == (State.SPAWNING, before)

    def test_a_child_that_was_ready_is_never_blameless(self) -> None:
        assert world(*RUNNING, "blameless").life.state is State.BACKOFF
        life = world(*RUNNING).life
        assert step(life, Replace(1), 200.0, Policy()) == (life, ())

    @pytest.mark.parametrize("way", [STARTING, RUNNING])
    def test_one_that_exceeded_a_limit_may_have_to_wait_for_a_person(self, way: tuple[str, ...]) -> None:
        made = world(*way, "beyond a limit")
        assert (made.life.state, made.life.cause) == (State.FATAL, "exit 1")
        assert made.life.resting
        assert made.make("start")
        assert made.life.state is State.SPAWNING

    def test_a_stop_overrules_a_restart_that_is_under_way(self) -> None:
        made = world(*RUNNING, "restart", "stop", "exit 0")
        assert made.life.state is State.STOPPED

    def test_an_idle_child_sleeps_until_a_message_needs_it(self) -> None:
        made = world(*RUNNING, "idle", "exit 0")
        assert (made.life.state, made.life.shown, made.life.wanted) == (State.ASLEEP, "STOPPED", False)
        made.make("demand")
        assert (made.life.state, made.life.ledger.restarts) == (State.SPAWNING, 0)

    def test_a_message_that_comes_while_an_idle_child_is_stopped_brings_the_next(self) -> None:
        made = world(*RUNNING, "idle", "demand")
        assert made.life.wanted
        made.make("exit 0")
        assert (made.life.state, made.life.ledger.restarts) == (State.SPAWNING, 0)

    def test_a_message_does_not_undo_a_stop(self) -> None:
        made = world(*RUNNING, "stop", "demand", "exit 0", "demand")
        assert made.life.state is State.STOPPED

    def test_a_long_good_run_that_ends_idle_counts_as_one(self) -> None:
        made = world(*RUNNING, "exit 1", "timer", "spawned", "ready")
        assert made.life.ledger.failures == 1
        made.make("wait long")
        made.make("idle")
        assert made.life.ledger.failures == 0

    def test_time_outs_say_what_was_waited_for(self) -> None:
        policy = Policy(start_timeout=10.0, install_timeout=100.0)
        late_start = world(*STARTING, "timer", "exit 0", policy=policy)
        late = "did not answer initialize within 10 s"
        assert (late_start.life.state, late_start.life.cause) == (State.BACKOFF, late)
        late_spawn = world("start", "timer", "spawn failed", policy=policy)
        assert (late_spawn.life.state, late_spawn.life.cause) == (State.BACKOFF, "not ready within 10 s")
        late_install = world("start", "installing", "timer", "spawn failed", policy=policy)
        assert (late_install.life.state, late_install.life.cause) == (State.BACKOFF, "not installed within 100 s")

    def test_a_person_who_starts_during_a_time_out_does_not_wait_for_the_back_off(self) -> None:
        made = world(*STARTING, "timer")
        assert made.life.after is After.CRASH
        made.make("start")
        made.make("exit 1")
        assert (made.life.state, made.life.cause) == (State.SPAWNING, "")

    def test_what_cannot_be_retried_is_fatal_at_once_even_behind_a_time_out(self) -> None:
        assert world("start", "no such file").life.cause == "cannot start"
        made = world("start", "timer", "no such file")
        assert (made.life.state, made.life.cause) == (State.FATAL, "cancelled")
        made.make("demand")
        assert made.life.state is State.FATAL

    @pytest.mark.parametrize(
        ("policy", "move", "state"),
        [
            (Policy(), "exit 0", State.EXITED),
            (Policy(), "exit 1", State.BACKOFF),
            (ALWAYS, "exit 0", State.BACKOFF),
            (ALWAYS, "exit 1", State.BACKOFF),
            (NEVER, "exit 0", State.EXITED),
            (NEVER, "exit 1", State.EXITED),
        ],
    )
    def test_the_policy_decides_about_the_end_of_a_ready_child(self, policy: Policy, move: str, state: State) -> None:
        assert world(*RUNNING, move, policy=policy).life.state is state

    def test_an_exit_before_ready_is_a_crash_whatever_its_code(self) -> None:
        made = world(*STARTING, "exit 0")
        assert (made.life.state, made.life.cause) == (State.BACKOFF, "exit 0 before it was ready")
        again = world(*STARTING)
        said = Exited(again.life.generation, False, "exit 1; last lines of stderr:\nbad option")
        life, _ = step(again.life, said, again.now, again.policy)
        assert life.cause == "exit 1 before it was ready; last lines of stderr:\nbad option"
        assert world(*STARTING, "exit 0", policy=NEVER).life.state is State.EXITED
        assert world("start", "spawn failed", policy=NEVER).life.state is State.EXITED

    def test_a_start_that_failed_through_no_fault_of_the_server_costs_nothing(self) -> None:
        made = world("start", *["offline", "demand"] * 20, "offline")
        assert (made.life.state, made.life.cause, made.life.ledger) == (State.ASLEEP, "cannot start", Ledger())
        assert made.life.generation == 21
        assert made.timer is None
        assert world("start", "stop", "offline").life.state is State.STOPPED

    def test_the_wait_is_known_to_those_who_ask(self) -> None:
        made = world(*RUNNING, "exit 1")
        assert made.life.retry_at == made.now + 1.0
        assert world(*RUNNING).life.retry_at is None

    def test_a_call_that_meets_one_crash_is_served_at_once_and_no_other(self) -> None:
        made = world(*RUNNING, "exit 1", "demand")
        assert (made.life.state, made.life.ledger.restarts) == (State.SPAWNING, 1)
        assert world(*RUNNING, "exit 1", "demand", "spawned", "ready", "exit 1", "demand").life.state is State.BACKOFF
        assert world(*STARTING, "exit 1", "demand").life.state is State.BACKOFF

    def test_calls_on_a_server_that_exits_after_each_are_paid_from_the_budget(self) -> None:
        made = world(*RUNNING, "exit 0")
        for _ in range(5):
            for move in ("demand", "spawned", "ready", "exit 0"):
                assert made.make(move)
        assert (made.life.state, made.life.ledger.restarts) == (State.EXITED, 5)
        made.make("demand")
        assert made.life.state is State.FATAL
        assert made.life.cause == "exit 0; the budget of 5 restarts in 60 s is spent"
        assert made.life.wanted is False

    @pytest.mark.parametrize("state", [State.BACKOFF, State.EXITED, State.FATAL, State.STOPPED])
    @pytest.mark.parametrize("move", ["start", "restart"])
    def test_a_person_who_asks_clears_the_budget(self, state: State, move: str) -> None:
        made = world(*WAYS_TO[state], move)
        assert (made.life.state, made.life.ledger, made.life.cause) == (State.SPAWNING, Ledger(), "")


class TestStorms:
    """Case 21: how often a server is started that does not work, in two simulated hours full of requests."""

    @staticmethod
    def two_hours(made: World, *run: str) -> World:
        """Start the server again and again, as far as it lets itself, with a request in every half second."""
        for _ in range(2 * 60 * 60 * 2):
            made.make("demand")
            if made.spawning is not None:
                for move in run:
                    assert made.make(move), move
            made.make("wait")
        return made

    def test_an_error_at_start_is_tried_with_growing_delay_and_then_parked(self) -> None:
        made = self.two_hours(World(Policy(), jitter=0.9), "spawned", "exit 1")
        assert len(made.spawns) == 6
        times = [time for time, _, _ in made.spawns]
        delays = [later - sooner for sooner, later in pairwise(times)]
        assert delays == sorted(delays)
        assert delays[-1] > 10
        assert made.life.state is State.FATAL
        assert made.life.cause == "exit 1 before it was ready; the budget of 5 restarts in 60 s is spent"

    def test_a_start_that_hangs_is_parked_too(self) -> None:
        made = self.two_hours(World(Policy()), "spawned", "timer", "timer", "timer", "exit 1")
        assert len(made.spawns) == 6
        assert made.life.cause == "did not answer initialize within 60 s; not ready once in 6 starts"

    def test_a_file_that_is_missing_is_tried_once(self) -> None:
        assert len(self.two_hours(World(Policy()), "no such file").spawns) == 1

    def test_a_slow_start_is_one_start(self) -> None:
        made = world("demand", *["demand", "wait"] * 50)
        assert len(made.spawns) == 1

    def test_flapping_trips_also_after_a_long_good_run(self) -> None:
        made = world(*RUNNING, *["wait long"] * 100, "exit 1", "timer")
        made = self.two_hours(made, "spawned", "ready", "exit 1")
        assert made.life.state is State.FATAL
        assert len(made.spawns) == 6

    def test_a_crash_after_each_long_good_run_never_trips(self) -> None:
        made = world("start")
        for _ in range(100):
            for move in ("spawned", "ready", "wait long", "exit 1", "timer"):
                assert made.make(move)
        assert (made.life.ledger.failures, made.life.ledger.restarts) == (1, 100)


# Times so near to each other that a walk of some dozen moves meets every measure of the restart policy.
TIGHT = RestartPolicy(backoff=Backoff(first=0.5, most=2.0, reset_after=3.0), budget=Budget(restarts=2, within=4.0))
MODES: tuple[RestartMode, ...] = get_args(RestartMode)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Policies with times of a few seconds and small budgets."""
    seconds = st.sampled_from([0.25, 1.0, 5.0])
    backoff = Backoff(first=draw(seconds), most=draw(seconds), reset_after=draw(seconds))
    budget = Budget(restarts=draw(st.integers(0, 4)), within=draw(st.sampled_from([0.0, 2.0, 10.0, 60.0])))
    restart = RestartPolicy(draw(st.sampled_from(MODES)), backoff, budget)
    return Policy(draw(seconds), draw(seconds), draw(seconds), restart)


class TestWalks:
    """The promises at the end of the section in design: `World` asserts them after each event of each walk."""

    @settings(max_examples=max(2000, settings().max_examples), deadline=None)
    @given(policies(), st.floats(0, 1, exclude_max=True), st.lists(st.integers(0, 100), max_size=100))
    def test_random_walks_keep_every_promise_and_can_always_come_to_rest(
        self, policy: Policy, jitter: float, choices: list[int]
    ) -> None:
        made = World(policy, jitter)
        for choice in choices:
            moves = sorted(made.moves())
            made.make(moves[choice % len(moves)])
        made.come_to_rest()
        spawns = len(made.spawns)
        for event in (*made.stale, Demand(), TimerFired(made.life.timers), Idle(made.life.generation)):
            made.tell(event)
        assert len(made.spawns) == spawns, "a spawn after the stop had succeeded"

    def test_every_walk_of_a_small_policy_keeps_every_promise(self) -> None:
        policy = Policy(1.0, 1.0, 1.0, TIGHT)
        start = World(policy)
        seen, todo = {start.snapshot()}, deque([start])
        states = set()
        while todo:
            here = todo.popleft()
            states.add(here.life.state)
            here.copy().come_to_rest()
            for move in here.moves():
                if move in ("wait", "timer, late", "old news"):
                    continue
                there = here.copy()
                there.make(move)
                if there.snapshot() not in seen:
                    seen.add(there.snapshot())
                    todo.append(there)
        assert states == set(State)
        assert len(seen) > 1000

    @pytest.mark.parametrize("state", list(State))
    def test_what_belongs_to_another_run_is_ignored(self, state: State) -> None:
        life = world(*WAYS_TO[state]).life
        for generation in (life.generation - 1, life.generation + 1):
            for kind in (Installing, Spawned, Ready, Replace, Idle):
                assert step(life, kind(generation), 500.0, Policy()) == (life, ())
            assert step(life, SpawnFailed(generation, True, ""), 500.0, Policy()) == (life, ())
            assert step(life, Exited(generation, False, ""), 500.0, Policy()) == (life, ())
        for serial in range(-1, life.timers + 2):
            if life.timer is None or serial != life.timer.serial:
                assert step(life, TimerFired(serial), 500.0, Policy()) == (life, ())

    def test_resting_means_that_only_those_who_ask_are_heard(self) -> None:
        for state in RESTING:
            assert set(TABLE[state]) <= {Start, Stop, Restart, Demand}
        assert all(
            issubclass(event, OfRun) for event in (Installing, Spawned, SpawnFailed, Ready, Exited, Replace, Idle)
        )
