"""What there is on this machine for running and isolating servers: facts only, found by looking and by short trials."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from supervisord_mcp import systemd
from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes import hierarchy
from supervisord_mcp.runtimes.base import Lack
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.landlock import ruleset
from supervisord_mcp.runtimes.landlock.runtime import LandlockRuntime
from supervisord_mcp.runtimes.search import find_command, search_path

_PATIENCE = 10
_USERNS = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
)
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:[-+~][\w.+~-]+)?")


@dataclass(frozen=True, slots=True)
class Engine:
    """A container engine that is installed: its own version, and why it cannot be used, empty where it can."""

    name: str
    version: str
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts. A version is empty where the program is there and does not tell it, None where it is not there.

    ``namespaces`` are the settings of the kernel for user namespaces, by file, as far as they exist. ``groups`` is
    the version of control groups in which the daemon may make its own, with their controllers; ``scopes`` is
    whether there is a service manager that a daemon without one asks for it. ``sandbox`` and ``reduced`` are what is
    missing for each of the two levels of isolation. ``container`` names what this machine itself runs in.
    """

    kernel: str
    root: bool
    namespaces: Mapping[str, str]
    container: str
    bwrap: str | None
    sandbox: tuple[Lack, ...]
    landlock: int
    reduced: tuple[Lack, ...]
    groups: tuple[int, frozenset[str]] | None
    scopes: bool
    engines: tuple[Engine, ...]
    runc: str | None
    node: str | None
    uv: str | None


def examine(environ: Mapping[str, str], home: str, extra: Sequence[str] = ()) -> Machine:
    """Look at this machine; ``extra`` are directories with programs beside the usual ones. It may take seconds."""
    path = search_path(extra, environ, home)

    def version(program: str, *words: str) -> str | None:
        try:
            found = find_command(program, path, environ, home)
        except LaunchError:
            return None
        return _version(_output([found, *words], environ))

    found = hierarchy.detect()
    return Machine(
        kernel=platform.release(),
        root=os.geteuid() == 0,
        namespaces=_settings(),
        container=_container(),
        bwrap=version("bwrap", "--version"),
        sandbox=BwrapRuntime().check(),
        landlock=ruleset.version(),
        reduced=LandlockRuntime("").check(),
        groups=None if found is None else (found.version, found.controllers),
        scopes=systemd.find_bus(environ) is not None,
        engines=_engines(environ, version),
        runc=version("runc", "--version"),
        node=version("node", "--version"),
        uv=version("uv", "--version"),
    )


@dataclass(frozen=True, slots=True)
class Room:
    """What is left on the disk of a directory: bytes, and files; None where a file system has no such number."""

    directory: str
    free: int
    files: int | None


def room(directory: str) -> Room:
    """Look how much room there is for what a directory is to hold, which need not be there yet."""
    place = directory
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    found = os.statvfs(place)
    return Room(directory, found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None)


def _engines(environ: Mapping[str, str], version: Callable[..., str | None]) -> tuple[Engine, ...]:
    found = []
    for name in ("docker", "podman"):
        own = version(name, "--version")
        if own is None:
            continue
        # Where it is not let in, "docker info" fails in its own template.
        asking = ["version", "--format", "{{.Server.Version}}"]
        if name == "podman":
            asking = ["info", "--format", "{{.Version.Version}}"]
        done = _run([shutil.which(name, path=environ.get("PATH")) or name, *asking], environ)
        trouble = (
            "" if done.returncode == 0 and done.stdout.strip() else _last_line(done.stderr) or "it does not answer"
        )
        found.append(Engine(name, own, trouble))
    return tuple(found)


def _settings() -> dict[str, str]:
    found = {}
    for path in _USERNS:
        try:
            with open(path, encoding="ascii") as file:
                found[path] = file.read().strip()
        except OSError:
            continue
    return found


def _container() -> str:
    """Return what this machine is a container of, empty where it is none as far as one can tell."""
    if os.path.exists("/.dockerenv"):
        return "docker"
    if os.path.exists("/run/.containerenv"):
        return "podman"
    try:
        with open("/proc/1/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return ""
    return next((e.partition(b"=")[2].decode(errors="replace") for e in entries if e.startswith(b"container=")), "")


def _version(text: str) -> str:
    match = _VERSION.search(text)
    return match[0] if match else ""


def _output(words: Sequence[str], environ: Mapping[str, str]) -> str:
    done = _run(words, environ)
    return done.stdout or done.stderr


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def _run(words: Sequence[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 1, "", f"it does not answer within {_PATIENCE:g} s")
    except (OSError, subprocess.SubprocessError) as error:
        return subprocess.CompletedProcess(words, 1, "", str(error))
