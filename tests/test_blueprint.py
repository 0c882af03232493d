"""How a child comes to be, or why there is none; what goes on with it is in `test_server`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from supervisord_mcp.blueprint import Blueprint, Spawning, policy_of
from supervisord_mcp.conduit import Bounds
from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.policy.lifecycle import Policy
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.protocol.eras.probe import Terms, Verdict
from supervisord_mcp.runtimes.base import Child
from tests.kit.bounded import bounded

LIMIT = 10
SPAWNING = Spawning(lambda: None, lambda _: None)


def blueprint(spawn: Callable[[Spawning], Awaitable[Child]]) -> Blueprint:
    return Blueprint(InstanceKey("s", "0" * 16), Policy(), False, None, Bounds(1, 1.0, 1.0), "none", spawn)


def raising(error: Exception) -> Callable[[Spawning], Awaitable[Child]]:
    async def spawn(_spawning: Spawning) -> Child:
        raise error

    return spawn


@pytest.mark.parametrize(
    ("error", "text", "retryable"),
    [
        (LaunchError("no such program", retryable=False), "no such program", False),
        (OSError(12, "Cannot allocate memory"), "cannot be started: [Errno 12]", True),
        (RuntimeError("oops"), "a fault of smcp, RuntimeError('oops')", False),
    ],
)
@bounded(LIMIT)
async def test_a_failure_says_whether_it_may_be_tried_again(error: Exception, text: str, retryable: bool) -> None:
    child, failure = await blueprint(raising(error)).attempt(anyio.CancelScope(), SPAWNING)
    assert child is None
    assert isinstance(failure, LaunchError)
    assert text in str(failure)
    assert failure.retryable is retryable


@bounded(LIMIT)
async def test_missing_isolation_stays_what_it_is() -> None:
    error = IsolationError("no namespaces")
    assert await blueprint(raising(error)).attempt(anyio.CancelScope(), SPAWNING) == (None, error)


@bounded(LIMIT)
async def test_a_spawn_that_is_cancelled_is_no_failure() -> None:
    scope = anyio.CancelScope()

    async def spawn(_spawning: Spawning) -> Child:
        scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError

    assert await blueprint(spawn).attempt(scope, SPAWNING) == (None, None)


def test_an_era_is_pinned_where_nothing_else_is_said() -> None:
    made: Any = blueprint(raising(OSError()))
    assert made.terms() == Terms("legacy")
    assert made.judged(Verdict(True, True)) is None


def test_the_rules_of_a_server_are_those_of_its_entry() -> None:
    entry = {
        "command": ["x"],
        "start_timeout": "5s",
        "install_timeout": "6s",
        "stop_grace": "7s",
        "restart": "always",
        "backoff": {"first": "1s", "most": "2s", "reset_after": "3s"},
        "budget": {"restarts": 4, "within": "8s"},
    }
    policy = policy_of(ServerConfig.model_validate(entry))
    assert (policy.start_timeout, policy.install_timeout, policy.stop_grace) == (5.0, 6.0, 7.0)
    restart = policy.restart
    assert (restart.mode, restart.backoff.first, restart.backoff.most, restart.backoff.reset_after) == (
        "always",
        1.0,
        2.0,
        3.0,
    )
    assert (restart.budget.restarts, restart.budget.within) == (4, 8.0)
