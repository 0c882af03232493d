"""The command by which a host's entry reaches a server of ours, made and recognised."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from supervisord_mcp import shim
from supervisord_mcp.errors import SmcpError

#: Variables that say where the daemon is; a desktop host is not started with those of the person's shell.
_PLACES = ("SMCP_HOME",)


@dataclass(frozen=True, slots=True)
class Through:
    """An entry that runs through smcp: the server that it names, or "" where it wraps a command; its ``--project``."""

    server: str
    project: str | None = None


def shim_command(server: str, project: Path | str | None) -> tuple[str, ...]:
    """Return the command of a host for a server: absolute, so that it works in the empty PATH of a desktop.

    ``project`` is the project of its sessions, or what the host replaces by the one that it has open.
    """
    if not os.path.isabs(sys.executable):
        raise SmcpError("the Python that runs smcp has no absolute path", remedy="start smcp by its full path")
    # -I and -S: nothing that a host's environment or directory says decides what is loaded.
    words = (sys.executable, "-I", "-S", os.path.abspath(shim.__file__), server)
    return words if project is None else (*words, "--project", str(project))


def shim_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the entry of a host needs, so that its shim finds the daemon of this person."""
    return {name: os.path.abspath(environ[name]) for name in _PLACES if environ.get(name)}


def through(argv: Sequence[str]) -> Through | None:
    """Given the words of an entry, return what it names of ours, or None for a command of its own."""
    for number, word in enumerate(argv):
        path = PurePosixPath(word.replace("\\", "/"))
        rest = argv[number + 1 :]
        if path.name == "shim.py" and path.parent.name == "supervisord_mcp":
            return _through(rest)
        if path.name in ("smcp", "smcp.exe") or (word == "supervisord_mcp" and argv[number - 1] == "-m"):
            match rest:
                case ["connect", *words]:
                    return _through(words)
                case ["wrap", *_]:
                    return Through("")
    return None


def gone_program(argv: Sequence[str]) -> str:
    """Given the words of an entry that runs through smcp, return which program of it is not there any more, else ""."""
    shims = [word for word in argv[1:] if PurePosixPath(word).parts[-2:] == ("supervisord_mcp", "shim.py")]
    programs = (word for word in (argv[0], *shims) if word.startswith("/"))
    return next((word for word in programs if not os.path.exists(word)), "")


def _through(words: Sequence[str]) -> Through:
    """Return the first word that is neither an option nor the value of one, and the value of ``--project``."""
    queue, server, project = list(words), "", None
    while queue:
        word = queue.pop(0)
        if word == "--project":
            project = queue.pop(0) if queue else None
        elif word.startswith("--project="):
            project = word.partition("=")[2]
        elif not word.startswith("-"):
            server = server or word
    return Through(server, project)
