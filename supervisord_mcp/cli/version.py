"""``smcp version``: of this command and of the daemon that runs."""

from __future__ import annotations

import platform

import msgspec
from msgspec import Raw

from supervisord_mcp import __version__
from supervisord_mcp.cli.client import connected
from supervisord_mcp.cli.output import console, print_json
from supervisord_mcp.cli.parameters import AsJson
from supervisord_mcp.errors import NoDaemonError
from supervisord_mcp.protocol import control


def version(as_json: AsJson = False) -> None:
    """Show the version.

    It is that of this command and of Python, and of the daemon if one runs.
    """
    daemon = _daemon()
    if as_json:
        print_json(msgspec.json.encode({"version": __version__, "python": platform.python_version(), "daemon": daemon}))
        return
    console().print(f"smcp {__version__} (Python {platform.python_version()})", soft_wrap=True)
    if daemon is not None:
        found = control.parse_result(daemon, control.VersionResult)
        console().print(f"daemon {found.version}, pid {found.pid}", soft_wrap=True)
        if found.version != __version__:
            console(stderr=True).print("the daemon has another version; after smcp down this one is started")


def _daemon() -> Raw | None:
    try:
        with connected() as client:
            return client.ask(control.Version())
    except NoDaemonError:
        return None
