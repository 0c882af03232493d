"""``smcp trust``: which project files may name what runs, each with the content that was looked at."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from supervisord_mcp.cli.client import connected, paths
from supervisord_mcp.cli.confirming import Yes, confirm
from supervisord_mcp.cli.output import console, count, print_json, print_table, printable
from supervisord_mcp.cli.parameters import AsJson, project_root
from supervisord_mcp.errors import NoDaemonError, SmcpError, UsageError
from supervisord_mcp.protocol import control

if TYPE_CHECKING:
    from supervisord_mcp.config.trust import Trust
    from supervisord_mcp.hosts.files import Reading


def trust(
    path: Annotated[
        Path | None, typer.Argument(help="A file, or a project: all its files that name servers.", metavar="PATH")
    ] = None,
    *,
    show: Annotated[
        bool, typer.Option("--list", help="Show what is trusted, and whether it was changed since.")
    ] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Trust the file, or those of the project, no more.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Trust the files of a project that name servers (.mcp.json, .vscode/mcp.json and others) as they are now.

    Nothing that such a file names runs through smcp before, and nothing more after it was changed, until you look at it
    again. Without PATH it is about the project that you are in.
    """
    from supervisord_mcp.config.trust import Trust

    record = Trust.of(paths())
    if show:
        _list(record, as_json=as_json)
    elif revoke:
        _revoke(record, path)
    else:
        _trust(record, path, yes=yes)


def _list(record: Trust, *, as_json: bool) -> None:
    files = sorted(record.files().items())
    rows = [{"file": str(file), "since": one.since, "standing": record.standing(file)} for file, one in files]
    if as_json:
        print_json(msgspec.json.encode(rows))
    elif rows:
        print_table(("SINCE", "STANDING", "FILE"), [(row["since"], row["standing"], row["file"]) for row in rows])
    else:
        console().print("no project file is trusted")


def _revoke(record: Trust, path: Path | None) -> None:
    place = _place(path)
    inside = [file for file in record.files() if file == place or place in file.parents]
    if not inside:
        raise UsageError(f"nothing in {place} is trusted", remedy="smcp trust --list shows what is")
    for file in inside:
        record.revoke(file)
    _tell(inside, trusted=False)


def _trust(record: Trust, path: Path | None, *, yes: bool) -> None:
    readings = [one for one in _readings(path) if not record.knows(one.file.path, one.content)]
    if not readings:
        console().print("trusted already")
        return
    for reading in readings:
        _show(record, reading)
    confirm(f"Trust {count(len(readings), 'file')}?", yes=yes, look="read above what they start")
    for reading in readings:
        record.add(reading.file.path, reading.content)
    _tell([reading.file.path for reading in readings], trusted=True)


def _tell(files: Sequence[Path], *, trusted: bool) -> None:
    """Tell a daemon that runs, for its events; it reads the record anew for every start anyway."""
    with suppress(NoDaemonError), connected() as client:
        client.ask(control.TrustChanged(files=tuple(map(str, files)), trusted=trusted))


def _readings(path: Path | None) -> list[Reading]:
    """Return the files of a project, or the one that is named. Raise `SmcpError` where none can be read."""
    from supervisord_mcp.adoption.gathering import Person, gather
    from supervisord_mcp.hosts.entry import Scope

    place = _place(path)
    projects = (place,) if place.is_dir() else place.parents
    for project in projects:
        gathered = gather(Person(paths(), os.environ, project))
        found = {
            reading.file.path: reading
            for reading in gathered.readings
            if reading.file.scope is Scope.PROJECT and (place.is_dir() or _same(reading.file.path, place))
        }
        if problems := [str(problem) for reading in found.values() for problem in reading.problems]:
            raise SmcpError("\n".join(problems), remedy="correct the file first")
        if found:
            return list(found.values())
    raise _no_file(place)


def _no_file(place: Path) -> UsageError:
    """Return why there is nothing to trust: a directory may stand where a host would read a file."""
    from supervisord_mcp.adoption.gathering import Person
    from supervisord_mcp.hosts.catalogue import HOSTS
    from supervisord_mcp.hosts.entry import Scope
    from supervisord_mcp.runtimes.placeholders import is_placeholder

    for project in (place, place.parent):
        where = Person(paths(), os.environ, project).where
        for file in (file for host in HOSTS.values() for file in host.files(where)):
            path = file.path
            if file.scope is not Scope.PROJECT or not path.is_dir() or place not in (project, path):
                continue
            if is_placeholder(str(path)):
                return UsageError(
                    f"{path} is an empty directory that smcp holds there while a server runs that may write to the"
                    " project, so that no server makes such a file",
                    remedy=f"stop the server: smcp stop NAME, or: rmdir {path}; make the file at once, and trust it",
                )
            return UsageError(f"{path} is a directory, and no file", remedy="remove it, or name another file")
    return UsageError(f"no host reads servers from {place}", remedy="name a file such as .mcp.json, or its project")


def _place(path: Path | None) -> Path:
    if path is not None:
        return Path(os.path.abspath(path))
    root = project_root(None)
    if root is None:
        raise UsageError("this directory is in no project", remedy="name the file, or the directory of the project")
    return Path(root)


def _same(one: Path, other: Path) -> bool:
    from supervisord_mcp.config.trust import placed

    return placed(one) == placed(other)


def _show(record: Trust, reading: Reading) -> None:
    from supervisord_mcp.adoption.tokens import secret_words

    changed = " was changed since you trusted it" if record.standing(reading.file.path) == "changed" else ""
    screen = console()
    screen.print(printable(f"{reading.file.path}{changed}"), style="bold", soft_wrap=True)
    for entry in reading.entries:
        argv = entry.words
        hidden = set(secret_words(argv))
        shown = " ".join("•••" if number in hidden else word for number, word in enumerate(argv))
        variables = f"  with {', '.join(entry.env)}" if entry.env else ""
        screen.print(printable(f"  {entry.name}: {shown or entry.url}{variables}"), soft_wrap=True)
    if not reading.entries:
        screen.print("  names no server")
