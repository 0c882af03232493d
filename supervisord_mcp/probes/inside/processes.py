"""Attempts on other processes, on settings of the machine and on its devices."""

from __future__ import annotations

import os

from supervisord_mcp.probes.inside.trying import (
    AbsentError,
    Facts,
    Group,
    KeptError,
    listing,
    opening,
    processes,
    read,
    reading,
)

GROUP = Group("processes and devices")


@GROUP.attempt("the daemon among the processes")
def _daemon(facts: Facts) -> None:
    for pid in processes():
        try:
            if facts["daemon_mark"].encode() in read(f"/proc/{pid}/cmdline"):
                return
        except OSError:
            continue
    raise KeptError("it is not among them")


@GROUP.attempt("the environment of another server")
def _sibling(facts: Facts) -> None:
    for pid in processes():
        try:
            if facts["sibling_secret"].encode() in read(f"/proc/{pid}/environ"):
                return
        except OSError:
            continue
    raise KeptError("no secret is found")


@GROUP.attempt("a signal to the daemon")
def _signal_daemon(facts: Facts) -> None:
    os.kill(facts["daemon_pid"], 0)
    if facts["daemon_mark"].encode() not in read(f"/proc/{facts['daemon_pid']}/cmdline"):
        raise KeptError("it is another process")


@GROUP.attempt("a signal to the first process")
def _signal_first(facts: Facts) -> None:
    os.kill(1, 0)


@GROUP.attempt("write into the memory of the first process")
def _memory_of_first(facts: Facts) -> None:
    os.close(os.open("/proc/1/mem", os.O_RDWR))


@GROUP.attempt("the descriptors of the first process")
def _descriptors_of_first(facts: Facts) -> None:
    os.listdir("/proc/1/fd")


@GROUP.attempt("a lower score for the killer of processes")
def _score(facts: Facts) -> None:
    with open("/proc/self/oom_score_adj", "r+b", buffering=0) as file:
        before = int(file.read())
        file.write(b"-1000")
        file.write(b"%d" % before)


_SETTINGS = {
    "the program for crashes": "/proc/sys/kernel/core_pattern",
    "overcommitment of memory": "/proc/sys/vm/overcommit_memory",
    "the number of user namespaces": "/proc/sys/user/max_user_namespaces",
    "emergency commands": "/proc/sysrq-trigger",
    "interrupts": "/proc/irq/default_smp_affinity",
}


def _control_group(facts: Facts) -> None:
    for base in facts["groups"]:
        place = base + "/smcp-probe"
        os.mkdir(place)
        os.rmdir(place)
        return
    raise AbsentError("this machine has none")


def _symbols() -> None:
    if all(line.split()[0].strip(b"0") == b"" for line in read("/proc/kallsyms").splitlines()[:100]):
        raise KeptError("they are all zero")


_DEVICES = {
    "virtual machines": "/dev/kvm",
    "a network of its own making": "/dev/net/tun",
    "keyboards": "/dev/input/event0",
    "file systems of its own": "/dev/fuse",
    "memory of the machine": "/dev/mem",
    "other virtual machines": "/dev/vsock",
    "loop devices": "/dev/loop-control",
    "the console": "/dev/console",
    "ports of the processor": "/dev/port",
}


GROUP.several({f"set {name}": opening(path) for name, path in _SETTINGS.items()})

GROUP.several(
    {
        "read the memory of the kernel": reading("/proc/kcore"),
        "write settings of devices": opening("/sys/kernel/mm/transparent_hugepage/enabled"),
        "look at devices": listing("/sys/class"),
        "make a control group": _control_group,
        "where functions of the kernel are": lambda f: _symbols(),
    }
)

GROUP.several({f"the device for {name}": opening(path, os.O_RDWR | os.O_NONBLOCK) for name, path in _DEVICES.items()})
