"""Carries out what was planned: secrets into the vault, servers into the configuration, the shim into files of hosts.

In this order, so that an entry of a host never names a server that is not there. A file is changed in one step or not
at all; it stays as it is where it was changed meanwhile.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from supervisord_mcp.adoption.importing import Plan, Server, handed_on
from supervisord_mcp.adoption.needs import WHOLE_PROJECT
from supervisord_mcp.adoption.records import Keys, Record, Records, Replaced, backup_names, now
from supervisord_mcp.adoption.shims import shim_command, shim_environment
from supervisord_mcp.config import edit
from supervisord_mcp.config.load import load
from supervisord_mcp.config.paths import Paths, create_directory
from supervisord_mcp.config.source import written
from supervisord_mcp.config.trust import Trust
from supervisord_mcp.config.variables import escape
from supervisord_mcp.errors import HostFileError, SmcpError
from supervisord_mcp.hosts.base import Dialect
from supervisord_mcp.hosts.edits import Replacement
from supervisord_mcp.hosts.entry import HostEntry, Scope
from supervisord_mcp.hosts.files import Change, FileChangedError, Reading, change, read, read_content, write


class Stored(NamedTuple):
    """What an entry of ours names a secret by, and whether the secret was not there before."""

    reference: str
    new: bool


#: A file that changes under our hands more often than this is not being used by a person.
ATTEMPTS = 5
#: Given a name and a value, stores the secret. Raises `SmcpError`.
Store = Callable[[str, str], Stored]
#: Given what an entry of ours named a secret by, removes it. Raises `SmcpError`.
Drop = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class World:
    """Where things are kept, and the environment of the person."""

    paths: Paths
    environ: Mapping[str, str] = field(repr=False)
    store: Store
    drop: Drop


@dataclass(frozen=True, slots=True)
class Made:
    """What was made for one server: new secrets, new directories, and the notes that went for its own."""

    secrets: tuple[str, ...]
    directories: tuple[Path, ...]
    gone: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the servers, by their names.

    Why some were not taken over, why secrets of some could not go to the vault, and what was made for new ones.
    """

    failed: Mapping[str, SmcpError]
    exposed: Mapping[str, SmcpError]
    made: Mapping[str, Made]


@dataclass(frozen=True, slots=True)
class Draft:
    """One file as it would become, and the servers that its entries name then, by their paths, some of them ``again``.

    Without a ``change`` there is nothing to do, or ``trouble`` says why not.
    """

    reading: Reading
    servers: Mapping[Keys, str]
    again: Collection[Keys] = ()
    change: Change | None = None
    trouble: SmcpError | None = None


def import_servers(plan: Plan, world: World) -> Imported:
    """Put the servers of a plan into the configuration, each with its secrets in the vault."""
    failed: dict[str, SmcpError] = {}
    exposed: dict[str, SmcpError] = {}
    made: dict[str, Made] = {}
    records = Records.of(world.paths)
    for server in plan.servers:
        try:
            if server.there:
                records.note_imported({server.fingerprint: server.name})
                continue
            made[server.name], trouble = _add(server, world, records)
            exposed |= {} if trouble is None else {server.name: trouble}
        except SmcpError as error:
            failed[server.name] = error
    return Imported(failed, exposed, made)


def take_back(server: Server, made: Made, world: World) -> None:
    """Remove a server that was imported just now, with all that was made for it and that nothing else uses.

    One that an adopted file names meanwhile stays. Raise `SmcpError` for what could not be removed.
    """
    records = Records.of(world.paths)
    if any(replaced.server == server.name for record in records.adopted() for replaced in record.replaced):
        return
    edit.remove_server(world.paths, server.name)
    records.forget_made(server.fingerprint, made.gone)
    for directory in made.directories:
        with suppress(OSError):  # it wrote something there
            directory.rmdir()
    granted = {secret for one in load(world.paths).config.servers.values() for secret in one.credentials.values()}
    for reference in made.secrets:
        if reference not in granted:
            world.drop(reference)


def _add(server: Server, world: World, records: Records) -> tuple[Made, SmcpError | None]:
    """Add one server; return what was made for it, and why its secrets could not be moved, if so."""
    # Before it is written, so that it is known again wherever this ends; a note without a server says nothing.
    gone = records.note_made(server.fingerprint, server.name)
    try:
        directories = tuple(Path(one) for one in server.directories if not os.path.isdir(one))
        for directory in directories:
            create_directory(directory)
        table, secrets, trouble = _with_secrets(server, world.store)
        edit.add_server(world.paths, server.name, table)
    except BaseException:
        records.forget_made(server.fingerprint, gone)
        raise
    # Another import that came second with the name has dropped its own note, which is this one.
    records.note_imported({server.fingerprint: server.name})
    return Made(secrets, directories, gone), trouble


def _with_secrets(server: Server, store: Store) -> tuple[dict[str, object], tuple[str, ...], SmcpError | None]:
    """Return the table of a server with its secrets granted, or as they were and why they could not be moved.

    Between them the references of secrets that are new.
    """
    table = dict(server.table)
    grants: dict[str, Stored] = {}
    trouble: SmcpError | None = None
    try:
        for name, value in server.secrets.items():
            grants[name] = store(f"{server.name}-{name}", value)
    except SmcpError as error:
        trouble = error
        env = table.get("env", {})
        assert isinstance(env, dict)
        table["env"] = {**env, **{name: escape(value) for name, value in server.secrets.items()}}
    else:
        table |= {"credentials": {name: one.reference for name, one in grants.items()}} if grants else {}
    return table, tuple(one.reference for one in grants.values() if one.new), trouble


def drafts(readings: Iterable[Reading], plan: Plan, environ: Mapping[str, str]) -> list[Draft]:
    """Return the files that a plan would change, as they would become."""
    found = []
    for reading in readings:
        servers: dict[Keys, str] = {}
        replacements: dict[Keys, Replacement] = {}
        again: set[Keys] = set()
        try:
            for entry in reading.entries:
                if server := plan.server_of(entry):
                    servers[entry.path] = server.name
                    command = shim_command(server.name, _project(entry, reading.file.dialect))
                    replacements[entry.path] = Replacement(command, shim_environment(environ), handed_on(entry))
                elif ours := plan.again_of(entry):
                    servers[entry.path] = ours.server
                    again.add(entry.path)
                    project = reading.file.dialect.project if ours.project == WHOLE_PROJECT else ours.project
                    command = shim_command(ours.server, project)
                    replacements[entry.path] = Replacement(command, shim_environment(environ), entry.env, alone=True)
            if servers:
                found.append(Draft(reading, servers, again, _changed(reading, replacements)))
        except SmcpError as error:
            found.append(Draft(reading, servers, again, trouble=error))
    return found


def only_in(plan: Plan, files: Container[tuple[str, Path]]) -> frozenset[str]:
    """Return the servers of a plan that only entries of these files, each of a host, would name."""
    return frozenset(
        server.name for server in plan.servers if all((entry.host, entry.file) in files for entry in server.sources)
    )


def _changed(reading: Reading, replacements: Mapping[Keys, Replacement]) -> Change:
    """Return how a file changes. Raise `HostFileError` where its host would not start what stands there then."""
    made = change(reading, replacements)
    project = reading.file.dialect.project
    for entry in read_content(reading.file, made.after).entries:
        if (new := replacements.get(entry.path)) is None:
            continue
        wanted = tuple(WHOLE_PROJECT if project and word == project else escape(word) for word in new.argv)
        if entry.argv != wanted or any(one.variable is None for one in entry.unresolved):
            raise HostFileError(
                f"{written(entry.path)}: the host would put something else for a part of {shlex.join(new.argv)}",
                remedy="install smcp, and keep the project, in a directory whose path has no variables of this host",
            )
    return made


def _project(entry: HostEntry, dialect: Dialect) -> Path | str | None:
    """Return what an entry shall name as the project of its sessions; None where the shim finds it itself."""
    if entry.scope is not Scope.USER:
        return entry.project
    return dialect.project or None if entry.names_project else None


def adopt_file(reading: Reading, plan: Plan, world: World, done: Collection[Path] = ()) -> bool:
    """Write one file, keeping how it was; return whether it changed. Raise `SmcpError` where it stays as it is.

    What a host that runs saves meanwhile stays, unless it is about the entries that are replaced. ``done`` are files
    that this adoption changed before: two hosts may read the same one.
    """
    for _ in range(ATTEMPTS):
        fresh = read(reading.file)
        if reading.file.path not in done and not _means_the_same(reading, fresh, plan):
            break
        with suppress(FileChangedError):
            return _adopt(fresh, plan, world)
    raise SmcpError("another program changed it meanwhile", remedy="close the host, or try again")


def _means_the_same(shown: Reading, fresh: Reading, plan: Plan) -> bool:
    """Return whether the entries of a plan are as they were shown. What a project file says is trusted as a whole."""
    if shown.file.scope is Scope.PROJECT:
        return shown.content == fresh.content
    now = {entry.path: replace(entry, line=0) for entry in fresh.entries}
    planned = (entry for entry in shown.entries if plan.server_of(entry) or plan.again_of(entry))
    return all(now.get(entry.path) == replace(entry, line=0) for entry in planned)


def _adopt(reading: Reading, plan: Plan, world: World) -> bool:
    draft = next(iter(drafts([reading], plan, world.environ)), None)
    if draft is None:
        return False
    if draft.change is None:
        raise draft.trouble or SmcpError("it cannot be changed")
    if draft.change.before == draft.change.after:
        return False
    records, file = Records.of(world.paths), draft.reading.file
    backup, after_name = backup_names(records.directory, file.host.key, file.path)
    record = Record(
        host=file.host.key,
        file=str(file.path),
        scope=file.scope,
        project=None if file.project is None else str(file.project),
        since=now(),
        backup=backup,
        written=after_name,
        replaced=tuple(Replaced(path, server, path in draft.again) for path, server in draft.servers.items()),
        left=tuple(entry.path for entry in draft.reading.entries if entry.path not in draft.servers),
    )
    records.note_adopted(record, draft.change.before, draft.change.after)
    try:
        write(draft.change)
    except BaseException:
        records.forget([record])
        raise
    keep_trust(world.paths, file.path, draft.change.before, draft.change.after)
    return True


def keep_trust(paths: Paths, file: Path, before: bytes, after: bytes) -> None:
    """Where a project file was trusted with what it said before, trust it with what we made of it."""
    trust = Trust.of(paths)
    if trust.knows(file, before):
        trust.add(file, after)
