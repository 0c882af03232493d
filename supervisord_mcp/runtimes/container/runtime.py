"""The runtime that isolates with containers of Docker or Podman.

The engine builds a container without any network of its own and with nothing running in it but `gate`, which waits.
Meanwhile the daemon sets up what the server may reach, and passes pipes, environment and secrets to the gate; only then
the server comes into being. A daemon that dies at any moment of this leaves no server: the gate ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import secrets
import signal as signals
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from supervisord_mcp.egress.rules import Egress
from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes import seccomp
from supervisord_mcp.runtimes.base import Child, Lack, LaunchSpec, Runtime
from supervisord_mcp.runtimes.cgroup import Group
from supervisord_mcp.runtimes.container import creation
from supervisord_mcp.runtimes.container.child import ContainerChild, Running
from supervisord_mcp.runtimes.container.creation import Image, Setting
from supervisord_mcp.runtimes.container.engine import Engine, EngineError, EngineRefusedError, Engines, Facts, hang_up
from supervisord_mcp.runtimes.container.entrance import PLACE, Entrance, GateError, Pipes, make_pipes
from supervisord_mcp.runtimes.container.filter import profile, profile_file
from supervisord_mcp.runtimes.container.shown import shown
from supervisord_mcp.runtimes.container.stream import Stream
from supervisord_mcp.runtimes.container.sweeping import Sweeper, daemon_of, machine
from supervisord_mcp.runtimes.container.tools import PLACE as TOOLS
from supervisord_mcp.runtimes.container.tools import Tools, make_tools
from supervisord_mcp.runtimes.container.watch import Watch, Watched
from supervisord_mcp.runtimes.egress.plan import (
    LOOPBACK_POOL,
    hosts_file,
    loopback_plan,
    proxy_environment,
    resolver_file,
)
from supervisord_mcp.runtimes.egress.proxy import EgressProxy, Surroundings
from supervisord_mcp.runtimes.hierarchy import group_of
from supervisord_mcp.runtimes.lending import borrowing
from supervisord_mcp.runtimes.limits import Available, plan, size_text
from supervisord_mcp.runtimes.syscalls import Architecture, architectures
from supervisord_mcp.runtimes.watcher import Bounds

if TYPE_CHECKING:
    import docker

_SETUP_SECONDS = 60.0
_LAST_WORDS_SECONDS = 1.0
_CONFLICT, _MISSING = 409, 404
_OTHER_ID = 1000
_HOSTS = "127.0.0.1 localhost\n::1 localhost\n"


class ContainerRuntime(Runtime):
    """Starts servers in containers. One object serves a whole daemon."""

    name = "container"
    isolation = "sandbox"

    def __init__(self, place: Path, engines: Engines | None = None, around: Surroundings | None = None) -> None:
        """``place`` is a directory for what containers are shown, ``around`` what egress needs of the daemon."""
        self.engines = engines or Engines()
        self._place, self._gates, self._tools_place = place, place / "gates", place / "tools"
        self._sweeper = Sweeper(self.engines, place / "engines")
        self._around = around or Surroundings()
        self._watches: dict[str, Watch] = {}
        self._tools: asyncio.Task[Tools] | None = None

    def check(self) -> tuple[Lack, ...]:
        """Return why the engine that is found by itself cannot be used."""
        try:
            self.engines.of("").do(lambda client: client.ping())
        except EngineError as error:
            return (Lack("a container engine", error.message, error.remedy),)
        return ()

    def explain(self, spec: LaunchSpec) -> str:
        """Return a command line that starts the same container by hand; secrets are not in it."""
        return shown(spec, self.engines.of(creation.container_of(spec).engine).place())

    def policy(self, spec: LaunchSpec) -> seccomp.Policy:
        """Return which system calls a child may make."""
        return borrowing(spec)

    def available(self) -> Available:
        """Return the means for limits: those of the engine, as far as it has been asked for them."""
        facts = self.engines.of("").known
        if facts is None:
            return Available(2, frozenset({"memory", "pids", "cpu"}), places=True, sized=True)
        return available(facts)

    async def launch(self, spec: LaunchSpec) -> Child:
        """Start the container. Raise `LaunchError` when it cannot start, `IsolationError` when isolation fails."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("children are started from the main thread only")
        container = creation.container_of(spec)
        engine = self.engines.of(container.engine)
        facts = await engine.facts()
        await self._sweeper.used(container.engine, daemon_of(spec.marker))
        image = Image.of(await _image(engine, spec))
        watch = self._watches.setdefault(container.engine, Watch(engine))
        await watch.ready()
        spec = replace(creation.with_secret_variables(spec), seccomp=self.policy(spec))
        launching = _Launching(engine, watch, facts, image, spec, self._place)
        return await (self._gated(launching) if facts.local else self._streamed(launching))

    async def _gated(self, launching: _Launching) -> Child:
        """Start a container whose first program is the gate."""
        tools = await self._made_tools()
        entrance = Entrance(self._gates)
        try:
            shown = [(tools.directory, TOOLS), (str(entrance.directory), PLACE)]
            spec = launching.spec
            if isinstance(spec.network, Egress):
                hosts = hosts_file(spec.network, _HOSTS, LOOPBACK_POOL)
                shown.append((entrance.file("hosts", hosts)[0], "/etc/hosts"))
                shown.append((entrance.file("resolv.conf", resolver_file())[0], "/etc/resolv.conf"))
            setting = launching.setting(tools.command, tuple(shown))
            pipes = make_pipes()
            try:
                return await self._entered(launching, setting, entrance, pipes)
            except BaseException:
                pipes.close()
                raise
        finally:
            entrance.close()

    async def _made_tools(self) -> Tools:
        """Return what containers need to start a server; it is made once, whoever does not wait for it any more."""
        if self._tools is None or (self._tools.done() and self._tools.exception() is not None):
            making = anyio.to_thread.run_sync(make_tools, self._tools_place)
            self._tools = asyncio.ensure_future(making)
        return await asyncio.shield(self._tools)

    async def _entered(self, launching: _Launching, setting: Setting, entrance: Entrance, pipes: Pipes) -> Child:
        spec = launching.spec
        watched = launching.watch.expect(setting.name)
        proxy: EgressProxy | None = None
        started: _Started | None = None
        try:
            told = creation.body(spec, launching.image, launching.facts, setting)
            starting = asyncio.ensure_future(
                launching.engine.call(functools.partial(_start, name=setting.name, told=told))
            )
            meeting = asyncio.ensure_future(entrance.met())
            try:
                with anyio.fail_after(_SETUP_SECONDS):
                    started = await starting
                    await _first(meeting, watched.ended)
            finally:
                meeting.cancel()
                if started is None:
                    started = await _finished(starting)
            with anyio.fail_after(_SETUP_SECONDS):
                await entrance.order(launching.order(), pipes)
                sockets = await entrance.ready()
                if isinstance(spec.network, Egress):
                    proxy = EgressProxy(spec.name, spec.network, sockets, self._around, LOOPBACK_POOL)
                await entrance.go()
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                if proxy is not None:
                    await proxy.aclose()
                said = await _abandon(launching.engine, setting.name, started)
            launching.watch.forget(setting.name)
            raise launching.reason(error, said) from error
        finally:
            if started is not None:
                started.hang_up()
        child = launching.child(setting, watched, started.pid if entrance.pid else 0, pipes)
        pipes.close_theirs()
        if proxy is not None:
            child.attach(proxy)
            child.gatekeeper = proxy
        return child

    async def _streamed(self, launching: _Launching) -> Child:
        """Start a container on another machine, which has neither a gate nor files of this one."""
        spec = launching.spec
        if spec.secrets.values:
            raise IsolationError(
                f"server {spec.name} was not started: its secrets cannot be put into files on {launching.facts.name},"
                " which is another machine",
                remedy='Use deliver = "env" (whoever has that engine can see it then), or an engine of this machine.',
            )
        if unkept := sorted(plan(spec.limits, available(launching.facts)).watched - {"cpu"}):
            raise IsolationError(
                f"server {spec.name} was not started: {launching.facts.name} keeps no limit for {', '.join(unkept)}",
                remedy="Give the engine there control groups of version 2, or do without: limits = "
                f'{{ {unkept[0]} = "off" }}',
            )
        setting = launching.setting((), ())
        told = creation.body(spec, launching.image, launching.facts, setting)
        watched = launching.watch.expect(setting.name)
        start = functools.partial(_start, name=setting.name, told=told, stdin=True)
        starting = asyncio.ensure_future(launching.engine.call(start))
        try:
            started = await asyncio.shield(starting)
        except BaseException as error:
            left = await _finished(starting)
            await _abandon(launching.engine, setting.name, left)
            if left is not None:
                left.hang_up()
            launching.watch.forget(setting.name)
            raise launching.reason(error, "") from error
        pipes = make_pipes()
        child = launching.child(setting, watched, 0, pipes)
        stream = Stream(started.output, pipes)
        child.attach(stream)
        child.cut = stream.close
        return child

    async def clean(self, marker: str) -> None:
        """Remove the containers that a daemon which was killed left, from every engine that it used."""
        await self._sweeper.clean(daemon_of(marker))

    async def aclose(self) -> None:
        """Listen to no engine any more. It can be used again."""
        watches, self._watches = list(self._watches.values()), {}
        for watch in watches:
            await watch.aclose()
        if self._tools is not None:
            await asyncio.wait((self._tools,))
            self._tools = None
        await self.engines.aclose()


def available(facts: Facts) -> Available:
    """Return the means for limits that an engine has."""
    return Available(2 if facts.cgroup == 2 else 1, facts.controllers, places=True, sized=True)


def architecture(facts: Facts) -> Architecture:
    """Return the architecture of an engine. Raise `IsolationError` for one that cannot be filtered."""
    try:
        return architectures()[facts.architecture]
    except KeyError:
        raise IsolationError(
            f"system calls cannot be filtered on {facts.name}: its type is {facts.architecture or 'not known'}",
            remedy="Use another engine.",
        ) from None


@dataclass(frozen=True, slots=True)
class _Launching:
    """What is known of one launch before its container is created."""

    engine: Engine
    watch: Watch
    facts: Facts
    image: Image
    spec: LaunchSpec
    place: Path

    def setting(self, command: tuple[str, ...], shown: tuple[tuple[str, str], ...]) -> Setting:
        spec = self.spec
        policy = replace(spec.seccomp, families=spec.seccomp.families | {"unix"}) if command else spec.seccomp
        labels = {
            creation.DAEMON: daemon_of(spec.marker),
            creation.MACHINE: machine(),
            creation.SERVER: spec.name,
            creation.INSTANCE: spec.marker,
        }
        return Setting(
            name=creation.name_of(spec.name, secrets.token_hex(6)),
            labels=labels,
            user=creation.user_of(spec, self.image, self.facts, _fallback()),
            network=creation.network_of(spec, self.facts, gated=bool(command)),
            seccomp=self.seccomp(profile(replace(policy, audit=False), architecture(self.facts))),
            command=command,
            shown=shown,
        )

    def seccomp(self, text: str) -> str:
        """Return a profile as the engine takes it: Podman wants a file, which it reads itself."""
        if not self.facts.podman:
            return text
        if not self.facts.local:
            raise IsolationError(
                f"server {self.spec.name} was not started: Podman on another machine takes no filter for system calls",
                remedy="Use a Podman of this machine.",
            )
        return profile_file(self.place, text)

    def order(self) -> tuple[object, ...]:
        """Return the values of the `gate.Order`."""
        spec = self.spec
        env = creation.environment_of(spec, self.image)
        listeners: list[tuple[str, int, bool]] = []
        if isinstance(spec.network, Egress):
            env = dict(proxy_environment(env.items()))
            planned = loopback_plan(spec.network).listeners
            listeners = [(listener.address, listener.port, listener.datagrams) for listener in planned]
        files = [(name, value.encode()) for name, value in spec.secrets.values]
        return (
            list(creation.argv_of(spec, self.image)),
            env,
            spec.cwd or self.image.directory or "/",
            creation.SECRETS,
            files,
            listeners,
            b"" if self.privileged else seccomp.program(replace(spec.seccomp, audit=False)),
        )

    @property
    def privileged(self) -> bool:
        return "privileged" in creation.container_of(self.spec).allow

    def child(self, setting: Setting, watched: Watched, pid: int, pipes: Pipes) -> ContainerChild:
        """Return the child of a container that runs; it owns our ends of the pipes now."""
        limit = self.spec.limits.memory
        number = getattr(signals, self.image.stop_signal or "SIGTERM", signals.SIGTERM)
        memory = "" if limit is None else f"memory limit {size_text(limit)}"
        running = Running(setting.name, pid, number, memory)
        child = ContainerChild(self.engine, self.watch, watched, running, pipes.ours)
        child.user = setting.user
        planned = plan(self.spec.limits, available(self.facts))
        child.limits = planned.report
        if planned.watched and pid:
            bounds = Bounds(
                self.spec.limits.memory if "memory" in planned.watched else None,
                self.spec.limits.pids if "pids" in planned.watched else None,
            )
            child.watch(bounds)
        if pid and (group := group_of(pid)) is not None:
            child.gauge = Group(group.version, setting.name, group.directories)
        return child

    def reason(self, error: BaseException, said: str) -> BaseException:
        """Return the error that a person gets for one that ended a launch."""
        spec = self.spec
        match error:
            case GateError():
                return _not_there(spec, creation.argv_of(spec, self.image)[0], error)
            case EngineRefusedError() if "working directory" in error.message:
                return LaunchError(error.message, retryable=False)
            case TimeoutError():
                return IsolationError(
                    f"server {spec.name} was not started: its container was not set up in {_SETUP_SECONDS:.0f} s"
                    + (f": {said}" if said else ""),
                    remedy="See the log of the engine.",
                )
            case IsolationError() if said:
                return IsolationError(f"server {spec.name} was not started: {said}", remedy=error.remedy)
        return error


@dataclass(slots=True)
class _Started:
    """A container that was started: its first process, and what the gate writes where nobody else does."""

    pid: int
    output: Any = field(repr=False)

    def hang_up(self) -> None:
        """Listen to its output no more."""
        output, self.output = self.output, None
        if output is not None:
            hang_up(output)

    def last_words(self) -> str:
        """Return what was written so far. Blocks for a moment."""
        if self.output is None:
            return ""
        text = b""
        raw = getattr(self.output, "_sock", self.output)
        try:
            raw.settimeout(_LAST_WORDS_SECONDS)
            while (part := raw.recv(4096)) and len(text) < 1 << 14:
                text += part
        except OSError:
            pass
        lines = [line[8:] if line[:1] in (b"\x01", b"\x02") else line for line in text.splitlines()]
        return "; ".join(line.decode(errors="replace").strip() for line in lines[-3:])


def _start(client: docker.APIClient, *, name: str, told: Mapping[str, Any], stdin: bool = False) -> _Started:
    """Create a container and start it, listening to it from before."""
    output = None
    client.create_container_from_config(dict(told), name)  # type: ignore[no-untyped-call]
    try:
        output = client.attach_socket(name, params={"stdin": int(stdin), "stdout": 1, "stderr": 1, "stream": 1})
        client.start(name)
        pid = _first_process(client, name)
    except BaseException:
        if output is not None:
            hang_up(output)
        client.remove_container(name, force=True)
        raise
    return _Started(pid, output)


def _first_process(client: docker.APIClient, name: str) -> int:
    """Return the first process of a container, 0 for one that has ended and is gone already."""
    import docker.errors

    try:
        state = client.inspect_container(name).get("State") or {}
    except docker.errors.NotFound:
        return 0
    return int(state.get("Pid") or 0)


async def _image(engine: Engine, spec: LaunchSpec) -> Mapping[str, Any]:
    container = creation.container_of(spec)
    try:
        found: Mapping[str, Any] = await engine.call(lambda client: client.inspect_image(container.image))  # type: ignore[no-untyped-call]
    except EngineRefusedError as error:
        if error.status != _MISSING:
            raise
        raise LaunchError(
            f"server {spec.name}: the engine has no image {container.shown or container.image}",
            remedy="Pull or build it.",
            retryable=False,
        ) from error
    return found


async def _first(meeting: asyncio.Future[None], ended: asyncio.Future[Any]) -> None:
    """Wait for the gate. Raise `IsolationError` where its container ends before."""
    await asyncio.wait((meeting, ended), return_when=asyncio.FIRST_COMPLETED)
    if not meeting.done():
        raise IsolationError(
            "its container ended before anything ran in it",
            remedy="See the log of the engine.",
        )
    await meeting


async def _finished(starting: asyncio.Future[_Started]) -> _Started | None:
    """Wait for a start that nobody wants any more: what it leaves has to be removed."""
    with anyio.CancelScope(shield=True):
        await asyncio.wait((starting,))
    return None if starting.cancelled() or starting.exception() is not None else starting.result()


async def _abandon(engine: Engine, name: str, started: _Started | None) -> str:
    """Remove a container that was not to be; return the last that was written in it."""
    if started is None:
        return ""

    def remove(client: docker.APIClient) -> None:
        client.remove_container(name, force=True)

    said = ""
    with contextlib.suppress(EngineError):
        await engine.call(lambda client: client.kill(name, signals.SIGKILL))
    said = await anyio.to_thread.run_sync(started.last_words)
    try:
        await engine.call(remove)
    except EngineRefusedError as error:
        # It removes itself as well.
        if error.status not in (_MISSING, _CONFLICT):
            raise
    except EngineError:
        pass
    return said


def _not_there(spec: LaunchSpec, command: str, error: GateError) -> LaunchError:
    if error.path == spec.cwd and error.path != command:
        return LaunchError(
            f"working directory {error.path}: {os.strerror(error.number)} in the container",
            remedy=f'Grant it with mounts = [{{ path = "{error.path}" }}], or name another `cwd`.',
            retryable=False,
        )
    if error.path == command:
        shown = creation.container_of(spec)
        return LaunchError(
            f"{command}: {os.strerror(error.number)} in the image {shown.shown or shown.image}",
            remedy="Check the command: it is one of the image, not of this machine.",
            retryable=False,
        )
    return LaunchError(f"server {spec.name}: {error} in its container")


def _fallback() -> tuple[int, int]:
    """Return whom servers run as of whom nobody says it: the person, and nobody in particular instead of root."""
    return (os.getuid(), os.getgid()) if os.getuid() != 0 else (_OTHER_ID, _OTHER_ID)
