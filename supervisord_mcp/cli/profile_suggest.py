"""``smcp profile suggest``: the profile that lets an audited server do what it did, and no more."""

from __future__ import annotations

import sys

from supervisord_mcp.cli.client import connected, paths
from supervisord_mcp.cli.output import console, printable
from supervisord_mcp.cli.parameters import ServerName
from supervisord_mcp.errors import SmcpError, UnknownServerError
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.control import EventRecord


def suggest(name: ServerName) -> None:
    """Print the profile that lets a server do what it was seen to do.

    Audit it first: seccomp = { audit = true } in its entry (or its profile), then use it for a while. What it asked for
    and did not get, and the hosts that it reached, become grants. Nothing is changed: put what you agree with into a
    file (smcp profile new NAME).
    """
    from supervisord_mcp.config import suggestion
    from supervisord_mcp.config.load import load

    loaded = load(paths())
    config = loaded.config.servers.get(name)
    if config is None:
        raise UnknownServerError(f"no server is called {name!r}", remedy="smcp list shows the configured ones")
    if not config.seccomp.audit:
        raise SmcpError(
            f"server '{name}' is not audited, so nobody saw what it asked for",
            remedy="write seccomp = { audit = true } into its entry, use it for a while, then ask again",
        )
    with connected() as client:
        records = [control.parse_result(raw, EventRecord) for raw in client.stream(control.Events(follow=False))]
    done = suggestion.seen((record.kind, record.data) for record in records if record.server == name)
    found = suggestion.suggest(name, config.profile, config.network_text, done)
    sys.stdout.write(found.text)
    screen = console(stderr=True)
    if done.nothing:
        screen.print(f"nothing that server '{name}' did was refused, as far as the daemon remembers", soft_wrap=True)
    for remark in found.remarks:
        screen.print(printable(remark), soft_wrap=True)
