"""The daemon's place on the machine: the lock that makes it the only one, and the socket on which it is found.

A lock held with flock for the daemon's life is the only proof of ownership. Whether a daemon answers says nothing: it
may be busy. So only the owner of the lock removes a socket, and when it leaves only the one that it made itself.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from supervisord_mcp.errors import DaemonAliveError, SmcpError
from supervisord_mcp.shim import SOCKET_NAME
from supervisord_mcp.starter import LOCK_NAME

#: A unix socket address has 108 bytes, one of which ends it.
LONGEST_PATH = 107

_BACKLOG = 4096
_LOCK_PATIENCE = 0.5  # a shim that looks whether the lock is free holds it for a moment
_LOCK_STEP = 0.005
_ANSWER_PATIENCE = 1.0

_KINDS = {
    stat.S_IFREG: "a regular file",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a fifo",
}


class Endpoint:
    """Owns the lock and the listening socket of one runtime directory.

    ``pointer`` names a file in which the directory is written down for hosts with another environment; None for none.
    ``pointer_problem`` says why that was not possible; the daemon is found without it in the usual place. ``crashed``
    is the pid of the owner before, where it did not end in order, else None.
    """

    def __init__(self, directory: str | Path, *, pointer: str | Path | None = None) -> None:
        """Take the lock and bind the socket.

        Raise `DaemonAliveError` if another daemon owns the directory, `SmcpError` if it or the path cannot be used.
        """
        self.directory = os.fspath(directory)
        self.path = os.path.join(self.directory, SOCKET_NAME)
        self.pointer_problem: str | None = None
        self._pointer = None if pointer is None else os.fspath(pointer)
        if len(os.fsencode(self.path)) > LONGEST_PATH:
            text = f"the path of the socket is {len(os.fsencode(self.path))} bytes long, the limit is {LONGEST_PATH}"
            raise SmcpError(f"{text}: {self.path}", remedy="Set XDG_RUNTIME_DIR or SMCP_HOME to a shorter path.")
        _make_private(self.directory)
        before = _last_owner(self.directory)
        self._lock = _take_lock(self.directory)
        # Who ends in order takes its socket away first.
        self.crashed = before if _identify(self.path) is not None else None
        try:
            self.socket = self._bind()
        except BaseException:
            os.close(self._lock)
            raise
        self._write_pointer()

    def rebind_if_lost(self) -> bool:
        """Bind again if the socket file was deleted, and return whether it was: then ``socket`` is a new one.

        The lock, and the directory of both, are made again where they were deleted.

        A node of somebody else in its place stays, unless it is a socket on which nobody listens. Raise
        `DaemonAliveError` if the lock file was deleted and another daemon has made itself the owner since.
        """
        if self.socket.fileno() < 0:
            return False
        _make_private(self.directory)
        if not self._holds_lock():
            lock = _take_lock(self.directory)
            os.close(self._lock)
            self._lock = lock
        found = _identify(self.path)
        if found == self._node or (found is not None and not _is_stale(self.path)):
            return False
        lost = self.socket
        self.socket = self._bind()
        lost.close()
        self._write_pointer()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close_socket(self) -> None:
        """Be found no more: who comes now waits for the next daemon. Only our own socket file goes. Idempotent."""
        if self.socket.fileno() >= 0:
            if _identify(self.path) == self._node:
                os.unlink(self.path)
            if self._holds_lock():
                self._remove_pointer()  # else it is that of another daemon in the same directory
            self.socket.close()

    def close(self) -> None:
        """Close the socket and let go of the lock, last: the next daemon may start now. Idempotent."""
        self.close_socket()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _holds_lock(self) -> bool:
        """Whether the lock that we hold is the one that others see: the directory may be another by now."""
        return _is_same(self._lock, os.path.join(self.directory, LOCK_NAME))

    def _bind(self) -> socket.socket:
        found = _identify(self.path)
        if found is not None:
            kind = stat.S_IFMT(os.lstat(self.path).st_mode)
            if kind != stat.S_IFSOCK:
                text = f"{self.path} is {_KINDS.get(kind, 'not a socket')}, so the daemon cannot listen there"
                raise SmcpError(text, remedy="Move it away; it was not touched.")
            os.unlink(self.path)  # left behind by a daemon that was killed, since the lock was free
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # The node gets the mode of the descriptor less the umask, so there is no moment in which it is wider.
            os.fchmod(listening.fileno(), 0o600)
            listening.bind(self.path)
            os.chmod(self.path, 0o600)
            listening.listen(_BACKLOG)
            listening.setblocking(False)
        except OSError as error:
            listening.close()
            raise SmcpError(f"cannot listen on {self.path}: {error.strerror}") from error
        self._node = _identify(self.path)
        return listening

    def _write_pointer(self) -> None:
        if self._pointer is None:
            return
        temporary = f"{self._pointer}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self._pointer), mode=0o700, exist_ok=True)
            Path(temporary).write_text(f"{self.directory}\n", encoding="utf-8", errors="surrogateescape")
            os.chmod(temporary, 0o600)
            os.replace(temporary, self._pointer)
            self.pointer_problem = None
        except OSError as error:
            self.pointer_problem = f"{self._pointer}: {error.strerror}"

    def _remove_pointer(self) -> None:
        if self._pointer is None:
            return
        try:
            if Path(self._pointer).read_text(encoding="utf-8", errors="surrogateescape") == f"{self.directory}\n":
                os.unlink(self._pointer)
        except OSError:
            pass  # gone already, or as unwritable as it was at the start


def _make_private(directory: str) -> None:
    """Make sure that the directory exists, is our own and closed to others, whatever the umask."""
    try:
        os.makedirs(os.path.dirname(directory), mode=0o700, exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        found = os.lstat(directory)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            kind = _KINDS.get(stat.S_IFMT(found.st_mode), "not a directory")
            text = f"{directory} is {kind} of uid {found.st_uid}, not a directory of uid {os.getuid()}"
            raise SmcpError(text, remedy="Remove it, or set XDG_RUNTIME_DIR or SMCP_HOME.")
        if stat.S_IMODE(found.st_mode) != 0o700:
            os.chmod(directory, 0o700)
    except OSError as error:
        raise SmcpError(f"cannot make the directory {directory}: {error.strerror}") from error


def _last_owner(directory: str) -> str | None:
    try:
        with open(os.path.join(directory, LOCK_NAME), encoding="utf-8", errors="replace") as lock:
            return lock.read(32).strip() or None
    except OSError:
        return None


def _take_lock(directory: str) -> int:
    path = os.path.join(directory, LOCK_NAME)
    deadline = time.monotonic() + _LOCK_PATIENCE
    while True:
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SmcpError(f"cannot open the lock {path}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same(lock, path):
                os.ftruncate(lock, 0)
                os.pwrite(lock, b"%d\n" % os.getpid(), 0)
                return lock
        except BlockingIOError:
            if time.monotonic() > deadline:
                pid = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
                os.close(lock)
                raise _alive(directory, pid) from None
            time.sleep(_LOCK_STEP)
        os.close(lock)  # busy, or deleted between our opening and locking it


def _alive(directory: str, pid: str) -> DaemonAliveError:
    if _answers(os.path.join(directory, SOCKET_NAME)):
        return DaemonAliveError(f"daemon pid {pid} is alive and listens in {directory}")
    remedy = f"Give it a moment, or look at what it does; kill -9 {pid} ends it, and hosts get it back by themselves."
    return DaemonAliveError(f"daemon pid {pid} is alive but does not answer (directory {directory})", remedy=remedy)


def _answers(path: str) -> bool:
    """Return whether somebody does something there: a daemon hangs up on what is not a greeting."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_ANSWER_PATIENCE)
        try:
            probe.connect(path)
        except OSError:
            return False
        try:
            probe.sendall(b"\n")
            probe.recv(1)
        except TimeoutError:
            return False
        except OSError:
            pass
    return True


def _is_stale(path: str) -> bool:
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
    return False


def _identify(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _is_same(descriptor: int, path: str) -> bool:
    found = os.fstat(descriptor)
    return _identify(path) == (found.st_dev, found.st_ino)
