"""One launch: what its container is told, what its gate is told, and the child or the error that comes of it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from supervisord_mcp.egress.rules import Egress
from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes import seccomp
from supervisord_mcp.runtimes.base import LaunchSpec
from supervisord_mcp.runtimes.cgroup import Group
from supervisord_mcp.runtimes.container import creation
from supervisord_mcp.runtimes.container.child import ContainerChild, Running
from supervisord_mcp.runtimes.container.creation import Image, Setting
from supervisord_mcp.runtimes.container.engine import Engine, EngineRefusedError, Facts
from supervisord_mcp.runtimes.container.entrance import GateError, Pipes
from supervisord_mcp.runtimes.container.filter import profile, profile_file
from supervisord_mcp.runtimes.container.sweeping import daemon_of, machine
from supervisord_mcp.runtimes.container.watch import Watch, Watched
from supervisord_mcp.runtimes.egress.plan import loopback_plan, proxy_environment
from supervisord_mcp.runtimes.hierarchy import group_of
from supervisord_mcp.runtimes.lending import borrowing
from supervisord_mcp.runtimes.limits import Available, plan, size_text
from supervisord_mcp.runtimes.syscalls import Architecture, architectures
from supervisord_mcp.runtimes.watcher import Bounds

SETUP_SECONDS = 60.0
_OTHER_ID = 1000
_OTHER_USER = f'Name one in the entry: container = {{ user = "{_OTHER_ID}:{_OTHER_ID}" }}'


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
class Launching:
    """What is known of one launch before its container is created."""

    engine: Engine
    watch: Watch
    facts: Facts
    image: Image
    spec: LaunchSpec
    place: Path

    def setting(self, command: tuple[str, ...], shown: tuple[tuple[str, str], ...]) -> Setting:
        """Return what the container is created with; ``command`` starts the gate, where there is one."""
        spec = self.spec
        policy = borrowing(spec)
        if command:
            # The gate talks to the daemon; its own filter, which comes after that, has what was granted.
            policy = replace(policy, families=policy.families | {"unix"})
        labels = {
            creation.DAEMON: daemon_of(spec.marker),
            creation.MACHINE: machine(),
            creation.SERVER: spec.name,
            creation.INSTANCE: spec.marker,
            creation.GENERATION: spec.marker.rpartition(":")[2],
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

    def order(self, *, listen: bool) -> tuple[object, ...]:
        """Return the values of the `gate.Order`; ``listen`` is whether the gate is to make the listeners."""
        spec = self.spec
        env = creation.environment_of(spec, self.image)
        listeners: list[tuple[str, int, bool]] = []
        if isinstance(spec.network, Egress):
            env = dict(proxy_environment(env.items()))
            planned = loopback_plan(spec.network).listeners if listen else ()
            listeners = [(listener.address, listener.port, listener.datagrams) for listener in planned]
        files = [(name, value.encode()) for name, value in spec.secrets.values]
        return (
            list(creation.argv_of(spec, self.image)),
            env,
            spec.cwd or self.image.directory or "/",
            creation.SECRETS,
            files,
            listeners,
            b"" if self.privileged else seccomp.program(replace(borrowing(spec), audit=False)),
            list(self.expected) if self.facts.remapped else [],
        )

    @property
    def expected(self) -> Iterator[tuple[str, bool]]:
        """What is granted, at its place in the container, with whether it may be written."""
        for mount in self.spec.mounts:
            if not mount.pinned:
                yield mount.target or mount.path, mount.access == "rw"

    @property
    def privileged(self) -> bool:
        """Whether the entry wants a container that is none."""
        return "privileged" in creation.container_of(self.spec).allow

    def check_user(self, setting: Setting, uid: int) -> None:
        """Given as whom its gate came there, raise `LaunchError` for a server that is root though nobody said so."""
        if uid == 0 and not self.privileged and not creation.may_be_root(self.spec, setting):
            raise LaunchError(
                f"server {self.spec.name}: its image runs it as {setting.user}, which is root there by another name",
                remedy=f"{_OTHER_USER}, or the same user if that is meant.",
                retryable=False,
            )

    def child(self, setting: Setting, watched: Watched, pid: int, pipes: Pipes) -> ContainerChild:
        """Return the child of a container that runs; it owns our ends of the pipes now."""
        limit = self.spec.limits.memory
        memory = "" if limit is None else f"memory limit {size_text(limit)}"
        running = Running(setting.name, pid, creation.stop_number(self.image), memory)
        child = ContainerChild(self.engine, self.watch, watched, running, pipes.ours)
        child.user = setting.user
        if self.facts.selinux and setting.command:
            child.uncovered = ("what SELinux keeps from containers (it would keep the daemon from them as well)",)
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

    def reason(self, error: BaseException, said: str, uid: int = -1) -> BaseException:
        """Return the error that a person gets for one that ended a launch; ``uid`` is the server's on this machine."""
        spec = self.spec
        match error:
            case GateError() if self.facts.remapped and error.path in dict(self.expected):
                return _somebody_else(spec, error.path, dict(self.expected)[error.path], uid)
            case GateError():
                return _not_there(spec, creation.argv_of(spec, self.image)[0], error)
            case EngineRefusedError() if "working directory" in error.message:
                return LaunchError(error.message, retryable=False)
            case EngineRefusedError() if "unable to find user" in error.message or "uids and gids" in error.message:
                return LaunchError(error.message, remedy=f"{_OTHER_USER}.", retryable=False)
            case TimeoutError():
                return IsolationError(
                    f"server {spec.name} was not started: its container was not set up in {SETUP_SECONDS:.0f} s"
                    + (f": {said}" if said else ""),
                    remedy="See the log of the engine.",
                )
            case IsolationError() if said:
                return IsolationError(f"server {spec.name} was not started: {said}", remedy=error.remedy)
        return error


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


def _somebody_else(spec: LaunchSpec, path: str, writable: bool, uid: int) -> LaunchError:
    what = "write" if writable else "read"
    return LaunchError(
        f"server {spec.name}: it could not {what} {path}: the engine has users of its own (userns-remap), and with"
        f" it the server is user {uid} of this machine",
        remedy=f"Let that one {what} it (setfacl -R -m u:{uid}:r{'w' if writable else ''}X PATH), or use an engine with"
        " which files stay yours, such as rootless Podman, or the sandbox.",
        retryable=False,
    )


def _fallback() -> tuple[int, int]:
    """Return whom servers run as of whom nobody says it: the person, and nobody in particular instead of root."""
    return (os.getuid(), os.getgid()) if os.getuid() != 0 else (_OTHER_ID, _OTHER_ID)
