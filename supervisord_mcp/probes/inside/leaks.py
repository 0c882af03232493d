"""Attempts to learn what belongs to the daemon, to other servers or to the machine."""

from __future__ import annotations

import os

from supervisord_mcp.probes.inside.trying import (
    Facts,
    Group,
    KeptError,
    call,
    opening,
    processes,
    read,
    reading,
)

GROUP = Group("leaks")


@GROUP.attempt("a descriptor of the daemon")
def _descriptor(facts: Facts) -> None:
    if not facts["inherited"]:
        raise KeptError("none is open")


@GROUP.attempt("a variable of the daemon's environment")
def _variable(facts: Facts) -> None:
    if facts["secret_variable"] not in os.environ:
        raise KeptError("it is not there")


@GROUP.attempt("a variable that loads code into every program")
def _loader(facts: Facts) -> None:
    names = ("LD_PRELOAD", "LD_LIBRARY_PATH", "NODE_OPTIONS", "PYTHONSTARTUP", "BASH_ENV")
    if not any(facts["loader"] in os.environ.get(name, "") for name in names):
        raise KeptError("none is there")


@GROUP.attempt("the environment of the first process")
def _first_environment(facts: Facts) -> None:
    for pid in (1, os.getppid()):
        if facts["secret"].encode() in read(f"/proc/{pid}/environ"):
            return
    raise KeptError("no secret is in it")


@GROUP.attempt("a secret on a command line")
def _command_lines(facts: Facts) -> None:
    for pid in processes():
        if facts["argument_secret"].encode() in read(f"/proc/{pid}/cmdline"):
            return
    raise KeptError("no secret is in them")


@GROUP.attempt("the name of the machine")
def _hostname(facts: Facts) -> None:
    if os.uname().nodename != facts["hostname"]:
        raise KeptError(os.uname().nodename)


@GROUP.attempt("the names of its users")
def _users(facts: Facts) -> None:
    if facts["user_line"].encode() not in read("/etc/passwd"):
        raise KeptError("it is another file")


@GROUP.attempt("paths of the machine in the list of mounts")
def _mounts(facts: Facts) -> None:
    if facts["project"].encode() not in read("/proc/self/mountinfo"):
        raise KeptError("none is in it")


@GROUP.attempt("shared memory of System V")
def _shared_memory(facts: Facts) -> None:
    if call(facts, "shmat", facts["shm"], 0, 0o10000) == -1:
        raise KeptError("it is not there")


@GROUP.attempt("a queue of messages")
def _queue(facts: Facts) -> None:
    os.close(call(facts, "mq_open", facts["queue"].encode(), os.O_RDONLY, 0, 0))


GROUP.several(
    {
        "the number of the machine": reading("/etc/machine-id"),
        "the command line of the kernel": reading("/proc/cmdline"),
        "messages of the kernel": opening("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK),
    }
)
