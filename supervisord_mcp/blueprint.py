"""What an instance is made of, what it shares with all others, and how a child of it comes to be."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from supervisord_mcp.catalogues import Catalogues
from supervisord_mcp.conduit import Bounds
from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.credentials.reading import Grant
from supervisord_mcp.errors import LaunchError, SmcpError
from supervisord_mcp.observer import Observers
from supervisord_mcp.policy.breach import Policy as Breach
from supervisord_mcp.policy.lifecycle import Policy
from supervisord_mcp.policy.restart import Backoff, Budget, RestartPolicy
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.protocol.callbacks import Rules
from supervisord_mcp.protocol.eras.probe import Terms, Verdict
from supervisord_mcp.protocol.mcp import Era
from supervisord_mcp.runtimes.base import Child
from supervisord_mcp.stopped import Stopped
from supervisord_mcp.verdicts import Verdicts

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Spawning:
    """What a spawn may tell while it goes on: that it installs, and a line of progress for `status`."""

    installing: Callable[[], None]
    progress: Callable[[str], None]


def _forget(_verdict: Verdict) -> None:
    """Keep nothing."""


def _always() -> None:
    """Nothing is against it."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What an instance is made of: its name, its rules, and how a child of it is started.

    ``generation`` is the last run under its name, ``warn_on_echo`` whether it is told that a secret is sent to a host.
    ``digests`` name what is kept of a child, by the era of that; without them it is kept under the digest of the key.
    ``terms`` says, for each child anew, what is known of its era; ``judged`` takes what was found out. ``credentials``
    are the secrets that its child is given, ``breach`` is what follows from a limit that is exceeded.
    """

    key: InstanceKey
    policy: Policy
    relay: Rules
    idle_timeout: float | None
    bounds: Bounds
    isolation: str
    spawn: Callable[[Spawning], Awaitable[Child]]
    generation: int = 0
    digests: Mapping[Era, str] = field(default_factory=dict)
    breach: Breach = "restart"
    warn_on_echo: bool = False
    terms: Callable[[], Terms] = Terms
    credentials: tuple[Grant, ...] = ()
    judged: Callable[[Verdict], None] = _forget

    def kept_under(self, era: Era) -> str:
        """Return the digest under which is kept what a child of an era said of itself."""
        return self.digests.get(era, self.key.digest)

    async def attempt(self, scope: anyio.CancelScope, spawning: Spawning) -> tuple[Child | None, SmcpError | None]:
        """Start a child inside a scope; return it, or why there is none (neither: the scope was cancelled)."""
        failure: SmcpError | None = None
        child: Child | None = None
        name = self.key.server
        with scope:
            try:
                child = await self.spawn(spawning)
            except SmcpError as error:
                failure = error
            except OSError as error:
                failure = LaunchError(f"server '{name}' cannot be started: {error}")
            except Exception as error:  # noqa: BLE001 - a fault of ours with one server must not end the others
                _log.exception("server '%s' could not be started", name)
                text = f"server '{name}' cannot be started: a fault of smcp, {error!r}"
                failure = LaunchError(text, retryable=False)
        return child, failure


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an instance shares with all others.

    ``may_start`` is asked before each start of a child, and raises `SmcpError` where this daemon is not to start any.
    """

    tasks: TaskGroup
    observers: Observers
    catalogues: Catalogues
    verdicts: Verdicts
    stopped: Stopped
    may_start: Callable[[], None] = _always


def policy_of(config: ServerConfig) -> Policy:
    """Return the rules of a server's lifecycle."""
    return Policy(
        start_timeout=config.start_timeout,
        install_timeout=config.install_timeout,
        stop_grace=config.stop_grace,
        restart=RestartPolicy(
            mode=config.restart,
            backoff=Backoff(config.backoff.first, config.backoff.most, config.backoff.reset_after),
            budget=Budget(config.budget.restarts, config.budget.within),
        ),
    )
