"""``smcp add`` and ``smcp remove``: servers in the configuration, comments and order of the file kept."""

from __future__ import annotations

import json
import os
import posixpath
import shlex
from typing import Annotated, Any

import typer

from supervisord_mcp.cli.client import paths, reload_daemon
from supervisord_mcp.cli.mounts import mount_of
from supervisord_mcp.cli.output import console, printable
from supervisord_mcp.cli.parameters import ServerName, profile_names
from supervisord_mcp.errors import UsageError

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Any other setting, e.g. restart=never; see smcp config reference."
    ),
]


def add(
    name: Annotated[str, typer.Argument(help="Name of the new server.", metavar="NAME")],
    command: Annotated[
        list[str] | None, typer.Argument(help="The command that runs it.", metavar="[-- COMMAND]")
    ] = None,
    *,
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="IMAGE", help="Run it in a container of this image; without COMMAND its own."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="NAME=VALUE", help="An environment variable of the server."),
    ] = None,
    inherit: Annotated[
        list[str] | None,
        typer.Option("--inherit", metavar="NAME", help="A variable that the server gets from the host's environment."),
    ] = None,
    cwd: Annotated[str | None, typer.Option("--cwd", metavar="DIR", help="Its working directory.")] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="PROFILE",
            help="Rules of isolation; see smcp profile list.",
            autocompletion=profile_names,
        ),
    ] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", metavar="auto|global|project|session", help="Who shares an instance.")
    ] = None,
    start: Annotated[str | None, typer.Option("--start", metavar="on-demand|eager", help="When it is started.")] = None,
    runtime: Annotated[
        str | None,
        typer.Option("--runtime", metavar="bwrap|container|landlock|bare", help="bare is without any isolation."),
    ] = None,
    network: Annotated[
        str | None, typer.Option("--network", metavar="none|loopback|internet|host", help="What the sandbox reaches.")
    ] = None,
    mount: Annotated[
        list[str] | None,
        typer.Option("--mount", metavar="PATH[:rw]", help="Show this path to the sandbox, read only without :rw."),
    ] = None,
    settings: Settings = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the server if the name is taken.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show what was written, and where.")] = False,
) -> None:
    """Add a server to config.toml.

    The file keeps its comments and its order, and a daemon that runs learns of the server at once. In the command,
    ${project} is the project of a host, ${VARIABLE} a variable of the environment, and $$ a dollar sign.
    """
    from supervisord_mcp.config import edit
    from supervisord_mcp.credentials.exposing import learn_stored, stored_in
    from supervisord_mcp.credentials.vault import Vault

    given: dict[str, Any] = {"env": dict(map(_pair, env or ())), "inherit": inherit, "cwd": cwd}
    given |= {
        "profile": profile,
        "scope": scope,
        "start": start,
        "runtime": runtime or ("container" if image else None),
        "image": image,
        "network": network,
        "mounts": [mount_of(text) for text in mount or ()],
    }
    said = {"command": list(command or ()), **given}
    entry: dict[str, Any] = {key: value for key, value in said.items() if value}
    for setting in settings or ():
        _merge(entry, _setting(setting))
    learn_stored(Vault(paths(), os.environ))
    file = edit.add_server(paths(), name, entry, replace=replace, known=stored_in)
    _note_engine(name, entry)
    _note_kept(name, entry)
    reload_daemon()
    if verbose:
        from supervisord_mcp.config.rewrite import put_server

        console().print(f"# {file}\n{put_server('', name, entry)}".rstrip(), soft_wrap=True)


def _note_engine(name: str, entry: dict[str, Any]) -> None:
    """Tell of a command that can do nothing in the sandbox that it is going to be in."""
    from supervisord_mcp.config.openings import ENGINES

    program = posixpath.basename(entry["command"][0]) if "command" in entry else ""
    if program in ENGINES and not entry.keys() & {"runtime", "profile", "mounts"}:
        note = (
            f"note: the sandbox does not let {program} reach its engine. Run the image as a container of smcp:\n"
            f"  smcp add --replace {name} --image IMAGE\nor {program} itself with all your rights: --runtime bare"
        )
        console(stderr=True).print(printable(note), soft_wrap=True)


def _note_kept(name: str, entry: dict[str, Any]) -> None:
    """Tell of a server that remembers something, in a file that it cannot write where nothing else is said."""
    from supervisord_mcp.adoption.needs import known_of
    from supervisord_mcp.config.paths import data_directory

    known = known_of(entry["command"]) if "command" in entry else None
    if known is None or known.kept is None or entry.get("runtime") == "bare":
        return
    variable, kept = known.kept
    if variable in entry.get("env", {}) or variable in entry.get("inherit", ()):
        return
    file = data_directory(os.environ, os.getuid()) / kept
    given = shlex.join(("--mount", f"{file.parent}:rw", "--env", f"{variable}={file}"))
    again = f"smcp add --replace {name} {given} -- {shlex.join(entry['command'])}"
    note = (
        f"note: what {name} remembers it writes beside its own program, which is read-only for it. Give it a file:\n"
        f"  mkdir -p {shlex.quote(str(file.parent))}\n"
        f"  {again if entry.keys() == {'command'} else f'and, with --replace, also: {given}'}"
    )
    console(stderr=True).print(printable(note), soft_wrap=True)


def remove(name: ServerName) -> None:
    """Remove a server from the configuration, with the comment directly above it.

    A daemon that runs stops it and ends its sessions.
    """
    from supervisord_mcp.config import edit

    edit.remove_server(paths(), name)
    reload_daemon()


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f"{text!r} is not NAME=VALUE")
    return name, value


def _setting(text: str) -> dict[str, Any]:
    """Given KEY=VALUE with the value as TOML or as a bare word (5, true, "10m", 10m), return it as a table."""
    import tomllib

    key, value = _pair(text)
    for written in (value, json.dumps(value)):
        try:
            return tomllib.loads(f"{key} = {written}")
        except ValueError:
            continue
    raise UsageError(f"{key!r} is not the name of a setting", remedy="smcp config reference shows them")


def _merge(entry: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(entry.get(key), dict):
            entry[key] = {**entry[key], **value}
        else:
            entry[key] = value
