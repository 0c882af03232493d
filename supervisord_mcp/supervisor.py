"""All instances: which exist, who of them serves a session, and what a new configuration means for them."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from supervisord_mcp.conduit import Bounds
from supervisord_mcp.config.models import Config, ServerConfig
from supervisord_mcp.errors import SmcpError, UnknownServerError
from supervisord_mcp.facts import Facts
from supervisord_mcp.launch import Launch, Launcher
from supervisord_mcp.logs import ServerLog
from supervisord_mcp.observer import Event
from supervisord_mcp.policy import reload
from supervisord_mcp.policy.lifecycle import Policy
from supervisord_mcp.policy.restart import Backoff, Budget, RestartPolicy
from supervisord_mcp.policy.sharing import InstanceKey, effective_scope, instance_key
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import SessionKey
from supervisord_mcp.protocol.control import InstanceStatus, ServerEntry, ServerStatus
from supervisord_mcp.runtimes.base import Child
from supervisord_mcp.server import Blueprint, ManagedServer, Spawning, Surroundings

_log = logging.getLogger(__name__)

#: Which state of several instances a server shows: the first of these that one of them has.
_SHOWN_FIRST = ("FATAL", "BACKOFF", "RUNNING", "STARTING", "STOPPING", "EXITED", "STOPPED")


@dataclass(slots=True)
class Housing:
    """An instance with what it was made from."""

    instance: ManagedServer
    facts: Facts
    launch: Launch


@dataclass(frozen=True, slots=True)
class Displaced:
    """An instance that the new configuration has no place for; ``removed`` if its server is gone altogether."""

    instance: ManagedServer
    removed: bool


class Supervisor:
    """The instances of one daemon."""

    def __init__(self, config: Config, launcher: Launcher, around: Surroundings, logs: Mapping[str, ServerLog]) -> None:
        self.config = config
        self._launcher = launcher
        self._around = around
        self._logs = logs
        self._housed: dict[InstanceKey, Housing] = {}
        self._leaving: set[ManagedServer] = set()
        #: The servers that a person stopped: an instance made for a host of theirs is not started by it.
        self._stopped: set[str] = set()
        #: The last runs of displaced instances: one of the same key that comes later counts on.
        self._generations: dict[InstanceKey, int] = {}
        self._keys = itertools.count(1)

    @property
    def instances(self) -> tuple[ManagedServer, ...]:
        """Every instance that sessions can find."""
        return tuple(housing.instance for housing in self._housed.values())

    @property
    def active(self) -> bool:
        """Whether any instance has a child or will start one by itself."""
        return bool(self._leaving) or any(not instance.resting for instance in self.instances)

    def next_key(self) -> SessionKey:
        """Return a key for a new session."""
        return next(self._keys)

    def catalogue_of(self, server: str) -> Catalogue | None:
        """Return what a server is known to offer, from whichever of its instances learnt it last."""
        return self._around.catalogues.newest(server)

    # Housing

    def server(self, name: str) -> ServerConfig:
        """Return the configuration of a server. Raise `UnknownServerError`, with the names there are."""
        try:
            return self.config.servers[name]
        except KeyError:
            known = ", ".join(sorted(self.config.servers)) or "none"
            raise UnknownServerError(
                f"no server '{name}' in the configuration (known: {known})",
                remedy=f"add it with: smcp add {name} -- COMMAND",
            ) from None

    def scope(self, facts: Facts) -> str:
        """Return who would share an instance with a session."""
        config = self.server(facts.server)
        return effective_scope(config.scope, config.uses_project)

    def plan(self, facts: Facts) -> Launch:
        """Given where a session comes from, return what would be started for it. Raise `SmcpError` if nothing can."""
        return self._launcher.resolve(facts.server, self.server(facts.server), facts)

    def house(self, launch: Launch, facts: Facts, session: SessionKey) -> ManagedServer:
        """Return the instance for a session, made now if there is none yet."""
        key = instance_key(facts.server, launch.digest, launch.scope, project=facts.project, session=str(session))
        housing = self._housed.get(key)
        if housing is None:
            housing = Housing(self._make(key, launch), facts, launch)
            self._housed[key] = housing
        return housing.instance

    def _make(self, key: InstanceKey, launch: Launch) -> ManagedServer:
        known = self._around.catalogues.load(key.server, key.digest)
        instance = ManagedServer(self._blueprint(key, launch), self._around, self._logs[key.server], known)
        if key.server in self._stopped:
            instance.stop()
        return instance

    def _blueprint(self, key: InstanceKey, launch: Launch) -> Blueprint:
        config, daemon = self.config.servers[key.server], self.config.daemon
        lasting = config.start == "eager" and launch.scope != "session"

        async def spawn(spawning: Spawning) -> Child:
            # One that holds a lock or a port must be gone before its successor starts.
            for old in [old for old in self._leaving if replace(old.key, digest=key.digest) == key]:
                await old.rested()
            return await launch.start(spawning.installing, spawning.progress)

        return Blueprint(
            key=key,
            policy=policy_of(config),
            relay=launch.scope == "session",
            idle_timeout=None if lasting else config.idle_timeout,
            bounds=Bounds(daemon.max_message, config.stop_grace, daemon.write_timeout),
            isolation=launch.isolation,
            spawn=spawn,
            generation=self._generations.get(key, 0),
        )

    def released(self, instance: ManagedServer) -> None:
        """A session left an instance; what nobody can use any more is ended, what nothing is lost with is forgotten."""
        housing = self._housed.get(instance.key)
        if housing is not None and housing.instance is instance and instance.key.session is not None:
            del self._housed[instance.key]
            over = instance.key.session
            self._generations = {key: last for key, last in self._generations.items() if key.session != over}
            self.retire(instance)
        self._forget_unused()

    def _forget_unused(self) -> None:
        """Forget instances with which nothing is lost; the last one of a shared server stays, to tell how it was."""
        count = Counter(key.server for key in self._housed)
        for key, housing in list(self._housed.items()):
            if housing.instance.unused and (key.project is not None or count[key.server] > 1):
                del self._housed[key]
                count[key.server] -= 1

    def retire(self, instance: ManagedServer) -> None:
        """End an instance that no session can find any more."""
        instance.stop()
        if not instance.resting:
            self._leaving.add(instance)
            self._around.tasks.start_soon(self._see_off, instance)

    async def _see_off(self, instance: ManagedServer) -> None:
        await instance.rested()
        self._leaving.discard(instance)

    # What people ask for

    def start_eager(self, names: Iterable[str]) -> None:
        """Start those of the servers that are to run without being asked for."""
        for name in names:
            if self.config.servers[name].start != "eager":
                continue
            try:
                # Not `start`: what a person stopped, or what gave up, is not started by a change of the configuration.
                self._default(name).demand()
            except SmcpError as error:
                _log.error("server '%s' is not started: %s", name, error)
                self._around.observers.publish(Event("not-started", name, {"cause": str(error)}))

    def _default(self, name: str) -> ManagedServer:
        """Return the instance of a server that belongs to no session and no project."""
        facts = Facts(name, environ={})
        launch = self.plan(facts)
        if launch.scope == "session":
            raise SmcpError(
                f"server '{name}' has an instance for each session and runs only while a host is connected",
                remedy=f"connect a host, or call a tool with: smcp call {name} TOOL",
            )
        return self.house(launch, facts, self.next_key())

    def _named(self, name: str) -> list[ManagedServer]:
        self.server(name)
        found = [instance for instance in self.instances if instance.key.server == name]
        return found or [self._default(name)]

    @property
    def startable(self) -> tuple[str, ...]:
        """The servers that can be started without a host: those with an instance, and those that everybody shares."""
        housed = {key.server for key in self._housed}
        shared = (n for n, c in self.config.servers.items() if effective_scope(c.scope, c.uses_project) == "global")
        return tuple(sorted(housed.union(shared)))

    async def start(self, names: Iterable[str]) -> None:
        """Start servers and wait until they run. Raise `SmcpError` if one of them cannot, after all were tried."""
        await self._run(names, ManagedServer.start)

    async def restart(self, names: Iterable[str]) -> None:
        """Stop and start servers, and wait until they run. Raise as `start` does."""
        await self._run(names, ManagedServer.restart)

    async def _run(self, names: Iterable[str], verb: Callable[[ManagedServer], None]) -> None:
        instances: list[ManagedServer] = []
        failures: list[SmcpError] = []
        for name in names:
            try:
                instances += self._named(name)
            except SmcpError as error:
                if name not in self._stopped:  # else hosts may start it again, which is all that can be done
                    failures.append(error)
            self._stopped.discard(name)
        for instance in instances:
            verb(instance)
        for instance in instances:
            try:
                await instance.settled()
            except SmcpError as error:
                failures.append(error)
        if failures:
            raise _joined(failures)

    async def stop(self, names: Iterable[str]) -> None:
        """Stop servers and wait until nothing of them is left; they stay stopped until asked for by a person."""
        stopped: list[ManagedServer] = []
        for name in names:
            self.server(name)
            stopped += [i for i in (*self.instances, *self._leaving) if i.key.server == name]
            self._stopped.add(name)
        for instance in stopped:
            instance.stop()
        for instance in stopped:
            await instance.rested()

    async def shut_down(self) -> None:
        """Stop every instance, all at once, and wait until nothing is left."""
        for instance in self.instances:
            instance.stop()
        for instance in (*self.instances, *self._leaving):
            await instance.rested()
        self._leaving.clear()

    # A new configuration

    def reconfigure(self, config: Config, launcher: Launcher) -> tuple[reload.Plan, list[Displaced]]:
        """Take a new configuration; return what changed, and the instances whose sessions have to move."""
        plan = reload.diff(self.config.servers, config.servers)
        rules_changed = self.config.daemon != config.daemon
        self.config, self._launcher = config, launcher
        self._stopped.intersection_update(config.servers)
        displaced: list[Displaced] = []
        for housing in list(self._housed.values()):
            name = housing.instance.key.server
            if name in plan.removed:
                displaced.append(Displaced(housing.instance, removed=True))
            elif name in plan.changed or rules_changed:
                self._refit(housing, displaced)
        for entry in displaced:
            del self._housed[entry.instance.key]
            self._generations[entry.instance.key] = entry.instance.generation
        return plan, displaced

    def _refit(self, housing: Housing, displaced: list[Displaced]) -> None:
        """Give an instance its new rules where what it runs is still the same, else displace it."""
        old = housing.instance.key
        try:
            launch = self.plan(housing.facts)
            key = instance_key(old.server, launch.digest, launch.scope, project=old.project, session=old.session or "")
        except SmcpError:
            key = None
        if key != old:
            displaced.append(Displaced(housing.instance, removed=False))
            return
        housing.launch = launch
        housing.instance.refit(self._blueprint(old, launch))

    # Reports

    def status(self) -> tuple[ServerStatus, ...]:
        """Return the state of every configured server."""
        return tuple(self._server_status(name, config) for name, config in sorted(self.config.servers.items()))

    def _server_status(self, name: str, config: ServerConfig) -> ServerStatus:
        mine = [instance for instance in self.instances if instance.key.server == name]
        states = {instance.state for instance in mine}
        return ServerStatus(
            name=name,
            state=next((state for state in _SHOWN_FIRST if state in states), "STOPPED"),
            scope=effective_scope(config.scope, config.uses_project),
            runtime=config.runtime,
            isolation=self._launcher.isolation(config),
            network=config.network_text,
            start=config.start,
            catalogue=self.catalogue_of(name) is not None,
            sessions=sum(len(instance.sessions) for instance in mine),
            restarts=sum(instance.restarts for instance in mine),
            last_error=next((instance.last_error for instance in mine if instance.last_error), None),
            instances=tuple(map(instance_status, mine)),
        )

    def entries(self) -> tuple[ServerEntry, ...]:
        """Return what is configured."""
        found = []
        for name, config in sorted(self.config.servers.items()):
            catalogue = self.catalogue_of(name)
            entry = ServerEntry(
                name=name,
                command=config.argv,
                start=config.start,
                scope=effective_scope(config.scope, config.uses_project),
                runtime=config.runtime,
                network=config.network_text,
                catalogue=catalogue is not None,
                tools=len(catalogue.lists.get("tools/list", ())) if catalogue else None,
            )
            found.append(entry)
        return tuple(found)


def _joined(failures: list[SmcpError]) -> SmcpError:
    """Return one error that says everything, with the code of the first."""
    first = failures[0]
    if len(failures) == 1:
        return first
    error = SmcpError("\n".join(map(str, failures)))
    error.code, error.exit_status = first.code, first.exit_status
    return error


def instance_status(instance: ManagedServer) -> InstanceStatus:
    """Return the state of one instance as it is reported."""
    return InstanceStatus(
        key=str(instance.key),
        state=instance.state,
        pid=instance.pid,
        generation=instance.generation,
        sessions=len(instance.sessions),
        uptime=instance.uptime,
        project=instance.key.project,
        restarts=instance.restarts,
        last_error=instance.last_error or None,
        phase=instance.phase or None,
        isolation=instance.blueprint.isolation,
        user=instance.child.user if instance.child is not None else "",
        limits=instance.child.limits if instance.child is not None else (),
        uncovered=instance.child.uncovered if instance.child is not None else (),
    )


def policy_of(config: ServerConfig) -> Policy:
    """Return the rules of a server's lifecycle."""
    return Policy(
        start_timeout=config.start_timeout,
        install_timeout=config.install_timeout,
        stop_grace=config.stop_grace,
        restart=RestartPolicy(
            mode=config.restart,
            backoff=Backoff(config.backoff.first, config.backoff.most, config.backoff.reset_after),
            budget=Budget(config.budget.restarts, config.budget.within),
        ),
    )
