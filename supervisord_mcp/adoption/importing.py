"""From entries of hosts to servers of ours: which are one and the same, what they are called, what is left alone.

Nothing is written here. What several hosts start in the same way becomes one server; two that only have the same name
become two with clear names.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from supervisord_mcp.adoption.dotenv import read_variables
from supervisord_mcp.adoption.needs import WHOLE_PROJECT, Needs, Place, Wanted, lacking, needs
from supervisord_mcp.adoption.shims import gone_program, through
from supervisord_mcp.adoption.specs import fingerprint
from supervisord_mcp.adoption.tokens import has_token, secret_words, secrets_in
from supervisord_mcp.config.fields import SERVER_NAME, VARIABLE_NAME
from supervisord_mcp.config.naming import LONGEST_NAME, wrapped_name
from supervisord_mcp.config.variables import HOME, PROJECT, names, parse
from supervisord_mcp.hosts.entry import HostEntry, Scope, literal

_READABLE = "a secret that every user of this machine can read while it runs: give it in a variable"


class Why(StrEnum):
    """Why an entry is left as it is."""

    THROUGH = "through smcp"
    URL = "url"
    UNRESOLVED = "unresolved"
    EXPOSED = "secret in its command"
    UNTRUSTED = "not trusted"
    UNSHOWABLE = "cannot be isolated"
    FOREIGN = "of Windows"


@dataclass(frozen=True, slots=True)
class Left:
    """An entry that is left alone; ``told`` are the reasons, each with the key where there is one."""

    entry: HostEntry
    why: Why
    told: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Server:
    """A server of ours for one or more entries of hosts.

    ``table`` is its entry as TOML has it, without ``secrets``: the plain values, by variable, that go to the vault.
    ``there`` says that the configuration has it already; ``directories`` are to be made for it. ``lacking``
    says in words that its program is not found here.
    """

    name: str
    table: Mapping[str, Any] = field(repr=False)
    secrets: Mapping[str, str] = field(repr=False)
    sources: tuple[HostEntry, ...] = field(default=(), repr=False)
    fingerprint: str = ""
    remarks: tuple[str, ...] = ()
    there: bool = False
    directories: tuple[str, ...] = ()
    lacking: str = ""


@dataclass(frozen=True, slots=True)
class Again:
    """An entry that reaches ``server`` by a program of smcp that is ``gone``: an environment that was made anew."""

    entry: HostEntry
    server: str
    project: str | None
    gone: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be imported, what would be written again, and what is left alone."""

    servers: tuple[Server, ...] = ()
    left: tuple[Left, ...] = ()
    again: tuple[Again, ...] = ()

    def without(self, names: Container[str]) -> Plan:
        """Return the plan without some servers."""
        return replace(self, servers=tuple(server for server in self.servers if server.name not in names))

    def server_of(self, entry: HostEntry) -> Server | None:
        """Return the server that an entry becomes, or None if it is left alone."""
        return next((one for one in self.servers if any(_same(entry, source) for source in one.sources)), None)

    def again_of(self, entry: HostEntry) -> Again | None:
        """Return how an entry is written again, or None if it is not."""
        return next((one for one in self.again if _same(entry, one.entry)), None)


def _same(one: HostEntry, other: HostEntry) -> bool:
    return (one.host, one.file, one.path) == (other.host, other.file, other.path)


@dataclass(frozen=True, slots=True)
class Known:
    """What the configuration has: the words of the command of each server, and which servers are the same as an entry.

    ``path`` has the directories in which it wants commands searched first.

    Both maps give servers by fingerprints: ``same`` by what they are now, ``imported`` by the entry that they were made
    of, whose secrets are not in the configuration any more.
    """

    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)
    imported: Mapping[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()

    def server(self, fingerprint: str, *commands: tuple[str, ...]) -> str | None:
        """Return the server for an entry that is there already, or None. One that runs another command now is not."""
        made = self.imported.get(fingerprint)
        if made is not None and self.commands.get(made) in commands:
            return made
        return self.same.get(fingerprint)


@dataclass(frozen=True, slots=True)
class Rules:
    """Where we are, which project files are trusted as they are now, and what every server shall reach, if not None."""

    place: Place
    trusted: frozenset[Path] = frozenset()
    network: str | None = None

    def at(self, entry: HostEntry) -> Place:
        """Return the place of an entry."""
        return replace(self.place, project=None if entry.project is None else str(entry.project))


def plan(entries: Iterable[HostEntry], known: Known, rules: Rules) -> Plan:
    """Given entries in the order of their hosts and what is there already, return what would be imported."""
    groups: dict[str, list[HostEntry]] = {}
    left: list[Left] = []
    again: list[Again] = []
    for written in entries:
        if found := _through(written, known, rules):
            if isinstance(found, Again):
                again.append(found)
            else:
                left.append(found)
            continue
        entry, problem = _with_file(written, rules)
        if reason := problem or _left(entry, rules):
            left.append(reason)
        else:
            groups.setdefault(fingerprint(entry, rules.at(entry)), []).append(entry)
    taken = set(known.commands)
    servers: list[Server] = []
    for print_, group in groups.items():
        # The one that names variables instead of values says more.
        best = min(group, key=lambda entry: len(_plain_secrets(entry)))
        asked = _needs(best, rules)
        if asked.obstacle:
            left += (Left(entry, Why.UNSHOWABLE, (asked.obstacle,)) for entry in group)
            continue
        there = known.server(print_, best.argv, (*best.argv, *asked.words))
        name = there or _name(group, taken)
        taken.add(name)
        server = _server(name, best, asked, rules.at(best))
        absent = lacking(best.argv, rules.at(best), known.path)
        if absent:
            told = f"{absent}: it does not start before that is there, so smcp adopt leaves it with its host"
            server = replace(server, remarks=(told, *server.remarks), lacking=absent)
        servers.append(replace(server, sources=tuple(group), fingerprint=print_, there=there is not None))
    return Plan(tuple(servers), tuple(left), tuple(again))


def _through(entry: HostEntry, known: Known, rules: Rules) -> Again | Left | None:
    """Return what becomes of an entry that runs through smcp; None for others."""
    found = through(entry.words)
    if found is None:
        return None
    gone = gone_program(entry.words)
    if not gone:
        return Left(entry, Why.THROUGH, ())
    if untrusted := _untrusted(entry, rules):
        return untrusted
    told = f"it starts {gone}, which is not there any more"
    if found.server not in known.commands:
        return Left(entry, Why.THROUGH, (f"{told}, and smcp has no server '{found.server}'",))
    if found.project is not None and "${" in found.project.replace(WHOLE_PROJECT, ""):
        return Left(entry, Why.THROUGH, (f"{told}, and only the host knows the project {found.project}",))
    return Again(entry, found.server, found.project, told)


def _with_file(entry: HostEntry, rules: Rules) -> tuple[HostEntry, Left | None]:
    """Return an entry with the variables of the file that it names, or why it is left alone."""
    if entry.env_file is None or not entry.stdio:
        return entry, None
    place = rules.at(entry)
    path = place.expand(entry.env_file)
    try:
        if path is None or not (path.startswith("/") or place.project):
            raise ValueError("nobody knows where that is")
        variables = read_variables(Path(place.project or "/") / path)
    except OSError as error:
        problem = f"envFile: {entry.env_file}: {error.strerror}"
    except ValueError as error:
        problem = f"envFile: {entry.env_file}: {error}"
    else:
        return replace(entry, env={**variables, **entry.env}), None
    return entry, Left(entry, Why.UNRESOLVED, (problem,))


def _left(entry: HostEntry, rules: Rules) -> Left | None:
    if entry.url is not None and not entry.stdio:
        return Left(entry, Why.URL, ("it is reached by its address",))
    if told := tuple(one.told for one in entry.unresolved if not one.variable):
        return Left(entry, Why.UNRESOLVED, told)
    if told := tuple(f"args[{n - 1}]: {_READABLE}" for n, word in enumerate(entry.argv) if n and has_token(word)):
        return Left(entry, Why.EXPOSED, told)
    return _untrusted(entry, rules)


def _untrusted(entry: HostEntry, rules: Rules) -> Left | None:
    if entry.scope is not Scope.PROJECT or entry.file in rules.trusted:
        return None
    told = f"anybody who can change the project can change it: look at it, then smcp trust {entry.file}"
    return Left(entry, Why.UNTRUSTED, (told,))


def _needs(entry: HostEntry, rules: Rules) -> Needs:
    wanted = Wanted(entry.argv, entry.env, entry.cwd, inside=entry.scope is Scope.PROJECT)
    return needs(wanted, rules.at(entry), rules.network)


def _plain_secrets(entry: HostEntry) -> dict[str, str]:
    kept = handed_on(entry)
    values = {
        name: plain for name, text in entry.env.items() if name not in kept and (plain := literal(text)) is not None
    }
    return secrets_in(values)


def handed_on(entry: HostEntry) -> frozenset[str]:
    """Return the variables that the host goes on giving, as it alone may know what they are made of.

    Many hosts start servers with a few variables of their own environment only.
    """
    hidden = {one.variable for one in entry.unresolved if one.variable}
    made = {variable for variable, text in entry.env.items() if names(text) - {PROJECT, HOME}}
    return frozenset(variable for variable in hidden | made if VARIABLE_NAME.fullmatch(variable))


def _handed(variable: str, text: str, *, only: bool) -> str:
    """Return what a server gets: what the host gives, else (unless ``only``) what the text means to smcp itself."""
    if only:
        return f"${{{variable}}}"
    whole = f"${{{variable}:-{text}}}"
    try:
        # A brace in the text would end the default.
        fits = len(parse(whole)) == 1
    except ValueError:
        fits = False
    return whole if fits and variable not in names(text) else text


def _server(name: str, best: HostEntry, asked: Needs, place: Place) -> Server:
    """Return the server that an entry becomes."""
    secrets = _plain_secrets(best)
    handed, hidden = handed_on(best), {one.variable for one in best.unresolved if one.variable}
    texts = {**dict.fromkeys(sorted(hidden), ""), **best.env}
    env = {
        variable: text if variable not in handed else _handed(variable, text, only=variable in hidden)
        for variable, text in texts.items()
        if variable not in secrets
    }
    settings = dict(asked.settings)
    env = {**settings.pop("env", {}), **env}
    table: dict[str, Any] = {"command": [*best.argv, *asked.words], "env": env, "cwd": best.cwd, **settings}
    if best.scope is Scope.PROJECT:
        table["project_file"] = str(best.file)
    # The sessions of a browser share nothing anyway.
    if (best.scope is Scope.PROJECT or best.names_project) and settings.get("profile") != "browser":
        table["scope"] = "project"
    table = {key: value for key, value in table.items() if value not in ({}, None)}
    return Server(name, table, secrets, remarks=(*asked.remarks, *_remarks(best, place)), directories=asked.directories)


def _remarks(entry: HostEntry, place: Place) -> Iterator[str]:
    """Yield what a person should know of an entry before it is imported."""
    for number in secret_words(entry.words):
        if number:
            yield f"args[{number - 1}]: {_READABLE}"
    for one in entry.unresolved:
        yield f"{one.field} is known to its host alone ({one.why}), which goes on giving it"
    fields = [("command" if not number else f"args[{number - 1}]", word) for number, word in enumerate(entry.argv)]
    fields += [(f"env.{variable}", text) for variable, text in entry.env.items()]
    for key, text in (*fields, ("cwd", entry.cwd or "")):
        for missing in sorted(place.missing(text)):
            yield f"{key}: ${{{missing}}} is not set here: the server starts only where it is set for its host"
    if entry.env_file is not None:
        yield f"its variables were copied from {entry.env_file}, which is not read any more"
    if entry.disabled:
        yield "it is disabled in its host and stays so"


def _name(group: Sequence[HostEntry], taken: set[str]) -> str:
    """Return a name for a new server: that of its entries, else with their project or host, else with a number."""
    for candidate in _names(group):
        if candidate not in taken:
            return candidate
    raise AssertionError("numbers do not end")


def _names(group: Sequence[HostEntry]) -> Iterator[str]:
    entry = group[0]
    base = _clean(entry.name) or wrapped_name(entry.argv)
    yield base
    whose = entry.host if entry.project is None else _clean(entry.project.name) or entry.host
    longer = f"{base}-{whose}"[:LONGEST_NAME].rstrip("-.") if len({one.host for one in group}) == 1 else base
    yield longer
    number = 2
    while True:
        yield f"{longer}-{number}"
        number += 1


def _clean(name: str) -> str:
    if SERVER_NAME.fullmatch(name) and len(name) <= LONGEST_NAME:
        return name
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:LONGEST_NAME].rstrip("-.")
