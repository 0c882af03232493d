"""What somebody else owns, lent to the user of a server, who works on it as on its own; on the disk nothing changes.

A daemon that is run by root is often told to show files of root, or of a person. No sandbox is root for that: the
kernel shows such a mount with its owner exchanged for the user of the server (an idmapped mount, Linux 5.12). What a
third one owns in it stays closed to writing. Where a file system cannot do that, what is closed stays closed, and that
is said.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import stat
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.base import Access, LaunchSpec
from supervisord_mcp.runtimes.descriptors import Descriptors
from supervisord_mcp.runtimes.identity import Identity, may
from supervisord_mcp.runtimes.openat2 import NO_MAGICLINKS, NO_SYMLINKS, open_path
from supervisord_mcp.runtimes.seccomp import Policy

# The same numbers on every architecture.
_OPEN_TREE, _MOUNT_SETATTR = 428, 442
_CLONE, _AT_EMPTY_PATH, _AT_RECURSIVE = 1, 0x1000, 0x8000
_IDMAP = 0x100000
_CLONE_NEWUSER = 0x10000000
_STACK = 1 << 16
#: Waits also for a process whose end no signal tells of.
_WALL = 0x40000000


def lend(spec: LaunchSpec, identity: Identity | None, descriptors: Descriptors) -> dict[str, int]:
    """Return a detached mount, by its path, of all that an identity could not use as it was promised.

    Without an identity there is nothing. ``descriptors`` closes them in the end. Raise `LaunchError` for a path that it
    may not use and the kernel cannot lend.
    """
    found: dict[str, int] = {}
    owners: dict[str, tuple[int, int]] = {}
    if identity is None:
        return found
    for path, access in sorted(_shown(spec), key=lambda shown: shown[0].split("/")):
        opened = _open(path)
        try:
            owner = os.fstat(opened)
            if any(path.startswith(f"{above}/") and owners[above] == (owner.st_uid, owner.st_gid) for above in found):
                continue  # it comes with that
            tree = _lend(opened, identity, access)
        except OSError as error:
            raise _refusal(spec.name, path, access, identity, error) from error
        finally:
            os.close(opened)
        if tree is not None:
            descriptors.keep(tree)
            found[path], owners[path] = tree, (owner.st_uid, owner.st_gid)
    return found


def as_borrower(spec: LaunchSpec, loans: Mapping[str, int]) -> LaunchSpec:
    """Return what is launched so that what it leaves behind does no harm: where it may write, nothing is its own.

    The files belong to root, or to the person, and whoever else runs one with the wrong bit is that one.
    """
    return replace(spec, seccomp=borrowing(spec, lent=bool(loans)))


def borrowing(spec: LaunchSpec, *, lent: bool = False) -> Policy:
    """Return which system calls a server may make; ``lent`` says that it works on something of somebody else."""
    lent = lent or any(mount.access == "rw" for mount in spec.mounts)
    return replace(spec.seccomp, lent=True) if lent else spec.seccomp


def _shown(spec: LaunchSpec) -> Iterator[tuple[str, Access]]:
    """Yield every path that may have to be lent, with its access; what is part of a mount comes with it.

    What does not exist is left out: who starts the server says so.
    """
    for mount in spec.mounts:
        if not mount.pinned and os.path.exists(path := os.path.realpath(mount.path)):
            yield path, mount.access
    for path in filter(os.path.exists, map(os.path.realpath, spec.read_only)):
        needed = 0o555 if os.path.isdir(path) else 0o444
        if os.stat(path).st_mode & needed != needed:
            yield path, "ro"


def _open(path: str) -> int:
    try:
        return open_path(path, NO_SYMLINKS | NO_MAGICLINKS)
    except OSError as error:
        raise LaunchError(f"mount of {path}: {error.strerror}", remedy="Check `mounts`.", retryable=False) from error


def _lend(opened: int, identity: Identity, access: Access) -> int | None:
    """Return a mount of what was opened, or None where it is not needed. Raise `OSError` where it is and cannot be."""
    owner = os.fstat(opened)
    directory = stat.S_ISDIR(owner.st_mode)
    wanted = os.R_OK | (os.X_OK if directory else 0) | (os.W_OK if access == "rw" else 0)
    # What else is closed in files of root nobody has opened to this user, so they are lent even where the top is open.
    if owner.st_uid == identity.uid or (owner.st_uid != 0 and may(opened, identity, wanted)):
        return None
    try:
        return _detached(opened, owner, identity)
    except OSError:
        if owner.st_uid == 0 and may(opened, identity, wanted):
            return None
        raise


def _detached(opened: int, owner: os.stat_result, identity: Identity) -> int:
    """Return a mount of what was opened, not yet anywhere, in which the identity stands for the owner."""
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = _exchange(libc, owner, identity)
    try:
        flags = ctypes.c_uint(_CLONE | _AT_EMPTY_PATH | _AT_RECURSIVE | os.O_CLOEXEC)
        tree = _check(libc.syscall(_OPEN_TREE, ctypes.c_int(opened), b"", flags))
        attributes = struct.pack("=QQQQ", _IDMAP, 0, 0, namespace)
        flags = ctypes.c_uint(_AT_EMPTY_PATH | _AT_RECURSIVE)
        size = ctypes.c_size_t(len(attributes))
        try:
            _check(libc.syscall(_MOUNT_SETATTR, ctypes.c_int(tree), b"", flags, attributes, size))
        except BaseException:
            os.close(tree)
            raise
        return tree
    finally:
        os.close(namespace)


def _exchange(libc: ctypes.CDLL, owner: os.stat_result, identity: Identity) -> int:
    """Return a user namespace in which the identity has the numbers of an owner. Raise `OSError`.

    A namespace needs a process that it begins with: a copy of this one that does nothing but wait, not even in Python.
    """
    stack = ctypes.create_string_buffer(_STACK)
    top = ctypes.c_void_p((ctypes.addressof(stack) + _STACK) & ~0xF)
    wait = ctypes.cast(libc.pause, ctypes.c_void_p)
    # Without a signal at its end, so nobody else waits for it.
    pid = _check(libc.clone(wait, top, _CLONE_NEWUSER, None))
    try:
        for name, theirs, own in (("uid_map", owner.st_uid, identity.uid), ("gid_map", owner.st_gid, identity.gid)):
            with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as file:
                file.write(f"{theirs} {own} 1")
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, _WALL)


def _refusal(server: str, path: str, access: Access, identity: Identity, error: OSError) -> LaunchError:
    what = "write" if access == "rw" else "read"
    rights = f"u:{identity.uid}:{'rwX' if access == 'rw' else 'rX'}"
    default = f" -m d:{rights}" if os.path.isdir(path) else ""
    return LaunchError(
        f"server {server} runs as user {identity.uid}, who may not {what} {path}, and it cannot be lent:"
        f" {error.strerror}",
        remedy=f"Allow it: setfacl -R -m {rights}{default} {shlex.quote(path)}",
        retryable=False,
    )


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
