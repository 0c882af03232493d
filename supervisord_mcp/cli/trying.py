"""Starts imported servers before a host is changed: what does not work in the sandbox stays with its host."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from supervisord_mcp.cli.client import SLOW, connected
from supervisord_mcp.cli.output import busy, console, count, printable
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.protocol import control
from supervisord_mcp.shim import home_directory

if TYPE_CHECKING:
    from pathlib import Path

    from supervisord_mcp.adoption.importing import Server


def tried(servers: Iterable[Server], here: Path | None) -> dict[str, SmcpError]:
    """Let each server say what tools it has, as a host would; return why some do not.

    One that needs a variable that only its host knows is not tried. One that works in whatever project its host has
    open is tried ``here``, in the project that the person is in; in none it is not tried.
    """
    failed: dict[str, SmcpError] = {}
    for server in servers:
        source = server.sources[0]
        project = here if source.names_project and source.project is None else source.project
        why = ""
        if source.names_project and project is None:
            why = "it works in the project that its host has open, and here is none"
        elif missing := _unknown(server, project):
            why = f"{', '.join(sorted(missing))} is set for its host alone"
        if why:
            console().print(printable(f"{server.name} was not started: {why}"), soft_wrap=True)
            continue
        operation = control.Tools(name=server.name, project=None if project is None else str(project))
        try:
            with connected(start=True, as_host=True) as client, busy(f"starting {server.name}") as tell:
                raw = client.ask(operation, SLOW, tell)
        except SmcpError as error:
            failed[server.name] = error
            continue
        found = control.parse_result(raw, control.ToolsResult)
        console().print(f"{server.name} works: {count(len(found.tools), 'tool')}", soft_wrap=True)
    return failed


def disabled(server: Server) -> bool:
    """Return whether no host starts a server."""
    return all(entry.disabled for entry in server.sources)


def _unknown(server: Server, project: Path | None) -> frozenset[str]:
    """Return the variables of its environment that are set where its hosts run, and not here."""
    from supervisord_mcp.config.variables import Variables, expand

    known = Variables(os.environ, None if project is None else str(project), home_directory(os.environ, os.getuid()))
    env = server.table.get("env", {})
    return frozenset(missing.name for text in env.values() for missing in expand(text, known).missing)
