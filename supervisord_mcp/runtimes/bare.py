"""The runtime without isolation: the command runs as it is, as the user of the daemon."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace

import anyio

from supervisord_mcp.egress.rules import Egress
from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes.base import Child, Lack, LaunchSpec, Runtime
from supervisord_mcp.runtimes.cgroup import Groups
from supervisord_mcp.runtimes.child import ProcessChild, with_marker
from supervisord_mcp.runtimes.delivery import Delivery
from supervisord_mcp.runtimes.handover import EXACT_GATE, GATE, pass_gate
from supervisord_mcp.runtimes.limits import Available
from supervisord_mcp.runtimes.process import Program, check_program, spawn
from supervisord_mcp.runtimes.proctable import MARKER_VARIABLE
from supervisord_mcp.runtimes.restraint import Restraint, means
from supervisord_mcp.runtimes.seccomp import Policy
from supervisord_mcp.runtimes.shown import environment_words

_START_SECONDS = 20.0
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class BareRuntime(Runtime):
    """Starts commands with their own group, marker and exact environment, and nothing else around them."""

    name = "bare"
    isolation = "none"

    def __init__(self, groups: Groups | None = None) -> None:
        """``groups`` are the daemon's cgroups, where there are any."""
        self._groups = groups

    def check(self) -> tuple[Lack, ...]:
        """Return nothing: a machine that runs the daemon lacks nothing for this runtime."""
        return ()

    def explain(self, spec: LaunchSpec) -> str:
        """Return a command line that a person can paste to start the same child; secrets are not in it."""
        words = ["env", "-i", *environment_words(spec.env), *map(shlex.quote, spec.argv)]
        line = " ".join(words)
        return line if spec.cwd is None else f"cd {shlex.quote(spec.cwd)} && {line}"

    def policy(self, spec: LaunchSpec) -> Policy | None:
        """Return None: nothing is filtered."""
        return None

    def available(self) -> Available:
        """Return the means for limits that there are without a sandbox."""
        return means(self._groups)

    async def launch(self, spec: LaunchSpec) -> Child:
        """Start the child. Raise `LaunchError` when it cannot start, `IsolationError` when a promise cannot be kept."""
        if isinstance(spec.network, Egress):
            raise IsolationError(
                f"server {spec.name} was not started: without isolation it could reach everything, not only its rules",
                remedy='Use runtime = "bwrap", or network = "host" if you trust it.',
            )
        restraint = Restraint(spec, self.available(), self._groups)
        delivery = Delivery(spec.name, spec.secrets)
        program = Program(spec.argv, with_marker((*spec.env, *delivery.variables), spec.marker), cwd=spec.cwd)
        try:
            child = self._spawn(program, gated=not restraint.idle)
        except BaseException:
            delivery.close()
            raise
        child.attach(delivery)
        if restraint.idle:
            return child
        try:
            with anyio.fail_after(_START_SECONDS):
                await pass_gate(child, restraint, spec)
        except TimeoutError:
            await _end(child)
            raise LaunchError(f"server {spec.name} did not start within {_START_SECONDS:.0f} s") from None
        except BaseException:
            await _end(child)
            raise
        return child

    def _spawn(self, program: Program, *, gated: bool) -> ProcessChild:
        marker = program.env.get(MARKER_VARIABLE, "")
        if not gated:
            return ProcessChild(spawn(program), marker)
        check_program(program)
        # Limits are set on a gate that becomes the server: what it starts first has them as well.
        plain = all(_PLAIN.fullmatch(name) for name in program.env)
        gate = ("/bin/sh", "-c", GATE, "smcp") if plain else (sys.executable, "-I", "-S", "-c", EXACT_GATE)
        return ProcessChild(spawn(replace(program, argv=(*gate, *program.argv))), marker)


async def _end(child: Child) -> None:
    with anyio.CancelScope(shield=True):
        await child.aclose()
