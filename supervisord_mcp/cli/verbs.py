"""``start``, ``stop``, ``restart`` and ``reload``: verbs that succeed in silence."""

from __future__ import annotations

from supervisord_mcp.cli.client import SLOW, connected
from supervisord_mcp.cli.output import busy
from supervisord_mcp.cli.parameters import AllServers, ServerNames, chosen
from supervisord_mcp.protocol import control


def start(names: ServerNames = None, everything: AllServers = False) -> None:
    """Start servers and wait until they are ready.

    Starts the daemon if none runs, and clears a spent restart budget.
    """
    servers = chosen(names, everything)
    with connected(start=True) as client, busy(f"starting {_said(servers)}"):
        client.ask(control.Start(names=servers, all=everything), SLOW)


def stop(names: ServerNames = None, everything: AllServers = False) -> None:
    """Stop servers and wait until nothing of them is left.

    They stay stopped, whatever hosts ask for, until `smcp start` or `smcp restart`.
    """
    servers = chosen(names, everything)
    with connected() as client, busy(f"stopping {_said(servers)}"):
        client.ask(control.Stop(names=servers, all=everything), SLOW)


def restart(names: ServerNames = None, everything: AllServers = False) -> None:
    """Restart servers and wait until they are ready.

    Hosts stay connected; calls that are open get an error. Clears a spent restart budget.
    """
    servers = chosen(names, everything)
    with connected(start=True) as client, busy(f"restarting {_said(servers)}"):
        client.ask(control.Restart(names=servers, all=everything), SLOW)


def reload() -> None:
    """Read the configuration again.

    Servers that did not change keep their process and their calls. A faulty configuration changes nothing.
    """
    with connected() as client, busy("reloading"):
        client.ask(control.Reload(), SLOW)


def _said(servers: tuple[str, ...]) -> str:
    return ", ".join(servers) or "all servers"
