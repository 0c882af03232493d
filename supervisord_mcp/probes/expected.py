"""What each attempt should come to, by what a server is granted; the exceptions are argued one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from supervisord_mcp.egress.rules import Egress
from supervisord_mcp.runtimes.base import LaunchSpec

#: ``free``: it is harmless either way, or it is up to the kernel.
Want = Literal["deny", "allow", "free"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the server that tries is granted: ``unix`` sockets, a ``network`` of which kind, and how it is isolated.

    ``network`` is ``none`` or ``loopback`` (its own), ``rules`` (what its rules name), or ``host`` (the machine's).
    ``inet`` says that its filter lets it make sockets for the internet at all. ``reduced`` is without namespaces.
    ``userns`` and ``ptrace`` are what its filter lets it do beside the base.
    """

    unix: bool = False
    network: Literal["none", "loopback", "rules", "host"] = "none"
    inet: bool = True
    reduced: bool = False
    userns: bool = False
    ptrace: bool = False


def situation(spec: LaunchSpec, *, reduced: bool) -> Situation:
    """Given what is launched, return what it is granted; ``reduced`` says that it gets no namespaces."""
    network: Literal["none", "loopback", "rules", "host"] = (
        "rules" if isinstance(spec.network, Egress) else spec.network
    )
    families, calls = spec.seccomp.families, spec.seccomp
    return Situation(
        unix="unix" in families,
        network=network,
        inet="inet" in families,
        reduced=reduced,
        userns=calls.userns,
        ptrace=calls.ptrace,
    )


_GRANTED = (
    "read a mount",
    "read the project",
    "write the project",
    "make a file in the project",
    "write its own home",
    "write its own temporary files",
    "a pair of sockets",
)
_FREE = {
    "paths of the machine in the list of mounts": "what is granted keeps its path, and the list names it",
    "the command line of the kernel": "it is the same for all, and names no secret",
    "run a program that it wrote": "an interpreter runs whatever is written in its language anyway",
    "run a program from memory": "an interpreter runs whatever is written in its language anyway",
    "a signal to the first process": "it is bubblewrap, whose end is that of this sandbox alone",
    "write into the memory of the first process": "it has the same user, filter and limits: nothing is gained",
    "the descriptors of the first process": "their names can be listed: it has nothing that the server has not",
    "where functions of the kernel are": "zero unless the machine is set to show them",
    "a filter of its own": "a filter only takes away",
    "Landlock of its own": "it only takes away",
    "pings": "the machine says who may ping, and without a network nothing is reached",
}
_UNIX = ("a unix socket", "an abstract socket of its own")
_MACHINE_NETWORK = (
    "the loopback of the machine",
    "the loopback of the machine by IPv6",
    "the loopback of the machine by address 0",
    "another address of the machine",
    "datagrams to the machine",
    "a way to the internet",
    "a way to a name server",
    "a way to the data of the cloud",
    "a way to the private network",
    "a network card",
)
#: With rules every address leads to a listener of the daemon, which judges who is asked for; datagrams lead nowhere.
_ROUTES = tuple(name for name in _MACHINE_NETWORK if name.startswith(("a way to", "datagrams")))
#: Without namespaces these stay open; `smcp status` says so of every server that runs like that.
_REDUCED = {
    "the name of the machine": "there is no namespace for it",
    "the names of its users": "/etc/passwd is the real one",
    "more temporary files than its limit": "they are on the disk of the machine",
    "more in its home than its limit": "it is on the disk of the machine",
    "change .git/hooks/post-checkout of the project": "Landlock adds rights only: nothing below can be closed",
    "change .git/config of the project": "Landlock adds rights only: nothing below can be closed",
    "change .envrc of the project": "Landlock adds rights only: nothing below can be closed",
    "change .vscode/tasks.json of the project": "Landlock adds rights only: nothing below can be closed",
    "change .mcp.json of the project": "Landlock adds rights only: nothing below can be closed",
}
_USERNS = (
    "a user namespace of its own",
    "a mount namespace of its own",
    "a network namespace of its own",
    "a process namespace of its own",
    "a IPC namespace of its own",
    "clone with a namespace",
    "chroot",
)
_PTRACE = ("to be traced", "trace a child", "memory of another process", "addresses that do not vary")


def wanted(name: str, situation: Situation) -> Want:
    """Return what an attempt should come to in a situation."""
    if name in _GRANTED:
        return "allow"
    if name in _FREE or (situation.reduced and name in _REDUCED):
        return "free"
    if name in _UNIX and situation.unix:
        return "free" if situation.reduced else "allow"
    if name == "a message to a socket of the project" and situation.unix:
        return "free"
    if name == "its own loopback":
        return "free" if situation.reduced or not situation.inet else "allow"
    if name in _MACHINE_NETWORK and situation.network == "host":
        return "free"
    if name in _ROUTES and situation.network == "rules":
        return "free"
    if (name in _USERNS and situation.userns) or (name in _PTRACE and situation.ptrace):
        return "free"
    return "deny"


def why(name: str, situation: Situation) -> str:
    """Return why an attempt may come to either end, empty where it may not."""
    if situation.reduced and name in _REDUCED:
        return _REDUCED[name]
    if situation.network == "rules" and name in _ROUTES:
        return "it leads to the daemon, which judges every connection; datagrams lead nowhere"
    return _FREE.get(name, "")
