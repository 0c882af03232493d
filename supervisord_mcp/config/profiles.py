"""The profiles there are: those of the person in ``profiles/`` beside ``config.toml``, and the shipped ones.

A profile of the person hides the shipped one of the same name, for entries and for other profiles of the person; it may
extend what it hides. Shipped profiles extend shipped ones only, so that they mean the same everywhere.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from supervisord_mcp.config.document import Document, read_document
from supervisord_mcp.config.extending import extended, not_named
from supervisord_mcp.config.faults import faults
from supervisord_mcp.config.fields import SERVER_NAME
from supervisord_mcp.config.lint import risks
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.config.profile import Profile
from supervisord_mcp.config.profile_files import names_in, profiles_directory
from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.errors import ConfigError, Problem, UsageError
from supervisord_mcp.shim import home_directory

#: The profile of every installation, which no entry needs to name.
INSTALL = "install"
#: Longer chains are nobody's intention.
_LONGEST_CHAIN = 16


@dataclass(frozen=True, slots=True)
class Definition:
    """One profile as one file says it; ``shipped`` tells whose file it is."""

    name: str
    shipped: bool
    document: Document
    profile: Profile


@dataclass(frozen=True, slots=True)
class Effective:
    """What a profile comes to: itself over everything that it extends. ``chain`` begins with its own definition."""

    name: str
    profile: Profile
    chain: tuple[Definition, ...]

    @property
    def own(self) -> Definition:
        """Its own file."""
        return self.chain[0]

    def problem(self, path: KeyPath, message: str) -> Problem:
        """Return a fault, placed in the file that says the key."""
        said = (definition for definition in self.chain if path[0] in definition.profile.model_fields_set)
        return next(said, self.own).document.problem(path, message)


def find_profiles(paths: Paths, environ: Mapping[str, str] = os.environ) -> Profiles:
    """Return the profiles of a user. Raise `SmcpError` if the shipped ones are missing."""
    return Profiles(paths.profiles_dir, profiles_directory(), home_directory(environ, os.getuid()))


class Profiles:
    """The profiles of one user, each read when it is first asked for."""

    def __init__(self, own: Path, shipped: Path, home: str) -> None:
        self._own = own
        self._shipped = shipped
        self._home = home
        self._read: dict[tuple[str, bool], Definition] = {}
        self._effective: dict[str, Effective] = {}

    @property
    def directory(self) -> Path:
        """Where the profiles of the person are."""
        return self._own

    def names(self) -> tuple[str, ...]:
        """Return the names of all profiles, faulty ones too."""
        return tuple(sorted(names_in(self._own) | names_in(self._shipped)))

    def file(self, name: str) -> Path:
        """Return the file of a profile. Raise `UsageError`, with the nearest name, where there is none."""
        for directory in (self._own, self._shipped):
            if name in names_in(directory):
                return directory / f"{name}.toml"
        raise UsageError(self.unknown(name), remedy="smcp profile list shows them all")

    def hides(self, name: str) -> bool:
        """Return whether a profile of the person takes the place of a shipped one."""
        return name in names_in(self._own) & names_in(self._shipped)

    def unknown(self, name: str) -> str:
        """Return the words for a profile that does not exist."""
        near = difflib.get_close_matches(name, self.names(), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else f"; there are {', '.join(self.names())}"
        return f"no profile '{name}'{hint}"

    def effective(self, name: str) -> Effective:
        """Return what a profile comes to. Raise `ConfigError` with everything that is wrong with it.

        Raise `UsageError` where there is no such profile.
        """
        if name not in self._effective:
            file = self.file(name)
            self._effective[name] = self._judged(self._definition(name, shipped=file.parent == self._shipped))
        return self._effective[name]

    def judge(self, file: Path) -> Effective:
        """Return what the profile in any file comes to, as if it were one of the person. Raise as `effective`."""
        return self._judged(_defined(file.stem, file, shipped=False))

    def _judged(self, definition: Definition) -> Effective:
        chain = self._chain(definition)
        profile, problems = chain[-1].profile, list[Problem]()
        for child in reversed(chain[:-1]):
            problems += (child.document.problem(path, what) for path, what in not_named(profile, child.profile))
            profile = extended(profile, child.profile)
        found = Effective(definition.name, profile, chain)
        if not profile.dangerous:
            hint = "take it out, or say dangerous = true and the reason"
            problems += (found.problem(path, f"{risk}; {hint}") for path, risk in risks(profile, self._home))
        if problems:
            raise ConfigError(tuple(problems))
        return found

    def _chain(self, definition: Definition) -> tuple[Definition, ...]:
        chain = [definition]
        while (wanted := chain[-1].profile.extends) is not None:
            last = chain[-1]
            parent = self._parent(last, wanted)
            if any((link.name, link.shipped) == (parent.name, parent.shipped) for link in chain):
                way = " → ".join([*(link.name for link in chain), wanted])
                raise ConfigError((last.document.problem(("extends",), f"goes round in a circle: {way}"),))
            chain.append(parent)
            if len(chain) > _LONGEST_CHAIN:
                raise ConfigError((last.document.problem(("extends",), f"more than {_LONGEST_CHAIN} in a chain"),))
        return tuple(chain)

    def _parent(self, child: Definition, name: str) -> Definition:
        """Return the profile that another one extends."""
        hidden = child.shipped or name == child.name  # what it hides itself, it still can extend
        for directory in (self._shipped,) if hidden else (self._own, self._shipped):
            if name in names_in(directory):
                return self._definition(name, shipped=directory == self._shipped)
        what = f"it extends itself, and no '{name}' is shipped" if name == child.name else self.unknown(name)
        raise ConfigError((child.document.problem(("extends",), what),))

    def _definition(self, name: str, *, shipped: bool) -> Definition:
        key = (name, shipped)
        if key not in self._read:
            directory = self._shipped if shipped else self._own
            self._read[key] = _defined(name, directory / f"{name}.toml", shipped=shipped)
        return self._read[key]


def _defined(name: str, file: Path, *, shipped: bool) -> Definition:
    problems: list[Problem] = []
    if not SERVER_NAME.fullmatch(name):
        problems.append(Problem(str(file), None, "", f"{name!r} cannot be the name of a profile"))
    document = read_document(file, None, problems)
    if document is None:
        raise ConfigError(tuple(problems) or (Problem(str(file), None, "", "there is no such file"),))
    try:
        profile = Profile.model_validate(document.data)
    except ValidationError as error:
        found = (document.problem(path, message) for path, message in faults(error, Profile))
        problems += sorted(found, key=lambda problem: problem.line or 0)
    if problems:
        raise ConfigError(tuple(problems))
    return Definition(name, shipped, document, profile)
