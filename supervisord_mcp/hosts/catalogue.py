"""Every host that is known, and what of them this machine has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from supervisord_mcp.errors import UsageError
from supervisord_mcp.hosts.base import Host, HostFile, Surroundings
from supervisord_mcp.hosts.claude_code import CLAUDE_CODE
from supervisord_mcp.hosts.claude_desktop import CLAUDE_DESKTOP

#: By key, in the order in which they are shown.
HOSTS: Final[Mapping[str, Host]] = {host.key: host for host in (CLAUDE_DESKTOP, CLAUDE_CODE)}


@dataclass(frozen=True, slots=True)
class Presence:
    """A host, whether it has left traces on this machine, and which of its files exist."""

    host: Host
    installed: bool
    files: tuple[HostFile, ...]


def find_hosts(where: Surroundings, keys: Collection[str] = ()) -> tuple[Presence, ...]:
    """Return what this machine has of all hosts, or of the named ones. Raise `UsageError` for a name that is none."""
    unknown = [key for key in keys if key not in HOSTS]
    if unknown:
        raise UsageError(f"there is no host {unknown[0]!r}", remedy=f"known hosts: {', '.join(HOSTS)}")
    return tuple(
        Presence(host, host.installed(where), tuple(file for file in host.files(where) if _is_there(file)))
        for host in HOSTS.values()
        if not keys or host.key in keys
    )


def _is_there(file: HostFile) -> bool:
    # A link that leads nowhere is there, for its problem to be told.
    return file.path.is_symlink() or file.path.exists()
