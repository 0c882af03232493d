"""The install phase: a package is fetched once, in a sandbox with network but without the server's secrets or files.

What runs later sees the result read-only and needs neither the installer nor the network. A package without an exact
version is looked up again after a day; where that fails, what is installed is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.packages import steps
from supervisord_mcp.packages.failures import install_failure
from supervisord_mcp.packages.requests import Request
from supervisord_mcp.packages.settings import Settings, find_settings
from supervisord_mcp.packages.store import Shelf, discard, forget, locked
from supervisord_mcp.runtimes.base import ExitStatus, LaunchSpec, Mount, Runtime
from supervisord_mcp.runtimes.limits import Limits
from supervisord_mcp.runtimes.roots import runtime_roots

_FRESH_SECONDS = 86400
_RETRY_SECONDS = 3600
_REFRESH_LIMIT = 120
_LINES = 40
_LINE_LENGTH = 500
#: Package managers work on many files with many threads at once, and may compile.
_LIMITS = Limits(memory=2 << 30, pids=512, nofile=8192, tmp=1 << 30)
_BREAK = re.compile(rb"[\r\n]+")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an installation happens in: where, with which programs, and who is told.

    ``environ`` is the daemon's environment with that of the server over it; of both only settings of installers are
    used. ``installing`` is called when an installation waits and again when it begins.
    """

    runtime: Runtime
    find: steps.Find
    path: str
    home: str
    environ: Mapping[str, str]
    marker: str
    installing: Callable[[], None]
    progress: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Installed:
    """What is run instead of the request: the command, the folder it needs, and the folder for its PATH."""

    argv: tuple[str, ...]
    read_only: str
    path: str


class Packages:
    """The installed packages of one user, in a folder of the cache."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        self._turns: dict[str, anyio.Lock] = {}

    async def provide(self, request: Request, around: Surroundings) -> Installed:
        """Return what to run for a request, installed now if need be. Raise `LaunchError` where it cannot be."""
        shelf = Shelf(self._folder / _digest(request, around.find))
        if not self._is_fresh(shelf, request):
            async with self._turn(request, around):
                if not self._is_fresh(shelf, request):
                    await self._renew(shelf, request, around)
        shelf.note_use(self._clock())
        found = _found(shelf, request, around)
        if found is None:
            raise LaunchError(f"{request.shown} disappeared from {self._folder} while it was installed")
        return found

    def installed(self, request: Request, around: Surroundings) -> Installed | None:
        """Return what is run for a request as long as nothing is installed anew, or None where nothing is there."""
        return _found(Shelf(self._folder / _digest(request, around.find)), request, around)

    def _is_fresh(self, shelf: Shelf, request: Request) -> bool:
        if shelf.current() is None:
            return False
        return request.pinned or self._clock() - shelf.checked() < _FRESH_SECONDS

    @asynccontextmanager
    async def _turn(self, request: Request, around: Surroundings) -> AsyncIterator[None]:
        """Wait for the installations before this one: they share a cache that bears one installer at a time."""

        def waiting() -> None:
            around.installing()
            around.progress(f"{request.shown} waits for another installation")

        turn = self._turns.setdefault(request.kind, anyio.Lock())
        if turn.locked():
            waiting()
        async with turn, locked(self._folder / f"{request.kind}.lock", waiting):
            around.installing()
            yield

    async def _renew(self, shelf: Shelf, request: Request, around: Surroundings) -> None:
        old = shelf.current()
        try:
            with anyio.fail_after(None if old is None else _REFRESH_LIMIT):
                await self._install(shelf, request, around)
        except (LaunchError, TimeoutError) as error:
            if old is None:
                raise
            why = str(error).splitlines()[0] if str(error) else f"no answer in {_REFRESH_LIMIT} s"
            around.progress(f"{request.shown} was not refreshed, the installed version is used: {why}")
            shelf.note_check(self._clock() - _FRESH_SECONDS + _RETRY_SECONDS)

    async def _install(self, shelf: Shelf, request: Request, around: Surroundings) -> None:
        around.progress(f"installing {request.shown}")
        await to_thread.run_sync(shelf.sweep, self._clock())
        place, old = shelf.begin(), shelf.current()
        try:
            await self._carry_out(request, place, around)
            steps.outcome(request, place, around.find)
            if old is None or steps.version(request, place) != steps.version(request, old):
                shelf.finish(place)
            shelf.note_check(self._clock())
            shelf.note_use(self._clock())
        finally:
            if shelf.current() != place:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(discard, place)
        with suppress(OSError):
            await to_thread.run_sync(forget, self._folder, place.parent, self._clock())

    async def _carry_out(self, request: Request, place: Path, around: Surroundings) -> None:
        cache = self._folder / f"{request.kind}-cache"
        (cache / "tmp").mkdir(parents=True, exist_ok=True, mode=0o700)
        plan = steps.plan(request, place, cache, around.find)
        settings = find_settings(around.environ, around.home)
        for command in plan.commands:
            spec = _spec(command, plan, (place, cache), settings, around)
            lines: deque[str] = deque(maxlen=_LINES)
            status = await _run(around.runtime, spec, lines, around.progress)
            if not status.success:
                raise install_failure(request.shown, str(status), lines)


def _spec(
    command: tuple[str, ...], plan: steps.Plan, writable: tuple[Path, Path], settings: Settings, around: Surroundings
) -> LaunchSpec:
    place, cache = map(str, writable)
    env = {"PATH": around.path, "LANG": "C.UTF-8", "TMPDIR": f"{cache}/tmp", "CI": "1", **settings.env, **plan.env}
    if around.runtime.isolation == "none":
        env["HOME"] = around.home
    roots = {
        root
        for program in (command[0], *plan.tools)
        for root in runtime_roots((program,), env, cwd=None, home=around.home, writable=(place, cache))
    }
    return LaunchSpec(
        name="install",
        argv=command,
        cwd=place,
        env=tuple(sorted(env.items())),
        marker=around.marker,
        read_only=tuple(sorted(roots | set(settings.files))),
        mounts=(Mount(place, "rw"), Mount(cache, "rw"), *settings.mounts),
        network="host",
        # What is installed belongs to whoever runs the daemon, so that no server can change it for the next.
        as_root=True,
        limits=_LIMITS,
    )


async def _run(runtime: Runtime, spec: LaunchSpec, lines: deque[str], progress: Callable[[str], None]) -> ExitStatus:
    child = await runtime.launch(spec)
    try:
        child.close_stdin()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_follow, child.stdout, lines, progress)
            tasks.start_soon(_follow, child.stderr, lines, progress)
            status = await child.wait()
    finally:
        with anyio.CancelScope(shield=True):
            await child.aclose()
    return status


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


def _found(shelf: Shelf, request: Request, around: Surroundings) -> Installed | None:
    place = shelf.current()
    if place is None:
        return None
    argv = steps.outcome(request, place, around.find)
    return Installed(argv, str(place), steps.binaries(request, place))


def _digest(request: Request, find: steps.Find) -> str:
    """Return the name of the folder for a request; what it was built with is part of it."""
    built_with = []
    for tool in steps.tools(request, find):
        status = os.stat(tool)
        built_with.append([os.path.realpath(tool), status.st_size, status.st_mtime_ns])
    content = [request.kind, request.requirements, request.python, built_with]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
