"""From configuration to a running child: the one bridge from config to runtimes.

PROVISIONAL by the author of supervisor.py, so that the daemon can be tried: the interface (`Launcher.resolve`,
`Launcher.isolation`, `Launch`) is what supervisor.py uses; everything inside is to be replaced by the real thing.
"""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from supervisord_mcp.config.load import Origin
from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.config.resolve import resolve
from supervisord_mcp.config.variables import Variables
from supervisord_mcp.errors import LaunchError
from supervisord_mcp.facts import Facts
from supervisord_mcp.policy.sharing import Resolved, Scope, digest, effective_scope
from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.base import Child, LaunchSpec, Mount, Runtime
from supervisord_mcp.runtimes.bwrap import BwrapRuntime


@dataclass(frozen=True, slots=True)
class Launch:
    """How a child for a session would be started. ``installing`` is called when an install phase waits or begins."""

    digest: str
    scope: Scope
    isolation: str
    runtime: Runtime
    spec: LaunchSpec
    marker: str

    async def start(self, installing: Callable[[], None], progress: Callable[[str], None]) -> Child:
        """Install what has to be installed, then start the child."""
        from dataclasses import replace

        if not os.path.isabs(self.spec.argv[0]):
            raise LaunchError(f"command not found: {self.spec.argv[0]}", retryable=False)
        return await self.runtime.launch(replace(self.spec, marker=f"{self.marker}{self.spec.name}:{uuid.uuid4().hex}"))


class Launcher:
    """Resolves entries. ``environ`` is the daemon's, ``marker`` begins the marker of every child of this daemon."""

    def __init__(self, paths: Paths, environ: Mapping[str, str], marker: str, path: Sequence[str]) -> None:
        self._environ = environ
        self._marker = marker
        self._path = path
        self._runtimes: dict[str, Runtime] = {"bare": BareRuntime(), "bwrap": BwrapRuntime()}

    def isolation(self, config: ServerConfig) -> str:
        """Return what the runtime of a server gives."""
        return self._runtimes[config.runtime].isolation

    def resolve(self, name: str, config: ServerConfig, facts: Facts) -> Launch:
        """Given an entry and a session, return how a child would be started. Raise `SmcpError` if it cannot be."""
        environ = {**self._environ, **facts.environ}
        done = resolve(name, config, Variables(environ, facts.project), Origin(Path("config.toml"), None))
        scope = effective_scope(config.scope, config.uses_project)
        path = ":".join((*self._path, self._environ.get("PATH", ""), "/usr/local/bin:/usr/bin:/bin"))
        program = shutil.which(done.argv[0], path=path) or done.argv[0]
        base = {"PATH": path, "HOME": self._environ.get("HOME", "/"), "LANG": "C.UTF-8"}
        env = tuple(sorted({**base, **dict(done.env)}.items()))
        argv = (program, *done.argv[1:])
        resolved = Resolved(
            argv=argv, cwd=done.cwd, env=env, runtime=config.runtime, network=config.network,
            mounts=tuple((p, p, a) for p, a in done.mounts),
        )  # fmt: skip
        roots = {sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(os.path.realpath(program)))}
        roots |= {os.path.dirname(word) for word in argv[1:] if word.startswith("/") and os.path.isfile(word)}
        spec = LaunchSpec(
            name=name, argv=argv, cwd=done.cwd, env=env, network=config.network,
            read_only=tuple(sorted(r for r in roots if r not in ("/", "/usr"))),
            mounts=tuple(Mount(p, a) for p, a in done.mounts),
        )  # fmt: skip
        runtime = self._runtimes[config.runtime]
        return Launch(digest(resolved), scope, runtime.isolation, runtime, spec, self._marker)
