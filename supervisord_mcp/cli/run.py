"""``smcp run``: the daemon in the foreground."""

from __future__ import annotations

import traceback

from supervisord_mcp.cli.ending import ended
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.omissions import left_out


def main(*, on_demand: bool) -> int:
    """Given whether a shim started it, be the daemon and return its exit status. Loads no other command."""
    return ended(lambda: _daemon(on_demand=on_demand))


def _daemon(*, on_demand: bool) -> int:
    try:
        with left_out():
            from supervisord_mcp import daemon

        return daemon.main(on_demand=on_demand)
    except SmcpError:
        raise
    except Exception:  # noqa: BLE001 - nobody is above; the log that others are referred to is where this is printed
        traceback.print_exc()
        return 1
