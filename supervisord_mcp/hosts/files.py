"""Files of hosts read, changed, shown before they are changed, and written in one step."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from supervisord_mcp.config.document import decode
from supervisord_mcp.config.files import ChangedError, read_file, replace_file
from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.errors import ConfigError, HostFileError, Problem
from supervisord_mcp.hosts.base import HostFile
from supervisord_mcp.hosts.differences import unified
from supervisord_mcp.hosts.edits import Replacement, replace_entries
from supervisord_mcp.hosts.entries import read_entries
from supervisord_mcp.hosts.entry import HostEntry
from supervisord_mcp.hosts.masking import hidden_values, masked
from supervisord_mcp.hosts.syntax import CannotEditError, SyntaxFaultError

_BOM = codecs.BOM_UTF8


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file says: its bytes, its entries, and what is wrong with it or with other entries."""

    file: HostFile
    content: bytes
    entries: tuple[HostEntry, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """A file before and after, and the paths of the entries that differ."""

    file: HostFile
    before: bytes
    after: bytes
    paths: tuple[KeyPath, ...]


class FileChangedError(HostFileError):
    """A file is no longer what it was when its change was made up."""


def read(file: HostFile) -> Reading:
    """Return what a file of a host says. A file that does not exist says nothing; other faults are its problems."""
    try:
        content = read_file(file.path)
    except FileNotFoundError:
        if file.path.is_symlink():
            message = f"the link leads to {os.readlink(file.path)}, which does not exist"
            return Reading(file, b"", problems=(Problem(str(file.path), None, "", message),))
        return Reading(file, b"")
    except OSError as error:
        return Reading(file, b"", problems=(Problem(str(file.path), None, "", f"cannot be read: {error.strerror}"),))
    return read_content(file, content)


def is_there(path: Path) -> bool:
    """Return whether there is something at a path that a host could mean: a directory is no file of one.

    An empty directory stands there while a server may write to the project, so that it cannot make such a file.
    """
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        # Nobody may look, or its directory is a link to itself: what stands in the way is told when it is read.
        return True
    # So it is for a link that leads nowhere.
    return not stat.S_ISDIR(mode)


def read_content(file: HostFile, content: bytes) -> Reading:
    """Return what a file says whose content is given."""
    try:
        text = decode(file.path, content)
        if not text.strip():
            return Reading(file, content)
        entries, problems = read_entries(file, text, file.dialect.syntax.load(text))
    except ConfigError as error:
        return Reading(file, content, problems=error.problems)
    except SyntaxFaultError as fault:
        message = f"column {fault.column}: {fault.message}"
        return Reading(file, content, problems=(Problem(str(file.path), fault.line, "", message),))
    return Reading(file, content, entries, problems)


def change(reading: Reading, replacements: Mapping[KeyPath, Replacement]) -> Change:
    """Return what a file becomes when entries of it are replaced.

    Raise `HostFileError` if that cannot be done without touching other parts of it.
    """
    file = reading.file
    bom, text = split_bom(reading.content)
    try:
        after = replace_entries(file.dialect, text, replacements).encode()
    except UnicodeEncodeError:
        raise HostFileError(
            f"{file.path}: cannot be changed: a path that it would name is not UTF-8; nothing was changed",
            remedy="install smcp, and keep its files and the project, in directories with names in UTF-8",
        ) from None
    except (CannotEditError, SyntaxFaultError) as error:
        raise HostFileError(
            f"{file.path}: cannot be changed: {error}; nothing was changed", remedy="change the entry by hand"
        ) from error
    return Change(file, reading.content, bom + after, tuple(replacements))


def preview(change: Change, secrets: Collection[str] = ()) -> str:
    """Return the difference as a text for a person, without the values that look like secrets."""
    syntax = change.file.dialect.syntax
    texts = [split_bom(content)[1] for content in (change.before, change.after)]
    # What is hidden on one side must not show on the other, where it may stand under another name.
    hidden = {*secrets, *(value for text in texts for value in hidden_values(syntax, text))}
    before, after = (
        masked(syntax, text, hidden).replace("\r\n", "\n").removesuffix("\n").split("\n") for text in texts
    )
    lines = unified(before, after, (str(change.file.path), f"{change.file.path} (after)"))
    return "".join(f"{line}\n" for line in lines)


def write(change: Change) -> None:
    """Give the file its new content.

    Raise `FileChangedError` if it is no longer what it was, and `HostFileError` if it cannot be written.
    """
    path = change.file.path
    try:
        if read_file(path) != change.before:
            raise _changed(path)
        if change.after != change.before:
            _remove_left(path)
            replace_file(path, change.after, before=change.before)
    except ChangedError:
        raise _changed(path) from None
    except OSError as error:
        raise HostFileError(
            f"{path}: cannot be written: {error.strerror}; nothing was changed",
            remedy="check its permissions, those of its directory, and the disk",
        ) from error


def _remove_left(path: Path) -> None:
    """Remove what was left beside a file by a command that was killed while it replaced it: secrets may be in it."""
    target = Path(os.path.realpath(path))
    # As `tempfile` names them; no other program does, and no other command of ours is at work.
    ours = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.tmp")
    for name in filter(ours.fullmatch, os.listdir(target.parent)):
        (target.parent / name).unlink()


def _changed(path: Path) -> FileChangedError:
    return FileChangedError(
        f"{path}: was changed by another program meanwhile; nothing was changed", remedy="close the host, or try again"
    )


def split_bom(content: bytes) -> tuple[bytes, str]:
    """Return the byte order mark of valid content, and its text."""
    bom = _BOM if content.startswith(_BOM) else b""
    return bom, content[len(bom) :].decode()
