"""``start``, ``stop``, ``restart`` and ``reload``: verbs that succeed in silence."""

from __future__ import annotations

from supervisord_mcp.cli.client import SLOW, connected
from supervisord_mcp.cli.output import busy
from supervisord_mcp.cli.parameters import AllServers, OnlyProject, Project, ServerNames, chosen, project_root
from supervisord_mcp.protocol import control


def start(names: ServerNames = None, everything: AllServers = False, project: Project = None) -> None:
    """Start servers and wait until they are ready.

    Starts the daemon if none runs, and clears a spent restart budget. A server of scope project is started for the
    project of the current directory, found as for a host, and wherever else hosts wait for it; with --project only for
    that one. What the server's entry takes from the environment is taken from yours.
    """
    servers, root = chosen(names, everything), project_root(project)
    operation = control.Start(names=servers, all=everything, project=root, narrow=project is not None)
    with connected(start=True, as_host=True) as client, busy(f"starting {_said(servers)}") as tell:
        client.ask(operation, SLOW, tell)


def stop(names: ServerNames = None, everything: AllServers = False, project: OnlyProject = None) -> None:
    """Stop servers and wait until nothing of them is left.

    They stay stopped, whatever hosts ask for and whatever happens to the daemon, until `smcp start` or `smcp restart`,
    or until the machine is started again. Without --project they are stopped in all projects.
    """
    servers, narrow = chosen(names, everything), project is not None
    root = project_root(project) if narrow else None
    with connected() as client, busy(f"stopping {_said(servers)}"):
        client.ask(control.Stop(names=servers, all=everything, project=root, narrow=narrow), SLOW)


def restart(names: ServerNames = None, everything: AllServers = False, project: OnlyProject = None) -> None:
    """Restart servers and wait until they are ready.

    Hosts stay connected; calls that are open get an error. Clears a spent restart budget. Without --project everything
    of a server that runs is restarted, in all projects; where nothing does, this is smcp start.
    """
    servers, root = chosen(names, everything), project_root(project)
    operation = control.Restart(names=servers, all=everything, project=root, narrow=project is not None)
    with connected(start=True, as_host=True) as client, busy(f"restarting {_said(servers)}") as tell:
        client.ask(operation, SLOW, tell)


def reload() -> None:
    """Read the configuration again.

    Servers that did not change keep their process and their calls. A faulty configuration changes nothing.
    """
    with connected() as client, busy("reloading"):
        client.ask(control.Reload(), SLOW)


def _said(servers: tuple[str, ...]) -> str:
    return ", ".join(servers) or "all servers"
