"""From the rules of a launch to a proxy that serves a sandbox, or to no start at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from supervisord_mcp.egress.rules import Egress
from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.child import ProcessChild
from supervisord_mcp.runtimes.egress.listeners import NamespaceAgent, open_namespace
from supervisord_mcp.runtimes.egress.plan import plan
from supervisord_mcp.runtimes.egress.proxy import EgressProxy, Surroundings

#: Given a child and the first process of its blocked sandbox, gives it its network. Raises `IsolationError`.
Furnish = Callable[[ProcessChild, int], Coroutine[Any, Any, None]]


class Furnisher:
    """Gives sandboxes their network; one for a whole daemon. ``around`` is what the proxies need of it."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._agent = NamespaceAgent()

    @contextlib.asynccontextmanager
    async def prepared(self, server: str, network: object) -> AsyncIterator[Furnish]:
        """Have ready for a block what the network of one launch needs; for one without rules that is nothing."""
        if not isinstance(network, Egress):
            yield _nothing
            return
        async with self._agent.ready() as agent:

            async def furnish(child: ProcessChild, inner: int) -> None:
                try:
                    namespace = open_namespace(inner)
                    try:
                        sockets = await agent.listeners(namespace, plan(network))
                    finally:
                        os.close(namespace)
                except IsolationError as error:
                    raise IsolationError(
                        f"server {server} was not started: {error.message}", remedy=error.remedy
                    ) from error
                proxy = EgressProxy(server, network, sockets, self._around)
                child.attach(proxy)
                child.gatekeeper = proxy

            yield furnish

    def rest(self) -> None:
        """Begin to release what is kept for the next launch, unless one goes on."""
        self._agent.rest()

    async def aclose(self) -> None:
        """Release what is kept for the next launch."""
        await self._agent.aclose()


async def _nothing(child: ProcessChild, inner: int) -> None:
    """Give a sandbox nothing."""
