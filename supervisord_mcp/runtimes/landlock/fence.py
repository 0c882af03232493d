"""What Landlock adds to a sandbox that has the network of the machine: abstract sockets of others stay out of reach.

They belong to a network, not to files, so with the machine's own network every program that listens on one could be
asked: the bus of the session, a display. This is taken away before bubblewrap starts. A set of rules without any for
files does not keep it from mounting; one with some would.
"""

from __future__ import annotations

import threading

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.landlock import ruleset
from supervisord_mcp.runtimes.landlock.abi import ABSTRACT_SOCKETS_SINCE, only_scoped


class Fence:
    """Keeps one child inside, all that it starts included; a companion of it."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._over = threading.Event()

    def confine(self) -> None:
        """Hold this thread, and all it will start, to what is inside. Raise `IsolationError` where that cannot be."""
        try:
            with ruleset.made(only_scoped(), ()) as rules:
                ruleset.restrict_this_thread(rules)
        except OSError as error:
            raise IsolationError(
                f"server {self._server} was not started: Landlock cannot keep it from abstract sockets of the machine:"
                f" {error.strerror}",
                remedy='Name what it reaches instead of network = "host".',
            ) from error

    def stay(self) -> None:
        """Wait for the end of the child, in the thread that started it: a sandbox dies with that."""
        self._over.wait()

    def close(self) -> None:
        """Let the thread end. Idempotent."""
        self._over.set()

    async def aclose(self) -> None:
        """The same as `close`."""
        self.close()


def can_fence() -> bool:
    """Return whether the kernel can make a fence."""
    return ruleset.version() >= ABSTRACT_SOCKETS_SINCE


def fence_of(server: str, *, needed: bool) -> Fence | None:
    """Return a fence where it is needed and the kernel can make one (Linux 6.12)."""
    return Fence(server) if needed and can_fence() else None
