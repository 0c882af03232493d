"""The known hosts as a table for the README."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from supervisord_mcp.hosts.base import Host, Surroundings
from supervisord_mcp.hosts.catalogue import HOSTS
from supervisord_mcp.hosts.entry import Scope

#: More paths than this are counted instead of named.
_MOST_PATHS = 3
_HEAD = f"{len(HOSTS)} hosts are known. Named are their files on Linux; some are elsewhere on macOS and Windows.\n"


def reference() -> str:
    """Return which hosts are known, the names that commands know them by, and which files of theirs are looked at."""
    rows = ["| host | name | files of the person | files of a project |", "|---|---|---|---|"]
    return "\n".join((_HEAD, *rows, *map(_row, HOSTS.values()), ""))


def _row(host: Host) -> str:
    user, project = (_listed(_paths(host, scope)) for scope in (Scope.USER, Scope.PROJECT))
    return f"| {host.title} | `{host.key}` | {user} | {project} |"


def _paths(host: Host, scope: Scope) -> Iterator[str]:
    where = Surroundings(Path("~"), project=Path())
    for place in host.places:
        if place.scope is scope:
            yield from [place.pattern] if place.pattern else (path.as_posix() for path in place.paths(where))


def _listed(paths: Iterable[str]) -> str:
    found = list(paths)
    if not found:
        return "–"
    shown = found if len(found) <= _MOST_PATHS else found[: _MOST_PATHS - 1]
    more = f" and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
    return ", ".join(f"`{path}`" for path in shown) + more
