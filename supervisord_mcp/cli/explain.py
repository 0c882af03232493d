"""``smcp explain``: what a server is given, in words and as a command line."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Annotated

import typer

from supervisord_mcp.cli.client import paths
from supervisord_mcp.cli.output import console, print_line, printable
from supervisord_mcp.cli.parameters import AsJson, Project, ServerName, project_root
from supervisord_mcp.errors import UnknownServerError


def explain(
    name: ServerName,
    *,
    project: Project = None,
    show_filter: Annotated[bool, typer.Option("--filter", help="Show the filter for system calls as well.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a server is given, and how to start it by hand.

    The rules that apply to it in words, then the command line that starts the same sandbox from bash. Limits, a user of
    its own and a network with rules are set by the daemon from outside, so the command line is without them. Variables
    that could be secret stand in it by name: your shell has their values.
    """
    from supervisord_mcp.config.load import load
    from supervisord_mcp.config.profiles import find_profiles
    from supervisord_mcp.credentials.masking import masker
    from supervisord_mcp.explanation import explanation
    from supervisord_mcp.facts import Facts
    from supervisord_mcp.launch import Launcher, make_runtimes

    places = paths()
    loaded = load(places)
    config = loaded.config.servers.get(name)
    if config is None:
        raise UnknownServerError(f"no server is called {name!r}", remedy="smcp list shows the configured ones")
    runtimes = make_runtimes(places.private_dir, uids=loaded.config.daemon.uids)
    launcher = Launcher(places, os.environ, "", loaded.config.daemon.path, runtimes)
    launcher.origins = loaded.origins
    facts = Facts(name, project=project_root(project), environ=os.environ)
    told = explanation(launcher.resolve(name, config, facts), config, find_profiles(places).effective(config.profile))
    # A word of the command may be a secret, where the entry allows that.
    found = masker.mask_data(dataclasses.asdict(told))
    if as_json:
        print_line(json.dumps(found, indent=2, ensure_ascii=False))
        return
    screen = console()
    for section in found["sections"]:
        screen.print(section["title"], style="bold")
        for line in section["lines"]:
            screen.print(f"  {printable(line)}", soft_wrap=True)
    if show_filter:
        screen.print("filter", style="bold")
        for line in found["filter"] or ("none",):
            screen.print(f"  {line}", soft_wrap=True)
    screen.print("command line", style="bold")
    print_line(found["command_line"] or f"  none: {found['obstacle']}")
