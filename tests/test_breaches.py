"""A limit that is exceeded is an event, a line in the log, and the cause of an end."""

from __future__ import annotations

import pytest

from supervisord_mcp.breaches import Breaches
from supervisord_mcp.observer import Observers
from supervisord_mcp.policy.breach import Policy
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.runtimes.base import ExitStatus

KEY = InstanceKey("s", "abc")


class Log:
    """A log that is only remembered."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, source: str, text: str, *, session: int = 0) -> None:
        self.lines.append(f"{source} {text}")


def made(policy: Policy) -> tuple[Breaches, Observers, Log]:
    observers, log = Observers(), Log()
    return Breaches(KEY, observers, log, lambda: policy), observers, log


@pytest.mark.parametrize(
    ("cause", "limit"),
    [
        ("memory limit 512M", "memory"),
        ("process limit 128", "pids"),
        ("file size limit 2G", "fsize"),
        ("processor limit 0.5", "cpu"),
    ],
)
@pytest.mark.parametrize("policy", ["restart", "stop"])
def test_an_end_for_a_limit_is_told(cause: str, limit: str, policy: Policy) -> None:
    breaches, observers, log = made(policy)
    status, final = breaches.ended(ExitStatus(signal=9, cause=cause))
    [event] = observers.recent
    assert (event.kind, event.server) == ("limit", "s")
    assert event.data == {
        "instance": str(KEY),
        "limit": limit,
        "cause": cause,
        "outcome": "ended",
        "policy": policy,
    }
    assert log.lines == [f"smcp {cause} exceeded: ended"]
    assert final is (policy == "stop")
    assert str(status).startswith(f"killed by SIGKILL ({cause}")
    assert ("not started again" in str(status)) is final


@pytest.mark.parametrize(
    "status", [None, ExitStatus(code=1), ExitStatus(signal=9, cause="a file was replaced"), ExitStatus(code=0)]
)
def test_another_end_is_none(status: ExitStatus | None) -> None:
    breaches, observers, log = made("stop")
    assert breaches.ended(status) == (status, False)
    assert not observers.recent
    assert log.lines == []
