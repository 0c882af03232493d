"""How the children of one instance come to be, and what is told of it: installations, secrets, missing trust."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from supervisord_mcp.blueprint import Spawning, Surroundings
from supervisord_mcp.errors import NotTrustedError, SecretError
from supervisord_mcp.launch import Launch
from supervisord_mcp.observer import Event
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.runtimes.base import Child


@dataclass(frozen=True, slots=True)
class Starting:
    """What a start needs. ``room`` waits for those to be gone whose place the child takes."""

    key: InstanceKey
    launch: Launch
    around: Surroundings
    room: Callable[[], Awaitable[None]]

    async def spawn(self, spawning: Spawning) -> Child:
        """Start a child. Raise `SmcpError` where there is none."""
        await self.room()
        self.around.may_start()
        told = False

        def installing() -> None:
            nonlocal told
            spawning.installing()
            if not told:  # once, although it is said again when its turn comes
                self.around.observers.publish(Event("installing", self.key.server, {"instance": str(self.key)}))
            told = True

        try:
            child = await self.launch.start(installing, spawning.progress)
        except SecretError as error:
            refusal = {"instance": str(self.key), "cause": str(error)}
            self.around.observers.publish(Event("credentials-refused", self.key.server, refusal))
            raise
        except NotTrustedError as error:
            self.around.observers.publish(Event("not-trusted", self.key.server, {"cause": str(error)}))
            raise
        if self.launch.giving.grants:
            data = {"instance": str(self.key), "secrets": list(map(str, self.launch.giving.grants))}
            self.around.observers.publish(Event("credentials-given", self.key.server, data))
        return child
