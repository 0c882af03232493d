"""The runtime without isolation: the command runs as it is, as the user of the daemon."""

from __future__ import annotations

import shlex

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.base import Child, Lack, LaunchSpec, Runtime
from supervisord_mcp.runtimes.child import ProcessChild, with_marker
from supervisord_mcp.runtimes.egress.rules import Egress
from supervisord_mcp.runtimes.process import Program, spawn
from supervisord_mcp.runtimes.shown import environment_words


class BareRuntime(Runtime):
    """Starts commands with their own group, marker and exact environment, and nothing else around them."""

    name = "bare"
    isolation = "none"

    def check(self) -> tuple[Lack, ...]:
        """Return nothing: a machine that runs the daemon lacks nothing for this runtime."""
        return ()

    def explain(self, spec: LaunchSpec) -> str:
        """Return a command line that a person can paste to start the same child; secrets are not in it."""
        words = ["env", "-i", *environment_words(spec.env), *map(shlex.quote, spec.argv)]
        line = " ".join(words)
        return line if spec.cwd is None else f"cd {shlex.quote(spec.cwd)} && {line}"

    async def launch(self, spec: LaunchSpec) -> Child:
        """Start the child. Raise `LaunchError` when it cannot start, `IsolationError` when a network is promised."""
        if isinstance(spec.network, Egress):
            raise IsolationError(
                f"server {spec.name} was not started: without isolation it could reach everything, not only its rules",
                remedy='Use runtime = "bwrap", or network = "host" if you trust it.',
            )
        spawned = spawn(Program(spec.argv, with_marker(spec.env, spec.marker), cwd=spec.cwd))
        return ProcessChild(spawned, spec.marker)
