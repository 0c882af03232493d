"""``smcp list``: the configured servers, running or not."""

from __future__ import annotations

import shlex

import msgspec

from supervisord_mcp.cli.client import connected, paths
from supervisord_mcp.cli.output import console, print_json, print_table
from supervisord_mcp.cli.parameters import AsJson
from supervisord_mcp.errors import NoDaemonError
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.control import ListResult, ServerEntry


def list_servers(as_json: AsJson = False) -> None:
    """Show the configured servers.

    Hosts of a server whose catalogue is known are answered without starting it.
    """
    try:
        with connected() as client:
            raw = client.ask(control.ListServers())
    except NoDaemonError:
        raw = msgspec.Raw(msgspec.json.encode(_from_files()))
    if as_json:
        print_json(raw)
        return
    servers = control.parse_result(raw, ListResult).servers
    if not servers:
        console().print("no servers are configured; add one with: smcp add NAME -- COMMAND")
        return
    print_table(
        ("SERVER", "START", "SCOPE", "RUNTIME", "PROFILE", "NETWORK", "CATALOGUE", "COMMAND"),
        [_row(server) for server in servers],
    )


def _row(server: ServerEntry) -> tuple[str, ...]:
    known = "yes" if server.tools is None else f"{server.tools} tools"
    catalogue = known if server.catalogue else "-"
    command = shlex.join(server.command)
    return server.name, server.start, server.scope, server.runtime, server.profile, server.network, catalogue, command


def _from_files() -> ListResult:
    """Return what a daemon would answer if one ran now."""
    from supervisord_mcp.catalogues import Catalogues
    from supervisord_mcp.config.load import load
    from supervisord_mcp.reports import server_entry

    places = paths()
    catalogues = Catalogues(places.catalogue_dir)
    servers = load(places).config.servers.items()
    return ListResult(servers=tuple(server_entry(name, server, catalogues.newest(name)) for name, server in servers))
