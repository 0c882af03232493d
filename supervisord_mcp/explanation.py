"""What the isolation of one server comes to, in words: for the person who decides whether that is right."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from supervisord_mcp.config.extending import loosened
from supervisord_mcp.config.lint import risk_of
from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.config.profiles import Effective
from supervisord_mcp.config.source import written
from supervisord_mcp.egress.rules import Egress
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.launch import Launch
from supervisord_mcp.runtimes import sandbox
from supervisord_mcp.runtimes.base import LaunchSpec
from supervisord_mcp.runtimes.container.creation import SECRETS
from supervisord_mcp.runtimes.filter_text import filter_lines
from supervisord_mcp.runtimes.limits import Available, plan
from supervisord_mcp.runtimes.seccomp import describe

#: What every server gets in its environment, whatever its entry says.
_BASE = frozenset({"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR"})


@dataclass(frozen=True, slots=True)
class Section:
    """Some of the rules under one heading."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """All of the rules. ``command_line`` starts the same child by hand; without one, ``obstacle`` says why.

    ``filter`` is the filter for system calls, a rule in a line, and empty where nothing is filtered.
    """

    server: str
    profile: str
    runtime: str
    isolation: str
    scope: str
    sections: tuple[Section, ...]
    filter: tuple[str, ...]
    command_line: str
    obstacle: str


def explanation(launch: Launch, config: ServerConfig, effective: Effective) -> Explanation:
    """Given how a child would be started, its entry as it applies and its profile, return what is true of it."""
    obstacle, line, spec = "", "", launch.spec
    try:
        spec = launch.complete()
        line = launch.runtime.explain(launch.giving.named(spec))
    except SmcpError as error:
        obstacle = str(error)
    bare, policy = launch.isolation == "none", launch.runtime.policy(spec)
    sections = (
        Section("profile", tuple(_profile(config, effective, launch.machine.home))),
        Section("files", _NO_RULES if bare else tuple(_files(spec, launch))),
        Section("network", _NO_RULES if bare else tuple(_network(spec, launch.sets))),
        Section("environment", tuple(_environment(spec, config))),
        Section("credentials", tuple(_credentials(launch))),
        Section("system calls", _NO_RULES if policy is None else describe(policy)),
        Section("limits", tuple(_limits(spec, places=launch.isolation == "sandbox"))),
        Section("user", tuple(_user(spec, launch))),
        Section("not covered", tuple(_not_covered(spec, launch))),
    )
    return Explanation(
        server=spec.name,
        profile=config.profile,
        runtime=config.runtime,
        isolation=launch.isolation,
        scope=launch.scope,
        sections=sections,
        filter=() if policy is None else filter_lines(policy),
        command_line=line,
        obstacle=obstacle,
    )


_NO_RULES = ('none: runtime "bare" holds nothing back',)


def _profile(config: ServerConfig, effective: Effective, home: str) -> Iterator[str]:
    profile, own = effective.profile, effective.own
    yield f"{effective.name}: {own.profile.description}"
    chain = ", ".join(definition.name for definition in effective.chain[1:])
    whose = "shipped" if own.shipped else "yours"
    yield f"{whose}, {own.document.file}" + (f", extends {chain}" if chain else "")
    if profile.dangerous:
        yield f"dangerous: {profile.reason}"
    for path, what in loosened(profile, config):
        yield f"the entry grants more: {written(path)}: {what}"
    for mount in config.mounts:
        if risk := risk_of(mount, home):
            yield f"careful: {risk}"


def _files(spec: LaunchSpec, launch: Launch) -> Iterator[str]:
    if launch.contained is not None and spec.container is not None:
        yield f"read only: the image {launch.contained.shown}"
        yield from (f"read only: what was installed, at {place}" for _, place, _ in spec.container.volumes)
        yield "read only: /.smcp, with the program that starts the server"
    else:
        yield f"read only: {', '.join(path for path in sandbox.SYSTEM if os.path.isdir(path))} and public parts of /etc"
    if spec.read_only:
        yield f"read only, because the command needs it: {', '.join(spec.read_only)}"
    for mount in spec.mounts:
        place = f" as {mount.target}" if mount.target not in (None, mount.path) else ""
        yield f"{'read and write' if mount.access == 'rw' else 'read only'}: {mount.path}{place}"
        if mount.protected and launch.isolation == "sandbox":
            yield f"  but read only in it: {', '.join((*mount.protected, *mount.protected_if_there))}"
    if launch.isolation == "reduced":
        yield "private, empty at every start and gone at the end: places named by HOME and TMPDIR"
        yield f"working directory: {spec.cwd or 'its HOME'}"
        yield "nothing else can be read or written; that it is there can be seen"
        return
    yield f"private, empty at every start and gone at the end: {sandbox.HOME} (its HOME), /tmp, /dev/shm, /run"
    yield f"working directory: {spec.cwd or ('that of the image' if spec.container is not None else sandbox.HOME)}"
    yield "nothing else is there"


def _network(spec: LaunchSpec, sets: tuple[str, ...]) -> Iterator[str]:
    match spec.network:
        case Egress():
            yield f"through the daemon: {', '.join((*map(str, spec.network.rules), *sets))}"
            if sets:
                yield f"{' and '.join(sets)}: the registries that your own configuration of npm, pip and uv names"
            yield "names are resolved by the daemon; nothing else is reached or resolved, UDP not at all"
            if any(rule.private for rule in spec.network.rules):
                yield "private networks too"
        case "host":
            yield "all of the machine's network, its own services and private networks too"
        case _:
            yield "none: a network of its own with nothing in it, not even this machine"


def _environment(spec: LaunchSpec, config: ServerConfig) -> Iterator[str]:
    given = {name for name, _ in spec.env}
    base = sorted(name for name in given if name in _BASE or name.startswith("LC_"))
    own = sorted(given - set(base))
    yield f"for every server: {', '.join(base)}"
    yield f"from its entry and profile: {', '.join(own) or 'none'}"
    if unset := sorted(set(config.inherit) - given):
        yield f"not set here, so left out: {', '.join(unset)}"
    yield "no other variable, neither of hosts nor of the daemon"


def _credentials(launch: Launch) -> Iterator[str]:
    if not launch.giving.grants:
        yield "none"
        return
    for grant in launch.giving.grants:
        yield str(grant)
    if launch.giving.deliver == "env":
        yield "in its environment, read at each start"
    elif launch.isolation == "sandbox":
        place = sandbox.SECRETS if launch.spec.container is None else SECRETS
        yield f"in files below {place} that only it can read; the variables hold their paths"
    else:
        yield "in files on a tmpfs of the machine that only its user can read; the variables hold their paths"


def _limits(spec: LaunchSpec, *, places: bool) -> Iterator[str]:
    found = plan(spec.limits, Available(places=places, sized=True))
    yield ", ".join(enforcement.name for enforcement in found.enforcements) or "none"
    if spec.container is not None:
        yield "by the engine, with control groups where it has any: see smcp status NAME"
        return
    yield "by control groups where the daemon may make any, else by resource limits and a watcher: see smcp status NAME"
    if spec.limits.cpu is not None:
        yield "cpu by control groups only"


def _user(spec: LaunchSpec, launch: Launch) -> Iterator[str]:
    if launch.isolation == "none":
        yield f"the user of the daemon ({os.geteuid()}), with all rights"
    elif spec.container is not None:
        yield spec.container.user or "that of the image, or an ordinary one where it says root"
        yield f"permitted by its entry: {', '.join(sorted(spec.container.allow)) or 'no capability, nothing else'}"
    elif os.geteuid() == 0:
        yield "one of its own from daemon.uids, never root; without any capability"
        if spec.mounts:
            yield "files of root or of somebody else that it is given are lent to it: on the disk they stay theirs"
    else:
        yield f"your own ({os.geteuid()}); without any capability"
    if launch.isolation == "sandbox":
        yield "sees no process but its own; has its own host name and IPC"


def _not_covered(spec: LaunchSpec, launch: Launch) -> Iterator[str]:
    if launch.isolation == "none":
        yield "everything: the server may do what you may do"
        return
    yield "faults of the kernel, which it shares"
    yield from launch.runtime.uncovered(spec)
    if any(mount.access == "rw" for mount in spec.mounts):
        yield "how much it writes where it may write, and what others do with that later"
    if spec.network == "host":
        yield "everything that listens on this machine and trusts it"
    elif isinstance(spec.network, Egress):
        yield "what it sends to the hosts that it reaches"
    if launch.scope != "session":
        yield f"one host from another: all {'of a project ' if launch.scope == 'project' else ''}share it"
    if spec.seccomp.userns:
        yield "namespaces of its own: more of the kernel is within reach"
