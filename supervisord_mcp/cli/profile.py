"""``smcp profile``: the profiles of isolation, what they come to, and what is wrong with them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supervisord_mcp.cli.client import paths, reload_daemon
from supervisord_mcp.cli.output import console, count, print_line, print_table
from supervisord_mcp.cli.parameters import AsJson, profile_names
from supervisord_mcp.errors import ConfigError, SmcpError, UsageError

if TYPE_CHECKING:
    from supervisord_mcp.config.profiles import Effective, Profiles

Name = Annotated[str, typer.Argument(help="Name of a profile.", metavar="NAME", autocompletion=profile_names)]


def list_profiles(as_json: AsJson = False) -> None:
    """Show the profiles there are.

    Yours are the files in profiles/ beside config.toml; one of yours hides the shipped one of the same name.
    """
    profiles = _profiles()
    rows = [_row(profiles, name) for name in profiles.names()]
    if as_json:
        print_line(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    columns = ("name", "from", "extends", "network", "description")
    table = [tuple(str(row.get(key) or "-") for key in columns) for row in rows]
    print_table(("PROFILE", "FROM", "EXTENDS", "NETWORK", "FOR"), table)


def show(
    name: Name,
    resolved: Annotated[
        bool, typer.Option("--resolved", help="Show what it comes to: every key, with the profile that says it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a profile: its file, or what it comes to."""
    from supervisord_mcp.config import profile_text
    from supervisord_mcp.config.document import decode
    from supervisord_mcp.config.files import read_file

    profiles = _profiles()
    if as_json:
        print_line(json.dumps(profile_text.as_data(profiles.effective(name)), indent=2, ensure_ascii=False))
    elif resolved:
        print_line(profile_text.shown(profiles.effective(name)).rstrip())
    else:
        file = profiles.file(name)
        try:
            text = decode(file, read_file(file))
        except OSError as error:
            raise SmcpError(f"{file} cannot be read: {error.strerror}") from error
        print_line(f"# {file}\n{text.rstrip()}")


def diff(one: Name, other: Name, as_json: AsJson = False) -> None:
    """Show in what two profiles differ.

    What they come to is compared, not what their files say. A "-" stands for what a profile does not have.
    """
    from supervisord_mcp.config.profile_text import differences

    profiles = _profiles()
    found = [
        (key, left, right)
        for key, left, right in differences(profiles.effective(one).profile, profiles.effective(other).profile)
        if key != "description"
    ]
    if as_json:
        print_line(json.dumps([dict(zip(("key", one, other), row, strict=True)) for row in found], indent=2))
    elif found:
        print_table(("KEY", one, other), found)
    else:
        console().print(f"{one} and {other} grant the same", soft_wrap=True)


def lint(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names or files; all of yours and the shipped ones if none.",
            metavar="[NAME|FILE]",
            autocompletion=profile_names,
        ),
    ] = None,
) -> None:
    """Check profiles.

    Shows every fault of every one as file:line: key: message. A fault is what is misspelt, what grants more than the
    profile that it extends without being named in override, and what no server should be given unless the profile says
    dangerous = true and a reason: the whole machine, your home directory, /run, /proc, /sys, keys, sockets.
    """
    profiles = _profiles()
    problems: dict[Any, None] = {}
    dangers: list[str] = []
    chosen = names or list(profiles.names())
    for name in chosen:
        try:
            effective = _judged(profiles, name)
        except ConfigError as error:
            problems |= dict.fromkeys(error.problems)
            continue
        problems |= dict.fromkeys(_strange_calls(effective))
        if effective.profile.dangerous:
            dangers.append(f"{effective.name} is dangerous: {effective.profile.reason}")
    if problems:
        raise ConfigError(tuple(problems))
    screen = console()
    screen.print(f"{count(len(chosen), 'profile')}, no faults", soft_wrap=True)
    for danger in dangers:
        screen.print(danger, soft_wrap=True)


def new(
    name: Annotated[str, typer.Argument(help="Name of the new profile.", metavar="NAME")],
    extends: Annotated[
        str,
        typer.Option("--extends", metavar="PROFILE", help="What it begins with.", autocompletion=profile_names),
    ] = "default",
) -> None:
    """Make a profile of your own, and print its file.

    It grants what the other one does; the file names every key, as a comment.
    """
    from supervisord_mcp.config.fields import check_profile_name
    from supervisord_mcp.config.files import replace_file
    from supervisord_mcp.config.profile_text import template

    profiles = _profiles()
    try:
        check_profile_name(name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    file = profiles.directory / f"{name}.toml"
    if file.exists() or file.is_symlink():
        raise UsageError(f"there is a profile {name!r} already: {file}", remedy="choose another name, or edit it")
    text = template(name, profiles.effective(extends).profile, extends)
    try:
        profiles.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, text.encode())
    except OSError as error:
        raise SmcpError(
            f"cannot write {file}: {error.strerror}", remedy="check its permissions and the disk"
        ) from error
    if profiles.hides(name):
        # Servers that name it have had the shipped one until now.
        reload_daemon()
    sys.stdout.write(f"{file}\n")


def _profiles() -> Profiles:
    from supervisord_mcp.config.profiles import find_profiles

    return find_profiles(paths())


def _row(profiles: Profiles, name: str) -> dict[str, Any]:
    """Return what the list says of a profile, of a faulty one too."""
    from supervisord_mcp.config.models import network_text

    file = profiles.file(name)
    own = file.parent == profiles.directory
    row: dict[str, Any] = {"name": name, "from": "shipped"}
    if own:
        row["from"] = "yours, hides the shipped one" if profiles.hides(name) else "yours"
    try:
        effective = profiles.effective(name)
    except ConfigError as error:
        return {**row, "description": f"FAULTY: {error.problems[0]}", "file": str(file)}
    profile = effective.profile
    return {
        **row,
        "extends": effective.own.profile.extends,
        "network": network_text(profile.network),
        "description": profile.description,
        "dangerous": profile.dangerous,
        "file": str(file),
    }


def _judged(profiles: Profiles, name: str) -> Effective:
    if "/" in name or name.endswith(".toml"):
        return profiles.judge(Path(name).absolute())
    return profiles.effective(name)


def _strange_calls(effective: Effective) -> Iterator[Any]:
    """Yield the system calls that a profile denies and Linux does not have."""
    from supervisord_mcp.runtimes.seccomp import Policy

    for number, call in enumerate(effective.profile.seccomp.deny):
        try:
            Policy(deny=frozenset({call}))
        except ValueError as error:
            yield effective.problem(("seccomp", "deny", number), str(error))
