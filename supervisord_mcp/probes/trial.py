"""Runs the attempts in an isolation and collects what came of them."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import anyio

from supervisord_mcp.config.protected import ALWAYS
from supervisord_mcp.probes.inside import run
from supervisord_mcp.probes.inside.rights import ALONE
from supervisord_mcp.probes.inside.trying import ATTEMPTS, Group
from supervisord_mcp.runtimes.base import LaunchSpec, Mount, Runtime
from supervisord_mcp.runtimes.roots import runtime_roots

Facts = dict[str, Any]
#: ``absent``: this machine has nothing on which it could be tried.
Outcome = Literal["open", "denied", "absent"]

#: The directory of this package, which a server that tries must be able to read.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: What the Python of such a server is to run.
# The directory around the package may be closed to the server, so the package is not searched for.
SCRIPT = f"""
import sys, types
package = sys.modules["supervisord_mcp"] = types.ModuleType("supervisord_mcp")
package.__path__ = [{PACKAGE!r}]
from supervisord_mcp.probes.inside import run
run.main()
"""
_PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one attempt, with the error that kept it from what it wanted."""

    outcome: Outcome
    detail: str = ""


def names() -> tuple[str, ...]:
    """Return the names of all attempts, in the order in which they run; those that are run alone come last."""
    return (*(name for name in ATTEMPTS if name not in ALONE), *ALONE)


def groups() -> tuple[Group, ...]:
    """Return the attempts as a person wants to see them: in groups with titles."""
    return run.GROUPS


def spec(facts: Facts, python: str, **changes: Any) -> LaunchSpec:
    """Return what is launched: a Python that makes attempts, with the grants that the facts speak of."""
    env = (("LANG", "C.UTF-8"), ("PATH", "/usr/bin:/bin"), ("TMPDIR", "/tmp"))
    roots = runtime_roots((python,), dict(env), cwd=None, home="/nonexistent", writable=())
    facts["interpreter"] = roots[0] if roots else "/usr"
    made = LaunchSpec(
        name="probe",
        argv=(python, "-I", "-S", "-B", "-c", SCRIPT),
        env=env,
        read_only=(*roots, PACKAGE),
        mounts=(Mount(facts["project"], "rw", protected=ALWAYS), Mount(facts["shown"])),
    )
    return replace(made, **changes)


async def tried(runtime: Runtime, launched: LaunchSpec, facts: Facts, wanted: Sequence[str]) -> dict[str, Result]:
    """Return what came of the wanted attempts in servers of a runtime.

    Raise what its ``launch`` raises, and `TimeoutError` if a server does not come to an end.
    """
    found: dict[str, Result] = {}
    together = [name for name in wanted if name not in ALONE]
    for some in (together, *([name] for name in wanted if name in ALONE)):
        if some:
            found |= await _run(runtime, launched, facts, some)
    return found


async def _run(runtime: Runtime, launched: LaunchSpec, facts: Facts, some: Sequence[str]) -> dict[str, Result]:
    child = await runtime.launch(replace(launched, marker=f"probe-{secrets.token_hex(8)}"))
    try:
        with anyio.fail_after(_PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_write, child.stdin, json.dumps({**facts, "attempts": list(some)}).encode() + b"\n")
                output = await _read(child.stdout)
            child.close_stdin()
            status = await child.wait()
            complaint = (await _read(child.stderr)).decode(errors="replace")
    finally:
        with anyio.CancelScope(shield=True):
            await child.aclose()
    return results(output, some, str(status), complaint)


def without_isolation(facts: Facts, python: str, wanted: Sequence[str]) -> dict[str, Result]:
    """Return what came of the wanted attempts in a process that has all that this one has: that they can succeed."""
    found: dict[str, Result] = {}
    together = [name for name in wanted if name not in ALONE]
    for some in (together, *([name] for name in wanted if name in ALONE)):
        with _spare_descriptor() as spare:
            done = subprocess.run(
                [python, "-I", "-S", "-B", "-c", SCRIPT],
                input=json.dumps({**facts, "attempts": list(some)}).encode() + b"\n",
                capture_output=True,
                cwd=facts["project"],
                pass_fds=(spare,),
                timeout=_PATIENCE,
                check=False,
            )
        found |= results(done.stdout, some, f"exit {done.returncode}", done.stderr.decode(errors="replace"))
    return found


@contextlib.contextmanager
def _spare_descriptor() -> Iterator[int]:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def results(output: bytes, some: Sequence[str], status: str, complaint: str) -> dict[str, Result]:
    """Given what the attempts printed and how their server ended, return what came of each.

    Raise `RuntimeError` if it ended before its time.
    """
    found = {}
    for line in output.splitlines():
        said = json.loads(line)
        found[said["attempt"]] = Result(said["outcome"], said["detail"])
    missing = [name for name in some if name not in found]
    if len(missing) > 1:
        raise RuntimeError(f"the attempts ended early ({status}), before {missing[0]!r}: {complaint[-2000:]}")
    # An attempt that is run alone may take the whole server with it.
    return found | {name: Result("denied", f"the server was ended: {status}") for name in missing}


async def _write(descriptor: int, content: bytes) -> None:
    while content:
        try:
            content = content[os.write(descriptor, content) :]
        except BlockingIOError:
            await anyio.wait_writable(descriptor)
        except BrokenPipeError:
            return


async def _read(descriptor: int) -> bytes:
    content = b""
    while True:
        try:
            part = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            await anyio.wait_readable(descriptor)
            continue
        if not part:
            return content
        content += part
