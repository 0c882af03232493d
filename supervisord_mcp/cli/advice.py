"""What a valid configuration names and this machine does not have just now: advice of ``smcp config check``.

None of it is a fault: a program may be installed later, and a variable may be set where a host runs. Nor is a secret
that stands in ``env`` in plain text, in a file that others should not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from supervisord_mcp.config.document import Origin
from supervisord_mcp.config.exposure import plain_secrets
from supervisord_mcp.config.load import Loaded
from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.config.resolve import ResolvedServer, resolve
from supervisord_mcp.config.variables import Variables
from supervisord_mcp.errors import ConfigError, LaunchError, Problem
from supervisord_mcp.packages.requests import recognise
from supervisord_mcp.runtimes.search import find_command, search_path
from supervisord_mcp.shim import home_directory


def advice(loaded: Loaded, environ: Mapping[str, str], project: str) -> Iterator[Problem]:
    """Given a configuration, return what its servers would miss if a host started them here, in this environment.

    ``project`` stands for that of a host; paths inside it are not looked for, they differ with every project.
    """
    home = home_directory(environ, os.getuid())
    directories = search_path(loaded.config.daemon.path, environ, home)
    for name, server in loaded.config.servers.items():
        origin = loaded.origins.get(name) or Origin(Path(), None)
        yield from (origin.problem(name, path, f"{text} (not refused)") for path, text in plain_secrets(server))
        try:
            done = resolve(name, server, Variables(environ, project, home), origin)
        except ConfigError as error:
            yield from error.problems
            continue
        # What an image has, only its engine knows.
        contained = server.runtime == "container"
        missing = [] if contained else [*_missing_program(done, directories, environ, home)]
        missing += _missing_paths(done, server, project)
        for key, text in missing:
            yield Problem(str(origin.file), origin.line, f"servers.{name}.{key}", text)


def _missing_program(
    done: ResolvedServer, directories: tuple[str, ...], environ: Mapping[str, str], home: str
) -> Iterator[tuple[str, str]]:
    request = recognise(done.argv)
    # What is run from a package of Python needs no program that is there before.
    if request is not None and request.kind != "npm":
        return
    program = done.argv[0] if request is None else "node"
    try:
        find_command(program, directories, environ, home)
    except LaunchError as error:
        yield "command", error.message


def _missing_paths(done: ResolvedServer, server: ServerConfig, project: str) -> Iterator[tuple[str, str]]:
    wanted = [(f"mounts[{n}].path", path) for n, (path, _) in enumerate(done.mounts) if not server.mounts[n].optional]
    if done.cwd is not None and server.runtime != "container":
        wanted.append(("cwd", done.cwd))
    for key, path in wanted:
        if os.path.commonpath((path, project)) != project and not os.path.lexists(path):
            yield key, f"{path} does not exist"
