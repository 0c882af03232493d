"""Secrets in files: read only where nobody else can read or change them."""

from __future__ import annotations

import os
import stat

from supervisord_mcp.credentials.base import LONGEST, Source, text_of
from supervisord_mcp.errors import SecretError


class FileSource(Source):
    """Reads files; ``home`` is what a leading ~ stands for."""

    def __init__(self, home: str) -> None:
        self._home = home

    def read(self, name: str) -> str:
        """Return the content of a file without the newline at its end. Raise `SecretError` where others can read it."""
        path = os.path.join(self._home, name[2:]) if name.startswith("~/") else name
        return text_of(read_private(path))


def read_private(path: str, *, managed: bool = False) -> bytes:
    """Return the content of a small file that only its owner, who is this user or root, can read or change.

    ``managed`` is for files whose rights are the concern of whoever put them there (systemd). Raise `SecretError`.
    """
    try:
        # O_NONBLOCK: opening a FIFO must not wait for somebody to write into it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise SecretError(f"there is no file {path}", remedy="Create it, for yourself alone (chmod 600).") from None
    except OSError as error:
        raise SecretError(f"{path} cannot be read: {error.strerror}", remedy="Check its owner and mode.") from None
    try:
        # Of what was opened, not of what the path leads to by now.
        status = os.fstat(descriptor)
        _check(path, status, managed=managed)
        content = _read(descriptor)
    except OSError as error:
        raise SecretError(f"{path} cannot be read: {error.strerror}", remedy="Check the disk.") from None
    finally:
        os.close(descriptor)
    if len(content) > LONGEST:
        raise SecretError(f"{path} is larger than {LONGEST} bytes", remedy="Name a file that holds the secret alone.")
    return content


def _check(path: str, status: os.stat_result, *, managed: bool) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SecretError(f"{path} is no regular file", remedy="Name a file that holds the secret.")
    if managed:
        return
    if status.st_uid not in (0, os.geteuid()):
        raise SecretError(f"{path} belongs to user {status.st_uid}", remedy="Use a file of your own.")
    if (mode := stat.S_IMODE(status.st_mode)) & 0o077:
        raise SecretError(
            f"{path} can be read or changed by others (mode {mode:04o})",
            remedy=f"Keep it to yourself: chmod 600 {path}",
        )


def _read(descriptor: int) -> bytes:
    content = b""
    while len(content) <= LONGEST and (part := os.read(descriptor, LONGEST + 1 - len(content))):
        content += part
    return content
