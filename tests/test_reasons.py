"""The words for those who wait in vain."""

from __future__ import annotations

import pytest

from supervisord_mcp import reasons
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.policy.lifecycle import RESTING, After, Lifecycle, State, Timer
from supervisord_mcp.reasons import LastWords
from supervisord_mcp.runtimes.base import ExitStatus

FAILED = "exit 3; last lines of stderr:\nno such table"


@pytest.mark.parametrize("state", [state for state in State if state not in RESTING and state is not State.BACKOFF])
def test_nobody_is_sent_away_while_a_child_comes_or_goes(state: State) -> None:
    assert reasons.unavailable("files", Lifecycle(state), 0.0) is None


def test_one_that_sleeps_is_woken() -> None:
    assert reasons.unavailable("files", Lifecycle(), 0.0) is None


def test_one_that_was_stopped_is_started_by_a_person() -> None:
    reason = reasons.unavailable("files", Lifecycle(State.STOPPED), 0.0)
    assert reason is not None
    assert reason.text == "server 'files' is stopped; start it with: smcp start files"
    assert reason.data == {"reason": "server_stopped"}


@pytest.mark.parametrize(
    ("seconds", "ago"),
    [
        (0.4, "just now"),
        (5, "5 s ago"),
        (119, "119 s ago"),
        (125, "2 minutes ago"),
        (7200, "2 hours ago"),
        (1e6, "11 days ago"),
    ],
)
def test_one_that_gave_up_says_when_and_why_and_what_to_do(seconds: float, ago: str) -> None:
    life = Lifecycle(State.FATAL, cause=f"{FAILED}; the budget is spent", since=10.0)
    reason = reasons.unavailable("files", life, 10.0 + seconds)
    assert reason is not None
    assert reason.text == (
        f"server 'files' gave up {ago} and is not restarted any more:"
        f" {FAILED}; the budget is spent\nstart it with: smcp start files"
    )
    assert reason.data == {"reason": "server_fatal"}


def test_who_waited_for_a_start_gets_its_error() -> None:
    error = IsolationError("no bwrap", remedy="install it")
    life = Lifecycle(State.FATAL, cause="x", since=10.0)
    assert reasons.failure("files", life, error, 10.5) is error
    plain = reasons.failure("files", life, None, 10.5)
    assert (plain.message, plain.code) == ("server 'files' failed: x", "launch")


def test_who_comes_later_is_told_when_it_was() -> None:
    error = IsolationError("no bwrap", remedy="install it")
    told = reasons.failure("files", Lifecycle(State.FATAL, since=10.0), error, 310.0)
    assert (told.message, told.code, told.exit_status) == ("no bwrap", "isolation", 7)
    assert told.remedy == (
        "install it\nthat was 5 minutes ago, and it is not tried again by itself; start it with: smcp start files"
    )


def test_a_start_that_waits_for_the_next_call_says_so() -> None:
    error = LaunchError("cannot install x", remedy="Check the network.", unreachable=True)
    told = reasons.failure("files", Lifecycle(State.ASLEEP, since=1.0), error, 1.0)
    assert told.remedy == "Check the network.\nsmcp tries again with the next call"
    assert told.exit_status == 5


def test_a_start_that_is_tried_again_says_so() -> None:
    life = Lifecycle(State.BACKOFF, cause="offline", timer=Timer(1, 104.0))
    told = reasons.failure("files", life, None, 100.0)
    assert told.remedy == "smcp tries again in 4 s, and gives up once the restart budget is spent"
    assert (told.code, told.exit_status) == ("launch", 5), "it has not given up"
    assert reasons.failure("files", life, IsolationError("no bwrap"), 100.0).exit_status == 7


def test_one_that_ended_says_how() -> None:
    reason = reasons.unavailable("files", Lifecycle(State.EXITED, cause="exit 0"), 0.0)
    assert reason is not None
    assert (reason.text, reason.data) == ("server 'files' has ended: exit 0", {"reason": "server_exited"})


def test_a_long_wait_is_told_and_a_short_one_is_waited() -> None:
    life = Lifecycle(State.BACKOFF, cause=FAILED, timer=Timer(1, 107.4))
    reason = reasons.unavailable("files", life, 100.0)
    assert reason is not None
    assert reason.text == f"server 'files' failed and is started again in 7 s: {FAILED}"
    assert reason.data == {"reason": "server_backoff", "retryAfter": 7.4}
    assert reasons.unavailable("files", life, 107.4 - reasons.PATIENCE) is None
    assert reasons.unavailable("files", life, 200.0) is None


@pytest.mark.parametrize("state", [State.STARTING, State.RUNNING])
def test_a_crash_is_told_with_all_that_is_known(state: State) -> None:
    ending = reasons.ended("files", Lifecycle(state), ExitStatus(code=3), "", LastWords("no such table"))
    assert ending.unasked
    assert ending.cause == FAILED
    assert ending.reason.text == f"server 'files' ended: {FAILED}"
    assert ending.reason.data == {
        "reason": "server_exited",
        "exitCode": 3,
        "signal": None,
        "stderrTail": "no such table",
    }


def test_one_of_a_project_is_started_there_wherever_the_person_is() -> None:
    stopped = reasons.unavailable("files", Lifecycle(State.STOPPED), 0.0, "/my site")
    said = "server 'files' is stopped in /my site; start it with: smcp start files --project '/my site'"
    assert stopped is not None
    assert stopped.text == said
    error = reasons.failure("files", Lifecycle(State.FATAL), None, 100.0, "/src")
    assert "smcp start files --project /src" in str(error)


def test_noise_of_a_server_that_was_ready_is_no_cause() -> None:
    words = LastWords(noise="it wrote a line")
    assert reasons.ended("files", Lifecycle(State.RUNNING), ExitStatus(code=1), "", words).cause == "exit 1"
    assert reasons.ended("files", Lifecycle(State.STARTING), ExitStatus(code=1), "", words).cause == (
        "exit 1; it wrote a line"
    )


def test_a_crash_without_a_word() -> None:
    ending = reasons.ended("files", Lifecycle(State.RUNNING), ExitStatus(signal=11), "", LastWords())
    assert ending.cause == "killed by SIGSEGV"
    assert ending.reason.data == {"reason": "server_exited", "exitCode": None, "signal": 11}


def test_one_that_we_killed_says_why_and_not_how() -> None:
    ending = reasons.ended("files", Lifecycle(State.RUNNING), ExitStatus(signal=9), "not reading", LastWords())
    assert (ending.unasked, ending.cause) == (True, "not reading")
    assert ending.reason.text == "server 'files' ended: not reading"


def test_one_that_did_not_get_ready_in_time() -> None:
    life = Lifecycle(State.TERMINATING, after=After.CRASH, cause="did not answer initialize within 60 s")
    words = LastWords("waiting for a lock", "it wrote 2 lines")
    ending = reasons.ended("files", life, ExitStatus(signal=15), "it closed its stdout", words)
    assert ending.unasked
    said = "did not answer initialize within 60 s; it wrote 2 lines"
    assert ending.cause == f"{said}; last lines of stderr:\nwaiting for a lock"
    assert ending.reason.text == f"server 'files' failed to start: {ending.cause}"
    assert reasons.brief(ending.cause) == said
    assert reasons.brief("two\nlines") == "two"
    assert ending.reason.data["stderrTail"] == "waiting for a lock"


@pytest.mark.parametrize(
    ("after", "verb"), [(After.STOP, "stopped"), (After.SLEEP, "stopped"), (After.SPAWN, "restarted")]
)
def test_what_somebody_wanted_is_no_crash(after: After, verb: str) -> None:
    ending = reasons.ended("files", Lifecycle(State.KILLING, after=after), ExitStatus(signal=9), "", LastWords("bye"))
    assert not ending.unasked
    assert ending.reason.text == f"server 'files' was {verb}"
    assert ending.reason.data == {"reason": f"server_{verb}", "exitCode": None, "signal": 9}


def test_a_child_that_was_let_go_with_the_daemon() -> None:
    ending = reasons.ended("files", Lifecycle(State.RUNNING), None, "", LastWords())
    assert ending.cause == "it was abandoned"
    assert ending.reason.data == {"reason": "server_exited"}


def test_no_reason_has_a_secret() -> None:
    masker.learn("s3cret-value", "vault:mine")
    ending = reasons.ended("s", Lifecycle(State.RUNNING), ExitStatus(code=1), "", LastWords("with s3cret-value"))
    assert ending.cause == "exit 1; last lines of stderr:\nwith ***"
    assert ending.reason.data["stderrTail"] == "with ***"
    assert "s3cret-value" not in ending.reason.text
