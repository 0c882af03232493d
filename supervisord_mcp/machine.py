"""The machine that the daemon runs on, and what a child gets of it: a working directory, an environment, programs."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field

from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.config.resolve import ResolvedServer
from supervisord_mcp.errors import LaunchError
from supervisord_mcp.facts import Facts
from supervisord_mcp.runtimes import sandbox
from supervisord_mcp.runtimes.base import Runtime
from supervisord_mcp.runtimes.search import find_command

#: The word in the configuration for what runs in an image, and finds nothing of the machine in it.
CONTAINER = "container"


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the daemon runs: ``environ`` is its own environment, ``path`` is where commands are searched.

    ``own`` are the directories of smcp that no sandbox may show: its sockets, its configuration, its state.
    """

    environ: Mapping[str, str] = field(repr=False)
    home: str
    path: tuple[str, ...]
    own: tuple[str, ...] = ()

    def find(self, name: str) -> str:
        """Return the absolute path of a program. Raise `LaunchError` that names what was searched."""
        return find_command(name, self.path, self.environ, self.home)

    def find_or_none(self, name: str) -> str | None:
        """Return the absolute path of a program, or None where there is none."""
        try:
            return self.find(name)
        except LaunchError:
            return None


def working_directory(done: ResolvedServer, config: ServerConfig, facts: Facts, home: str) -> str | None:
    """Return the working directory: as configured, else the project where the server works on it, else the home."""
    if done.cwd is not None:
        return done.cwd
    bare = config.runtime == "bare"
    if facts.project is not None and (done.uses_project or config.uses_project):
        shown = any(facts.project == path or facts.project.startswith(f"{path}/") for path, _ in done.mounts)
        if bare or shown:
            return facts.project
    return home if bare else None


def environment(
    done: ResolvedServer, machine: Machine, program: str | None, runtime: Runtime
) -> tuple[tuple[str, str], ...]:
    """Return the whole environment: the base that README documents, and over it what the entry says.

    The base has the same names in every runtime, and nothing that makes programs load or do what they would not. Only
    that an image says itself where its programs are.
    """
    base = {"LANG": "C.UTF-8"}
    if runtime.name != CONTAINER:
        # A script that names its interpreter by ``env`` means the one it was installed with.
        path = [*([] if program is None else [os.path.dirname(program)]), *machine.path]
        base["PATH"] = ":".join(dict.fromkeys(path))
    base |= {
        name: value
        for name, value in machine.environ.items()
        if name in ("LANG", "LANGUAGE", "TZ") or name.startswith("LC_")
    }
    if runtime.isolation == "none":
        user = _user(machine.environ)
        tmp = machine.environ.get("TMPDIR", "/tmp")
        base |= {"HOME": machine.home, "USER": user, "LOGNAME": user, "TMPDIR": tmp}
    else:
        base |= {"HOME": sandbox.HOME, "USER": sandbox.USER, "LOGNAME": sandbox.USER, "TMPDIR": "/tmp"}
    return tuple(sorted({**base, **dict(done.env)}.items()))


def _user(environ: Mapping[str, str]) -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return environ.get("USER", str(os.getuid()))
