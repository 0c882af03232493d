"""Where an engine is: what an entry names, else what the person's own settings say, else the usual sockets.

The order is that of the programs themselves: ``DOCKER_HOST``, ``DOCKER_CONTEXT``, the current context of ``docker
context use``. Of the usual sockets those of the person come before those of the machine, for an engine without rights
of root is the safer one.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

_INSTALL = (
    "Start it (Docker: sudo systemctl start docker, Podman: systemctl --user enable --now podman.socket), install one\n"
    "(Debian: apt install docker.io), or say where it is, in DOCKER_HOST or in `engine` of the entry."
)
_ENTRY = "engine in config.toml"
_SCHEMES = ("unix", "tcp", "ssh", "http", "https")
_REACH_SECONDS = 2.0
#: The sockets of the engines of the machine, which root runs.
_OF_MACHINE = {"docker": "/var/run/docker.sock", "podman": "/run/podman/podman.sock"}


@dataclass(frozen=True, slots=True)
class Place:
    """An engine: its address, and who said that it is there.

    ``path`` is its socket where it is one of this machine. ``certificates`` is a directory for TLS, ``verified``
    whether that of the engine is looked at.
    """

    url: str
    origin: str
    certificates: str = ""
    verified: bool = True
    remedy: str = _INSTALL

    @property
    def path(self) -> str | None:
        """The path of its socket, None for an engine on another machine."""
        return self.url.removeprefix("unix://") if self.url.startswith("unix://") else None


def find_place(word: str, environ: Mapping[str, str]) -> Place:
    """Given what an entry names as its engine, or nothing, return where it is, as far as can be told.

    A place where nothing answers is no error here: it is when somebody connects.
    """
    if word in ("docker", "podman", ""):
        return _usual(word, environ)
    if urlsplit(word).scheme in _SCHEMES:
        return _at(word, _ENTRY, environ)
    if word.startswith("/"):
        return _at(f"unix://{word}", _ENTRY, environ)
    return _context(word, _ENTRY, environ)


def _usual(word: str, environ: Mapping[str, str]) -> Place:
    if word != "podman":
        if host := environ.get("DOCKER_HOST"):
            return _at(host, "DOCKER_HOST", environ)
        if context := environ.get("DOCKER_CONTEXT"):
            return _context(context, "DOCKER_CONTEXT", environ)
        context = str(_read(os.path.join(_settings(environ), "config.json")).get("currentContext") or "default")
        if context != "default":
            return _context(context, "docker context", environ)
    if word != "docker" and (host := environ.get("CONTAINER_HOST")):
        return _at(host, "CONTAINER_HOST", environ)
    sockets = _sockets(word, environ)
    there = [path for path in sockets if os.path.exists(path)]
    best = next((path for path in there if _answers(path)), None) or next(iter(there), None)
    if best is not None:
        return Place(f"unix://{best}", "found by itself")
    return Place(f"unix://{sockets[-1]}", f"looked for {', '.join(sockets)}")


def _sockets(word: str, environ: Mapping[str, str]) -> list[str]:
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    home = environ.get("HOME") or os.path.expanduser("~")
    docker = [f"{runtime}/docker.sock", f"{home}/.docker/run/docker.sock", f"{home}/.docker/desktop/docker.sock"]
    podman = [f"{runtime}/podman/podman.sock"]
    found = {"docker": [*docker, _OF_MACHINE["docker"]], "podman": [*podman, _OF_MACHINE["podman"]]}
    return found.get(word) or [*docker, *podman, _OF_MACHINE["podman"], _OF_MACHINE["docker"]]


def _at(url: str, origin: str, environ: Mapping[str, str]) -> Place:
    scheme = urlsplit(url).scheme
    directory = ""
    verified = bool(environ.get("DOCKER_TLS_VERIFY"))
    if scheme in ("tcp", "https") and (verified or environ.get("DOCKER_CERT_PATH")):
        directory = environ.get("DOCKER_CERT_PATH") or _settings(environ)
    return Place(url, origin, directory, verified, f"Start it there, or change what says that it is there: {origin}.")


def _context(name: str, origin: str, environ: Mapping[str, str]) -> Place:
    """Return the place of a context of Docker (``docker context ls``)."""
    if name == "default":
        return _usual("docker", {**environ, "DOCKER_CONTEXT": "", "DOCKER_CONFIG": os.devnull})
    folder = hashlib.sha256(name.encode()).hexdigest()
    contexts = os.path.join(_settings(environ), "contexts")
    found = _read(os.path.join(contexts, "meta", folder, "meta.json"))
    endpoint = (found.get("Endpoints") or {}).get("docker") or {}
    remedy = f"There is no such context, or it has no engine: docker context inspect {name}"
    if not endpoint.get("Host"):
        return Place(f"unix://{contexts}/meta/{folder}", f"{origin}: {name}", remedy=remedy)
    certificates = os.path.join(contexts, "tls", folder, "docker")
    return Place(
        str(endpoint["Host"]),
        f"{origin}: {name}",
        certificates if os.path.isdir(certificates) else "",
        not endpoint.get("SkipTLSVerify", False),
        remedy=f"See docker context inspect {name}",
    )


def _settings(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME") or os.path.expanduser("~")
    return environ.get("DOCKER_CONFIG") or os.path.join(home, ".docker")


def _read(path: str) -> Mapping[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _answers(path: str) -> bool:
    try:
        reach(path, _REACH_SECONDS)
    except OSError:
        return False
    return True


def reach(path: str, seconds: float) -> None:
    """Connect to a socket of this machine, and hang up. Raise `OSError` where nobody listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(seconds)
        trial.connect(path)
