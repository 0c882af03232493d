"""What an entry of a host really starts, so that entries of several hosts can be compared.

Variables are replaced, the program is the one that is found, and a package is the same whichever runner asks for it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from supervisord_mcp.adoption.needs import Place
from supervisord_mcp.errors import LaunchError
from supervisord_mcp.hosts.entry import HostEntry, Scope
from supervisord_mcp.packages.requests import recognise
from supervisord_mcp.runtimes.search import find_command, search_path

#: Stands before what is not known here, which is compared as it is written; no value begins with a NUL.
_UNKNOWN = "\0"


def fingerprint(entry: HostEntry, place: Place) -> str:
    """Return what stands for what an entry starts: equal where it is the same, wherever it is written.

    The values of the environment are part of it, so it is kept where only the person can read it.
    """
    own = entry.project if entry.scope is not Scope.USER and _is_bound(entry) else None
    trusted = entry.file if entry.scope is Scope.PROJECT else None
    return digest(entry.argv, entry.env, entry.cwd, place, (own, trusted))


def digest(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    place: Place,
    bound: tuple[Path | None, Path | None] = (None, None),
) -> str:
    """Return the same for the parts of an entry; ``bound`` are the project and the project file that it belongs to."""
    document = [
        _command([_expanded(word, place) for word in argv], place),
        sorted([name, _expanded(value, place)] for name, value in env.items()),
        None if cwd is None else _expanded(cwd, place),
        [None if path is None else str(path) for path in bound],
    ]
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _is_bound(entry: HostEntry) -> bool:
    """Whether an entry of a project means something else in another project."""
    texts = (*entry.argv, *entry.env.values(), entry.cwd or "")
    return any("${project}" in text or text.startswith(("./", "../")) for text in texts) or entry.scope is Scope.PROJECT


def _expanded(text: str, place: Place) -> str:
    expanded = place.expand(text)
    return f"{_UNKNOWN}{text}" if expanded is None else expanded


def _command(argv: Sequence[str], place: Place) -> list[object]:
    request = recognise(argv)
    if request is not None:
        return [request.kind, list(request.requirements), request.command, list(request.args), request.python]
    if argv[0].startswith(_UNKNOWN):
        # Nobody knows yet where it is.
        return list(argv)
    try:
        program = find_command(argv[0], search_path((), place.environ, place.home), place.environ, place.home)
    except LaunchError:
        program = argv[0]
    return [os.path.realpath(os.path.dirname(program)), os.path.basename(program), list(argv[1:])]
