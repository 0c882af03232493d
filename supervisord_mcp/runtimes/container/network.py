"""The network of a container with rules: that of a sandbox where the daemon may enter it, else its gate helps."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket

from supervisord_mcp.egress.rules import Egress
from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.egress.listeners import NamespaceAgent, open_namespace
from supervisord_mcp.runtimes.egress.plan import hosts_file, plan

_HOSTS = "127.0.0.1 localhost\n::1 localhost\n"


class Networks:
    """Enters networks of containers; one for a whole daemon."""

    def __init__(self) -> None:
        self._agent = NamespaceAgent()

    async def enter(self, pid: int, egress: Egress) -> list[socket.socket] | None:
        """Return listeners in the network of a process, with routes to them for every address that is a rule.

        None where that is refused: an engine of root runs containers for somebody who is not.
        """
        with contextlib.suppress(IsolationError):
            namespace = open_namespace(pid)
            try:
                async with self._agent.ready() as agent:
                    return await agent.listeners(namespace, plan(egress))
            finally:
                os.close(namespace)
        return None

    def rest(self) -> None:
        """Begin to release what is kept for the next launch, unless one goes on."""
        self._agent.rest()

    async def aclose(self) -> None:
        """Release what is kept for the next launch."""
        await self._agent.aclose()


def hosts(egress: Egress, pool: ipaddress.IPv4Network) -> str:
    """Return /etc/hosts of a container."""
    return hosts_file(egress, _HOSTS, pool)
