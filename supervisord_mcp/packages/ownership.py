"""Whose the files of an installation are, where the daemon is run by root.

While a package is installed they belong to the user of the install sandbox, who is nobody else. Then they are root's
again: every server can read them, and none can change them for the next.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from supervisord_mcp.packages.settings import Settings
from supervisord_mcp.runtimes.base import Mount
from supervisord_mcp.runtimes.identity import Identity


def give(folder: Path, identity: Identity | None) -> None:
    """Let a folder with all that is in it belong to an identity; nothing is done where there is none."""
    if identity is None or folder.lstat().st_uid == identity.uid:
        return
    for name, directory in _everything(folder):
        os.chown(name, identity.uid, identity.gid, dir_fd=directory, follow_symlinks=False)
    # The folder itself comes last: one that an ended daemon left half done does not look done.
    os.chown(folder, identity.uid, identity.gid, follow_symlinks=False)


def take_back(folder: Path, identity: Identity | None) -> None:
    """Let a folder that nobody writes any more belong to the daemon, readable by all; as `give` with its identity."""
    if identity is None:
        return
    os.chown(folder, os.geteuid(), os.getegid())
    folder.chmod(0o755)
    for name, directory in _everything(folder):
        os.chown(name, os.geteuid(), os.getegid(), dir_fd=directory, follow_symlinks=False)
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
            # Neither setuid nor anything else of what the installer may have thought of.
            executable = stat.S_ISDIR(mode) or mode & stat.S_IXUSR
            os.chmod(name, 0o755 if executable else 0o644, dir_fd=directory)


@contextlib.contextmanager
def readable(
    settings: Settings, identity: Identity | None, writable: tuple[Path, ...], *, contained: bool = False
) -> Iterator[Settings]:
    """Give settings that an identity can read for a block: files that are closed to it are shown as copies.

    The copies lie beside the first of the folders that are written, for the time of the block. With ``contained`` they
    are for a container, in which nobody owns anything of the machine; then their directory is closed instead.
    """
    other = identity is not None or contained
    closed = [path for path in settings.files if other and _is_closed_file(path)]
    mounts = [mount for mount in settings.mounts if other and _is_closed_file(mount.path)]
    if not (closed or mounts):
        yield settings
        return
    with tempfile.TemporaryDirectory(prefix="settings-", dir=writable[0].parent if writable else None) as name:
        wanted = {path: path for path in closed} | {mount.target or mount.path: mount.path for mount in mounts}
        made = []
        for number, (target, source) in enumerate(wanted.items()):
            copy = os.path.join(name, str(number))
            shutil.copyfile(source, copy)
            os.chmod(copy, 0o444 if identity is None else 0o400)
            if identity is not None:
                os.chown(copy, identity.uid, identity.gid)
            made.append(Mount(copy, "ro", target))
        os.chmod(name, 0o700 if identity is None else 0o711)
        yield replace(
            settings,
            files=tuple(path for path in settings.files if path not in closed),
            mounts=(*(mount for mount in settings.mounts if mount not in mounts), *made),
        )


def _is_closed_file(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and not mode & stat.S_IROTH


def _everything(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield all that is below a folder, each with a descriptor of its directory; no symbolic link is followed."""
    for _, directories, files, descriptor in os.fwalk(folder, follow_symlinks=False):
        for name in (*directories, *files):
            yield name, descriptor
