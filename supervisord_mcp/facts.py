"""What a shim says of its session, the server it wants and where it comes from; and where a command comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from supervisord_mcp.protocol.mcp import Era
from supervisord_mcp.protocol.profiles import Profile


@dataclass(frozen=True, slots=True)
class Facts:
    """One session's origin. ``environ`` is the host's environment, of which only what an entry names is ever used.

    ``era`` is that of its host, ``profile`` what a shared child is told that the host can do; both are known once the
    session is over the threshold, and None is nothing. ``principal`` is whose it is: `user` of a local host.
    """

    server: str
    project: str | None = None
    cwd: str = "/"
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    pid: int = 0
    era: Era = "legacy"
    profile: Profile | None = None
    principal: str = ""


def user(uid: int) -> str:
    """Given the uid of a local host, return the principal (protocol.md 6.5 step 4).

    What a host says of itself is no part of it: a name can be said by anybody, and hosts of one user can read each
    other's memory.
    """
    return f"uid {uid}"


@dataclass(frozen=True, slots=True)
class Whence:
    """Where the word of a person comes from.

    ``facts`` are those of the command: the project that it works in, and its environment. If ``narrow``, the word is
    about that project alone.
    """

    facts: Facts = field(default_factory=lambda: Facts(""))
    narrow: bool = False

    def to(self, server: str) -> Facts:
        """Return the facts of a session with that server that would come from there."""
        return replace(self.facts, server=server)

    @property
    def project(self) -> str | None:
        """The one project that the word is about, or None if it is about all of them."""
        return self.facts.project if self.narrow else None


#: A word that comes from no project and brings no environment.
NOWHERE = Whence()
