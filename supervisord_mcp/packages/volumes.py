"""The install phase in a container: a package is fetched once into a volume of its own, in a base image.

As on the machine, the installation reaches registries and has nothing of the server; what runs later sees the volume
read-only. What was installed is recorded, for only the engine can look into a volume. A package without an exact
version is looked up again after a day; where that fails, what is installed is used.
"""

from __future__ import annotations

import functools
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio import to_thread

from supervisord_mcp.config.files import keep_file
from supervisord_mcp.config.files import locked as editing
from supervisord_mcp.egress.registries import NPM, PYPI
from supervisord_mcp.errors import LaunchError, SmcpError
from supervisord_mcp.packages.failures import install_failure
from supervisord_mcp.packages.phase import Confinement, Surroundings, Task, carry_out
from supervisord_mcp.packages.registries import RegistryRules, settings_of
from supervisord_mcp.packages.requests import Request, npm_name, python_name
from supervisord_mcp.packages.settings import Installer
from supervisord_mcp.packages.store import locked
from supervisord_mcp.runtimes.base import Container
from supervisord_mcp.runtimes.container.engine import Engine, EngineError, EngineRefusedError

#: Where a volume is in a container.
PLACE = "/opt/smcp"
#: The labels of every volume of ours: what is in it, and whose it is.
LABEL, OWNER = "smcp.package", "smcp.owner"
_FRESH_SECONDS = 86400
_RETRY_SECONDS = 3600
_FORGOTTEN_SECONDS = 90 * 86400
_REFRESH_LIMIT = 120
#: An engine removes a container a moment after it ended.
_TRIES, _PAUSE_SECONDS = 50, 0.1
#: Nobody in particular, and owner of the volume: without capabilities, root is but a number.
_OWNER = "0:0"
_INSIDE = Path(__file__).parent / "inside"
_PROGRAMS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "npm": (("node", "-e"), "node.js"),
    "python": (("python3", "-I", "-c"), "python.py"),
}
_FOUND: Mapping[str, Mapping[str, str]] = {
    "npm": {"npm": "npm", "node": "node"},
    "python": {"python3": "python3", "pip": "python3"},
}


class Kept(msgspec.Struct, frozen=True):
    """An installation: its volume and engine, what is in it, the words that run it, and when it was looked at."""

    volume: str
    engine: str
    shown: str
    run: tuple[str, ...]
    checked: float
    used: float


@dataclass(frozen=True, slots=True)
class Base:
    """The image in which a package is installed and runs: its id, its name, the engine, and the engine's word."""

    image: str
    shown: str
    engine: Engine
    word: str


class Volumes:
    """The installed packages of one daemon, each in a volume of an engine; ``file`` is the record of them."""

    def __init__(self, file: Path, clock: Callable[[], float] = time.time) -> None:
        self._file = file
        self._clock = clock
        #: Stands for the person whose volumes these are, among all that use an engine.
        self.owner = hashlib.sha256(str(file.parent).encode()).hexdigest()[:8]
        self._turns: dict[str, anyio.Lock] = {}
        self._registries = RegistryRules()

    def installed(self, request: Request, base: Base, around: Surroundings) -> Kept | None:
        """Return what is recorded of a request, or None."""
        return self._read().get(_digest(request, base, around))

    async def provide(self, request: Request, base: Base, around: Surroundings) -> Kept:
        """Return the installation of a request, made now if need be. Raise `LaunchError` where it cannot be."""
        if request.python is not None:
            raise LaunchError(
                f"{request.shown}: Python {request.python} is asked for, and a container has that of its image",
                remedy='Name an image with that Python: container = { uvx = "…" }.',
                retryable=False,
            )
        digest, known = _digest(request, base, around), f"{base.word} {base.image}"
        around = replace(around, find=_FOUND[request.kind].get, outside=around.find, container=_container(base))
        kept = await self._there(digest, base)
        if kept is None or not self._is_fresh(request, kept):
            turn = self._turns.setdefault(known, anyio.Lock())
            async with self._in_turn(turn, request, around):
                old = kept = await self._there(digest, base)
                if kept is None or not self._is_fresh(request, kept):
                    kept = await self._renewed(request, base, around, old)
                    await to_thread.run_sync(self._record, digest, kept)
                if old is None or kept.volume != old.volume:
                    await self._sweep(base)
        await to_thread.run_sync(self._record, digest, msgspec.structs.replace(kept, used=self._clock()))
        return kept

    async def _there(self, digest: str, base: Base) -> Kept | None:
        """Return what is recorded, if the engine still has it."""
        kept = self._read().get(digest)
        return kept if kept is not None and await _is_there(base.engine, kept.volume) else None

    def _is_fresh(self, request: Request, kept: Kept) -> bool:
        return request.pinned or self._clock() - kept.checked < _FRESH_SECONDS

    @asynccontextmanager
    async def _in_turn(self, turn: anyio.Lock, request: Request, around: Surroundings) -> AsyncIterator[None]:
        def waiting() -> None:
            around.installing()
            around.progress(f"{request.shown} waits for another installation")

        if turn.locked():
            waiting()
        async with turn, locked(self._file.with_suffix(".lock"), waiting):
            yield

    async def _renewed(self, request: Request, base: Base, around: Surroundings, old: Kept | None) -> Kept:
        around.installing()
        around.progress(f"installing {request.shown} in {base.shown}")
        try:
            with anyio.fail_after(None if old is None else _REFRESH_LIMIT):
                return await self._install(request, base, around)
        except (LaunchError, TimeoutError) as error:
            if old is None:
                raise
            why = str(error).splitlines()[0] if str(error) else f"no answer in {_REFRESH_LIMIT} s"
            around.progress(f"{request.shown} was not refreshed, the installed version is used: {why}")
            return msgspec.structs.replace(old, checked=self._clock() - _FRESH_SECONDS + _RETRY_SECONDS)

    async def _install(self, request: Request, base: Base, around: Surroundings) -> Kept:
        volume = f"smcp-{self.owner}-{secrets.token_hex(6)}"
        labels = {LABEL: request.shown, OWNER: self.owner}
        try:
            await base.engine.call(lambda client: client.create_volume(volume, labels=labels))
            answer = await self._carry_out(request, around, volume)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await _remove(base.engine, volume, patient=True)
            raise
        finally:
            # What held its network is not kept for the next start: the server may well reach nothing.
            around.runtime.rest()
        if left := answer.get("left"):
            around.progress(f"scripts of {', '.join(left)} were not run; name them in install.scripts to allow it")
        now = self._clock()
        return Kept(volume, base.word, request.shown, tuple(answer["run"]), now, now)

    async def _carry_out(self, request: Request, around: Surroundings, volume: str) -> dict[str, Any]:
        installer: Installer = "npm" if request.kind == "npm" else "pip"
        confinement = around.confinement()
        _check_reach(request, confinement)
        names = [(npm_name if request.kind == "npm" else python_name)(one) for one in request.requirements]
        program = ("npm",) if installer == "npm" else ("python3", "-m", "pip")
        rules = await self._registries.of_installer(installer, program, names, around)
        rules = tuple(dict.fromkeys((*rules, *confinement.rules, *around.grants.rules)))
        command, text = _PROGRAMS[request.kind]
        container = around.container
        assert container is not None, "an installation in a container has one"
        settings = settings_of(installer, around)
        # What npm of the machine reads beside itself, that of the image has to be told of.
        own = next((path for path in settings.files if path.endswith("/etc/npmrc")), "")
        task = Task(
            argv=(*command, _text(text)),
            settings=settings,
            env={**_ENVIRONMENT[installer], **({"npm_config_globalconfig": own} if own else {})},
            rules=rules,
            stdin=json.dumps(_question(request, names[0], around)).encode(),
        )
        there = replace(around, container=replace(container, volumes=((volume, PLACE, "rw"),)))
        ending = await carry_out(task, there, lambda line: None if line.startswith("{") else around.progress(line))
        if not ending.status.success:
            raise install_failure(request.shown, str(ending.status), ending.lines, ending.refused)
        answer = _answer(request, ending.lines)
        if failed := answer.get("failed"):
            raise install_failure(request.shown, f"exit {failed}", ending.lines[:-1], ending.refused)
        return answer

    def _record(self, digest: str, kept: Kept) -> None:
        """Record an installation, and forget what nobody used for very long."""
        with editing(self._file.with_suffix(".edit"), what="record of volumes"):
            late = self._clock() - _FORGOTTEN_SECONDS
            known = {key: one for key, one in self._read().items() if one.used > late} | {digest: kept}
            try:
                keep_file(self._file, msgspec.json.encode(known))
            except OSError as error:
                raise SmcpError(f"cannot record what is installed: {self._file}: {error}") from error

    async def _sweep(self, base: Base) -> None:
        """Remove the volumes of ours that are not recorded: replaced, forgotten, or of a daemon that ended meanwhile.

        One that a server still uses is refused, and goes another time.
        """
        wanted = {"label": f"{OWNER}={self.owner}"}
        with suppress(EngineError):
            there = await base.engine.call(lambda client: client.volumes(wanted))
            names = {str(volume["Name"]) for volume in there.get("Volumes") or ()}
            for name in sorted(names - {one.volume for one in self._read().values()}):
                await _remove(base.engine, name)

    def _read(self) -> Mapping[str, Kept]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, Kept])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            # Whatever is in the volumes can be installed again.
            return {}


_ENVIRONMENT: Mapping[str, Mapping[str, str]] = {
    "npm": {
        "npm_config_cache": "/tmp/npm",
        "npm_config_audit": "false",
        "npm_config_fund": "false",
        "npm_config_update_notifier": "false",
        "npm_config_progress": "false",
        "npm_config_loglevel": "notice",
    },
    "pip": {
        "PIP_NO_CACHE_DIR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    },
}


def _question(request: Request, name: str, around: Surroundings) -> dict[str, Any]:
    scripts = around.grants.scripts
    asked = {"place": PLACE, "requirements": request.requirements, "command": request.command}
    if request.kind == "npm":
        return {**asked, "name": name, "scripts": scripts}
    # To build a package is to run what its author wrote.
    built = ("--only-binary", ":all:", *(word for one in scripts for word in ("--no-binary", one)))
    return {**asked, "options": built}


def _answer(request: Request, lines: tuple[str, ...]) -> dict[str, Any]:
    """Return what the program inside found. Raise `LaunchError` where the package has no such command."""
    for line in reversed(lines):
        with suppress(ValueError):
            answer = json.loads(line)
            if isinstance(answer, dict) and (answer.get("run") or answer.get("failed")):
                return answer
            if isinstance(answer, dict) and "missing" in answer:
                offered = ", ".join(answer["missing"])
                raise LaunchError(
                    f"package {request.shown} has no command {request.command or 'of its name'}:"
                    f" it offers {offered or 'none'}",
                    remedy="Name the command: npx --package=PACKAGE COMMAND, or uvx --from PACKAGE COMMAND",
                    retryable=False,
                )
    raise LaunchError(f"the installation of {request.shown} did not say what it installed", retryable=False)


def _check_reach(request: Request, confinement: Confinement) -> None:
    """Raise `LaunchError` where installations may not reach the registries that a request is fetched from."""
    needed = NPM if request.kind == "npm" else PYPI
    if needed not in confinement.sets:
        raise LaunchError(
            f"{request.shown} was not installed: the network of the profile 'install' has no {needed}",
            remedy=f'Let it have that (network = {{ allow = ["{needed}"] }}), or use an image that has the package.',
            retryable=False,
        )


def _container(base: Base) -> Container:
    return Container(base.image, base.shown, base.word, _OWNER)


@functools.cache
def _text(name: str) -> str:
    return (_INSIDE / name).read_text(encoding="utf-8")


def _digest(request: Request, base: Base, around: Surroundings) -> str:
    content = [request.kind, request.requirements, request.command, base.image, base.word, around.grants.scripts]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


async def _is_there(engine: Engine, volume: str) -> bool:
    try:
        await engine.call(lambda client: client.inspect_volume(volume))
    except EngineRefusedError as error:
        if error.status == 404:
            return False
        raise
    return True


async def _remove(engine: Engine, volume: str, *, patient: bool = False) -> None:
    """Remove a volume, unless a container has it; with ``patient`` one that is being removed is waited for."""
    for _ in range(_TRIES if patient else 1):
        try:
            await engine.call(lambda client: client.remove_volume(volume))
        except EngineRefusedError as error:
            if error.status != 409:
                return
        except EngineError:
            return
        else:
            return
        await anyio.sleep(_PAUSE_SECONDS)
