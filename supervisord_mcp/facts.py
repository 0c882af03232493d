"""What a shim says of its session: the server it wants, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Facts:
    """One session's origin. ``environ`` is the host's environment, of which only what an entry names is ever used."""

    server: str
    project: str | None = None
    cwd: str = "/"
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    pid: int = 0
