"""Whose hosts a command is about, and the options by which it is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from supervisord_mcp.cli.client import paths
from supervisord_mcp.cli.output import console, printable
from supervisord_mcp.cli.parameters import project_root
from supervisord_mcp.config.files import LockedError, locked
from supervisord_mcp.errors import SmcpError

if TYPE_CHECKING:
    from supervisord_mcp.adoption.adopting import World
    from supervisord_mcp.adoption.gathering import Person
    from supervisord_mcp.adoption.importing import Plan
    from supervisord_mcp.credentials.vault import Vault


#: For how many seconds a command waits for another one that changes files of hosts.
WAIT = 10.0


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


def world(vault: Vault | None = None) -> World:
    """Return where things are kept for this person; ``vault`` is theirs if it had to be opened."""
    from supervisord_mcp.adoption.adopting import Stored, World
    from supervisord_mcp.credentials.adoption import adopt_secret, free_name

    secrets = vault or _vault()

    def store(name: str, value: str) -> Stored:
        free = free_name(secrets, name, value)
        new = free not in secrets.stored()
        return Stored(adopt_secret(secrets, free, value), new)

    def drop(reference: str) -> None:
        secrets.remove(reference.removeprefix("vault:"))

    return World(paths(), os.environ, store, drop)


def vault_for(plan: Plan, *, ask: bool) -> Vault:
    """Return the vault for the secrets of a plan; say if it cannot take them.

    With ``ask`` the person is asked for its passphrase, if it has one and secrets shall go to it. Raise `SmcpError` if
    that is wrong: whoever mistypes it does not mean to leave them readable.
    """
    from supervisord_mcp.cli.secret_values import opened

    vault = _vault()
    new = [server for server in plan.servers if server.secrets and not server.there]
    closed = _closed(vault) if new else None
    if closed is not None and ask and _has_passphrase(vault):
        opened(vault)
        closed = _closed(vault)
    if closed is not None:
        names = "; ".join(f"{', '.join(server.secrets)} of {server.name}" for server in new)
        told = f"warning: the vault takes no secret as it is: {closed.message}\n  {closed.remedy}"
        stay = f"  else these stay readable in config.toml (for you alone): {names}"
        console(stderr=True).print(printable(f"{told}\n{stay}"), soft_wrap=True)
    return vault


def _closed(vault: Vault) -> SmcpError | None:
    """Return why a vault cannot be used, or None."""
    try:
        vault.stored()
    except SmcpError as error:
        return error
    return None


def _has_passphrase(vault: Vault) -> bool:
    try:
        place = vault.place
    except SmcpError:
        return False
    return place is not None and place.kind == "passphrase"


def _vault() -> Vault:
    from supervisord_mcp.credentials.vault import Vault

    return Vault(paths(), os.environ)


def alone(context: typer.Context, *, dry_run: bool) -> None:
    """Let no other command change files of hosts until this one ends; one that only shows does not wait.

    Raise `SmcpError` where another one goes on for too long: it may be waiting for an answer.
    """
    if dry_run:
        return
    file = paths().adoption_dir / "commands.lock"
    told = f"another smcp adopt, import or release has been at the files of hosts for {WAIT:g} s; nothing was changed"
    try:
        context.with_resource(locked(file, WAIT, what="files of hosts"))
    except LockedError as error:
        raise SmcpError(told, remedy=f"answer what it asks, or end it: fuser {file}") from error
