"""What an engine is told to create, from a `LaunchSpec` and the facts of engine and image. Nothing is asked or done."""

from __future__ import annotations

import os
import signal as signals
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from supervisord_mcp.egress.rules import Egress
from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes.base import Container, LaunchSpec, Mount
from supervisord_mcp.runtimes.container.engine import Facts
from supervisord_mcp.runtimes.limits import Limits
from supervisord_mcp.runtimes.proctable import MARKER_VARIABLE
from supervisord_mcp.runtimes.sandbox import HOME

#: The labels of every container: whose it is, and which server's.
DAEMON, MACHINE, SERVER = "smcp.daemon", "smcp.machine", "smcp.server"
#: The marker of the child, and the part of it that is another one at each start.
INSTANCE, GENERATION = "smcp.instance", "smcp.generation"
_PREFIX = "smcp-"
#: Where engines look for programs in an image that does not say it.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MIB, _PAGE = 1 << 20, 4096
#: Where the files with secrets are in a container; the gate makes the directory, on a tmpfs.
SECRETS = "/run/smcp/secrets"
#: What runs beside the server: the init of the engine.
_COMPANIONS = 1
#: Where nothing of the machine may be shown: it would hide what a container is made of, or what belongs to us.
_CLOSED = ("/proc", "/dev", "/sys", "/.smcp")
#: Who may write to one of these is root on the machine.
ENGINE_SOCKETS = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
)


#: What engines hide by themselves, and what tells of the devices of the machine. Control groups tell of the container.
_MASKED = (
    *("/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats"),
    *(f"/sys/{name}" for name in ("block", "bus", "class", "dev", "devices", "firmware", "kernel", "module", "power")),
)


@dataclass(frozen=True, slots=True)
class Image:
    """What an image says of itself, as far as it matters for a container."""

    id: str
    env: tuple[tuple[str, str], ...] = ()
    user: str = ""
    directory: str = ""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    stop_signal: str = ""
    volumes: tuple[str, ...] = ()

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Image:
        """Return the image that an engine tells of."""
        config = told.get("Config") or {}
        return cls(
            id=str(told.get("Id", "")),
            env=tuple((name, value) for name, _, value in (e.partition("=") for e in config.get("Env") or ())),
            user=str(config.get("User") or ""),
            directory=str(config.get("WorkingDir") or ""),
            entrypoint=_words(config.get("Entrypoint")),
            command=_words(config.get("Cmd")),
            stop_signal=str(config.get("StopSignal") or ""),
            volumes=tuple(sorted({os.path.normpath(path) for path in config.get("Volumes") or ()})),
        )


@dataclass(frozen=True, slots=True)
class Setting:
    """What a container is created with beside its spec.

    ``command`` starts the gate, ``shown`` are directories and files that it needs with their places. Without one the
    server itself is started. ``user`` is that of `user_of`. ``network`` is the mode of the engine.
    """

    name: str
    labels: Mapping[str, str]
    user: str
    network: str
    seccomp: str
    command: tuple[str, ...] = ()
    shown: tuple[tuple[str, str], ...] = ()


def container_of(spec: LaunchSpec) -> Container:
    """Return what a spec says about its container. Raise `LaunchError` where it says nothing."""
    if spec.container is None:
        raise LaunchError(
            f"server {spec.name}: it has no image to make a container of",
            remedy='Name one: image = "…", or package = "npx:…".',
            retryable=False,
        )
    return spec.container


def argv_of(spec: LaunchSpec, image: Image) -> tuple[str, ...]:
    """Return what runs in the container. Raise `LaunchError` where neither the entry nor the image says it."""
    container = container_of(spec)
    if not spec.argv:
        argv = (*image.entrypoint, *image.command)
    else:
        argv = (*image.entrypoint, *spec.argv) if container.entrypoint else spec.argv
    if not argv:
        raise LaunchError(
            f"server {spec.name}: the image {container.shown or container.image} does not say what it runs",
            remedy="Name it: command = …",
            retryable=False,
        )
    return argv


def environment_of(spec: LaunchSpec, image: Image) -> dict[str, str]:
    """Return the whole environment of the server: what the image says, and over it what the entry says."""
    own = {name: value for name, value in image.env if name != "HOME"}
    env = {"PATH": _PATH, "HOME": HOME, **own, **dict(spec.env)}
    return {**env, MARKER_VARIABLE: spec.marker} if spec.marker else env


def user_of(spec: LaunchSpec, image: Image, facts: Facts, fallback: tuple[int, int]) -> str:
    """Return whom the server runs as.

    That is who the entry says, else who the image says. Where that is root, or nobody is named, it is ``fallback``,
    except with an engine without rights of its own, where root is nobody but the person, and owns the person's files.
    """
    container = container_of(spec)
    if container.user:
        return container.user
    if not _is_root(image.user.partition(":")[0]):
        return image.user
    writes = any(mount.access == "rw" for mount in spec.mounts)
    if facts.rootless and not facts.podman and writes:
        return "0:0"
    return f"{fallback[0]}:{fallback[1]}"


def _is_root(user: str) -> bool:
    return user in ("", "root") or (user.lstrip("+-").isdigit() and int(user) == 0)


def may_be_root(spec: LaunchSpec, setting: Setting) -> bool:
    """Return whether a server may be root in its container: its entry says who it is, or `user_of` decided so."""
    return bool(container_of(spec).user) or _is_root(setting.user.partition(":")[0])


def stop_number(image: Image) -> int:
    """Return the number of the signal that an image wants to be stopped by; engines take it in several ways."""
    name = image.stop_signal.upper().removeprefix("SIG") or "TERM"
    if name.isascii() and name.isdigit():
        return int(name)
    base, plus, more = name.partition("+")
    found = signals.Signals.__members__.get(f"SIG{base}")
    if found is None:
        return signals.SIGTERM
    return found + int(more) if plus and more.isascii() and more.isdigit() else found


def body(spec: LaunchSpec, image: Image, facts: Facts, setting: Setting) -> dict[str, Any]:
    """Return what the engine is told. Raise `LaunchError` or `IsolationError` for what it must not be, or cannot."""
    container = container_of(spec)
    check_users(spec, facts)
    told: dict[str, Any] = {
        "Image": container.image,
        "User": setting.user,
        "Labels": dict(setting.labels),
        "Tty": False,
        "AttachStdin": not setting.command,
        "AttachStdout": True,
        "AttachStderr": True,
        "OpenStdin": not setting.command,
        "StdinOnce": not setting.command,
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": image.stop_signal or "SIGTERM",
    }
    if setting.command:
        # The loader of the machine acts upon these, and knows nothing of the libraries of the image.
        own = ("LD_PRELOAD=", "LD_LIBRARY_PATH=", "LD_AUDIT=", "LD_DEBUG=", f"{MARKER_VARIABLE}={spec.marker}")
        told |= {"Entrypoint": list(setting.command), "Cmd": [], "Env": list(own), "WorkingDir": "/"}
    else:
        argv = argv_of(spec, image)
        env = [f"{name}={value}" for name, value in environment_of(spec, image).items()]
        told |= {"Entrypoint": [argv[0]], "Cmd": list(argv[1:]), "Env": env}
        told |= {"WorkingDir": spec.cwd or image.directory or "/"}
    return {**told, "HostConfig": _host(spec, image, facts, setting)}


def _host(spec: LaunchSpec, image: Image, facts: Facts, setting: Setting) -> dict[str, Any]:
    container = container_of(spec)
    privileged = "privileged" in container.allow
    host: dict[str, Any] = {
        "AutoRemove": True,
        "Init": True,
        "LogConfig": {"Type": "none", "Config": {}},
        "NetworkMode": setting.network,
        "IpcMode": "private",
        "CapDrop": ["ALL"],
        "CapAdd": sorted(word.removeprefix("cap:") for word in container.allow if word.startswith("cap:")),
        "SecurityOpt": ["no-new-privileges", f"seccomp={setting.seccomp}"],
        "ReadonlyRootfs": True,
        "MaskedPaths": list(_MASKED),
        "Privileged": privileged,
        "RestartPolicy": {"Name": "no"},
        "Mounts": list(_mounts(spec, container, facts, setting)),
        "Tmpfs": dict(_places(spec, "" if facts.podman else setting.user)),
    }
    _declare(host, spec, image, setting)
    if facts.selinux and setting.command:
        # It would keep the gate from the daemon: who has the label of containers connects to no socket of a person's
        # program. So no mount can ask for `:z` either, which changes labels for everybody and for good.
        host["SecurityOpt"].append("label=disable")
    if privileged:
        # Everything else would be taken back by it anyway; what it says is what it is.
        host["SecurityOpt"] = ["seccomp=unconfined"]
        host["MaskedPaths"] = []
    if setting.network == "none" or isinstance(spec.network, Egress):
        host["Sysctls"] = {"net.ipv4.ip_unprivileged_port_start": "0"}
    if facts.cgroup == 2:
        host["CgroupnsMode"] = "private"
    if container.oci_runtime:
        host["Runtime"] = container.oci_runtime
    if facts.podman and facts.rootless and not container.user:
        host["UsernsMode"] = "keep-id"
    return {**host, **_limits(spec.limits, facts)}


def _limits(limits: Limits, facts: Facts) -> dict[str, Any]:
    host: dict[str, Any] = {}
    if limits.memory is not None and "memory" in facts.controllers:
        # As much with swap as without: none.
        host |= {"Memory": limits.memory, "MemorySwap": limits.memory}
    if limits.pids is not None and "pids" in facts.controllers:
        host["PidsLimit"] = limits.pids + _COMPANIONS
    if limits.cpu is not None and "cpu" in facts.controllers:
        host["NanoCpus"] = int(limits.cpu * 1e9)
    if limits.shm is not None:
        host["ShmSize"] = max(1, limits.shm)
    found = {"nofile": limits.nofile, "fsize": limits.fsize, "core": limits.core}
    if limits.memory is not None:
        found["memlock"] = 0
    host["Ulimits"] = [{"Name": name, "Soft": v, "Hard": v} for name, v in found.items() if v is not None]
    return host


def _places(spec: LaunchSpec, user: str) -> Iterator[tuple[str, str]]:
    """Yield the private places of the server in memory, with their options."""
    uid, _, gid = user.partition(":")
    if uid.isdigit():
        # Without a group in figures it is the one of that number, or whoever has it: the mode keeps it out.
        home = f"mode=0700,uid={uid},gid={gid if gid.isdigit() else uid}"
    else:
        # The figures of a name are in the image, and Podman takes none. There is no other user in a container anyway.
        home = "mode=1777"
    for path, mode, size in (("/tmp", "mode=1777", spec.limits.tmp), (HOME, home, spec.limits.home)):
        sized = "" if size is None else f",size={max(1, size)}"
        yield path, f"rw,nosuid,nodev,{mode}{sized}"
    yield "/run", f"rw,nosuid,nodev,noexec,mode=1777,size={_MIB}"
    if spec.secrets.values:
        needed = sum(len(value.encode()) + _PAGE for _, value in spec.secrets.values)
        # A place of its own: where an image has a directory already, the engine keeps its mode.
        yield os.path.dirname(SECRETS), f"rw,nosuid,nodev,noexec,mode=1777,size={_MIB + needed}"


def _declare(host: dict[str, Any], spec: LaunchSpec, image: Image, setting: Setting) -> None:
    """Decide what is at the places for which an image declares volumes.

    An engine would make volumes there on its disk, of any size. What is written is in memory instead, as at the other
    private places. Only where the program itself is, or where it works, the engine makes a volume of what the image has
    there, which it removes with the container; it makes none that is read-only.
    """
    taken = {os.path.normpath(mount["Target"]) for mount in host["Mounts"]} | host["Tmpfs"].keys()
    used = (*argv_of(spec, image), spec.cwd or image.directory)
    options = host["Tmpfs"][HOME] if setting.user else host["Tmpfs"]["/tmp"]
    for path in image.volumes:
        if path == "/" or any(_is_inside(path, place) for place in (*_CLOSED, os.path.dirname(SECRETS))):
            raise LaunchError(
                f"server {spec.name}: its image declares a volume at {path}, which would hide what starts the server",
                remedy="Use another image; no server needs a volume there.",
                retryable=False,
            )
        needed = any(_is_inside(os.path.normpath(word), path) for word in used if word.startswith("/"))
        if path not in taken and not needed:
            host["Tmpfs"][path] = options


def with_secret_variables(spec: LaunchSpec) -> LaunchSpec:
    """Return what is launched, with the variables that say where its secrets are in the container."""
    paths = tuple((variable, f"{SECRETS}/{variable}") for variable, _ in spec.secrets.values)
    return replace(spec, env=(*spec.env, *paths)) if paths else spec


def _mounts(spec: LaunchSpec, container: Container, facts: Facts, setting: Setting) -> Iterator[dict[str, Any]]:
    for source, target in setting.shown:
        yield _bind(source, target, read_only=True)
    for path in spec.read_only:
        yield _bind(os.path.realpath(path), path, read_only=True)
    for mount in spec.mounts:
        check_mount(spec, mount, facts)
        yield _bind(mount.path, mount.target or mount.path, read_only=mount.access == "ro")
    for name, target, access in container.volumes:
        yield {"Type": "volume", "Source": name, "Target": target, "ReadOnly": access == "ro"}


def _bind(source: str, target: str, *, read_only: bool) -> dict[str, Any]:
    options = {"Propagation": "rprivate"}
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only, "BindOptions": options}


def check_mount(spec: LaunchSpec, mount: Mount, facts: Facts) -> None:
    """Raise `LaunchError` for a mount that a container must not have, or cannot."""
    target = os.path.normpath(mount.target or mount.path)
    what = f"server {spec.name}: mount of {mount.path}" + ("" if target == mount.path else f" at {target}")
    if any(0xDC80 <= ord(letter) <= 0xDCFF for letter in mount.path + target):
        raise LaunchError(
            f"server {spec.name}: mount of {os.fsencode(mount.path)!r}: engines take no path that is not UTF-8",
            remedy="Rename it, or mount a directory above it.",
            retryable=False,
        )
    if not facts.local:
        raise LaunchError(
            f"{what}: the engine is on another machine ({facts.name}), which does not have this path",
            remedy="Use a volume of that engine, or an engine of this machine.",
            retryable=False,
        )
    if mount.path == "/" or target == "/" or any(_is_inside(target, place) for place in _CLOSED):
        raise LaunchError(
            f"{what}: this would open the container", remedy="Name the directories that are needed.", retryable=False
        )
    if any(_is_inside(place, target) for place in (HOME, "/tmp", "/run")) and target != HOME:
        raise LaunchError(
            f"{what}: it would hide a private place of the server", remedy="Name directories below it.", retryable=False
        )
    if "engine-socket" not in (spec.container or Container("")).allow:
        for place in filter(None, (*ENGINE_SOCKETS, *_own_sockets(), facts.socket)):
            if _is_inside(os.path.realpath(place), os.path.realpath(mount.path)):
                raise LaunchError(
                    f"{what}: with {place} the server would be root on this machine",
                    remedy='Name only what it needs, or say permit = ["engine-socket"] if it is to be.',
                    retryable=False,
                )
    if not os.path.lexists(mount.path):
        raise LaunchError(f"{what}: there is no such file or directory", remedy="Create it.", retryable=False)


def check_users(spec: LaunchSpec, facts: Facts) -> None:
    """Raise `LaunchError` for what an engine with users of its own gives no container."""
    wanted = ["privileged"] if "privileged" in container_of(spec).allow else []
    if spec.network == "host":
        wanted.append('network = "host"')
    if facts.remapped and wanted:
        raise LaunchError(
            f"server {spec.name}: {facts.name} has users of its own for containers (userns-remap), and gives no"
            f" container what the entry wants: {' and '.join(wanted)}",
            remedy="Do without, or name another engine in the entry.",
            retryable=False,
        )


def network_of(spec: LaunchSpec, facts: Facts, *, gated: bool) -> str:
    """Return the network mode of a container.

    There is only one with an interface, the machine's own: where rules say what is reached, the container has none, and
    the daemon serves what it may reach.
    """
    if spec.network == "host":
        if "host-network" not in container_of(spec).allow:
            raise IsolationError(
                f"server {spec.name} was not started: it would have the network of the machine",
                remedy='Name what it reaches: network = { allow = […] }, or "internet"; or say network = "host" and'
                ' permit = ["host-network"].',
            )
        return "host"
    if isinstance(spec.network, Egress) and not gated:
        raise IsolationError(
            f"server {spec.name} was not started: its rules for the network cannot be kept on {facts.name}, which is"
            " another machine",
            remedy='Use an engine of this machine, or network = "none".',
        )
    return "none"


def _is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return ("/bin/sh", "-c", value)
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()


def _own_sockets() -> tuple[str, ...]:
    """Return where engines without rights of their own listen: with one a server would be whoever runs the daemon."""
    place = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    return (f"{place}/docker.sock", f"{place}/podman/podman.sock")


def is_ours(name: str) -> bool:
    """Return whether a container has a name of `name_of`, as engines tell it."""
    return name.removeprefix("/").startswith(_PREFIX)


def name_of(server: str, token: str) -> str:
    """Return the name of a container: the engine allows few characters in it."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in server)[:40].strip("-")
    return f"{_PREFIX}{plain or 'server'}-{token}"
