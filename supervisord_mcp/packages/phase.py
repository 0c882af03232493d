"""One command in the install sandbox: what it sees, what it reaches, whom it runs as, and what it said."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from supervisord_mcp.egress.rules import Egress, Rule
from supervisord_mcp.packages import steps
from supervisord_mcp.packages.ownership import readable
from supervisord_mcp.packages.settings import Settings
from supervisord_mcp.runtimes.base import Container, ExitStatus, LaunchSpec, Mount, Network, Runtime
from supervisord_mcp.runtimes.egress.plan import PROXY_URL
from supervisord_mcp.runtimes.limits import Limits
from supervisord_mcp.runtimes.roots import runtime_roots
from supervisord_mcp.runtimes.seccomp import Policy

#: What the install sandbox is called; no server can be.
NAME = "@install"
_LINES = 40
_LINE_LENGTH = 500
_BREAK = re.compile(rb"[\r\n]+")


@dataclass(frozen=True, slots=True)
class Grants:
    """What the entry of a server lets an installation do beyond the rule.

    ``scripts`` are packages whose own programs may run while they are installed, ``rules`` are hosts beside registries.
    """

    scripts: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Confinement:
    """What holds every installation, whichever server it is for: its limits, and what it may ask of the kernel.

    ``sets`` are those of registries that it reaches (``@npm``, ``@pypi``), ``rules`` are hosts beside them.
    """

    limits: Limits
    seccomp: Policy
    sets: tuple[str, ...]
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an installation happens in: where, with which programs, how it is held, and who is told.

    ``confinement`` is asked for it when something is installed, and may raise `SmcpError`. ``environ`` is the daemon's
    environment with that of the server over it; of both only settings of installers are used. ``installing`` is called
    when an installation waits and again when it begins. ``container`` is in which image it happens, where it is to run
    in one: ``find`` knows the programs of that then, and ``outside`` those of the machine.
    """

    runtime: Runtime
    confinement: Callable[[], Confinement]
    find: steps.Find
    path: str
    home: str
    environ: Mapping[str, str] = field(repr=False)
    marker: str
    installing: Callable[[], None]
    progress: Callable[[str], None]
    grants: Grants = Grants()
    container: Container | None = None
    outside: steps.Find | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A command with what it needs: its words, its environment, its input, and where it may write.

    ``tools`` are programs that it needs besides its own. ``rules`` are what it reaches.
    """

    argv: tuple[str, ...]
    settings: Settings
    env: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    writable: tuple[Path, ...] = ()
    rules: tuple[Rule, ...] = ()
    stdin: bytes = b""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended, the last lines that it wrote, and the hosts that it asked for in vain."""

    status: ExitStatus
    lines: tuple[str, ...]
    refused: tuple[str, ...]


async def carry_out(task: Task, around: Surroundings, progress: Callable[[str], None]) -> Ending:
    """Run a command to its end; ``progress`` gets each line. Raise `IsolationError` where it cannot be isolated."""
    contained = around.container is not None
    with readable(task.settings, around.runtime.identity(NAME), task.writable, contained=contained) as settings:
        return await run_to_end(_spec(task, settings, around), task.stdin, around.runtime, progress)


def _spec(task: Task, settings: Settings, around: Surroundings) -> LaunchSpec:
    writable, confinement = tuple(map(str, task.writable)), around.confinement()
    files, mounts, network = settings.files, settings.mounts, _network(task, around.runtime)
    own = dict(settings.env) if network == "host" else settings.without_proxies()
    if isinstance(network, Egress):
        # The one variable that wins over a proxy in pip's own files.
        own["PIP_PROXY"] = PROXY_URL
    if around.container is not None:
        return LaunchSpec(
            name=NAME,
            argv=task.argv,
            env=tuple(sorted({"LANG": "C.UTF-8", "CI": "1", **own, **task.env}.items())),
            marker=around.marker,
            mounts=(*(Mount(path) for path in files if not _is_of_system(path)), *mounts),
            network=network,
            seccomp=confinement.seccomp,
            limits=confinement.limits,
            container=around.container,
        )
    env = {"PATH": around.path, "LANG": "C.UTF-8", "CI": "1", **own, **task.env}
    match around.runtime.isolation:
        case "none":
            env["HOME"] = around.home
        case "reduced" if mounts:
            # Nothing can be shown at another place than its own.
            env[settings.variable] = mounts[-1].path
            files, mounts = (*files, mounts[-1].path), ()
    roots = {
        root
        for program in (task.argv[0], *task.tools)
        for root in runtime_roots((program,), env, cwd=None, home=around.home, writable=writable)
    }
    return LaunchSpec(
        name=NAME,
        argv=task.argv,
        cwd=writable[0] if writable else None,
        env=tuple(sorted(env.items())),
        marker=around.marker,
        read_only=tuple(sorted(roots | set(files))),
        mounts=(*(Mount(place, "rw") for place in writable), *mounts),
        network=network,
        seccomp=confinement.seccomp,
        limits=confinement.limits,
    )


def _is_of_system(path: str) -> bool:
    """Return whether a directory would hide one of an image that has its own, like one with headers of a compiler."""
    return os.path.isdir(path) and (path.count("/") == 1 or path.startswith(("/usr/", "/lib", "/etc/ssl")))


def _network(task: Task, runtime: Runtime) -> Network | Egress:
    match runtime.isolation:
        case "sandbox":
            return Egress(task.rules) if task.rules else "none"
        case "reduced":
            # It knows no rules. Nothing of a package runs meanwhile: only programs of the person use the network.
            return "host" if task.rules else "none"
        case _:
            return "host"


async def run_to_end(spec: LaunchSpec, stdin: bytes, runtime: Runtime, progress: Callable[[str], None]) -> Ending:
    """Run a child to its end on some input; ``progress`` gets each line. Raise `LaunchError` or `IsolationError`."""
    lines: deque[str] = deque(maxlen=_LINES)
    child = await runtime.launch(spec)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_follow, child.stdout, lines, progress)
            tasks.start_soon(_follow, child.stderr, lines, progress)
            await _feed(child.stdin, stdin)
            child.close_stdin()
            status = await child.wait()
        return Ending(status, tuple(lines), child.refused())
    finally:
        with anyio.CancelScope(shield=True):
            await child.aclose()


async def _feed(descriptor: int, content: bytes) -> None:
    while content:
        try:
            content = content[os.write(descriptor, content) :]
        except BlockingIOError:
            await anyio.wait_writable(descriptor)
        except BrokenPipeError:
            return


async def _follow(descriptor: int, lines: deque[str], progress: Callable[[str], None]) -> None:
    """Pass on each line that an installer writes, and keep the last ones."""
    rest = b""
    while True:
        try:
            part = os.read(descriptor, 65536)
        except BlockingIOError:
            await anyio.wait_readable(descriptor)
            continue
        *complete, rest = _BREAK.split(rest + part) if part else (rest, b"")
        for line in complete:
            if text := line[:_LINE_LENGTH].decode(errors="replace").strip():
                lines.append(text)
                progress(text)
        rest = rest[-_LINE_LENGTH:]
        if not part:
            return
