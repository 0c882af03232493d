"""Requests of hosts from beginning to end: one object for each, which everybody who handles one has in the hand.

Every call makes one, and what is known of it is filled in on its way, so that nothing has to be looked up or made anew
when it ends. (Structs of msgspec: a dataclass takes several times as long to make.)
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

#: Names a session towards the multiplexer; unique for the life of the daemon.
SessionKey: TypeAlias = int
#: What a host is called that does not say.
NAMELESS = "(unnamed)"


class Outcome(StrEnum):
    """How a call ended. A host that gives up for want of an answer cancels too, and says so: that is ``timeout``."""

    OK = "ok"
    ERROR = "error"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"


class Caller(msgspec.Struct, frozen=True, gc=False):
    """Whose calls they are and where they go: one for all calls of hosts of one name to an instance.

    ``host`` is how the host names itself in its handshake; before it does, it has no name.
    """

    server: str
    instance: str
    host: str = NAMELESS


_NOBODY = Caller("", "")


class Call(msgspec.Struct, gc=False):
    """One request of a host. As a command: it waits for an answer from now on, and that survives the daemon (D11).

    ``identity`` is the JSON text of the id that the host gave it, ``method`` what it asks for, empty where that is no
    call: a greeting, or a listen. ``tool`` is the JSON text of the name of the tool that it calls. ``upstream`` is its
    id at the child, None while it was not sent there.

    The rest is filled in by those who carry out commands. ``began`` and ``ended`` are in seconds of the monotonic
    clock, 0 as long as it did not begin, or end; ``asked`` and ``told`` are the bytes of request and answer.
    ``request`` is the line of the host that it was in, perhaps with others, empty unless somebody wants it.
    ``outcome`` is ``error`` also for a tool that says so in its result.
    """

    session: SessionKey
    identity: bytes
    method: str = ""
    tool: bytes = b""
    upstream: int | None = None
    began: float = 0.0
    asked: int = 0
    request: bytes = b""
    ended: float = 0.0
    told: int = 0
    outcome: Outcome = Outcome.OK
    caller: Caller = _NOBODY

    @property
    def server(self) -> str:
        """The name of the server."""
        return self.caller.server

    @property
    def instance(self) -> str:
        """The instance that it went to."""
        return self.caller.instance

    @property
    def host(self) -> str:
        """How the host names itself."""
        return self.caller.host
