"""Files with secrets for a server that has no mount namespace: on a tmpfs, for it alone, gone when it is gone.

Without a namespace the files are at a real path. Another server that runs as the same user and is not held back (bare)
can read them, as it can read the environment of its neighbours; nobody else can. A tmpfs is never on disk, though the
kernel may swap it out like any memory.
"""

from __future__ import annotations

import ctypes
import glob
import hashlib
import os
import secrets
import shutil

import anyio.to_thread

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.base import SecretFiles
from supervisord_mcp.runtimes.identity import Identity

#: Every Linux has one; sticky, so nobody else can take a directory of ours away.
_SHARED_MEMORY = "/dev/shm"
#: Numbers of statfs(2) for what lives in memory.
_TMPFS, _RAMFS = 0x01021994, 0x858458F6


class Delivery:
    """The files of one child. Made before it starts; removed when it has ended."""

    def __init__(self, server: str, files: SecretFiles, identity: Identity | None = None) -> None:
        """Make them, for the user that the server will be. Raise `IsolationError` where they cannot be made."""
        self.directory = ""
        self.variables: tuple[tuple[str, str], ...] = ()
        if not files.values:
            return
        try:
            self._make(server, files, identity)
        except OSError as error:
            remove(self.directory)
            raise IsolationError(
                f"server {server} was not started: its secrets cannot be put into files: {error}",
                remedy=f'Make room in {files.place or _SHARED_MEMORY}, or use deliver = "env".',
            ) from error

    def _make(self, server: str, files: SecretFiles, identity: Identity | None) -> None:
        self.directory = f"{_begin(files.place)}{secrets.token_hex(8)}"
        os.mkdir(self.directory, 0o700)
        for variable, value in files.values:
            path = os.path.join(self.directory, variable)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(value.encode())
                if identity is not None:
                    os.fchown(descriptor, identity.uid, identity.gid)
            self.variables = (*self.variables, (variable, path))
        if identity is not None:
            os.chown(self.directory, identity.uid, identity.gid)

    def close(self) -> None:
        """Remove the files at once: whoever has one open keeps it, nobody opens another."""
        remove(self.directory)

    async def aclose(self) -> None:
        """Remove the files. Idempotent."""
        await anyio.to_thread.run_sync(remove, self.directory)


def remove(directory: str) -> None:
    """Remove a directory with secrets, if there is one."""
    if directory:
        shutil.rmtree(directory, ignore_errors=True)


def clean(place: str) -> None:
    """Remove what servers of a daemon that was killed had; they are gone now."""
    remove(place)
    for left in glob.glob(f"{glob.escape(_left_in(place))}*"):
        remove(left)


def is_in_memory(path: str) -> bool:
    """Return whether files there are never written to a disk."""
    found = ctypes.create_string_buffer(256)
    if ctypes.CDLL(None).statfs(os.fsencode(path), found) != 0:
        return False
    # The first member of the structure, a word on every machine.
    return ctypes.c_ulong.from_buffer(found).value & 0xFFFFFFFF in (_TMPFS, _RAMFS)


def _begin(place: str) -> str:
    """Return what the directories of children begin with. Raise `IsolationError` where there is no tmpfs."""
    if is_in_memory(os.path.dirname(place)):
        os.makedirs(place, mode=0o700, exist_ok=True)
        return f"{place}/"
    if is_in_memory(_SHARED_MEMORY):
        return _left_in(place)
    raise IsolationError(
        f"there is no tmpfs for files with secrets: neither {os.path.dirname(place)} nor {_SHARED_MEMORY} is one",
        remedy='Mount one, or use deliver = "env".',
    )


def _left_in(place: str) -> str:
    """Return how the directories of a daemon begin where they are beside those of others."""
    return f"{_SHARED_MEMORY}/smcp-{hashlib.sha256(os.fsencode(place)).hexdigest()[:12]}-"
