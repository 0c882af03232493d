"""What a shim says of its session: the server it wants, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from supervisord_mcp.protocol.mcp import Era
from supervisord_mcp.protocol.profiles import Profile


@dataclass(frozen=True, slots=True)
class Facts:
    """One session's origin. ``environ`` is the host's environment, of which only what an entry names is ever used.

    ``era`` is that of its host, ``profile`` what a shared child is told that the host can do; both are known once the
    session is over the threshold, and None is nothing.
    """

    server: str
    project: str | None = None
    cwd: str = "/"
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    pid: int = 0
    era: Era = "legacy"
    profile: Profile | None = None
