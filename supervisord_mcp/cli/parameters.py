"""The arguments and options that several commands share, and what the shell completes for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisord_mcp.errors import SmcpError, UsageError


def server_names(incomplete: str) -> list[str]:
    """Given what is typed so far, return the configured servers that begin with it; a broken file completes nothing."""
    from supervisord_mcp.cli.client import paths
    from supervisord_mcp.cli.registered import configured_servers

    return sorted(name for name in configured_servers(paths()) if name.startswith(incomplete))


def profile_names(incomplete: str) -> list[str]:
    """Given what is typed so far, return the profiles that begin with it."""
    from supervisord_mcp.cli.client import paths
    from supervisord_mcp.config.profile_files import names_in, profiles_directory

    try:
        found = names_in(paths().profiles_dir) | names_in(profiles_directory())
    except SmcpError:
        return []
    return sorted(name for name in found if name.startswith(incomplete))


ServerName = Annotated[str, typer.Argument(help="Name of a server.", metavar="NAME", autocompletion=server_names)]
MaybeServerName = Annotated[
    str | None, typer.Argument(help="Name of a server.", metavar="NAME", autocompletion=server_names)
]
ServerNames = Annotated[
    list[str] | None, typer.Argument(help="Names of servers.", metavar="NAME", autocompletion=server_names)
]
AllServers = Annotated[bool, typer.Option("--all", help="All configured servers.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def _project_option(meaning: str) -> Any:
    return typer.Option("--project", metavar="DIR", help=meaning, file_okay=False, exists=True, resolve_path=True)


Project = Annotated[
    Path | None,
    _project_option("Root of the project; else the nearest directory above the current one that is marked as one."),
]
OnlyProject = Annotated[Path | None, _project_option("Only for this project; else for all of them.")]


def chosen(names: list[str] | None, everything: bool) -> tuple[str, ...]:
    """Given the two ways to name servers, return the names (none means all). Raise `UsageError` if not exactly one."""
    if bool(names) == everything:
        raise UsageError("name the servers, or give --all" if not names else "give names or --all, not both")
    return tuple(names or ())


def project_root(given: Path | None) -> str | None:
    """Given ``--project``, return the root to work for: that, else what the shim would find from here."""
    from supervisord_mcp import shim

    explicit = None if given is None else str(given)
    try:
        return shim.find_project(explicit, os.environ, os.getcwd(), os.getuid())
    except shim.ShimError as error:
        raise UsageError(error.text) from error
    except FileNotFoundError:
        # The current directory was deleted, so it is in no project.
        return None
