"""Looks at the files of all hosts of this machine, and at what is known of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from supervisord_mcp.adoption.importing import Known, Rules
from supervisord_mcp.adoption.needs import Place
from supervisord_mcp.adoption.records import Record, Records
from supervisord_mcp.adoption.releasing import host_file
from supervisord_mcp.adoption.specs import digest
from supervisord_mcp.adoption.survey import Drift, drift
from supervisord_mcp.config.load import load
from supervisord_mcp.config.paths import Paths, data_directory
from supervisord_mcp.config.trust import Trust
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.hosts.base import HostFile, Surroundings
from supervisord_mcp.hosts.catalogue import Presence, find_hosts
from supervisord_mcp.hosts.entry import HostEntry, Scope
from supervisord_mcp.hosts.files import Reading, is_there, read
from supervisord_mcp.hosts.surroundings import surroundings
from supervisord_mcp.shim import home_directory


@dataclass(frozen=True, slots=True)
class Person:
    """Whose hosts are looked at: the environment, the project that is worked in, and where smcp keeps its files."""

    paths: Paths
    environ: Mapping[str, str] = field(repr=False)
    project: Path | None = None

    @property
    def home(self) -> str:
        """The home directory."""
        return home_directory(self.environ, os.getuid())

    @property
    def where(self) -> Surroundings:
        """Where the hosts of this person keep their files."""
        return surroundings(self.environ, Path(self.home), self.project)


@dataclass(frozen=True, slots=True)
class Gathered:
    """The hosts with their files as they are now, in one order."""

    found: tuple[Presence, ...]
    readings: tuple[Reading, ...]
    rules: Rules

    @property
    def entries(self) -> list[HostEntry]:
        """All entries of files that we may change."""
        return [entry for reading in self.readings if not elsewhere(reading.file) for entry in reading.entries]


def gather(person: Person, keys: Collection[str] = (), network: str | None = None) -> Gathered:
    """Read every file of the hosts with these keys (none: of all). Raise `UsageError` for a host that is not known."""
    found = find_hosts(person.where, keys)
    readings = tuple(read(file) for host in found for file in host.files)
    own = tuple(map(str, (person.paths.config_dir, person.paths.state_dir, person.paths.runtime_dir)))
    trust = Trust.of(person.paths)
    trusted = {
        reading.file.path
        for reading in readings
        if reading.file.scope is Scope.PROJECT and trust.knows(reading.file.path, reading.content)
    }
    data = str(data_directory(person.environ, os.getuid()))
    place = Place(person.home, person.environ, None, own, data)
    return Gathered(found, readings, Rules(place, frozenset(trusted), network))


def elsewhere(file: HostFile) -> str:
    """Return where the servers of a file are started, if that is a place that has no smcp; else nothing."""
    if file.foreign:
        return "Windows"
    return "a container" if file.label == "container" else ""


def known(paths: Paths, place: Place) -> Known:
    """Return what is configured. Raise `ConfigError` for a configuration that cannot be used."""
    config = load(paths).config
    servers = config.servers
    same = {
        digest(server.argv, server.env, server.cwd, place): name
        for name, server in servers.items()
        # What is given to a server besides its command makes it another one than an entry that has none of it.
        if server.project_file is None and not server.credentials
    }
    commands = {name: server.argv for name, server in servers.items()}
    return Known(commands, same, Records.of(paths).imported(), tuple(config.daemon.path))


def drifted(person: Person, records: Sequence[Record]) -> list[Drift]:
    """Return what is not as it was left in the files that were adopted, wherever they are."""
    readings: dict[Path, Reading] = {}
    for record in records:
        try:
            file = host_file(record, person.where)
        except SmcpError:
            continue
        if is_there(record.path):
            readings[record.path] = read(file)
    try:
        servers = load(person.paths).config.servers
    except SmcpError:
        # What is wrong with the configuration is told elsewhere.
        return drift(records, readings)
    return drift(records, readings, servers)
