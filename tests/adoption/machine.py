"""A home directory with hosts in it, for tests: files written in one call, and what smcp makes of them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from supervisord_mcp.adoption.adopting import Stored, World, adopt_file, import_servers
from supervisord_mcp.adoption.gathering import Gathered, Person, gather, known
from supervisord_mcp.adoption.importing import Plan, Server, plan
from supervisord_mcp.adoption.records import Records
from supervisord_mcp.adoption.releasing import Release, release_file, releases
from supervisord_mcp.config.paths import Paths, find_paths
from supervisord_mcp.config.trust import Trust
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.hosts.entry import HostEntry, Scope

#: Looks like a token of GitHub and is none.
TOKEN = "ghp_" + "aB3d" * 9
TIME: dict[str, Any] = {"command": "uvx", "args": ["mcp-server-time"]}


@dataclass
class Machine:
    """A person's machine below a directory. ``vault`` is what was stored; None is a vault that is locked."""

    root: Path
    vault: dict[str, str] | None = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home = self.root / "home"
        self.project = self.root / "site"
        for directory in (self.home, self.project):
            directory.mkdir(exist_ok=True)
        self.environ = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "SMCP_HOME": str(self.root / "smcp")}

    @property
    def paths(self) -> Paths:
        """Where smcp keeps its files."""
        return find_paths(self.environ, os.getuid())

    @property
    def person(self) -> Person:
        """Whose hosts are looked at."""
        return Person(self.paths, self.environ, self.project)

    @property
    def world(self) -> World:
        """Where things are kept."""
        return World(self.paths, self.environ, self.store, self.drop)

    @property
    def records(self) -> Records:
        """What was adopted."""
        return Records.of(self.paths)

    def store(self, name: str, value: str) -> Stored:
        """Store a secret."""
        if self.vault is None:
            raise SmcpError("the vault is locked")
        new = name not in self.vault
        self.vault[name] = value
        return Stored(f"vault:{name}", new)

    def drop(self, reference: str) -> None:
        """Remove a secret."""
        assert self.vault is not None
        del self.vault[reference.removeprefix("vault:")]

    def write(self, path: str, servers: dict[str, Any] | str, key: str = "mcpServers") -> Path:
        """Write a file below the home directory, or below the project with ``site/`` before it; return it."""
        file = self.root / path if path.startswith("site/") else self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(servers if isinstance(servers, str) else json.dumps({key: servers}, indent=2) + "\n")
        return file

    def cursor(self, **servers: Any) -> Path:
        """Write the person's file of Cursor."""
        return self.write(".cursor/mcp.json", servers)

    def claude(self, **servers: Any) -> Path:
        """Write the person's file of Claude Code."""
        return self.write(".claude.json", servers)

    def shared(self, **servers: Any) -> Path:
        """Write ``.mcp.json`` of the project."""
        return self.write("site/.mcp.json", servers)

    def trust(self, file: Path) -> None:
        """Trust a file as it is."""
        Trust.of(self.paths).add(file, file.read_bytes())

    def gathered(self, *keys: str, network: str | None = None) -> Gathered:
        """Look at the files of hosts."""
        return gather(self.person, keys, network)

    def plan(self, *keys: str, network: str | None = None) -> Plan:
        """Return what would be imported."""
        gathered = self.gathered(*keys, network=network)
        return plan(gathered.entries, known(self.paths, gathered.rules.place), gathered.rules)

    def server(self, *keys: str) -> Server:
        """Return the only server that would be imported."""
        (found,) = self.plan(*keys).servers
        return found

    def adopt(self, *keys: str) -> Plan:
        """Import, and write every file; return what was planned."""
        gathered, planned = self.gathered(*keys), self.plan(*keys)
        imported = import_servers(planned, self.world)
        assert not imported.failed
        for reading in gathered.readings:
            adopt_file(reading, planned, self.world)
        return planned

    def releases(self, *keys: str) -> list[Release]:
        """Return what can be given back."""
        return releases(self.records, self.person.where, keys)

    def release(self, *keys: str) -> None:
        """Give everything back."""
        for one in self.releases(*keys):
            release_file(one, self.world, self.person.where)


def entry(*argv: str, **more: Any) -> HostEntry:
    """Return an entry of the person's file of Cursor."""
    made = HostEntry("cursor", Path("/h/.cursor/mcp.json"), Scope.USER, ("mcpServers", "s"), "s", 3, argv=argv)
    return replace(made, **more)
