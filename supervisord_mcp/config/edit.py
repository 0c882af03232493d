"""Adding, replacing and removing servers in files that a person edits too.

One program edits at a time. The result is loaded before it replaces the file, so a change that would break the
configuration changes nothing; a file that its owner saves at the same moment is read again.
"""

from __future__ import annotations

import codecs
import difflib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from supervisord_mcp.config.document import parse_document, read_document
from supervisord_mcp.config.exposure import Known, nothing_known
from supervisord_mcp.config.files import locked, read_file, replace_file
from supervisord_mcp.config.load import Loaded, config_files, load
from supervisord_mcp.config.naming import wrapped_name
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.config.rewrite import cut_server, put_pairs, put_server
from supervisord_mcp.config.variables import escape
from supervisord_mcp.errors import ConfigError, Problem, SmcpError, UnknownServerError, UsageError

#: A file that changes under our hands more often than this is not being edited by a person.
_ATTEMPTS = 5
_WRAPPED_HEAD = """\
# Servers that `smcp wrap` registered. Change what you like but the command: by its command a server is found again.
"""


def add_server(
    paths: Paths, name: str, entry: Mapping[str, Any], *, replace: bool = False, known: Known = nothing_known
) -> Path:
    """Add a server to ``config.toml``, or with ``replace`` change it wherever it is defined; return the file.

    ``entry`` is what the table shall hold, as TOML would give it; no command may show what is ``known``. Raise
    `UsageError` if the name is taken and `ConfigError` if the result would not be valid; then nothing has changed.
    """
    with locked(paths.edit_lock):
        file, line = _find(paths, name)
        if file is not None and not replace:
            raise UsageError(
                f"a server '{name}' is already defined at {file}:{line}",
                remedy="choose another name, or put this one in its place with: smcp add --replace",
            )
        file = file or paths.config_file
        _change(paths, file, name, lambda text: put_server(text, name, entry), known)
        return file


def remove_server(paths: Paths, name: str) -> Path:
    """Remove a server from the file that defines it; return the file.

    Raise `UnknownServerError` if there is none, and `ConfigError` where a file that cannot be read may have it.
    """
    with locked(paths.edit_lock):
        file, _ = _find(paths, name)
        if file is None:
            raise _absent(paths, name)
        _change(paths, file, name, lambda text: cut_server(text, name))
        return file


def grant_secrets(paths: Paths, name: str, changes: Mapping[str, str | None]) -> Path:
    """Change the credentials of a server, each variable to a reference or to nothing; return the file.

    Raise `UnknownServerError` if there is no such server and `ConfigError` if the result would not be valid; then
    nothing has changed.
    """
    with locked(paths.edit_lock):
        file, _ = _find(paths, name)
        if file is None:
            raise _absent(paths, name)
        _change(paths, file, name, lambda text: put_pairs(text, name, "credentials", changes))
        return file


def register_wrapped(paths: Paths, command: Sequence[str], settings: Mapping[str, Any] | None = None) -> str:
    """Return the name of the server for a command, registered in ``conf.d/wrapped.toml`` if it is not yet.

    The same command gives the same server, whoever asks and how often; another command of the same name gets a number.
    ``settings`` are further keys of a new server; the names in its ``inherit`` are added to a server that is there.
    Raise `ConfigError` if the configuration is not valid.
    """
    if not command:
        raise UsageError(
            "there is no command to wrap", remedy="write it after two dashes: smcp wrap -- npx -y some-server"
        )
    argv, settings = tuple(map(escape, command)), settings or {}
    if found := _registered(load(paths), paths, argv, settings):
        return found
    with locked(paths.edit_lock):
        loaded = load(paths)
        if found := _registered(loaded, paths, argv, settings):
            return found
        name, entry = _wrapped_entry(loaded, paths, command, settings)
        _change(paths, paths.wrapped_file, name, lambda text: put_server(text or _WRAPPED_HEAD, name, entry))
        return name


def _registered(loaded: Loaded, paths: Paths, argv: tuple[str, ...], settings: Mapping[str, Any]) -> str | None:
    """Return the server that a command has and that passes on at least what ``settings`` ask for, or None."""
    wanted = set(settings.get("inherit", ()))
    base = wrapped_name(argv)
    for name, server in loaded.config.servers.items():
        # Outside of our file only a server that was moved there counts; another one of the same command may hold
        # credentials that are not meant for this host.
        ours = loaded.origins[name].file == paths.wrapped_file or (
            _of_family(name, base) and not (server.env or server.credentials)
        )
        if ours and server.argv == argv and wanted <= set(server.inherit):
            return name
    return None


def _wrapped_entry(
    loaded: Loaded, paths: Paths, command: Sequence[str], settings: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return name and table for a command: those it has, with more to inherit, else new ones."""
    argv = [escape(word) for word in command]
    servers = loaded.config.servers
    for name, server in servers.items():
        if loaded.origins[name].file == paths.wrapped_file and list(server.argv) == argv:
            table: dict[str, Any] = dict(
                parse_document(paths.wrapped_file, read_file(paths.wrapped_file)).data["servers"][name]
            )
            # Its own words: what its profile passes on is not to be written down here.
            table["inherit"] = list(dict.fromkeys([*table.get("inherit", ()), *settings.get("inherit", ())]))
            return name, table
    base, number = wrapped_name(command), 1
    name = base
    while name in servers:
        number += 1
        name = f"{base}-{number}"
    return name, {"command": argv, **settings}


def _of_family(name: str, base: str) -> bool:
    return name == base or (name.startswith(f"{base}-") and name.removeprefix(f"{base}-").isdecimal())


def _change(paths: Paths, file: Path, name: str, change: Callable[[str], str], known: Known = nothing_known) -> None:
    for _ in range(_ATTEMPTS):
        before = _content(file)
        content = before or b""
        parse_document(file, content)
        try:
            after = _encoded(content, change(content.decode("utf-8-sig")))
        except ValueError as error:
            raise ConfigError((Problem(str(file), None, f"servers.{name}", str(error)),)) from None
        if after == content:
            return
        _try(paths, file, after, known)
        if _content(file) == before:
            _write(file, after)
            return
    raise SmcpError(f"{file} changes all the time; it stays as it is", remedy="find out which program writes it")


def _try(paths: Paths, file: Path, content: bytes, known: Known) -> None:
    """Load the configuration as it would be. Raise `ConfigError` with the places that the file has now.

    What was wrong before keeps its line; what the change would make wrong is nowhere in the file, so it has none.
    """
    try:
        load(paths, {file: content}, known)
    except ConfigError as error:
        before = {problem.key: problem for problem in _problems(paths) if problem.file == str(file)}
        told = (
            before.get(problem.key, replace(problem, line=None)) if problem.file == str(file) else problem
            for problem in error.problems
        )
        raise ConfigError(tuple(told)) from None


def _problems(paths: Paths) -> tuple[Problem, ...]:
    try:
        load(paths)
    except ConfigError as error:
        return error.problems
    return ()


def _encoded(before: bytes, text: str) -> bytes:
    mark = codecs.BOM_UTF8 if before.startswith(codecs.BOM_UTF8) else b""
    try:
        return mark + text.encode()
    except UnicodeEncodeError:
        raise ValueError("a word is not valid UTF-8, which TOML cannot hold") from None


def _content(file: Path) -> bytes | None:
    try:
        return read_file(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError((Problem(str(file), None, "", f"cannot be read: {error.strerror}"),)) from error


def _write(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, content)
    except OSError as error:
        raise SmcpError(
            f"cannot write {file}: {error.strerror}; it stays as it was", remedy="check its permissions and the disk"
        ) from error


def _find(paths: Paths, name: str) -> tuple[Path | None, int | None]:
    """Return the file that defines a server, and the line; files that cannot be read are the concern of `load`."""
    for file in config_files(paths, {}, []):
        with suppress(OSError, ConfigError):
            document = parse_document(file, read_file(file))
            if name in document.servers:
                return file, document.lines.get(("servers", name))
    return None, None


def _absent(paths: Paths, name: str) -> ConfigError | UnknownServerError:
    """Return what to say of a server that no file defines: which files cannot be read, else what there is."""
    known: list[str] = []
    problems: list[Problem] = []
    for file in config_files(paths, {}, problems):
        document = read_document(file, None, problems)
        known += () if document is None else document.servers
    if problems:
        return ConfigError(tuple(problems))
    near = difflib.get_close_matches(name, known, n=1)
    remedy = f"did you mean '{near[0]}'?" if near else "the servers are: " + (", ".join(known) or "none")
    return UnknownServerError(f"no server '{name}' in {paths.config_file} or {paths.conf_dir}", remedy=remedy)
