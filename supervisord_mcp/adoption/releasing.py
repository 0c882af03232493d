"""Gives files of hosts back: byte for byte where nothing came in between, else our entries only, or not at all."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from supervisord_mcp.adoption.adopting import ATTEMPTS, World, keep_trust
from supervisord_mcp.adoption.records import Record, Records
from supervisord_mcp.adoption.survey import way
from supervisord_mcp.config.files import read_file
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.hosts.base import HostFile, Surroundings
from supervisord_mcp.hosts.catalogue import HOSTS, find_hosts
from supervisord_mcp.hosts.entry import HostEntry
from supervisord_mcp.hosts.files import Change, FileChangedError, is_there, write
from supervisord_mcp.hosts.undo import Identity, Undo, undo


@dataclass(frozen=True, slots=True)
class Release:
    """One file as it would be given back. ``exact`` says that it becomes what it was, to the last byte.

    Without a ``change``, ``trouble`` says why it stays as it is; ``gone`` that there is no such file any more.
    """

    file: Path
    records: tuple[Record, ...]
    change: Change | None = None
    exact: bool = False
    trouble: SmcpError | None = None
    gone: bool = False


def releases(records: Records, where: Surroundings, keys: Collection[str] = ()) -> list[Release]:
    """Return what can be given back, of the hosts with these keys (none: of all). Raise `UsageError` for others."""
    find_hosts(where, keys)
    by_file: dict[str, list[Record]] = {}
    for record in records.adopted():
        if not keys or record.host in keys:
            # Links of several hosts may lead to one file.
            by_file.setdefault(os.path.realpath(record.file), []).append(record)
    return [_release(records, where, tuple(found)) for found in by_file.values()]


def _release(records: Records, where: Surroundings, stack: tuple[Record, ...]) -> Release:
    path = stack[0].path
    try:
        before = read_file(path)
    except OSError as error:
        if isinstance(error, FileNotFoundError) or not is_there(path):
            return Release(path, stack, gone=True)
        return Release(path, stack, trouble=SmcpError(f"{path} cannot be read: {error.strerror}"))
    try:
        content, file = before, host_file(stack[0], where)
        later: frozenset[Identity] = frozenset()
        for record in reversed(stack):
            # Two hosts may keep their servers in one file, each in its own words.
            file = host_file(record, where)
            paths = tuple(replaced.path for replaced in record.replaced)
            done = Undo(file.dialect, records.before(record), records.after(record), paths)
            content = undo(done.without(later), content)
            # One that came back in other words and was adopted again is what it was then, not what it was before.
            came_back = tuple(replaced.path for replaced in record.replaced if not replaced.again)
            later |= replace(done, paths=came_back).identities
        paths = tuple(replaced.path for record in stack for replaced in record.replaced)
        exact = content == records.before(stack[0])
    except SmcpError as error:
        return Release(path, stack, trouble=error)
    return Release(path, stack, Change(file, before, content, paths), exact)


def host_file(record: Record, where: Surroundings) -> HostFile:
    """Return the file of a record as its host knows it. Raise `SmcpError` for a host that is not known any more."""
    host = HOSTS.get(record.host)
    if host is None:
        raise SmcpError(f"the host {record.host!r} is not known to this version of smcp")
    project = None if record.project is None else Path(record.project)
    found = host.files(replace(where, project=project))
    # Where a variable moved the files of the host since, they are still in its main dialect.
    other = HostFile(host, record.path, record.scope, project, False, "", host.dialect)
    return next((file for file in found if file.path == record.path), other)


def release_file(release: Release, world: World, where: Surroundings) -> None:
    """Give one file back and forget its records. Raise `SmcpError` where it stays as it is.

    What a host that runs saves meanwhile stays, as it does where it was saved before.
    """
    for _ in range(ATTEMPTS):
        with suppress(FileChangedError):
            _give_back(release, world)
            return
        release = _release(Records.of(world.paths), where, release.records)
    raise SmcpError("another program changes it all the time", remedy="close the host, or try again")


def _give_back(release: Release, world: World) -> None:
    records = Records.of(world.paths)
    if release.gone:
        records.forget(release.records, backups=False)
        return
    if release.trouble is not None:
        raise release.trouble
    assert release.change is not None
    write(release.change)
    keep_trust(world.paths, release.file, release.change.before, release.change.after)
    records.forget(release.records)


def unused_servers(
    configured: Mapping[str, object],
    released: Sequence[Record],
    left: Sequence[Record],
    entries: Iterable[HostEntry] = (),
) -> list[str]:
    """Return the servers that the released entries named and that no other adopted entry, nor one of these, names."""
    named = {replaced.server for record in left for replaced in record.replaced}
    named |= {way(entry)[1] for entry in entries}
    found = {replaced.server: None for record in released for replaced in record.replaced}
    return [name for name in found if name in configured and name not in named]


def backups(paths: Paths, release: Release) -> str:
    """Return where it is kept how a file was, as a person reads it."""
    directory = Records.of(paths).directory
    return ", ".join(str(directory / record.backup) for record in release.records[:1])
