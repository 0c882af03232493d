"""The install phase: a package is fetched once, in a sandbox that reaches registries and has nothing of the server.

What runs later sees the result read-only and needs neither the installer nor the network. A package without an exact
version is looked up again after a day; where that fails, what is installed is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread

from supervisord_mcp.egress.registries import NPM, PYPI
from supervisord_mcp.egress.rules import Rule
from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.packages import steps
from supervisord_mcp.packages.failures import install_failure
from supervisord_mcp.packages.ownership import give, take_back
from supervisord_mcp.packages.phase import NAME, Confinement, Surroundings, Task, carry_out
from supervisord_mcp.packages.registries import RegistryRules, settings_of
from supervisord_mcp.packages.requests import Request, npm_name, python_name
from supervisord_mcp.packages.settings import Installer
from supervisord_mcp.packages.store import Shelf, discard, forget, locked

_FRESH_SECONDS = 86400
_RETRY_SECONDS = 3600
_REFRESH_LIMIT = 120
_OWN_CACHE = "cache"


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
        self._registries = RegistryRules()

    async def provide(self, request: Request, around: Surroundings) -> Installed:
        """Return what to run for a request, installed now if need be. Raise `LaunchError` where it cannot be."""
        shelf = Shelf(self._folder / _digest(request, around))
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
        return _found(Shelf(self._folder / _digest(request, around)), request, around)

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
            around.runtime.rest()
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(discard, place.parent / _OWN_CACHE)
                if shelf.current() != place:
                    await to_thread.run_sync(discard, place)
        with suppress(OSError):
            await to_thread.run_sync(forget, self._folder, place.parent, self._clock())

    async def _carry_out(self, request: Request, place: Path, around: Surroundings) -> None:
        """Install into an empty folder, which belongs to the daemon and is closed to changes when this ends."""
        if around.grants.scripts and around.runtime.isolation == "reduced":
            raise IsolationError(
                f"{request.shown} was not installed: runtime {around.runtime.name} cannot hold the scripts of"
                f" {', '.join(around.grants.scripts)} to registries",
                remedy='Use runtime = "bwrap", or leave install.scripts away.',
            )
        identity = around.runtime.identity(NAME)
        cache = self._cache(request, place, around)
        for folder in (cache, cache / "tmp"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        plan = steps.plan(request, steps.Folders(place, cache), around.find, around.grants.scripts)
        env = {"TMPDIR": f"{cache}/tmp", **plan.env}
        await to_thread.run_sync(give, place, identity)
        await to_thread.run_sync(give, cache, identity)
        rules, confinement = tuple[Rule, ...](), around.confinement()
        for number, command in enumerate(plan.commands):
            if number == plan.offline and around.runtime.isolation != "none":
                _check_reach(request, plan.installer, confinement)
                names = [npm_name(r) if request.kind == "npm" else python_name(r) for r in request.requirements]
                rules = await self._registries.of_installer(plan.installer, plan.program, names, around)
                rules = tuple(dict.fromkeys((*rules, *confinement.rules, *around.grants.rules)))
            settings = settings_of(plan.installer, around)
            task = Task(command, settings, env, plan.tools, (place, cache), rules)
            ending = await carry_out(task, around, around.progress)
            if not ending.status.success:
                raise install_failure(request.shown, str(ending.status), ending.lines, ending.refused)
        await to_thread.run_sync(take_back, place, identity)
        if left_out := steps.scripts_left_out(request, place, around.grants.scripts):
            around.progress(f"scripts of {', '.join(left_out)} were not run; name them in install.scripts to allow it")

    def _cache(self, request: Request, place: Path, around: Surroundings) -> Path:
        """Return what installers keep for each other; one that runs foreign programs must not write what others use."""
        return place.parent / _OWN_CACHE if around.grants.scripts else self._folder / f"{request.kind}-cache"

    async def registry_rules(self, sets: Iterable[str], around: Surroundings) -> tuple[Rule, ...]:
        """Return what ``@npm`` and ``@pypi`` stand for. Raise `LaunchError` where nothing on this machine says it."""
        return tuple([rule for name in sets for rule in await self._registries.of_set(name, around)])


def _check_reach(request: Request, installer: Installer, confinement: Confinement) -> None:
    """Raise `LaunchError` where installations may not reach the registries that a request is fetched from."""
    needed = NPM if installer == "npm" else PYPI
    if needed not in confinement.sets:
        raise LaunchError(
            f"{request.shown} was not installed: the network of the profile 'install' has no {needed}",
            remedy=f'Let it have that (network = {{ allow = ["{needed}"] }}), or install the package yourself.',
            retryable=False,
        )


def _found(shelf: Shelf, request: Request, around: Surroundings) -> Installed | None:
    place = shelf.current()
    if place is None:
        return None
    argv = steps.outcome(request, place, around.find)
    return Installed(argv, str(place), steps.binaries(request, place))


def _digest(request: Request, around: Surroundings) -> str:
    """Return the name of the folder for a request; what it was built with is part of it."""
    built_with = []
    for tool in steps.tools(request, around.find):
        status = os.stat(tool)
        built_with.append([os.path.realpath(tool), status.st_size, status.st_mtime_ns])
    content = [request.kind, request.requirements, request.python, built_with, around.grants.scripts]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
