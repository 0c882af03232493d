"""Attempts to make system calls that servers do not need."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import signal
import struct
import time

from supervisord_mcp.probes.inside.trying import (
    LIBC,
    AbsentError,
    Facts,
    Group,
    KeptError,
    call,
    calling,
)

GROUP = Group("system calls")

_NAMESPACES = {"user": 0x10000000, "mount": 0x00020000, "network": 0x40000000, "process": 0x20000000, "IPC": 0x08000000}
_BAD = (errno.EINVAL, errno.EBADF, errno.EFAULT, errno.ENOENT, errno.ENODEV)


def _clone(facts: Facts) -> None:
    child = call(facts, "clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


_PATH = b"/nonexistent"
_ZERO = ctypes.create_string_buffer(256)


def _enter(facts: Facts, name: str) -> None:
    descriptor = os.open(f"/proc/1/ns/{name}", os.O_RDONLY)
    call(facts, "setns", descriptor, 0)


def _perf(facts: Facts) -> None:
    # A software counter of its own time, for itself: what everybody may have where anything is allowed.
    attributes = bytearray(120)
    struct.pack_into("<IIQ", attributes, 0, 1, 120, 1)
    struct.pack_into("<Q", attributes, 40, (1 << 5) | (1 << 6))
    os.close(call(facts, "perf_event_open", (ctypes.c_char * 120).from_buffer(attributes), 0, -1, -1, 0))


def _child() -> int:
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    return child


def _trace(facts: Facts) -> None:
    child = _child()
    try:
        call(facts, "ptrace", 16, child, 0, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0x40000000)


def _peek(facts: Facts) -> None:
    target = ctypes.create_string_buffer(b"text")
    place = ctypes.create_string_buffer(8)
    vectors = [struct.pack("PN", ctypes.addressof(buffer), 4) for buffer in (place, target)]
    child = _child()
    try:
        call(facts, "process_vm_readv", child, vectors[0], 1, vectors[1], 1, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _borrow(facts: Facts) -> None:
    child = _child()
    try:
        pidfd = call(facts, "pidfd_open", child, 0)
        os.close(call(facts, "pidfd_getfd", pidfd, 0, 0))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _rename(facts: Facts) -> None:
    name = facts["hostname"].encode()
    call(facts, "sethostname", name, len(name))


def _unknown() -> None:
    if LIBC.syscall(ctypes.c_long(4000)) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _old_call() -> None:
    if os.uname().machine != "x86_64":
        raise AbsentError("there are none for this processor")
    # mov eax, 20 (getpid); int 0x80; ret
    code = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    found = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    if found != os.getpid():
        raise KeptError(f"it answered {found}")


GROUP.several({f"a {name} namespace of its own": calling("unshare", flag) for name, flag in _NAMESPACES.items()})

GROUP.several(
    {
        "clone with a namespace": _clone,
        "the namespaces of the first process": lambda f: _enter(f, "net"),
        "mount": calling("mount", b"none", b"/", b"smcp-none", 0, 0, fine=(errno.ENODEV,)),
        "unmount": calling("umount2", b"/", 0x80000000, fine=(errno.EINVAL,)),
        "another root": calling("pivot_root", _PATH, _PATH, fine=(errno.ENOENT,)),
        "chroot": calling("chroot", b"/"),
        "the new calls for mounts: fsopen": calling("fsopen", b"tmpfs", 0),
        "the new calls for mounts: open_tree": calling("open_tree", -100, b"/usr", 0),
        "the new calls for mounts: move_mount": calling(
            "move_mount", -1, b"", -1, b"", 0, fine=(errno.EBADF, errno.ENOENT)
        ),
        "the new calls for mounts: mount_setattr": calling(
            "mount_setattr", -1, b"", 0, _ZERO, 32, fine=(errno.EBADF, errno.ENOENT)
        ),
        "the list of mounts: listmount": calling("listmount", _ZERO, _ZERO, 1, 0, fine=(errno.EINVAL, errno.ENOENT)),
        "the list of mounts: statmount": calling("statmount", _ZERO, _ZERO, 256, 0, fine=(errno.EINVAL, errno.ENOENT)),
        "keys of the session": calling("keyctl", 0, -3, 1),
        "a key of its own": calling("add_key", b"user", b"smcp-probe", b"x", 1, -2),
        "ask for a key": calling("request_key", b"user", b"smcp-probe", 0, -2, fine=(126,)),
        "programs in the kernel": calling("bpf", 5, _ZERO, 48, fine=(errno.EINVAL, errno.E2BIG)),
        "counters of the processor": _perf,
        "faults of memory": calling("userfaultfd", 1),
        "io_uring": calling("io_uring_setup", 1, _ZERO, fine=(errno.EINVAL,)),
        "old asynchronous files": lambda f: call(f, "io_setup", 1, ctypes.byref(ctypes.c_ulong(0))),
        "to be traced": calling("ptrace", 0, 0, 0, 0),
        "trace a child": _trace,
        "memory of another process": _peek,
        "descriptors of another process": _borrow,
        "compare processes": lambda f: call(f, "kcmp", os.getpid(), os.getpid(), 0, 0, 0),
        "advice for another process": calling("process_madvise", -1, _ZERO, 0, 0, 0, fine=(errno.EBADF, errno.EINVAL)),
        "addresses that do not vary": calling("personality", 0x0040000),
        "segments of the processor": calling("modify_ldt", 0, _ZERO, 16),
        "the log of the kernel": calling("syslog", 3, _ZERO, 255),
        "quotas": calling("quotactl", 0x80000100, _PATH, 0, 0, fine=(*_BAD, errno.ENOTBLK)),
        "accounting": calling("acct", _PATH, fine=(errno.ENOENT, errno.EACCES)),
        "a restart of the machine": calling("reboot", 1, 2, 3, 0, fine=(errno.EINVAL,)),
        "a module for the kernel": calling("init_module", _ZERO, 0, b"", fine=(*_BAD, errno.ENOEXEC)),
        "remove a module": calling("delete_module", b"smcp-none", 0o4000, fine=(errno.ENOENT,)),
        "another kernel": calling("kexec_load", 0, 99, 0, 0, fine=(errno.EINVAL, errno.EADDRNOTAVAIL)),
        "swap": calling("swapon", _PATH, 0, fine=(errno.ENOENT,)),
        "ports": calling("iopl", 3),
        "some ports": calling("ioperm", 0x80, 1, 1),
        "watch all files": calling("fanotify_init", 0, 0),
        "pages into a pipe": calling("vmsplice", -1, 0, 0, 0, fine=(errno.EBADF,)),
        "move pages": calling("move_pages", 0, 0, 0, 0, 0, 0),
        "place memory": calling("mbind", 0, 0, 0, 0, 0, 0),
        "a policy for memory": calling("set_mempolicy", 0, 0, 0),
        "secret memory": calling("memfd_secret", 0),
        "the clock": calling("settimeofday", 0, 0),
        "the clock's rate": calling("adjtimex", _ZERO),
        "the name of the machine, changed": lambda f: call(
            f, "sethostname", f["hostname"].encode(), len(f["hostname"])
        ),
        "security of the kernel": calling("lsm_set_self_attr", 100, _ZERO, 0, 0, fine=(errno.EINVAL, errno.EOPNOTSUPP)),
        "a call that nobody knows": lambda f: _unknown(),
        "calls of a 32-bit program": lambda f: _old_call(),
        "a filter of its own": calling("seccomp", 3, 0, _ZERO),
        "Landlock of its own": calling("landlock_create_ruleset", 0, 0, 1),
    }
)
