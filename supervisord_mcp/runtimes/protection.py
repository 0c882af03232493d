"""What stays read-only in a directory that a server may write: files that make other programs run something later.

A protected path is a mount of its own, and so is every directory on the way to it: the kernel lets nobody move or
remove a mount point, so none of them can be replaced. A path that does not exist needs something to be mounted on: an
empty directory, which git does not see, stands there while the server runs (see `placeholders`).

Where a repository's settings say that its hooks are elsewhere in the directory, they are protected there. Where a
repository keeps what counts for all of its parts is a question of files as well: a file ``commondir`` in a
repository leads git to other hooks and settings, so it is protected too.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.base import Mount
from supervisord_mcp.runtimes.placeholders import is_placeholder

#: In every repository of git, worktree and submodule: what decides which programs git runs.
_GIT = ("hooks", "config", "config.worktree", "commondir")
_GIT_WORKTREE = ("config.worktree", "commondir")
_GIT_DIRECTORY = ".git"
_HOOKS = ".git/hooks"
_MOST_SETTINGS = 1 << 20
_SECTION = re.compile(r"\s*\[([^\]]*)\](.*)")
_HOOKS_PATH = re.compile(r"\s*hookspath\s*=\s*(?:\"([^\"]*)\"|([^\s#;]+))", re.IGNORECASE)
_MOST_REPOSITORIES = 64
_DEEPEST = 6
#: What stands for a file that git would read: the text changes nothing for it.
STAND_INS = {"commondir": b".\n", "config.worktree": b"\n"}

#: Makes what a path is mounted on: given the path and a text (None for a directory), returns whether it is there now.
Fill = Callable[[str, bytes | None], bool]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A path to protect; ``fill`` is whether it is also protected where it does not exist.

    ``named`` is what the configuration calls it, where that is not the path.
    """

    path: str
    fill: bool
    named: str = ""


def protected_mounts(mount: Mount, fill: Fill) -> list[Mount]:
    """Given a mount with protected paths, return the mounts that protect them. Raise `LaunchError` where one cannot be.

    A mount of a file has none: nothing is below it.
    """
    if mount.access != "rw" or not (mount.protected or mount.protected_if_there) or not os.path.isdir(mount.path):
        return []
    found: dict[str, Mount] = {}
    # The shortest first: below what is read-only as a whole nothing is left to protect, or to be made.
    for wanted in sorted(_wanted(mount), key=lambda wanted: wanted.path.count("/")):
        closed = [path for path, guard in found.items() if guard.access == "ro"]
        path = os.path.join(mount.path, wanted.path)
        if not any(path == other or path.startswith(f"{other}/") for other in closed):
            for guard in _guards(mount, wanted, fill):
                found.setdefault(guard.path, guard)
    return list(found.values())


def _wanted(mount: Mount) -> Iterator[_Wanted]:
    names = [*(_Wanted(name, True) for name in mount.protected)]
    names += [_Wanted(name, False) for name in mount.protected_if_there]
    for wanted in names:
        top, _, rest = wanted.path.partition("/")
        if top == _GIT_DIRECTORY and rest and _kind(mount.path, top) == stat.S_IFREG:
            # A worktree or a submodule: the file says where its repository is.
            yield _Wanted(top, True)
        else:
            yield wanted
    allowed = [w.path.partition("/")[2] for w in names if w.path.startswith(f"{_GIT_DIRECTORY}/")]
    for repository in _repositories(mount.path):
        yield from (_Wanted(os.path.join(repository, name), True) for name in _GIT if name in allowed)
    if _HOOKS in mount.protected and (path := _hooks_elsewhere(mount.path)):
        yield _Wanted(path, True, _HOOKS)
    for worktree in _worktrees(mount.path):
        yield from (_Wanted(os.path.join(worktree, name), True) for name in _GIT_WORKTREE if name in allowed)


def _hooks_elsewhere(root: str) -> str:
    """Return where the settings of a repository say that its hooks are, relative to it; empty where that is outside."""
    try:
        with open(os.path.join(root, _GIT_DIRECTORY, "config"), encoding="utf-8", errors="replace") as file:
            settings = file.read(_MOST_SETTINGS)
    except OSError:
        return ""
    section, found = "", ""
    for line in settings.splitlines():
        if match := _SECTION.match(line):
            section, line = match[1].strip().lower(), match[2]  # noqa: PLW2901 (a value may follow in the same line)
        if section == "core" and (match := _HOOKS_PATH.match(line)):
            found = match[1] or match[2] or ""
    if not found:
        return ""
    path = os.path.relpath(os.path.join(root, os.path.expanduser(found)), root)
    return "" if path == "." or path.split("/")[0] in ("..", _GIT_DIRECTORY) else path


def _repositories(root: str) -> Iterator[str]:
    """Yield the repositories of git that are in a directory beside its own ``.git``, relative to it."""
    if _is_repository(root):
        yield ""
    for number, path in enumerate(_below(os.path.join(root, _GIT_DIRECTORY, "modules"), _DEEPEST)):
        if number >= _MOST_REPOSITORIES:
            raise LaunchError(
                f"mount of {root}: it has more than {_MOST_REPOSITORIES} submodules, too many to protect their hooks",
                remedy='Mount a part of it, or say unprotected = [".git/hooks", ".git/config"].',
                retryable=False,
            )
        yield os.path.relpath(path, root)


def _worktrees(root: str) -> Iterator[str]:
    """Yield where a repository keeps what it knows of its worktrees, relative to its directory."""
    place = os.path.join(root, _GIT_DIRECTORY, "worktrees")
    if os.path.isdir(place) and not os.path.islink(place):
        for name in sorted(os.listdir(place)):
            if os.path.isfile(os.path.join(place, name, "HEAD")):
                yield os.path.join(_GIT_DIRECTORY, "worktrees", name)


def _below(directory: str, depth: int) -> Iterator[str]:
    """Yield the repositories below a directory, which a submodule with slashes in its name makes deeper."""
    if depth == 0 or not os.path.isdir(directory) or os.path.islink(directory):
        return
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            if _is_repository(entry.path):
                yield entry.path
                yield from _below(os.path.join(entry.path, "modules"), depth - 1)
            else:
                yield from _below(entry.path, depth - 1)


def _is_repository(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "HEAD")) and all(
        os.path.isdir(os.path.join(path, name)) for name in ("objects", "refs")
    )


def _guards(mount: Mount, wanted: _Wanted, fill: Fill) -> Iterator[Mount]:
    names = wanted.path.split("/")
    for number in range(1, len(names) + 1):
        part = "/".join(names[:number])
        last = number == len(names)
        kind = _kind(mount.path, part)
        if kind == stat.S_IFLNK:
            name = wanted.named or wanted.path
            raise LaunchError(
                f"mount of {mount.path}: {part} is a symbolic link, so it cannot be kept read-only",
                remedy=f'Replace the link, or say that it need not be protected: unprotected = ["{name}"].',
                retryable=False,
            )
        if kind is None or is_placeholder(os.path.join(mount.path, part)):
            text = STAND_INS.get(names[number - 1]) if last else None
            if wanted.fill and fill(os.path.join(mount.path, part), text):
                yield _guard(mount, part, closed=True)
            return
        if not last and kind != stat.S_IFDIR:
            # There is nothing below a file; that it is none is what is to stay.
            yield _guard(mount, part, closed=True)
            return
        yield _guard(mount, part, closed=last)


def _guard(mount: Mount, part: str, *, closed: bool) -> Mount:
    target = os.path.join(mount.target or mount.path, part)
    return Mount(os.path.join(mount.path, part), "ro" if closed else "rw", target, pinned=True)


def _kind(root: str, part: str) -> int | None:
    try:
        return stat.S_IFMT(os.lstat(os.path.join(root, part)).st_mode)
    except OSError:
        return None
