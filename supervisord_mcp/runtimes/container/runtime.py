"""The runtime that isolates with containers of Docker or Podman.

The engine builds a container without any network of its own and with nothing running in it but `gate`, which waits.
Meanwhile the daemon sets up what the server may reach, and passes pipes, environment and secrets to the gate; only then
the server comes into being. A daemon that dies at any moment of this leaves no server: the gate ends with it.
"""

from __future__ import annotations

import asyncio
import functools
import shutil
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from supervisord_mcp.egress.rules import Egress
from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes.base import Child, Lack, LaunchSpec, Mount, Runtime
from supervisord_mcp.runtimes.container import creation, mounting
from supervisord_mcp.runtimes.container.child import ContainerChild
from supervisord_mcp.runtimes.container.creation import Image, Setting
from supervisord_mcp.runtimes.container.engine import Engine, EngineError, EngineRefusedError, Engines
from supervisord_mcp.runtimes.container.entrance import PLACE, Entrance, Pipes, make_pipes
from supervisord_mcp.runtimes.container.launching import SETUP_SECONDS, Launching, available
from supervisord_mcp.runtimes.container.network import Networks, hosts
from supervisord_mcp.runtimes.container.shown import shown
from supervisord_mcp.runtimes.container.starting import Started, abandon, finished, meet, start
from supervisord_mcp.runtimes.container.stream import Stream
from supervisord_mcp.runtimes.container.sweeping import Sweeper, daemon_of
from supervisord_mcp.runtimes.container.tools import PLACE as TOOLS
from supervisord_mcp.runtimes.container.tools import Tools, make_tools
from supervisord_mcp.runtimes.container.watch import Watch
from supervisord_mcp.runtimes.egress.plan import LOOPBACK_POOL, POOL, resolver_file
from supervisord_mcp.runtimes.egress.proxy import EgressProxy, Surroundings
from supervisord_mcp.runtimes.lending import borrowing
from supervisord_mcp.runtimes.limits import Available, plan
from supervisord_mcp.runtimes.placeholders import Placeholders
from supervisord_mcp.runtimes.protection import Fill, protected_mounts
from supervisord_mcp.runtimes.seccomp import Policy

if TYPE_CHECKING:
    pass

_LAST_WORDS_SECONDS = 1.0
_CONFLICT, _MISSING = 409, 404
_OTHER_ID = 1000


class ContainerRuntime(Runtime):
    """Starts servers in containers. One object serves a whole daemon."""

    name = "container"
    isolation = "sandbox"

    def __init__(self, place: Path, engines: Engines | None = None, around: Surroundings | None = None) -> None:
        """``place`` is a directory for what containers are shown, ``around`` what egress needs of the daemon."""
        self.engines = engines or Engines()
        self._place, self._gates, self._tools_place = place, place / "gates", place / "tools"
        self._sweeper = Sweeper(self.engines, place / "engines", self._running)
        self._around = around or Surroundings()
        #: Makes what protected paths are mounted on.
        self.placeholders = Placeholders()
        self._networks = Networks()
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

    def policy(self, spec: LaunchSpec) -> Policy:
        """Return which system calls a child may make; nobody is told here of what it is refused."""
        return replace(borrowing(spec), audit=False)

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
        watch = self._watches.setdefault(container.engine, Watch(engine))
        image = Image.of(await _image(engine, spec))
        await watch.ready()
        held = self.placeholders.hold()
        try:
            spec = replace(spec, seccomp=self.policy(spec))
            guarded = replace(spec, mounts=tuple(_with_guards(spec, held.fill))) if facts.local else spec
            launching = Launching(engine, watch, facts, image, creation.with_secret_variables(guarded), self._place)
            child = await (self._gated(launching) if facts.local else self._streamed(launching))
        except BaseException:
            held.close()
            watch.rest()
            raise
        child.attach(held)
        return child

    async def _gated(self, launching: Launching) -> ContainerChild:
        """Start a container whose first program is the gate."""
        tools = await self._made_tools()
        entrance = Entrance(self._gates)
        try:
            shown = [(tools.directory, TOOLS), (str(entrance.directory), PLACE)]
            spec = launching.spec
            if isinstance(spec.network, Egress):
                shown.append((entrance.file("hosts", hosts(spec.network, LOOPBACK_POOL))[0], "/etc/hosts"))
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

    async def _entered(
        self, launching: Launching, setting: Setting, entrance: Entrance, pipes: Pipes
    ) -> ContainerChild:
        spec = launching.spec
        watched = launching.watch.expect(setting.name)
        proxy: EgressProxy | None = None
        started: Started | None = None
        try:
            told = creation.body(spec, launching.image, launching.facts, setting)
            seen = mounting.look(spec)
            starting = asyncio.ensure_future(
                launching.engine.call(functools.partial(start, name=setting.name, told=told))
            )
            meeting = asyncio.ensure_future(entrance.met())
            try:
                with anyio.fail_after(SETUP_SECONDS):
                    started = await starting
                    await meet(meeting, watched.ended)
            finally:
                meeting.cancel()
                if started is None:
                    started = await finished(starting)
            launching.check_user(setting, entrance.uid_inside)
            with anyio.fail_after(SETUP_SECONDS):
                mounting.verify(entrance.pid, seen)
                proxy = await self._proxy(spec, entrance)
                await entrance.order(launching.order(listen=proxy is None), pipes)
                sockets = await entrance.ready()
                if proxy is None and isinstance(spec.network, Egress):
                    proxy = EgressProxy(spec.name, spec.network, sockets, self._around, LOOPBACK_POOL)
                await entrance.go()
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                if proxy is not None:
                    await proxy.aclose()
                said = await abandon(launching.engine, setting.name, started)
            launching.watch.forget(setting.name)
            raise launching.reason(error, said, entrance.uid) from error
        finally:
            if started is not None:
                started.hang_up()
        child = launching.child(setting, watched, started.pid if entrance.pid else 0, pipes)
        pipes.close_theirs()
        if proxy is not None:
            child.attach(proxy)
            child.gatekeeper = proxy
        return child

    async def _proxy(self, spec: LaunchSpec, entrance: Entrance) -> EgressProxy | None:
        """Return what serves the network of a container that can be entered; None where the gate has to help."""
        if not isinstance(spec.network, Egress):
            return None
        sockets = await self._networks.enter(entrance.pid, spec.network)
        if sockets is None:
            return None
        proxy = EgressProxy(spec.name, spec.network, sockets, self._around)
        try:
            entrance.file("hosts", hosts(spec.network, POOL))
        except OSError as error:
            await proxy.aclose()
            raise LaunchError(f"server {spec.name}: its hosts cannot be named: {error}") from error
        return proxy

    async def _streamed(self, launching: Launching) -> ContainerChild:
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
        attached = functools.partial(start, name=setting.name, told=told, stdin=True)
        starting = asyncio.ensure_future(launching.engine.call(attached))
        try:
            started = await asyncio.shield(starting)
        except BaseException as error:
            left = await finished(starting)
            await abandon(launching.engine, setting.name, left)
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
        """Remove the containers that a daemon which was killed left, from every engine that it used.

        To be called before anything is launched: the sockets of that daemon are nobody's any more.
        """
        shutil.rmtree(self._gates, ignore_errors=True)
        await self._sweeper.clean(daemon_of(marker))

    def _running(self) -> frozenset[str]:
        """Return the names of the containers that this runtime started or is starting."""
        return frozenset(name for watch in self._watches.values() for name in watch.names)

    def rest(self) -> None:
        """Begin to release what the runtime holds for a launch that may come soon, unless one goes on."""
        self._networks.rest()

    async def aclose(self) -> None:
        """Listen to no engine any more. It can be used again."""
        watches, self._watches = list(self._watches.values()), {}
        for watch in watches:
            await watch.aclose()
        await self._networks.aclose()
        if self._tools is not None:
            await asyncio.wait((self._tools,))
            self._tools = None
        await self.engines.aclose()


def _with_guards(spec: LaunchSpec, fill: Fill) -> Iterator[Mount]:
    """Yield the mounts of a server, and those that keep parts of others read-only. Raise `LaunchError`."""
    for mount in spec.mounts:
        yield mount
    for mount in spec.mounts:
        yield from protected_mounts(mount, fill)


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
