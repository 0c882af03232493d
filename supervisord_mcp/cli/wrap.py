"""``smcp wrap -- COMMAND``: register a command as a server, once, and connect to it.

A host runs this for every connection, so only a command that is not known yet pays for the editor of the configuration.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from supervisord_mcp.cli.mounts import mount_of
from supervisord_mcp.config.files import read_file
from supervisord_mcp.config.paths import Paths, find_paths
from supervisord_mcp.config.variables import escape
from supervisord_mcp.errors import LaunchError, SmcpError, UsageError

#: What marks a word after the program as a script of the working directory, if there is a file of that name.
_SCRIPTS: Final = frozenset({".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".rb", ".jar"})
_USAGE: Final = "smcp wrap [--name NAME] [--project DIR] [OPTIONS] -- COMMAND…    (smcp wrap --help shows the options)"
#: Seconds after which the daemon surely has what another ``wrap`` registered and told it.
_FRESH: Final = 30.0


@dataclass(slots=True)
class Wish:
    """What the words of ``wrap`` ask for; ``settings`` are keys of the entry beside its command."""

    name: str | None = None
    project: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)


def main(argv: Sequence[str]) -> int:
    """Given the words after ``smcp wrap``, be the shim of the server that they name and return the exit status."""
    try:
        wish = parse(argv)
        name = _registered(wish, find_paths(os.environ, os.getuid()))
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - whatever it is, a host waits for an answer
        return _refuse(error)
    from supervisord_mcp import shim

    return shim.main([name, *(("--project", wish.project) if wish.project else ())])


def parse(argv: Sequence[str]) -> Wish:
    """Given the words after ``smcp wrap``, return what they ask for. Raise `UsageError` if they make no sense."""
    words = list(argv)
    if "--" not in words:
        raise UsageError("wrap needs -- and then the command of the server", remedy=_USAGE)
    end = words.index("--")
    wish = Wish(command=words[end + 1 :])
    if not wish.command:
        raise UsageError("there is no command after --", remedy=_USAGE)
    options = words[:end]
    while options:
        option, has_value, value = options.pop(0).partition("=")
        if not has_value:
            if not options:
                raise UsageError(f"{option} needs a value before --", remedy=_USAGE)
            value = options.pop(0)
        _take(wish, option, value)
    # In the configuration a relative path belongs to the project; here it belongs to where the host started us.
    wish.command = [
        str(Path(word).absolute()) if _is_script(word, first=n == 0) else word for n, word in enumerate(wish.command)
    ]
    return wish


def _is_script(word: str, *, first: bool) -> bool:
    """Whether a word names a file below the working directory: a path, or after the program a name with a suffix."""
    path = Path(word)
    named = "/" in word or (not first and path.suffix in _SCRIPTS)
    return named and not path.is_absolute() and path.is_file()


def _take(wish: Wish, option: str, value: str) -> None:
    match option:
        case "--name":
            wish.name = value
        case "--project":
            wish.project = value
        case "--inherit":
            wish.settings.setdefault("inherit", []).append(value)
        case "--mount":
            wish.settings.setdefault("mounts", []).append(mount_of(value))
        case "--network" | "--profile" | "--runtime":
            wish.settings[option.removeprefix("--")] = value
        case _:
            raise UsageError(f"wrap has no option {option}", remedy=_USAGE)


def _registered(wish: Wish, paths: Paths) -> str:
    """Return the name of the server for the wish, registered now or before, and known to a daemon that runs."""
    name = _known(wish, paths)
    if name is not None and not _is_fresh(paths.wrapped_file if wish.name is None else paths.config_file):
        return name
    if name is None:
        _check_command(wish.command[0], paths)
        name = _register(wish, paths)
    from supervisord_mcp.cli.client import reload_daemon

    reload_daemon()
    return name


def _known(wish: Wish, paths: Paths) -> str | None:
    """Return the server that was registered for exactly this before, found without the models of the configuration."""
    if wish.name is not None:
        return wish.name if _is_ours(wish, paths, wish.name) else None
    try:
        servers = tomllib.loads(read_file(paths.wrapped_file).decode()).get("servers")
    except (OSError, ValueError):
        return None
    # Whatever looks wrong here is for the editor to name, with its place.
    for name, entry in servers.items() if isinstance(servers, dict) else ():
        if isinstance(entry, dict) and _runs(entry, wish.command) and _passes_on(entry, wish):
            return str(name)
    return None


def _passes_on(entry: dict[str, Any], wish: Wish) -> bool:
    inherited = entry.get("inherit", [])
    return isinstance(inherited, list) and all(name in inherited for name in wish.settings.get("inherit", ()))


def _is_ours(wish: Wish, paths: Paths, name: str) -> bool:
    """Return whether a server is there and runs the command of the wish. Raise `UsageError` if it runs another."""
    from supervisord_mcp.cli.registered import configured_servers

    found = configured_servers(paths).get(name)
    if found is None:
        return False
    if not _runs(found.entry, wish.command):
        raise UsageError(
            f"the server {name!r} in {found.file} runs another command",
            remedy=f"give another --name; or change the entry, and let the host run: smcp connect {name}",
        )
    return True


def _runs(entry: dict[str, Any], command: Sequence[str]) -> bool:
    words, more = entry.get("command"), entry.get("args", [])
    return isinstance(words, list) and isinstance(more, list) and words + more == [escape(word) for word in command]


def _check_command(program: str, paths: Paths) -> None:
    """Raise `LaunchError` for a program that is not there: its entry would stay, and fail again at every start."""
    from supervisord_mcp.config.load import load
    from supervisord_mcp.runtimes.search import find_command, search_path
    from supervisord_mcp.shim import home_directory

    home = home_directory(os.environ, os.getuid())
    directories = search_path(load(paths).config.daemon.path, os.environ, home)
    try:
        find_command(program, directories, os.environ, home)
    except LaunchError as error:
        raise LaunchError(f"nothing was registered, {error.message}", remedy=error.remedy, retryable=False) from error


def _register(wish: Wish, paths: Paths) -> str:
    from supervisord_mcp.config import edit

    if wish.name is None:
        return edit.register_wrapped(paths, wish.command, wish.settings)
    entry = {"command": [escape(word) for word in wish.command], **wish.settings}
    try:
        edit.add_server(paths, wish.name, entry)
    except UsageError:
        # Another connection of the same host may have been faster with the same words.
        if not _is_ours(wish, paths, wish.name):
            raise
    return wish.name


def _is_fresh(file: Path) -> bool:
    try:
        return time.time() - file.stat().st_mtime < _FRESH
    except OSError:
        return False


def _refuse(error: Exception) -> int:
    """Given why there is no server, tell the person and the host, and return the exit status."""
    from supervisord_mcp.cli.ending import explained, report
    from supervisord_mcp.pump import answer_host

    told: SmcpError = explained(error)
    report(told)
    answer_host(f"smcp: {told}")
    return told.exit_status
