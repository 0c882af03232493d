"""What an entry says of a container: its image, its package, and what it may have that no container has by itself."""

from __future__ import annotations

import difflib
import posixpath
import re
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, WithJsonSchema

from supervisord_mcp.config.daemon import Table
from supervisord_mcp.config.fields import Kind
from supervisord_mcp.config.openings import is_engine_socket, openings

#: A name as engines take it: perhaps a registry, a path, perhaps a tag, perhaps a digest.
_IMAGE = re.compile(
    r"(?:[A-Za-z0-9.-]+(?::\d{1,5})?/|\[[0-9a-fA-F:]+\](?::\d{1,5})?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?|sha256:[0-9a-f]{12,64}"
)
_NPX = re.compile(r"npx:((?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~_][a-z0-9._~-]*@[^@/\\:\s]+)", re.IGNORECASE)
_UVX = re.compile(r"uvx:([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9 ,._-]+\])?==[^;@/\\*,\s]+)")
_PACKAGE = r"^(npx:.+@.+|uvx:.+==.+)$"
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?", re.ASCII)
_ENGINE_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]+", re.ASCII)
_ENGINE_SCHEMES = ("unix", "tcp", "ssh", "http", "https")
#: Programs that run a package of npm or Python; a container for them begins with a base image.
RUNNERS = frozenset({"npx", "npm", "uvx", "uv", "pipx"})

_CAPABILITIES = frozenset(
    {
        *("AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "CHOWN"),
        *("DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL", "LEASE"),
        *("LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_BROADCAST"),
        *("NET_RAW", "PERFMON", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT"),
        *("SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME"),
        *("SYS_TTY_CONFIG", "WAKE_ALARM"),
    }
)
_CAPABILITY = "cap:"
#: What a container of smcp may have besides, where its entry names it.
OPENINGS = ("privileged", "host-network", "engine-socket")
#: What only a command of ``docker run`` may do: MCP is spoken over pipes that a terminal would change, and that a
#: container in the background does not have.
OF_COMMANDS = ("tty", "detach", "host-namespace", "unconfined", "device")
_NEVER = {
    "tty": "a container of smcp never has a terminal, which would change what MCP sends",
    "detach": "a container of smcp is never in the background, where it has no stdin and stdout",
    "host-namespace": "a container of smcp never shares processes, IPC or users with the machine",
    "unconfined": "a container of smcp always has its filter for system calls; see seccomp for what that lets through",
    "device": "a container of smcp has no devices of the machine",
}


def check_image(name: str) -> str:
    """Return the name of an image. Raise `ValueError` for what no engine takes, an option for example."""
    if not _IMAGE.fullmatch(name):
        raise ValueError(
            "is no name of an image; write it like python:3.13-slim, registry.example.com/team/server:2, or with a"
            " digest, NAME@sha256:…"
        )
    return name


def check_package(text: str) -> str:
    """Return a package with its version. Raise `ValueError` that says how it is written."""
    if not _NPX.fullmatch(text) and not _UVX.fullmatch(text):
        raise ValueError('names no package with its version; write "npx:NAME@1.2.3" or "uvx:NAME==1.2.3"')
    return text


def check_user(text: str) -> str:
    """Return a user of a container, or nothing. Raise `ValueError` for anything but names or numbers."""
    if text and not _USER.fullmatch(text):
        raise ValueError('is no user of a container; write "USER", "UID" or "UID:GID"')
    return text


def check_permits(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return openings by their names. Raise `ValueError` for one that there is not."""
    for word in words:
        if word.startswith(_CAPABILITY):
            name = word.removeprefix(_CAPABILITY)
            if name not in _CAPABILITIES:
                near = difflib.get_close_matches(name.upper().removeprefix("CAP_"), sorted(_CAPABILITIES), n=1)
                hint = f'; did you mean "{_CAPABILITY}{near[0]}"?' if near else ""
                raise ValueError(f"{word}: Linux has no such capability{hint}")
        elif word not in (*OPENINGS, *OF_COMMANDS):
            known = (*OPENINGS, *OF_COMMANDS, "cap:NAME")
            near = difflib.get_close_matches(word, known, n=1)
            hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(known)}"
            raise ValueError(f"{word[:40]!r} is nothing that can be permitted; {hint}")
    return words


ImageName = Annotated[str, AfterValidator(check_image), Kind("name of an image")]
Package = Annotated[
    str,
    AfterValidator(check_package),
    WithJsonSchema({"type": "string", "pattern": _PACKAGE}),
    Kind('`"npx:NAME@VERSION"` or `"uvx:NAME==VERSION"`'),
]
Permits = Annotated[tuple[str, ...], AfterValidator(check_permits), Kind("list of names")]


class ContainerDefaults(Table):
    """What containers of packages are made of, and whom they run as."""

    npx: ImageName = Field(
        default="node:22-slim", description="The image in which packages of npm run; it has `node` and `npm`."
    )
    uvx: ImageName = Field(
        default="python:3.13-slim",
        description="The image in which packages of Python run; it has `python3` with venv and pip.",
    )
    user: Annotated[str, AfterValidator(check_user), Kind("user")] = Field(
        default="",
        description="The user in the container, `UID:GID` or a name that the image knows. Without one it is that of the"
        " image, and an ordinary one where the image says root.",
        examples=["1000:1000"],
    )


def package_command(package: str) -> tuple[str, ...]:
    """Return the command that runs a package."""
    runner, _, name = package.partition(":")
    return ("npx", "-y", name) if runner == "npx" else ("uvx", name)


def check_engine(word: str | None) -> str | None:
    """Return how an engine is named. Raise `ValueError` for what names none."""
    if word is None or word.startswith("/") or _ENGINE_WORD.fullmatch(word):
        return word
    scheme, separator, rest = word.partition("://")
    if separator and rest and scheme in _ENGINE_SCHEMES:
        if scheme == "ssh" and (wrong := _wrong_for_ssh(word)):
            raise ValueError(f"{wrong}; write ssh://[USER@]HOST[:PORT][/SOCKET]")
        return word
    raise ValueError(
        "names no engine; write docker, podman, a context of Docker, or a URL like ssh://USER@HOST, tcp://HOST:2376 or"
        " unix:///path"
    )


def _wrong_for_ssh(url: str) -> str:
    """Return what is wrong with a URL for ssh, or nothing."""
    try:
        parts = urlsplit(url)
        named = parts.hostname and (parts.port is None or parts.port)
    except ValueError as error:
        return str(error)
    if not named:
        return "names no machine"
    if parts.password is not None:
        return "has a password, which ssh does not take (it needs a key)"
    return "has more than a machine and a socket" if parts.query or parts.fragment else ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an entry says that concerns containers.

    ``runtime`` is None where its profile decides. ``keys`` are those for containers only with which it says something.
    """

    runtime: str | None
    command: tuple[str, ...]
    args: tuple[str, ...]
    image: str | None
    package: str | None
    keys: tuple[str, ...]
    permit: frozenset[str]
    host_network: bool
    paths: tuple[str, ...]


def container_problem(wanted: Wanted) -> str:
    """Return what in an entry does not go together, for a person; empty where nothing is wrong."""
    if wanted.package and wanted.command:
        return "package takes the place of command; say only one of them"
    if not (wanted.package or wanted.command or wanted.image):
        return "the key 'command' is required, or 'image' or 'package' in its place"
    if not wanted.image:
        for opening in openings((*wanted.command, *wanted.args)):
            if opening.permit not in wanted.permit:
                meant = f'permit = ["{opening.permit}"]'
                return f"command: {opening.option}: {opening.reason}; take it out, or, if it is meant, write {meant}"
    match wanted.runtime:
        case None:
            return ""
        case "container":
            return _contained_problem(wanted)
    if wanted.keys:
        return f'{wanted.keys[0]} is for containers; set runtime = "container"'
    return "" if wanted.command or wanted.package else f'runtime "{wanted.runtime}" needs a command'


def _contained_problem(wanted: Wanted) -> str:
    if not (wanted.image or wanted.package or posixpath.basename(wanted.command[0]) in RUNNERS):
        return 'runtime "container" needs an image: image = "NAME"; only for packages (npx, uvx) it knows one itself'
    if refused := sorted(wanted.permit & set(OF_COMMANDS)):
        return f"permit: {refused[0]}: {_NEVER[refused[0]]}"
    if wanted.host_network and "host-network" not in wanted.permit:
        return (
            'network = "host" gives the container the network of the machine and every service on it; if this is meant,'
            ' write permit = ["host-network"]'
        )
    if (socket := next(filter(is_engine_socket, wanted.paths), None)) and "engine-socket" not in wanted.permit:
        return (
            f"mounts: {socket} is the socket of a container engine, and who reaches that has the machine; if this is"
            ' meant, write permit = ["engine-socket"]'
        )
    return ""
