"""One server entry for one session: every variable replaced, every relative path put below the project.

Searching the program in PATH is not done here: what comes out says what is wanted, not what the machine has.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field

from supervisord_mcp.config.document import Origin
from supervisord_mcp.config.exposure import words_of
from supervisord_mcp.config.models import Access, ServerConfig
from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.config.variables import PROJECT, Reference, Variables, expand
from supervisord_mcp.errors import ConfigError, Problem


@dataclass(frozen=True, slots=True)
class ResolvedServer:
    """An entry without variables. ``used`` are the names that were looked up, ``project`` among them.

    ``env`` is sorted, so that its order does not tell equal entries apart; ``mounts`` are as written, since a later one
    can hide an earlier one.
    """

    argv: tuple[str, ...]
    cwd: str | None
    env: tuple[tuple[str, str], ...] = field(repr=False)
    mounts: tuple[tuple[str, Access], ...]
    used: frozenset[str]

    @property
    def uses_project(self) -> bool:
        """Whether the outcome depends on the project of the session."""
        return PROJECT in self.used


def resolve(name: str, server: ServerConfig, variables: Variables, origin: Origin) -> ResolvedServer:
    """Return the entry for one session. Raise `ConfigError` with every reference that stands for nothing.

    Names in ``inherit`` that are not set are left out; ``env`` wins over ``inherit``.
    """
    resolver = _Resolver(name, variables, origin)
    # In a container a path is one of its image.
    first = resolver.text if server.runtime == "container" else resolver.program
    argv = tuple((resolver.text if n else first)(key, text) for n, (key, text) in enumerate(words_of(server)))
    cwd = None if server.cwd is None else resolver.path(("cwd",), server.cwd)
    env = {variable: value for variable in server.inherit if (value := resolver.inherited(variable)) is not None}
    env |= {variable: resolver.text(("env", variable), text) for variable, text in server.env.items()}
    mounts = tuple((resolver.path(("mounts", n, "path"), m.path), m.access) for n, m in enumerate(server.mounts))
    if resolver.problems:
        raise ConfigError(tuple(resolver.problems))
    return ResolvedServer(argv, cwd, tuple(sorted(env.items())), mounts, frozenset(resolver.used))


class _Resolver:
    """Expands the texts of one entry and collects what was used and what is missing."""

    def __init__(self, name: str, variables: Variables, origin: Origin) -> None:
        self.used: set[str] = set()
        self.problems: list[Problem] = []
        self._name = name
        self._variables = variables
        self._origin = origin

    def text(self, key: KeyPath, text: str) -> str:
        """Return a text with its references replaced."""
        expansion = expand(text, self._variables)
        self.used |= expansion.used
        for reference in expansion.missing:
            self._report(key, _missing(reference))
        return expansion.text

    def program(self, key: KeyPath, text: str) -> str:
        """Return a program: a bare name stays one, for PATH to search, and a path is like any other path."""
        reported = len(self.problems)
        program = self.text(key, text)
        bare = program and "/" not in program
        return program if bare or len(self.problems) > reported else self._below_project(key, program)

    def path(self, key: KeyPath, text: str) -> str:
        """Return a path, below the project where it is relative."""
        reported = len(self.problems)
        path = self.text(key, text)
        return path if len(self.problems) > reported else self._below_project(key, path)

    def inherited(self, variable: str) -> str | None:
        """Return the value of a variable that is passed on, or None where it is not set."""
        self.used.add(variable)
        return self._variables.environ.get(variable)

    def _below_project(self, key: KeyPath, path: str) -> str:
        if posixpath.isabs(path):
            return path
        if not path:
            self._report(key, "is empty after its variables were replaced")
            return path
        self.used.add(PROJECT)
        if self._variables.project is None:
            self._report(key, f"is relative to the project, and {_NO_PROJECT}")
            return path
        return posixpath.normpath(posixpath.join(self._variables.project, path))

    def _report(self, key: KeyPath, message: str) -> None:
        self.problems.append(self._origin.problem(self._name, key, message))


_NO_PROJECT = "the session has none; start the host in a project directory, or pass --project"


def _missing(reference: Reference) -> str:
    if reference.tilde:
        return "~ stands for nothing, because HOME is not set"
    if reference.name == PROJECT:
        return f"${{{PROJECT}}} is the project of a session, and {_NO_PROJECT}"
    return (
        f"{reference} is not set, neither for the host nor for the daemon;"
        f" set it, or write ${{{reference.name}:-}} for an empty text"
    )
