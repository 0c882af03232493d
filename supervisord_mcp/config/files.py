"""Files that a person owns: read without surprises, locked against a second editor, replaced in one step."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from supervisord_mcp.errors import SmcpError

#: A larger file is no configuration; reading it would only hurt the daemon.
LARGEST = 8 << 20
#: How long an edit waits for another one, and how often it looks.
LOCK_WAIT = 10.0
_LOCK_PAUSE = 0.02
#: Links that lead to links; the system itself gives up at 40.
_MOST_LINKS = 40


class LockedError(SmcpError):
    """Somebody else keeps a lock for longer than anybody wants to wait."""


def read_file(path: Path, largest: int = LARGEST) -> bytes:
    """Return a regular file of at most so many bytes. Raise `OSError` with a text for a person otherwise."""
    # O_NONBLOCK: opening a FIFO must not wait for somebody to write into it.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        with open(fd, "rb", closefd=False) as file:
            data = file.read(largest + 1)
    finally:
        os.close(fd)
    if len(data) > largest:
        raise OSError(errno.EFBIG, f"larger than {largest >> 20} MiB")
    return data


@contextmanager
def locked(path: Path, wait: float = LOCK_WAIT, what: str = "configuration") -> Iterator[None]:
    """Hold the lock file while the block runs; ``what`` is what it stands for.

    Raise `SmcpError` if there cannot be such a file, and `LockedError` if somebody else keeps it for too long.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise SmcpError(
            f"the {what} cannot be edited: {path}: {error.strerror}; nothing was changed",
            remedy="check who may write there, and whether the disk is full or mounted read-only",
        ) from error
    try:
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise LockedError(
                        f"somebody else has been editing the {what} for {wait:g} s (lock {path})",
                        remedy=f"find the process with: fuser {path}",
                    ) from None
                time.sleep(_LOCK_PAUSE)
        yield
    finally:
        os.close(fd)


class ChangedError(OSError):
    """A file is no longer what it was when somebody decided to replace it."""


def replace_file(path: Path, data: bytes, mode: int = 0o600, *, before: bytes | None = None) -> None:
    """Give a file a new content in one step; a reader sees the old or the new one, also after a power cut.

    A link is followed. Mode and owner of an existing file are kept; a new one gets ``mode``. Raise `OSError` if the
    file cannot be replaced; then the old one is still there and nothing else is left. With ``before`` the file is
    replaced only if it still holds that, looked at as late as possible: to write to a disk takes time, in which
    another program may save it too. Else raise `ChangedError`.
    """
    target = Path(os.path.realpath(path))
    old = _status(target)
    if old is not None and not os.access(target, os.W_OK, effective_ids=True):
        # Renaming over it would work, but whoever made it read-only meant it.
        raise PermissionError(errno.EACCES, "the file is read-only", str(target))
    fd, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            if old is not None and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(fd, old.st_uid, old.st_gid)
            os.fchmod(fd, stat.S_IMODE(old.st_mode) if old is not None else mode)
            file.flush()
            os.fsync(fd)
        if before is not None and read_file(target) != before:
            raise ChangedError(errno.EAGAIN, "was changed by another program meanwhile", str(target))
        os.replace(name, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    _sync_directory(target.parent)


def keep_file(path: Path, data: bytes) -> None:
    """Give a file of the daemon's own a new content in one step, its directory too; quick, for it can be done without.

    Raise `OSError` if that is not possible; then nothing else is left.
    """
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def link_directories(path: Path) -> tuple[Path, ...]:
    """Return every directory in which a change can make a path mean another file.

    These are the directory of the path and of every link on the way to the file, the links of parent directories too.
    A directory that does not exist is replaced by its nearest parent that does.
    """
    current = Path(os.path.abspath(path))
    found = {_existing(current.parent): None}
    for _ in range(_MOST_LINKS):
        # From the root down, so that ".." in a link means what it means to the system.
        link = next((place for place in (*reversed(current.parents), current) if place.is_symlink()), None)
        if link is None:
            break
        found[link.parent] = None
        target = Path(os.path.normpath(link.parent / os.readlink(link)))
        current = target / current.relative_to(link)
    found[_existing(current.parent)] = None
    return tuple(found)


def _existing(directory: Path) -> Path:
    while not directory.is_dir() and directory != directory.parent:
        directory = directory.parent
    return directory


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _sync_directory(directory: Path) -> None:
    # Some file systems refuse to sync a directory; the rename itself has happened.
    with suppress(OSError):
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
