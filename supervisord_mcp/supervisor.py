"""All instances: which exist, who of them serves a session, and what a new configuration means for them."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from supervisord_mcp import reasons, reports
from supervisord_mcp.blueprint import Blueprint, Surroundings, policy_of
from supervisord_mcp.conduit import Bounds
from supervisord_mcp.config.models import Config, ServerConfig
from supervisord_mcp.errors import NotRunningError, NotTrustedError, SmcpError, UnknownServerError, UsageError
from supervisord_mcp.facts import NOWHERE, Facts, Whence
from supervisord_mcp.housing import Displaced, Housing, counterpart, forgettable
from supervisord_mcp.launch import Launch, Launcher
from supervisord_mcp.logs import ServerLog, TaggedLog
from supervisord_mcp.observer import Event
from supervisord_mcp.policy import reload
from supervisord_mcp.policy.sharing import InstanceKey, instance_key
from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.control import ServerEntry, ServerStatus
from supervisord_mcp.protocol.eras import probe
from supervisord_mcp.protocol.eras.probe import Terms
from supervisord_mcp.protocol.mcp import Era
from supervisord_mcp.reports import matters
from supervisord_mcp.server import ManagedServer
from supervisord_mcp.starting import Starting

_log = logging.getLogger(__name__)


class Supervisor:
    """The instances of one daemon."""

    def __init__(self, config: Config, launcher: Launcher, around: Surroundings, logs: Mapping[str, ServerLog]) -> None:
        self.config = config
        #: What is wrong with the configuration on disk, which is therefore not the one in force.
        self.faults: tuple[str, ...] = ()
        self._launcher = launcher
        self._around = around
        self._logs = logs
        self._housed: dict[InstanceKey, Housing] = {}
        self._leaving: set[ManagedServer] = set()
        # Instances that are only asked what their server is.
        self._asked: set[ManagedServer] = set()
        #: The servers for which nothing could be started at the last try, with the reason.
        self._unresolved: dict[str, str] = {}
        #: What a person stopped, and where: an instance made there for a host is not started by it.
        self._stopped = around.stopped
        self._stopped.keep(config.servers)
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
        return bool(self._leaving or self._asked) or any(not instance.resting for instance in self.instances)

    @property
    def needed(self) -> bool:
        """Whether any instance has to go on although no host and no command is there."""
        return bool(self._leaving or self._asked) or any(instance.needed for instance in self.instances)

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
            raise self._unknown(name) from None

    def _unknown(self, name: str) -> UnknownServerError:
        known = ", ".join(sorted(self.config.servers)) or "none"
        text = f"no server '{name}' in the configuration (known: {known})"
        if not self.faults:
            return UnknownServerError(text, remedy=f"add it with: smcp add {name} -- COMMAND")
        faults = "\n".join(self.faults)
        return UnknownServerError(
            f"{text}\nthe files were changed since, but have faults and are not in force:\n{faults}",
            remedy="correct them; smcp config check shows what is left",
        )

    def scope(self, facts: Facts) -> str:
        """Return who would share an instance with a session."""
        return self.server(facts.server).sharing

    def plan(self, facts: Facts, host: Era = "legacy") -> Launch:
        """Given where a session comes from, and the era of its host, return what would be started for it.

        Raise `SmcpError` if nothing can be.
        """
        name, config = facts.server, self.server(facts.server)
        try:
            launch = self._launcher.resolve(name, config, facts)
        except SmcpError as error:
            self._unresolved[name] = str(error)
            raise
        self._unresolved.pop(name, None)
        if host == "legacy":
            return launch
        known = self._around.verdicts.load(launch.fingerprint)
        if config.pinned_era is None and known == probe.UNKNOWN:
            return launch.on_trial()
        return launch.of(probe.preferred(config.pinned_era, host, known))

    def only_era(self, facts: Facts) -> Era | None:
        """Return the one era in which a server is spoken to; None if that depends on the host, or is not known."""
        config = self.server(facts.server)
        if config.pinned_era is not None:
            return config.pinned_era
        try:
            launch = self._launcher.resolve(facts.server, config, facts)
        except SmcpError:  # what is missing is told when it is needed
            return None
        return self._around.verdicts.load(launch.fingerprint).only

    async def learn(self, facts: Facts) -> Catalogue:
        """Start a child like one of a session, ask what it is, and end it. Raise `SmcpError` if it does not start."""
        launch = self.plan(facts, facts.era)
        key = instance_key(facts.server, launch.digest, launch.scope, project=facts.project, session="")
        instance = self._make(key, launch)
        self._asked.add(instance)
        try:
            instance.demand()
            await instance.settled()
            if instance.catalogue is None:
                raise NotRunningError(f"server '{facts.server}' did not say what it is")
            return instance.catalogue
        finally:
            self._asked.discard(instance)
            self.retire(instance)

    def house(self, launch: Launch, facts: Facts, session: SessionKey) -> ManagedServer:
        """Return the instance for a session, made now if there is none yet.

        Raise `NotTrustedError` where its entry is from a project file that is not trusted as it is now; an instance
        that others use goes on.
        """
        self.check(launch, facts.server)
        key = instance_key(facts.server, launch.digest, launch.scope, project=facts.project, session=str(session))
        housing = self._housed.get(key) or self._bridged(key, launch)
        if housing is None:
            # Of the environment only what the entry names is kept: the rest is none of our business.
            named = {name: facts.environ[name] for name in launch.host_variables}
            housing = Housing(self._make(key, launch), replace(facts, environ=named), launch)
            self._housed[key] = housing
            self._find_outdated(key)
        return housing.instance

    def check(self, launch: Launch, server: str) -> None:
        """Raise `NotTrustedError` where the project file of a server is not trusted as it is now, and tell of it."""
        try:
            launch.check()
        except NotTrustedError as error:
            self._around.observers.publish(Event("not-trusted", server, {"cause": str(error)}))
            raise

    def _bridged(self, key: InstanceKey, launch: Launch) -> Housing | None:
        """Return the instance that was made before it was found out which eras the server speaks, or for another."""
        if self.server(key.server).pinned_era:
            return None
        return counterpart(self._housed, key, launch, self._around.verdicts.load(launch.fingerprint))

    def _find_outdated(self, new: InstanceKey) -> None:
        """Find what would be the instance of a key today, but was made when its command was another; end what can be.

        A command changes with what is installed on the machine, without a word in the configuration.
        """
        for key, housing in self._housed.items():
            if key == new or key.session is not None or replace(key, digest=new.digest) != new:
                continue
            with suppress(SmcpError):
                housing.outdated = not self.plan(housing.facts).names(key.digest)
        self._end_outdated()

    def _end_outdated(self) -> None:
        """End the outdated instances that no host uses any more."""
        for key, housing in list(self._housed.items()):
            if housing.outdated and not housing.instance.sessions:
                del self._housed[key]
                self._generations[key] = housing.instance.generation
                self.retire(housing.instance)

    def _make(self, key: InstanceKey, launch: Launch) -> ManagedServer:
        # What a child offers is kept by its own era, which need not be that of the instance.
        only = self._around.verdicts.load(launch.fingerprint).only
        pinned = self.config.servers[key.server].pinned_era
        known = self._around.catalogues.load(key.server, launch.digests[pinned or only or launch.era])
        log = TaggedLog(self._logs[key.server], self._tag(key), int(key.session or 0))
        instance = ManagedServer(self._blueprint(key, launch), self._around, log, known)
        if self._stopped.hold(key.server).holds(key.project):
            instance.stop()
        return instance

    def _tag(self, key: InstanceKey) -> str:
        """Return what tells the lines of an instance from those of others of its server, empty if nothing needs to."""
        if key.project is not None and key.session is None:
            return key.project
        several = key.session is None and any(other.server == key.server for other in self._housed)
        return key.digest if several else ""

    def _blueprint(self, key: InstanceKey, launch: Launch) -> Blueprint:
        config = self.config.servers[key.server]
        lasting = config.start == "eager" and launch.scope != "session"

        async def room() -> None:
            # One that holds a lock or a port must be gone before its successor starts.
            for old in [old for old in self._leaving if replace(old.key, digest=key.digest) == key]:
                await old.rested()

        def terms() -> Terms:
            known = self._around.verdicts.load(launch.fingerprint)
            return Terms(config.pinned_era, launch.era, known, min(probe.PATIENCE, config.start_timeout / 2))

        return Blueprint(
            key=key,
            policy=policy_of(config),
            relay=launch.relay,
            idle_timeout=None if lasting else config.idle_timeout,
            bounds=self.bounds(config),
            isolation=launch.isolation,
            spawn=Starting(key, launch, self._around, room).spawn,
            digests=launch.digests,
            terms=terms,
            judged=lambda verdict: self._around.verdicts.save(launch.fingerprint, verdict),
            generation=self._generations.get(key, 0),
            breach=config.breach,
            warn_on_echo=config.warn_on_echo,
            credentials=launch.giving.grants,
        )

    def bounds(self, config: ServerConfig) -> Bounds:
        """Return how long the messages and the silences of a child may be."""
        return Bounds(self.config.daemon.max_message, config.stop_grace, self.config.daemon.write_timeout)

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
        self._end_outdated()
        for key in list(forgettable(self._housed)):
            del self._housed[key]

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
        facts = NOWHERE.to(name)
        return self.house(self._lasting(facts), facts, self.next_key())

    def _lasting(self, facts: Facts) -> Launch:
        """Return what is started without a host. Raise `SmcpError` where a server cannot be."""
        launch = self.plan(facts)
        if launch.scope == "session":
            raise SmcpError(
                f"server '{facts.server}' has an instance for each session and runs only while a host is connected",
                remedy=f"connect a host, or call a tool with: smcp call {facts.server} TOOL",
            )
        return launch

    def startable(self, whence: Whence = NOWHERE) -> tuple[str, ...]:
        """The servers that a start of all is about: those with an instance, and those that need no host to start."""
        shared = [] if whence.narrow else ["global"]
        wanted = shared if whence.facts.project is None else [*shared, "project"]
        others = (name for name in self.config.servers if self.scope(whence.to(name)) in wanted)
        housed = (key for key in self._housed if not whence.narrow or key.project == whence.facts.project)
        return tuple(sorted({*others, *(key.server for key in housed)}))

    def stoppable(self, whence: Whence = NOWHERE) -> tuple[str, ...]:
        """The servers that a stop of all is about."""
        names = sorted(self.config.servers)
        return tuple(name for name in names if not (whence.narrow and self.scope(whence.to(name)) == "global"))

    async def start(self, names: Iterable[str], whence: Whence = NOWHERE) -> None:
        """Start servers and wait until they run. Raise `SmcpError` if one of them cannot, after all were tried.

        Of each server, the instance of the project where the word comes from, and every other one that hosts use;
        one that nobody uses and that does not run is forgotten instead.
        """
        await self._run(names, whence, ManagedServer.start)

    async def restart(self, names: Iterable[str], whence: Whence = NOWHERE) -> None:
        """Stop and start what runs or is used of servers, and wait until it runs. Raise as `start` and `stop` do.

        Where nothing of a server is there, this is a start.
        """
        names = tuple(names)
        self._refuse_part(names, whence, "restarted")
        await self._run(names, whence, ManagedServer.restart)

    async def _run(self, names: Iterable[str], whence: Whence, verb: Callable[[ManagedServer], None]) -> None:
        names = tuple(names)
        instances: list[ManagedServer] = []
        failures: list[tuple[str, SmcpError]] = []
        for name in names:
            held = self._stopped.hold(name).holds(whence.project)
            try:
                instances += self._subjects(name, whence, always=verb is ManagedServer.start)
            except SmcpError as error:
                # One that only a host can start may be started again by hosts, which is all that can be done.
                if not (held and self._needs_host(name, whence)):
                    failures.append((name, error))
            self._stopped.put(name, False, whence.project)
        for instance in instances:
            verb(instance)
        for instance in instances:
            try:
                await instance.settled()
            except SmcpError as error:
                failures.append((instance.key.server, error))
        failures.sort(key=lambda failure: names.index(failure[0]))
        if failures:
            raise reasons.joined(failures, named=len(names) > 1)

    def _subjects(self, name: str, whence: Whence, *, always: bool) -> list[ManagedServer]:
        """Return the instances that a start (``always``) or a restart is about. Raise `SmcpError` if there is none."""
        facts = whence.to(name)
        failure: SmcpError | None = None
        launch: Launch | None = None
        own: InstanceKey | None = None
        try:
            launch = self._lasting(facts)
            own = instance_key(name, launch.digest, launch.scope, project=facts.project, session="")
            self._find_outdated(own)
        except SmcpError as error:
            failure = error
        for key in [instance.key for instance in self._about(name, whence)]:
            if key != own and not matters(self._housed[key].instance):
                del self._housed[key]
        found = self._about(name, whence)
        if launch is not None and own is not None:
            near = any(instance.key.project == own.project for instance in found)
            if not near if always else not found:
                found.append(self.house(launch, facts, self.next_key()))
        elif failure is not None and not found:
            raise failure
        return found

    def _needs_host(self, name: str, whence: Whence) -> bool:
        scope = self.scope(whence.to(name))
        return scope == "session" or (scope == "project" and whence.facts.project is None)

    def _about(self, name: str, whence: Whence) -> list[ManagedServer]:
        """Return the instances that a word is about."""
        self.server(name)
        mine = (instance for instance in self.instances if instance.key.server == name)
        return [instance for instance in mine if self._is_about(whence, instance.key)]

    def _is_about(self, whence: Whence, key: InstanceKey) -> bool:
        if not whence.narrow or key.project == whence.facts.project:
            return True
        # One that is shared by all projects is that of each.
        return self.scope(whence.to(key.server)) == "global"

    def _refuse_part(self, names: Iterable[str], whence: Whence, verb: str) -> None:
        for name in names:
            if whence.narrow and self.scope(whence.to(name)) == "global":
                raise UsageError(
                    f"server '{name}' is shared by all projects and cannot be {verb} in one of them",
                    remedy="leave out --project",
                )

    async def stop(self, names: Iterable[str], whence: Whence = NOWHERE) -> None:
        """Stop servers and wait until nothing of them is left; they stay stopped until asked for by a person.

        Raise `UsageError` for a server that cannot be stopped in one project alone, before anything is stopped.
        """
        names = tuple(names)
        self._refuse_part(names, whence, "stopped")
        stopped: list[ManagedServer] = []
        for name in names:
            leaving = [i for i in self._leaving if i.key.server == name and self._is_about(whence, i.key)]
            stopped += [*self._about(name, whence), *leaving]
            self._stopped.put(name, True, whence.project)
        for instance in stopped:
            instance.stop()
        for instance in stopped:
            await instance.rested()
        self._forget_unused()

    async def shut_down(self) -> None:
        """Stop every instance, all at once, and wait until nothing is left."""
        everything = (*self.instances, *self._leaving, *self._asked)
        for instance in everything:
            instance.stop()
        for instance in everything:
            await instance.rested()
        self._leaving.clear()

    # A new configuration

    def reconfigure(self, config: Config, launcher: Launcher) -> tuple[reload.Plan, list[Displaced]]:
        """Take a new configuration; return what changed, and the instances whose sessions have to move."""
        plan = reload.diff(self.config.servers, config.servers)
        rules_changed = self.config.daemon != config.daemon
        self.config, self._launcher = config, launcher
        self._stopped.keep(config.servers)
        for name in (*plan.changed, *plan.removed):
            self._unresolved.pop(name, None)
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
            if self.server(old.server).pinned_era is None:
                launch = launch.like(housing.launch)
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
        isolation, beyond = self._launcher.isolation(config), self._launcher.beyond(name)
        trouble = self._unresolved.get(name, "")
        known = reports.Known(isolation, beyond, self._stopped.hold(name), self.catalogue_of(name), trouble)
        mine = [(one.instance, one.launch) for key, one in self._housed.items() if key.server == name]
        return reports.server_status(name, config, known, mine)

    def entries(self) -> tuple[ServerEntry, ...]:
        """Return what is configured."""
        servers = sorted(self.config.servers.items())
        return tuple(reports.server_entry(name, config, self.catalogue_of(name)) for name, config in servers)
