"""What stands for a protected path that does not exist, for as long as a sandbox mounts something on it.

It is in the person's own directory, so it is removed when the last server that needs it has ended, by whichever daemon
that is: each holds a shared lock on it, and who gets the lock alone removes it. A mark in its time tells it from what a
person made; what is no longer empty or was touched is theirs. A daemon that was killed finds its list again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from supervisord_mcp.errors import LaunchError

#: The time of all that stands for something, one that no clock gives by chance; in seconds that any file system keeps.
_MARK = 0x736D6370 * 1_000_000_000
_TRIES = 5
#: Who may not create a file: neither may a server with the same user.
_CANNOT = (errno.EACCES, errno.EPERM, errno.EROFS)


class Placeholders:
    """Makes and removes them for one daemon. ``record`` is a file that has the list of all there are.

    What an earlier daemon with the same list left behind is removed at once.
    """

    def __init__(self, record: Path | None = None) -> None:
        self._record = record
        self._paths: dict[str, int] = {}
        self._sweep()

    def hold(self) -> Held:
        """Return what holds the placeholders of one launch."""
        return Held(self)

    def note(self, path: str) -> None:
        """Note that somebody holds a placeholder."""
        self._paths[path] = self._paths.get(path, 0) + 1
        if self._record is not None and self._paths[path] == 1:
            with open(self._record, "a", encoding="utf-8") as file:
                file.write(f"{json.dumps(path)}\n")

    def forget(self, paths: Iterable[str]) -> None:
        """Note that somebody does not hold placeholders any more."""
        for path in paths:
            self._paths[path] -= 1
            if self._paths[path] == 0:
                del self._paths[path]
        if self._record is not None:
            _write(self._record, self._paths)

    def _sweep(self) -> None:
        if self._record is None or not (left := _read(self._record)):
            return
        for path in left:
            with contextlib.suppress(OSError):
                _release(path, _open(path))
        _write(self._record, ())


class Held:
    """The placeholders of one launch; a companion of its child."""

    def __init__(self, owner: Placeholders) -> None:
        self._owner = owner
        self._held: list[tuple[str, int]] = []

    def fill(self, path: str, text: bytes | None) -> bool:
        """Let something stand at a path; return whether it does. Raise `LaunchError` where it must and cannot.

        Where this process may not create it, a server that has its user cannot either; as root, that is not so.
        """
        for _ in range(_TRIES):
            try:
                _create(path, text)
                descriptor = _open(path)
            except FileNotFoundError:
                continue  # another one has just removed it
            except OSError as error:
                if error.errno in _CANNOT and (os.geteuid() != 0 or error.errno == errno.EROFS):
                    return False
                raise LaunchError(
                    f"{path} is to be protected and cannot be made: {error.strerror}",
                    remedy="Make its directory writable, mount it read-only, or name the path in `unprotected`.",
                ) from error
            if _share(descriptor) and _is_there(path, descriptor):
                self._held.append((path, descriptor))
                self._owner.note(path)
                return True
            os.close(descriptor)
        raise LaunchError(
            f"{path} is to be protected, and somebody keeps locking or removing what stands there",
            remedy="Stop the other servers that may write its directory, and try again.",
        )

    def close(self) -> None:
        """Remove what nobody else needs. Idempotent."""
        held, self._held = self._held, []
        for path, descriptor in held:
            _release(path, descriptor)
        if held:
            with contextlib.suppress(OSError):
                self._owner.forget([path for path, _ in held])

    async def aclose(self) -> None:
        """The same as `close`."""
        self.close()


def is_placeholder(path: str) -> bool:
    """Return whether something that some daemon made stands at a path, and nobody has changed it."""
    try:
        return os.lstat(path).st_mtime_ns == _MARK
    except OSError:
        return False


def _create(path: str, text: bytes | None) -> None:
    with contextlib.suppress(FileExistsError):
        if text is None:
            os.mkdir(path, 0o755)
        else:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try:
                os.write(descriptor, text)
            finally:
                os.close(descriptor)
        os.utime(path, ns=(_MARK, _MARK), follow_symlinks=False)


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _release(path: str, descriptor: int) -> None:
    """Give up a placeholder, and remove it where that was the last one and nobody has changed it."""
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(descriptor)
            if status.st_mtime_ns == _MARK and _is_there(path, descriptor):
                (os.rmdir if stat.S_ISDIR(status.st_mode) else os.unlink)(path)
    finally:
        os.close(descriptor)


def _share(descriptor: int) -> bool:
    """Take a shared lock, without waiting: a server may hold one of its own for ever."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_there(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except OSError:
        return False


def _read(record: Path) -> list[str]:
    """Return the paths in a record, a line each; the last line may have been cut short."""
    found = []
    try:
        lines = record.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        with contextlib.suppress(ValueError):
            path = json.loads(line)
            found += [path] if isinstance(path, str) else []
    return found


def _write(record: Path, paths: Iterable[str]) -> None:
    fresh = record.with_name(f"{record.name}.new")
    fresh.write_text("".join(f"{json.dumps(path)}\n" for path in sorted(paths)), encoding="utf-8")
    os.replace(fresh, record)
