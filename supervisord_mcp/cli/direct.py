"""``run``, ``connect`` and ``wrap`` as the help shows them; `supervisord_mcp.cli.main` runs them without this."""

from __future__ import annotations

from typing import Annotated

import typer

from supervisord_mcp.cli.parameters import Project, ServerName, profile_names

Command = Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="The command that the host would run.")]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the server, else made from COMMAND.")]
Inherit = Annotated[
    list[str] | None,
    typer.Option("--inherit", metavar="VARIABLE", help="Give the server this variable of the host's environment."),
]
Mounts = Annotated[
    list[str] | None,
    typer.Option("--mount", metavar="PATH[:rw]", help="Show this path to the sandbox, read only unless :rw follows."),
]
Network = Annotated[
    str | None,
    typer.Option(
        "--network", metavar="none|loopback|internet|host", help="What the sandbox reaches; none if not given."
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="PROFILE",
        help="Rules of isolation; see smcp profile list.",
        autocompletion=profile_names,
    ),
]
Runtime = Annotated[
    str | None, typer.Option("--runtime", metavar="bwrap|landlock|bare", help="bare is without any isolation.")
]


def run(on_demand: Annotated[bool, typer.Option("--on-demand", hidden=True)] = False) -> None:
    """Run the daemon in the foreground, until SIGTERM or smcp down."""
    from supervisord_mcp.cli import run as foreground

    raise typer.Exit(foreground.main(on_demand=on_demand))


def connect(name: ServerName, project: Project = None) -> None:
    """Connect stdin and stdout to a server.

    A host's configuration names this instead of the server's own command. Starts the daemon if none runs.
    """
    from supervisord_mcp import shim

    raise typer.Exit(shim.main([*(["--project", str(project)] if project else []), name]))


def wrap(
    command: Command,
    *,
    name: Name = None,
    project: Project = None,
    inherit: Inherit = None,
    network: Network = None,
    mounts: Mounts = None,
    profile: Profile = None,
    runtime: Runtime = None,
) -> None:
    """Register COMMAND as a server and connect to it.

    Put "smcp wrap --" before a command in a host's configuration, and its server is shared and sandboxed. It is
    registered in conf.d/wrapped.toml the first time; the options count then, and later that file does.
    """
    from supervisord_mcp.cli import wrap as adopting

    words = [*_words("--name", name), *_words("--project", project), *_words("--network", network)]
    words += [*_words("--profile", profile), *_words("--runtime", runtime)]
    for option, values in (("--inherit", inherit), ("--mount", mounts)):
        for value in values or ():
            words += [option, value]
    raise typer.Exit(adopting.main([*words, "--", *command]))


def _words(option: str, value: object) -> list[str]:
    return [] if value is None else [option, str(value)]
