"""Attempts to get more rights, terminals or resources than were given."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import resource
import signal
import struct
import time

from supervisord_mcp.probes.inside.trying import (
    LIBC,
    AbsentError,
    Attempt,
    Facts,
    Group,
    KeptError,
    call,
    opening,
    read,
)

GROUP = Group("rights and limits")


def _terminal(command: int, argument: bytes) -> Attempt:
    def run(facts: Facts) -> None:
        master, slave = os.openpty()
        if os.getpid() != os.getsid(0):
            os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        fcntl.ioctl(slave, 0x540E, 0)
        if LIBC.ioctl(slave, ctypes.c_ulong(command), argument) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        os.close(master)

    return run


@GROUP.attempt("new rights by a program")
def _new_rights(facts: Facts) -> None:
    if LIBC.prctl(39, 0, 0, 0, 0) != 0:
        raise KeptError("no program gives it any")


@GROUP.attempt("rights of root")
def _capabilities(facts: Facts) -> None:
    for line in read("/proc/self/status").decode().splitlines():
        if line.startswith(("CapEff", "CapPrm")) and int(line.split()[1], 16):
            return
    raise KeptError("it has none")


def _root() -> None:
    os.setuid(0)
    if os.open("/etc/shadow", os.O_RDONLY) < 0:
        raise KeptError("it is root of nothing")


def _raise_limit(number: int) -> None:
    _, hard = resource.getrlimit(number)
    wanted = resource.RLIM_INFINITY if number == resource.RLIMIT_CORE else hard + 1
    if hard == resource.RLIM_INFINITY:
        return
    resource.setrlimit(number, (wanted, wanted))


def _lock(facts: Facts) -> None:
    memory = mmap.mmap(-1, 16 << 20)
    call(facts, "mlock", ctypes.addressof(ctypes.c_char.from_buffer(memory)), 16 << 20)


@GROUP.attempt("more open files than its limit")
def _many_files(facts: Facts) -> None:
    opened: list[int] = []
    limit = facts["limits"].get("nofile")
    if limit is None:
        raise AbsentError("it has no limit")
    try:
        while len(opened) <= limit:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    finally:
        for descriptor in opened:
            os.close(descriptor)


ALONE = ("more memory than its limit", "more processes than its limit")


@GROUP.attempt("more memory than its limit")
def _much_memory(facts: Facts) -> None:
    limit = facts["limits"].get("memory")
    if limit is None:
        raise AbsentError("it has no limit")
    held = []
    for _ in range((limit >> 24) + 4):
        block = mmap.mmap(-1, 1 << 24)
        block.write(b"x" * (1 << 24))
        held.append(block)
    time.sleep(1.5)


@GROUP.attempt("more processes than its limit")
def _many_processes(facts: Facts) -> None:
    limit = facts["limits"].get("pids")
    if limit is None:
        raise AbsentError("it has no limit")
    children = []
    try:
        for _ in range(limit + 16):
            child = os.fork()
            if child == 0:
                time.sleep(20)
                os._exit(0)
            children.append(child)
        time.sleep(1.5)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)


GROUP.several(
    {
        "type into a terminal": _terminal(0x5412, b"x"),
        "type into a terminal, with high bits": _terminal(0x5412 | 1 << 32, b"x"),
        "another discipline for a terminal": _terminal(0x5423, struct.pack("i", 0)),
        "the terminal of the daemon": opening("/dev/tty", os.O_RDWR),
    }
)

GROUP.several(
    {
        "to be root": lambda f: _root(),
        "first place for the processor": lambda f: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
        "a higher priority": lambda f: os.setpriority(os.PRIO_PROCESS, 0, -5),
        "more open files": lambda f: _raise_limit(resource.RLIMIT_NOFILE),
        "a core of memory": lambda f: _raise_limit(resource.RLIMIT_CORE),
        "more locked memory": _lock,
    }
)
