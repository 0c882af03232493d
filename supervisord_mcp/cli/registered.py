"""What the configuration files say about servers, read as quickly as possible and without judging the values.

This is for completion and for ``wrap``, which a host starts for every connection; the models are too heavy for both.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisord_mcp.config.files import read_file
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.errors import UnknownServerError


@dataclass(frozen=True, slots=True)
class Registered:
    """The entry of one server as its file has it."""

    entry: dict[str, Any]
    file: Path


def unknown(name: str, known: Iterable[str]) -> UnknownServerError:
    """Given a name and those that there are, return the error that says so, in the words of the daemon."""
    there = ", ".join(sorted(known)) or "none"
    text = f"no server '{name}' in the configuration (known: {there})"
    return UnknownServerError(text, remedy=f"add it with: smcp add {name} -- COMMAND")


def configured_servers(paths: Paths) -> dict[str, Registered]:
    """Return the servers of all files by name; a file that cannot be read has none, and the first entry counts."""
    found: dict[str, Registered] = {}
    for file in _files(paths):
        try:
            servers = tomllib.loads(read_file(file).decode()).get("servers")
        except (OSError, ValueError):
            continue
        for name, entry in servers.items() if isinstance(servers, dict) else ():
            if isinstance(entry, dict):
                found.setdefault(name, Registered(entry, file))
    return found


def _files(paths: Paths) -> Iterator[Path]:
    yield paths.config_file
    try:
        yield from sorted(path for path in paths.conf_dir.iterdir() if path.suffix == ".toml" and path.name[0] != ".")
    except OSError:
        return
