"""Which package a command such as ``npx -y NAME`` asks for.

What is not understood to the last word is no request: it runs as it is written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["npm", "python"]

_NPM = re.compile(r"((?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~_][a-z0-9._~-]*)(?:@([^@/\\:\s]+))?$", re.IGNORECASE)
_PYTHON = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(\[[A-Za-z0-9 ,._-]+\])?\s*((?:[=<>!~]=|[<>]|===)[^;@/\\]+)?$"
)
_EXACT_NPM = re.compile(r"v?\d+\.\d+\.\d+")
_EXACT_PYTHON = re.compile(r"={2,3}\s*[^*,\s]+$")


@dataclass(frozen=True, slots=True)
class Request:
    """A package to install and the command of it to run.

    ``requirements`` are the installer's words, the first one is the package that ``command`` is from. ``pinned`` says
    that they can only ever mean one version.
    """

    kind: Kind
    requirements: tuple[str, ...]
    command: str | None
    args: tuple[str, ...]
    pinned: bool
    python: str | None = None

    @property
    def shown(self) -> str:
        """The packages as a person names them."""
        return ", ".join(self.requirements)


@dataclass(slots=True)
class _Words:
    """The words of a command, read from the front: options that are known, then the first plain word and the rest."""

    flags: frozenset[str]
    values: dict[str, str]
    given: dict[str, list[str]]
    plain: str | None = None
    rest: tuple[str, ...] = ()

    def read(self, words: Sequence[str]) -> bool:
        """Return whether every option was understood."""
        queue = list(words)
        while queue:
            word = queue.pop(0)
            name, equals, value = word.partition("=")
            if word == "--":
                word = queue.pop(0) if queue else ""
                self.plain, self.rest = word or None, tuple(queue)
                return bool(word)
            if not word.startswith("-"):
                self.plain, self.rest = word, tuple(queue)
                return True
            if word in self.flags:
                continue
            if name not in self.values or not (equals or queue):
                return False
            self.given.setdefault(self.values[name], []).append(value if equals else queue.pop(0))
        return False


def recognise(argv: Sequence[str]) -> Request | None:
    """Given a command, return the package it asks for, or None for any other command."""
    program = os.path.basename(argv[0])
    for words, read in _FORMS:
        if (program, *argv[1 : len(words)]) == words:
            return read(argv[len(words) :])
    return None


def _npm(words: Sequence[str]) -> Request | None:
    read = _Words(
        flags=frozenset({"-y", "--yes", "-q", "--quiet", "--silent", "--prefer-offline", "--prefer-online"}),
        values={"-p": "package", "--package": "package"},
        given={},
    )
    if not read.read(words) or read.plain is None:
        return None
    requirements = tuple(read.given.get("package", ())) or (read.plain,)
    matches = [_NPM.match(requirement) for requirement in requirements]
    if not all(matches) or (read.given and "/" in read.plain):
        return None
    pinned = all(match and match[2] and _EXACT_NPM.match(match[2]) for match in matches)
    return Request("npm", requirements, read.plain if read.given else None, read.rest, pinned)


def _python(words: Sequence[str], options: dict[str, str]) -> Request | None:
    read = _Words(
        flags=frozenset({"-q", "--quiet", "--isolated"}),
        values={"-p": "python", "--python": "python", **options},
        given={},
    )
    if not read.read(words) or read.plain is None:
        return None
    first, command = _python_target(read.plain, read.given.get("from"))
    requirements = (first, *read.given.get("with", ()))
    if not command or not all(map(_PYTHON.match, requirements)):
        return None
    pinned = all(map(_EXACT_PYTHON.search, requirements))
    python = read.given.get("python", [None])[-1]
    return Request("python", requirements, command, read.rest, pinned, python)


def _python_target(plain: str, source: list[str] | None) -> tuple[str, str]:
    """Return the requirement and the command that ``NAME``, ``NAME@VERSION`` or a source with a command stand for."""
    if source is not None:
        name, at, version = source[-1].partition("@")
        pinned = f"{name}=={version}" if at and version != "latest" else name
        return pinned, "" if "/" in plain else plain
    name, at, version = plain.partition("@")
    match = _PYTHON.match(name)
    command = match[1] if match else ""
    return (f"{name}=={version}" if at and version != "latest" else name), command


def _uvx(words: Sequence[str]) -> Request | None:
    return _python(words, {"--from": "from", "--with": "with", "-w": "with"})


def _pipx(words: Sequence[str]) -> Request | None:
    return _python(words, {"--spec": "from"})


_FORMS: tuple[tuple[tuple[str, ...], Callable[[Sequence[str]], Request | None]], ...] = (
    (("npx",), _npm),
    (("npm", "exec"), _npm),
    (("npm", "x"), _npm),
    (("uvx",), _uvx),
    (("uv", "tool", "run"), _uvx),
    (("pipx", "run"), _pipx),
)


def python_name(requirement: str) -> str:
    """Return the name of the package in a requirement of Python."""
    match = _PYTHON.match(requirement)
    return match[1] if match else requirement


def npm_name(requirement: str) -> str:
    """Return the name of the package in a requirement of npm."""
    match = _NPM.match(requirement)
    return match[1] if match else requirement
