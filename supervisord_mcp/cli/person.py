"""Whose hosts a command is about, and the options by which it is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from supervisord_mcp.cli.client import paths
from supervisord_mcp.cli.parameters import project_root

if TYPE_CHECKING:
    from supervisord_mcp.adoption.adopting import Stored, World
    from supervisord_mcp.adoption.gathering import Person


def host_names(incomplete: str) -> list[str]:
    """Given what is typed so far, return the hosts that begin with it."""
    from supervisord_mcp.hosts.catalogue import HOSTS

    return [key for key in HOSTS if key.startswith(incomplete)]


Hosts = Annotated[
    list[str] | None,
    typer.Argument(
        help="Hosts, as smcp hosts names them; all if none is given.", metavar="HOST", autocompletion=host_names
    ),
]


def person(project: Path | None) -> Person:
    """Return whose hosts are meant; ``project`` is what ``--project`` gave."""
    from supervisord_mcp.adoption.gathering import Person

    root = project_root(project)
    return Person(paths(), os.environ, None if root is None else Path(root))


def world() -> World:
    """Return where things are kept for this person."""
    from supervisord_mcp.adoption.adopting import World

    return World(paths(), os.environ, _store, _drop)


def _store(name: str, value: str) -> Stored:
    from supervisord_mcp.adoption.adopting import Stored
    from supervisord_mcp.credentials.adoption import adopt_secret, free_name
    from supervisord_mcp.credentials.vault import Vault

    places = paths()
    free = free_name(places, os.environ, name, value)
    new = free not in Vault(places, os.environ).stored()
    return Stored(adopt_secret(places, os.environ, free, value), new)


def _drop(reference: str) -> None:
    from supervisord_mcp.credentials.vault import Vault

    Vault(paths(), os.environ).remove(reference.removeprefix("vault:"))
