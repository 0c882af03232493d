"""What a person is told of the servers: the answers to ``smcp status`` and ``smcp list``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.config.reference import MASK
from supervisord_mcp.credentials.reading import grants_of
from supervisord_mcp.launch import Launch
from supervisord_mcp.policy.holds import Hold
from supervisord_mcp.policy.tokens import conceal
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.control import InstanceStatus, ServerEntry, ServerStatus
from supervisord_mcp.server import ManagedServer

#: Which state of several instances a server shows: the first of these that one of them has.
_SHOWN_FIRST = ("FATAL", "BACKOFF", "RUNNING", "STARTING", "STOPPING", "EXITED", "STOPPED")

#: What stands beside the limits that are kept, where the others only warn.
_MEASURED = 'memory, pids and cpu only measured, for breach is "warn"'


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a server beside its instances: its isolation, where a person stopped it, what it offers.

    ``beyond`` are the keys with which its entry grants more than its profile, ``trouble`` is why no instance could be
    made at the last try, or empty.
    """

    isolation: str
    beyond: tuple[str, ...]
    hold: Hold
    catalogue: Catalogue | None
    trouble: str = ""


def matters(instance: ManagedServer) -> bool:
    """Whether a host uses the instance, or it runs, or will by itself."""
    return bool(instance.sessions) or not instance.resting


def server_status(
    name: str, config: ServerConfig, known: Known, housed: Sequence[tuple[ManagedServer, Launch]]
) -> ServerStatus:
    """Return the state of a server with that of all its instances."""
    mine = [instance for instance, _ in housed]
    # One that nobody uses and that does not run says something of the server only if there is no other.
    telling = list(filter(matters, mine)) or mine
    states = {instance.state for instance in telling}
    return ServerStatus(
        name=name,
        state=next((state for state in _SHOWN_FIRST if state in states), "STOPPED"),
        scope=config.sharing,
        runtime=config.runtime,
        isolation=known.isolation,
        profile=config.profile,
        beyond=known.beyond,
        network=config.network_text,
        credentials=tuple(map(str, grants_of(config))),
        start=config.start,
        held=known.hold.everywhere,
        held_except=tuple(sorted(known.hold.exceptions)),
        catalogue=known.catalogue is not None,
        sessions=sum(len(instance.sessions) for instance in mine),
        restarts=sum(instance.restarts for instance in mine),
        last_error=known.trouble or next((instance.last_error for instance in telling if instance.last_error), None),
        instances=tuple(
            instance_status(instance, launch, known.hold, differences(instance, launch, housed))
            for instance, launch in housed
        ),
    )


def differences(
    instance: ManagedServer, launch: Launch, housed: Sequence[tuple[ManagedServer, Launch]]
) -> tuple[str, ...]:
    """Return what tells an instance from others of the same server and project; of variables, only the names.

    One that belongs to a session differs by that.
    """
    key = instance.key
    others = [other for one, other in housed if one is not instance and replace(one.key, digest=key.digest) == key]
    mine, theirs = launch.spec, [other.spec for other in others]
    found = []
    if any(other.program != launch.program for other in others):
        found.append(f"program {launch.program or f'{mine.argv[0]} (not found)'}")
    if any(other.argv[1:] != mine.argv[1:] for other in theirs):
        found.append("arguments")  # a secret may be in them
    if any(other.cwd != mine.cwd for other in theirs):
        found.append(f"cwd {mine.cwd}")
    # What is known of the program is enough said of its own PATH.
    names = {name for other in theirs for name, _ in set(mine.env) ^ set(other.env)} - ({"PATH"} if found else set())
    if names:
        found.append(f"variables {', '.join(sorted(names))}")
    if any(other.mounts != mine.mounts for other in theirs):
        found.append("mounts")
    return tuple(found)


def instance_status(
    instance: ManagedServer, launch: Launch, hold: Hold, differs: tuple[str, ...] = ()
) -> InstanceStatus:
    """Return the state of one instance, and what tells it from its like."""
    child, mounts = instance.child, launch.spec.mounts
    return InstanceStatus(
        key=str(instance.key),
        state=instance.state,
        pid=instance.pid,
        generation=instance.generation,
        sessions=len(instance.sessions),
        uptime=instance.uptime,
        project=instance.key.project,
        held=hold.holds(instance.key.project),
        restarts=instance.restarts,
        last_error=instance.last_error or None,
        phase=instance.phase or None,
        isolation=instance.blueprint.isolation,
        mounts=tuple(f"{mount.path}:{mount.access}" for mount in mounts),
        era=instance.era,
        user=child.user if child is not None else "",
        limits=_limits(instance),
        uncovered=child.uncovered if child is not None else (),
        dropped=dict(instance.remarks.dropped),
        differs=differs,
        image=launch.contained.shown if launch.contained is not None else "",
    )


def _limits(instance: ManagedServer) -> tuple[str, ...]:
    if instance.child is None:
        return ()
    measured = (_MEASURED,) if instance.blueprint.breach == "warn" else ()
    return (*instance.child.limits, *measured)


def server_entry(name: str, config: ServerConfig, catalogue: Catalogue | None) -> ServerEntry:
    """Return what is configured for a server."""
    return ServerEntry(
        name=name,
        command=tuple(conceal(word, MASK) for word in (config.argv or (config.image or "",))),
        start=config.start,
        scope=config.sharing,
        runtime=config.runtime,
        profile=config.profile,
        network=config.network_text,
        catalogue=catalogue is not None,
        tools=len(catalogue.lists.get("tools/list", ())) if catalogue else None,
    )
