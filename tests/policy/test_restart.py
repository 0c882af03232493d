"""Back-off, budget and their memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.policy.restart import (
    Backoff,
    Budget,
    GiveUp,
    Leave,
    Ledger,
    RestartMode,
    RestartPolicy,
    Retry,
    Run,
    judge,
)

POLICY = RestartPolicy()
CRASH = Run(0.1)
jitters = st.floats(0, 1, exclude_max=True)


class TestBackoff:
    """The delay before a restart."""

    def test_it_doubles_from_first_to_most(self) -> None:
        assert [Backoff().delay(failures, 0.0) for failures in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]

    def test_jitter_takes_up_to_a_quarter_off(self) -> None:
        assert Backoff(first=4.0).delay(1, 0.5) == 3.5

    @given(st.integers(1, 10**9), jitters)
    def test_it_is_positive_and_never_more_than_most(self, failures: int, jitter: float) -> None:
        assert 0.75 <= Backoff().delay(failures, jitter) <= 30.0

    @given(st.integers(1, 4), jitters, jitters)
    def test_below_most_it_grows_whatever_the_jitter(self, failures: int, one: float, other: float) -> None:
        assert Backoff().delay(failures, one) < Backoff().delay(failures + 1, other)


class TestJudge:
    """What follows on the end of a run."""

    @pytest.mark.parametrize(
        ("mode", "run", "left"),
        [
            ("always", Run(9.0, success=True), False),
            ("always", Run(9.0), False),
            ("always", Run(), False),
            ("on-failure", Run(9.0, success=True), True),
            ("on-failure", Run(9.0), False),
            ("on-failure", Run(None, success=True), False),
            ("never", Run(9.0, success=True), True),
            ("never", Run(9.0), True),
            ("never", Run(), True),
        ],
    )
    def test_the_mode_says_which_ends_are_left_alone(self, mode: RestartMode, run: Run, left: bool) -> None:
        _, verdict = judge(Ledger(), run, RestartPolicy(mode=mode), 0.0, 0.0)
        assert verdict == (Leave() if left else Retry(1.0))

    def test_a_good_run_forgives_the_delay_but_only_time_empties_the_window(self) -> None:
        before = Ledger(failures=4, unready=4, restarts=4, recent=(1.0, 3.0, 7.0, 15.0))
        ledger, verdict = judge(before, Run(60.0), POLICY, 16.0, 0.0)
        assert verdict == Retry(1.0)
        assert ledger == Ledger(failures=1, unready=0, restarts=4, recent=(1.0, 3.0, 7.0, 15.0))

    def test_a_run_that_was_ready_for_too_short_forgives_only_the_failed_starts(self) -> None:
        ledger, verdict = judge(Ledger(failures=2, unready=2), Run(59.9), POLICY, 16.0, 0.0)
        assert verdict == Retry(4.0)
        assert ledger == Ledger(failures=3)

    def test_the_window_is_spent_with_the_last_restart_and_open_again_when_one_leaves_it(self) -> None:
        full = Ledger(recent=(1.0, 2.0, 3.0, 4.0, 5.0))
        assert judge(full, CRASH, POLICY, 60.9, 0.0)[1] == GiveUp("the budget of 5 restarts in 60 s is spent")
        assert judge(full, CRASH, POLICY, 61.0, 0.0)[1] == Retry(1.0)

    def test_starts_that_fail_slowly_are_given_up_too(self) -> None:
        ledger, now = Ledger(), 0.0
        for _ in range(5):
            ledger, verdict = judge(ledger, Run(), POLICY, now, 0.0)
            assert isinstance(verdict, Retry)
            now += 1000.0
            ledger = ledger.restarted(now, POLICY.budget)
        assert judge(ledger, Run(), POLICY, now, 0.0)[1] == GiveUp("not ready once in 6 starts")

    def test_no_restarts_means_none(self) -> None:
        policy = RestartPolicy(budget=Budget(restarts=0))
        assert judge(Ledger(), CRASH, policy, 0.0, 0.0)[1] == GiveUp("the budget of 0 restarts in 60 s is spent")

    def test_the_ledger_remembers_no_more_than_the_window(self) -> None:
        ledger = Ledger()
        for now in range(0, 10_000, 7):
            ledger = ledger.restarted(float(now), POLICY.budget)
        assert len(ledger.recent) == 9
        assert ledger.restarts == 1429

    @given(
        st.lists(st.tuples(st.one_of(st.none(), st.floats(0, 100)), st.booleans(), st.floats(0, 40)), max_size=60),
        st.integers(0, 5),
        st.floats(0.5, 100),
        jitters,
    )
    def test_no_window_ever_holds_more_restarts_than_the_budget(
        self, runs: list[tuple[float | None, bool, float]], restarts: int, within: float, jitter: float
    ) -> None:
        policy = RestartPolicy("always", budget=Budget(restarts, within))
        ledger, now, made = Ledger(), 0.0, list[float]()
        for ready_for, success, late in runs:
            now += ready_for or 0.0
            ledger, verdict = judge(ledger, Run(ready_for, success), policy, now, jitter)
            if isinstance(verdict, Retry):
                now += verdict.delay + late
                ledger = ledger.restarted(now, policy.budget)
                made.append(now)
        for last in made:
            assert sum(0 <= last - time < within for time in made) <= restarts
