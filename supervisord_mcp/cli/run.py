"""``smcp run``: the daemon in the foreground."""

from __future__ import annotations

from supervisord_mcp.cli.ending import ended


def main(*, on_demand: bool) -> int:
    """Given whether a shim started it, be the daemon and return its exit status. Loads no other command."""
    return ended(lambda: _daemon(on_demand=on_demand))


def _daemon(*, on_demand: bool) -> int:
    from supervisord_mcp import daemon

    return daemon.main(on_demand=on_demand)
