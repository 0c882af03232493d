"""A profile made of what an audited server did: what it was refused or reached, and nothing more.

Pure. What is proposed is for a person to read: that a server asked for something does not say that it should have it.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tomli_w

#: Calls that a key of `seccomp` allows.
_KEYS: Mapping[str, str] = {
    **dict.fromkeys(("unshare", "setns", "chroot", "clone"), "userns"),
    **dict.fromkeys(("ptrace", "process_vm_readv", "personality"), "ptrace"),
}
_UNIX_SOCKET = re.compile(r"socket \(argument 1: 0x1\)")
#: Calls that programs try and do without; nobody needs to read of them.
_QUIET = frozenset({"clone3", "io_uring_setup", "statx", "rseq", "memfd_secret"})
#: As many files of one directory stand for the directory.
_MANY = 4


@dataclass(frozen=True, slots=True)
class Seen:
    """What an audited server was seen to do: ``files`` with "read" or "write", ``hosts`` as host and port."""

    calls: frozenset[str] = frozenset()
    files: frozenset[tuple[str, str]] = frozenset()
    hosts: frozenset[tuple[str, int]] = frozenset()

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to grant."""
        return not (self.calls or self.files or self.hosts)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A profile as TOML, and what it cannot grant, in words."""

    text: str
    remarks: tuple[str, ...] = field(default=())


def seen(events: Iterable[tuple[str, Mapping[str, Any]]]) -> Seen:
    """Given the kind and the data of each event of a server, return what they say that it did."""
    calls, files, hosts = set(), set(), set()
    for kind, data in events:
        match kind:
            case "syscall-refused":
                calls.add(str(data["call"]))
            case "file-missed":
                files.add((str(data["path"]), str(data["use"])))
            case "egress" if data.get("port"):
                hosts.add((str(data["host"]), int(data["port"])))
    return Seen(frozenset(calls), frozenset(files), frozenset(hosts))


def suggest(server: str, profile: str, network: str, done: Seen) -> Suggestion:
    """Given a server, its profile and network and what it did, return the profile that lets it do that and no more."""
    document: dict[str, Any] = {"description": f"what {server} did", "extends": profile}
    override = []
    if done.hosts:
        document["network"] = {"allow": sorted(f"{host}:{port}" for host, port in done.hosts)}
        override.append("network")
    elif network == "internet":
        document["network"] = "none"
    if mounts := _mounts(done.files):
        document["mounts"] = mounts
        override.append("mounts")
    granted, remarks = _calls(done.calls)
    if granted:
        document["seccomp"] = dict.fromkeys(granted, True)
        override.append("seccomp")
    if network == "host":
        remarks = (*remarks, "it shares the network of the machine, where nobody sees what it reaches")
    if override:
        # Before the tables: what stands behind one belongs to it.
        document = {"description": document.pop("description"), "extends": profile, "override": override, **document}
    comment = f"Made of what {server} was seen to do. Read it: that it asked for something does not say that it should"
    lines = textwrap.wrap(f"{comment} have it.", 116, initial_indent="# ", subsequent_indent="# ")
    return Suggestion("\n".join(lines) + "\n" + tomli_w.dumps(document), remarks)


def _mounts(files: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return the mounts that show the files, a directory for many of one; what is written must be a directory's."""
    wanted: dict[str, str] = {}
    for path, use in sorted(files):
        place = os.path.dirname(path) if use == "write" else path
        wanted[place] = "rw" if use == "write" or wanted.get(place) == "rw" else "ro"
    by_directory: dict[str, list[str]] = {}
    for path, access in wanted.items():
        if access == "ro":
            by_directory.setdefault(os.path.dirname(path), []).append(path)
    for directory, paths in by_directory.items():
        if len(paths) >= _MANY and directory != "/":
            for path in paths:
                del wanted[path]
            wanted.setdefault(directory, "ro")
    kept = [path for path in wanted if not _covered(path, wanted)]
    return [{"path": path, "access": wanted[path]} for path in sorted(kept)]


def _covered(path: str, wanted: Mapping[str, str]) -> bool:
    access = wanted[path]
    above = [other for other in wanted if other != path and path.startswith(other.rstrip("/") + "/")]
    return any(wanted[other] in (access, "rw") for other in above)


def _calls(calls: Iterable[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the keys that allow what was refused, and a remark for each call that no key allows."""
    keys: set[str] = set()
    remarks: Sequence[str] = ()
    for call in sorted(calls):
        name = call.partition(" ")[0]
        if _UNIX_SOCKET.fullmatch(call):
            keys.add("unix")
        elif name in _KEYS:
            keys.add(_KEYS[name])
        elif name not in _QUIET:
            remarks = (*remarks, f"no key allows the system call {call}")
    return sorted(keys), tuple(remarks)
