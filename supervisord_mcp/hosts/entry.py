"""The normal form: what an entry of any host says, in the words and the variables of our own configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.config.variables import PROJECT, names, parse

_DEFAULT = re.compile(r":-[^}]+")


class Scope(StrEnum):
    """For whom an entry counts."""

    USER = "user"
    #: In a file of the project, which others may have written.
    PROJECT = "project"
    #: For one project, but in a file of the person (Claude Code).
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A part of an entry that means something only inside its host.

    ``path`` is the key in the file, ``field`` the same inside of the entry (``env.TOKEN``, ``args[2]``), ``written``
    the part itself, ``why`` a sentence for a person. ``secret`` is true where the host hides it. Where the host
    hands the value to the process in a ``variable``, an entry that keeps it gives our shim the value under that name.
    """

    path: KeyPath
    field: str
    written: str
    why: str
    secret: bool = False
    variable: str | None = None

    @property
    def told(self) -> str:
        """What a person reads of it: a default is not shown, for it may be a secret."""
        return f"{self.field}: {_DEFAULT.sub(':-•••', self.written)}: {self.why}"


@dataclass(frozen=True, slots=True)
class HostEntry:
    """One server in a file of a host. Texts are in our language: ``${NAME}``, ``${project}``, ``$$`` for a dollar sign.

    ``argv`` is the command with its arguments, empty where the server is reached by ``url``. ``project`` is the project
    of an entry that counts for one only. ``env_file`` names a file with more variables, which nobody read. With
    something ``unresolved`` the entry cannot be run outside its host as it is.
    """

    host: str
    file: Path
    scope: Scope
    path: KeyPath
    name: str
    line: int
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    env_file: str | None = None
    disabled: bool = False
    url: str | None = None
    project: Path | None = None
    unresolved: tuple[Unresolved, ...] = ()

    @property
    def stdio(self) -> bool:
        """Whether the host starts a process for it."""
        return bool(self.argv)

    @property
    def words(self) -> tuple[str, ...]:
        """The command, each word plain unless it depends on variables."""
        return tuple(word if (plain := literal(word)) is None else plain for word in self.argv)

    @property
    def names_project(self) -> bool:
        """Whether the host puts the directory that it has open into it."""
        return any(PROJECT in names(text) for text in (*self.argv, *self.env.values(), self.cwd or ""))


def literal(text: str) -> str | None:
    """Return the plain value of a text of our language, or None where it depends on variables."""
    parts = parse(text)
    if not all(isinstance(part, str) for part in parts):
        return None
    return "".join(str(part) for part in parts)
