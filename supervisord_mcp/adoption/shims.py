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
    """An entry that runs through smcp: the server that it names, or "" where it wraps a command."""

    server: str


def shim_command(server: str, project: Path | None) -> tuple[str, ...]:
    """Return the command of a host for a server: absolute, so that it works in the empty PATH of a desktop."""
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
            return Through(_name(rest))
        if path.name in ("smcp", "smcp.exe") or (word == "supervisord_mcp" and argv[number - 1] == "-m"):
            match rest:
                case ["connect", *words]:
                    return Through(_name(words))
                case ["wrap", *_]:
                    return Through("")
    return None


def _name(words: Sequence[str]) -> str:
    """Return the first word that is neither an option nor the value of one."""
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if word == "--project":
            queue = queue[1:]
        elif not word.startswith("-"):
            return word
    return ""
