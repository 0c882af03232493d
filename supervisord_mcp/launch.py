"""From configuration to a running child: the one bridge from config to runtimes.

`Launcher.resolve` says what a child for a session would be (cheap: it decides who shares it), `Launch.start` makes it
so: it looks up what the command needs to run, installs a package where the command asks for one, and starts the child.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from supervisord_mcp import rights
from supervisord_mcp.config.document import Origin
from supervisord_mcp.config.models import Reach, ServerConfig
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.config.profile import Profile
from supervisord_mcp.config.profiles import INSTALL, find_profiles
from supervisord_mcp.config.resolve import resolve
from supervisord_mcp.config.trust import Trust
from supervisord_mcp.config.variables import Variables
from supervisord_mcp.contained import Contained, Supply, contain, container_of, words_of
from supervisord_mcp.credentials.exposing import check_command
from supervisord_mcp.credentials.giving import Giving
from supervisord_mcp.credentials.reading import Credentials, grants_of
from supervisord_mcp.egress.registries import SETS
from supervisord_mcp.egress.rules import Egress, parse_rules
from supervisord_mcp.errors import ConfigError, LaunchError
from supervisord_mcp.facts import Facts
from supervisord_mcp.images.pins import Pins
from supervisord_mcp.images.provider import Change, Images
from supervisord_mcp.machine import CONTAINER, Machine, environment, working_directory
from supervisord_mcp.packages.installer import Installed, Packages
from supervisord_mcp.packages.phase import Confinement, Grants, Surroundings
from supervisord_mcp.packages.requests import recognise
from supervisord_mcp.packages.volumes import Volumes
from supervisord_mcp.policy.sharing import Resolved, Scope, digest
from supervisord_mcp.protocol.callbacks import Rules, Shared
from supervisord_mcp.protocol.mcp import Era
from supervisord_mcp.runtimes.audit import Report, ignore
from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.base import Child, LaunchSpec, Runtime
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.cgroup import Groups
from supervisord_mcp.runtimes.container.engine import Engines
from supervisord_mcp.runtimes.container.runtime import ContainerRuntime
from supervisord_mcp.runtimes.egress.meter import Contact
from supervisord_mcp.runtimes.egress.proxy import Surroundings as EgressSurroundings
from supervisord_mcp.runtimes.identity import Identities
from supervisord_mcp.runtimes.landlock.runtime import LandlockRuntime
from supervisord_mcp.runtimes.limits import Limits
from supervisord_mcp.runtimes.placeholders import Placeholders
from supervisord_mcp.runtimes.roots import runtime_roots
from supervisord_mcp.runtimes.search import search_path
from supervisord_mcp.shim import home_directory


def _trusted() -> None:
    """The entry is one of the person's own."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a child for a session would be started.

    ``relay`` says to whom what the child asks is passed on.
    ``era`` is that of the instance that it is for, and ``digest`` the one of ``digests`` that belongs to it. That of
    the modern era does not depend on what hosts can be asked; ``undecided`` does, and stands for it while it is not
    known whether the server speaks that era at all, for else its child has to be told.
    ``spec`` has neither marker nor ``read_only`` yet: `start` adds them. ``program`` is what its command was found to
    be, or None where it was not found. ``host_variables`` are the names that were taken from the environment of the
    host; their values are part of the digest. ``sets`` are sets of hosts that `start` adds to the network of ``spec``,
    and ``grants`` what an installation may do beyond the rule, which ``confinement`` tells. ``giving`` are the secrets
    that `start` reads. ``check`` raises `NotTrustedError` where the entry is from a project file that is not trusted as
    it is now. ``contained`` is how the image of a container comes to be there, ``helper``
    the runtime for programs of the machine then.
    """

    digest: str
    era: Era
    digests: Mapping[Era, str]
    undecided: str
    scope: Scope
    relay: Rules
    isolation: str
    runtime: Runtime
    spec: LaunchSpec
    program: str | None
    uses_project: bool
    host_variables: frozenset[str]
    machine: Machine = field(repr=False)
    packages: Packages = field(repr=False)
    confinement: Callable[[], Confinement] = field(repr=False)
    marker: str
    sets: tuple[str, ...] = ()
    grants: Grants = field(default_factory=Grants)
    check: Callable[[], None] = _trusted
    giving: Giving = field(default_factory=Giving)
    contained: Contained | None = None
    helper: Runtime | None = None

    @property
    def asking(self) -> Runtime:
        """What programs of the machine are asked in for what they know."""
        return self.helper or self.runtime

    def of(self, era: Era) -> Launch:
        """Return the same for the instance of an era."""
        return replace(self, era=era, digest=self.digests[era])

    def on_trial(self) -> Launch:
        """Return the same for the instance of a modern host whose server may turn out to be a legacy one."""
        return replace(self, era="modern", digest=self.undecided)

    def like(self, other: Launch) -> Launch:
        """Return the same for an instance that was made as another launch says."""
        return self.on_trial() if other.digest == other.undecided else self.of(other.era)

    def names(self, digest: str) -> bool:
        """Whether an instance with that digest is one for hosts like this, in whichever era."""
        return digest in (*self.digests.values(), self.undecided)

    @property
    def fingerprint(self) -> str:
        """What stands for the command when it is remembered which eras it speaks (protocol.md 6.1 D3).

        It is made of the program and when it was changed, its arguments, and the names of its environment.
        """
        changed: int | str = 0
        if self.contained is not None:
            changed = self.contained.identity
        else:
            with contextlib.suppress(OSError):
                changed = os.stat(self.spec.argv[0]).st_mtime_ns
        names = (*(name for name, _ in self.spec.env), *self.giving.variables)
        parts = [self.spec.argv, changed, sorted(names)]
        return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]

    async def start(self, installing: Callable[[], None], progress: Callable[[str], None]) -> Child:
        """Install what has to be installed, then start the child.

        ``installing`` is called when an install phase waits or begins, ``progress`` with what it says. Raise
        `LaunchError`, `IsolationError`, `SecretError` or `NotTrustedError` where there is no child.
        """
        self.check()
        marker = f"{self.marker}{self.spec.name}:{uuid.uuid4().hex}"
        around = self._around(marker, installing, progress)
        if self.contained is not None:
            spec = await self.contained.provided(self.prepared(), around)
        else:
            request = recognise(self.spec.argv)
            spec = self.prepared(None if request is None else await self.packages.provide(request, around))
        spec = replace(spec, marker=marker)
        for path in _single_files(spec) if self.runtime.isolation != "none" else ():
            progress(f"{path} is mounted alone: it is written in place; to have it replaced, mount its directory")
        if self.sets and isinstance(spec.network, Egress):
            # What sets mean the programs of the machine say, whatever the server itself runs in.
            rules = (
                *spec.network.rules,
                *await self.packages.registry_rules(self.sets, replace(around, runtime=self.asking)),
            )
            spec = replace(spec, network=replace(spec.network, rules=tuple(dict.fromkeys(rules))))
        # Last, for an installation may take minutes, and has no business with them.
        return await self.runtime.launch(await self.giving.given(spec))

    def prepared(self, installed: Installed | None = None) -> LaunchSpec:
        """Return the spec with all that the command needs to run. Raise `LaunchError` where it is not found."""
        spec = self.spec
        if self.contained is not None:
            mounts = tuple(replace(m, path=os.path.realpath(m.path), target=m.target or m.path) for m in spec.mounts)
            _keep_own((mount.path for mount in mounts), self.machine.own)
            return replace(spec, mounts=mounts)
        if installed is not None:
            path = f"{installed.path}:{dict(spec.env)['PATH']}"
            spec = replace(spec, argv=installed.argv, env=(*(e for e in spec.env if e[0] != "PATH"), ("PATH", path)))
        else:
            spec = replace(spec, argv=(self.machine.find(spec.argv[0]), *spec.argv[1:]))
        if self.runtime.isolation == "none":
            return spec
        writable = [mount.path for mount in spec.mounts if mount.access == "rw"]
        roots = runtime_roots(spec.argv, dict(spec.env), cwd=spec.cwd, home=self.machine.home, writable=writable)
        if installed is not None:
            roots = (*roots, installed.read_only)
        mounts = spec.mounts
        if self.runtime.isolation == "sandbox":
            # From here on links are not followed any more: what is judged is what is shown.
            mounts = tuple(replace(m, path=os.path.realpath(m.path), target=m.target or m.path) for m in mounts)
        _keep_own((mount.path for mount in mounts), self.machine.own)
        _keep_own(roots, self.machine.own, of_command=True)
        return replace(spec, read_only=roots, mounts=mounts)

    def complete(self) -> LaunchSpec:
        """Return what is launched, as far as it is known without installing. Raise `LaunchError` where it is not."""
        if self.contained is not None:
            return self.contained.complete(self.prepared(), self._around("", lambda: None, lambda _: None))
        installed = None
        if (request := recognise(self.spec.argv)) is not None:
            installed = self.packages.installed(request, self._around("", lambda: None, lambda _: None))
            if installed is None:
                raise LaunchError(
                    f"{request.shown} is not installed yet",
                    remedy=f"It is before the first start: smcp start {self.spec.name}",
                )
        return self.prepared(installed)

    def explain(self) -> str:
        """Return a command line that a person can paste to start the same child; secrets are not in it."""
        return self.runtime.explain(self.giving.named(self.complete()))

    def _around(self, marker: str, installing: Callable[[], None], progress: Callable[[str], None]) -> Surroundings:
        return Surroundings(
            runtime=self.runtime,
            confinement=self.confinement,
            find=self.machine.find_or_none,
            path=":".join(self.machine.path),
            home=self.machine.home,
            environ={**self.machine.environ, **dict(self.spec.env)},
            marker=marker,
            installing=installing,
            progress=progress,
            grants=self.grants,
        )


class Launcher:
    """Resolves entries. ``environ`` is the daemon's, ``marker`` begins the marker of every child of this daemon.

    ``runtimes`` are those of the daemon by their names, made by `make_runtimes`.
    """

    def __init__(
        self,
        paths: Paths,
        environ: Mapping[str, str],
        marker: str,
        path: Sequence[str],
        runtimes: Mapping[str, Runtime] | None = None,
    ) -> None:
        self._environ = environ
        self._home = home_directory(environ, os.getuid())
        self._marker = marker
        self._path = path
        self._packages = Packages(paths.cache_dir / "packages")
        self._paths = paths
        self._trust = Trust.of(paths)
        self._own = tuple(os.path.realpath(p) for p in (paths.runtime_dir, paths.config_dir, paths.state_dir))
        #: Where each server is defined, for errors.
        self.origins: Mapping[str, Origin] = {}
        self._runtimes = runtimes or make_runtimes(paths.private_dir)
        self._delivery_dir = str(paths.delivery_dir)
        container = self._runtimes.get(CONTAINER)
        self._images = Images(
            Pins.of(paths), container.engines if isinstance(container, ContainerRuntime) else Engines(environ)
        )
        self._volumes = Volumes(paths.volumes_file)
        #: Is told when the name of an image stands for another one than before.
        self.image_changed: Callable[[Change], None] = lambda _: None
        #: The sources of secrets; a daemon has them for longer than one launcher.
        self.credentials = Credentials(paths, environ, path)

    def beyond(self, name: str) -> tuple[str, ...]:
        """Return the keys with which the entry of a server grants more than its profile."""
        origin = self.origins.get(name)
        return () if origin is None else origin.beyond

    def isolation(self, config: ServerConfig) -> str:
        """Return what the runtime of a server gives."""
        return self._runtimes[config.runtime].isolation

    def resolve(self, name: str, config: ServerConfig, facts: Facts) -> Launch:
        """Given an entry and a session, return how a child would be started. Raise `SmcpError` if it cannot be.

        A command that is not there is no such error: `Launch.start` says so, and finds it once it is installed.
        """
        variables = Variables({**self._environ, **facts.environ}, facts.project, self._home)
        origin = self.origins.get(name) or Origin(Path(self._paths.config_file), None)
        done = resolve(name, config, variables, origin)
        check_command(name, config, done, origin)
        machine = Machine(self._environ, self._home, search_path(self._path, self._environ, self._home), self._own)
        runtime = self._runtimes[config.runtime]
        supply = Supply(self._images, self._volumes, self.image_changed)
        contained = contain(name, config, done.argv, supply)
        program = machine.find_or_none(done.argv[0]) if contained is None else None
        argv = done.argv if program is None or recognise(done.argv) else (program, *done.argv[1:])
        mounts = tuple(
            rights.mount(path, access, written)
            for (path, access), written in zip(done.mounts, config.mounts, strict=True)
            if not written.optional or os.path.lexists(path)
        )
        spec = LaunchSpec(
            name=name,
            argv=argv,
            cwd=working_directory(done, config, facts, self._home),
            env=environment(done, machine, program, runtime),
            mounts=mounts,
            network=rights.network(config),
            seccomp=rights.policy(name, config.seccomp, origin),
            limits=rights.enforced(config),
            container=None if contained is None else container_of(config, contained),
        )
        giving = Giving(grants_of(config), config.deliver, self.credentials, self._delivery_dir)
        resolved = replace(_resolved(spec, config, program), credentials=giving.words)
        relay = _relay(config, facts)
        # A modern server is told with each request what its host can do, so all hosts may share it.
        told = relay.text if isinstance(relay, Shared) else ""
        digests: dict[Era, str] = {
            "legacy": digest(replace(resolved, capabilities=told)),
            "modern": digest(replace(resolved, era="modern")),
        }
        era = config.pinned_era or "legacy"
        return Launch(
            digest=digests[era],
            era=era,
            digests=digests,
            undecided=digest(replace(resolved, era="modern", capabilities=told)),
            scope=config.sharing,
            relay=relay,
            isolation=runtime.isolation,
            runtime=runtime,
            spec=spec,
            program=program,
            uses_project=done.uses_project or config.uses_project,
            host_variables=frozenset(done.used & facts.environ.keys()),
            machine=machine,
            packages=self._packages,
            confinement=self.confinement,
            marker=self._marker,
            sets=config.network.sets if isinstance(config.network, Reach) else (),
            grants=Grants(config.install.scripts, config.install.rules),
            check=_trusted if config.project_file is None else partial(self._trust.check, Path(config.project_file)),
            giving=giving,
            contained=contained,
            helper=self._runtimes.get("bwrap") if contained is not None else None,
        )

    def confinement(self) -> Confinement:
        """Return what the profile ``install`` gives to installations. Raise `SmcpError` for a faulty one."""
        effective = find_profiles(self._paths, self._environ).effective(INSTALL)
        profile, network, usual = effective.profile, effective.profile.network, Profile(description="x")
        for key in ("runtime", "mounts", "scope", "env", "inherit"):
            if getattr(profile, key) != getattr(usual, key):
                what = "installations take only network, limits and seccomp from this profile"
                raise ConfigError((effective.problem((key,), what),))
        match network:
            case Reach():
                sets, rules = network.sets, network.rules
            case "internet":
                sets, rules = SETS, parse_rules([network])
            case "host":
                what = 'no installation has the network of the machine; name hosts, or "internet"'
                raise ConfigError((effective.problem(("network",), what),))
            case _:
                sets, rules = (), ()
        try:
            return Confinement(Limits(**profile.limits.model_dump()), rights.policy_of(profile.seccomp), sets, rules)
        except ValueError as error:
            raise ConfigError((effective.problem(("seccomp", "deny"), str(error)),)) from None


def _single_files(spec: LaunchSpec) -> list[str]:
    """Return the files that may be written and are mounted without their directory: nobody can move a mount point."""
    return [m.path for m in spec.mounts if m.access == "rw" and os.path.isfile(m.path)]


def _keep_own(shown: Iterable[str], own: Iterable[str], *, of_command: bool = False) -> None:
    """Raise `LaunchError` if a sandbox would show directories of smcp: who has them has every other server.

    ``of_command`` are those that no entry names: the command needs them.
    """
    what = "the command needs" if of_command else "mount of"
    if of_command:
        remedy = "Move the program, or the script that the command names, into a directory without those of smcp."
    else:
        remedy = "Name only the directories that the server needs."
    for path in shown:
        real = os.path.realpath(path)
        for directory in own:
            if os.path.commonpath((real, directory)) in (real, directory):
                raise LaunchError(
                    f"{what} {path}: it would give the server {directory}, which belongs to smcp itself",
                    remedy=remedy,
                    retryable=False,
                )


@dataclass(frozen=True, slots=True)
class Told:
    """Who is told what servers reach by their rules and what not, and what audited ones ask of the kernel in vain."""

    contact: Callable[[Contact], None]
    notice: Report


def make_runtimes(
    private: Path,
    groups: Groups | None = None,
    uids: range | None = None,
    told: Told | None = None,
    record: Path | None = None,
) -> dict[str, Runtime]:
    """Return every runtime by its name in the configuration.

    ``private`` is where a runtime without mounts makes what a server has for itself. ``groups`` are the cgroups of the
    daemon, ``uids`` the users that servers of a daemon run by root have. ``record`` is the file for what stands in
    mounts.
    """
    # One for all: two servers of different runtimes are strangers to each other as well.
    identities = Identities() if uids is None else Identities(uids.start, len(uids))
    notice = ignore if told is None else told.notice
    around = EgressSurroundings() if told is None else EgressSurroundings(report=told.contact)
    bwrap = BwrapRuntime(None, groups, identities, around, notice)
    contained = ContainerRuntime(private.parent / "containers", around=around)
    contained.placeholders = bwrap.placeholders = Placeholders(record)
    made: tuple[Runtime, ...] = (
        BareRuntime(groups),
        bwrap,
        LandlockRuntime(str(private), groups, identities, notice),
        contained,
    )
    return {runtime.name: runtime for runtime in made}


def _relay(config: ServerConfig, facts: Facts) -> Rules:
    """Return how what a child asks is passed on to hosts like that of a session (protocol.md 6.1 D5 to D7)."""
    if config.sharing == "session":
        return True
    if config.callbacks == "off" or not facts.profile:
        return False
    return Shared(facts.profile, serialized=config.callbacks != "cookie")


def _resolved(spec: LaunchSpec, config: ServerConfig, program: str | None) -> Resolved:
    return Resolved(
        argv=spec.argv if program is None else (program, *spec.argv[1:]),
        cwd=spec.cwd,
        env=spec.env,
        runtime=config.runtime,
        network=config.network if isinstance(config.network, str) else (config.network_text, *config.network.allow),
        mounts=tuple((m.path, m.target or m.path, " ".join((m.access, *m.protected))) for m in spec.mounts),
        limits=tuple(asdict(rights.enforced(config)).items()),
        profile=config.profile,
        seccomp=spec.seccomp.words,
        container=words_of(spec.container),
    )
