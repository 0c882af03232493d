"""What the facts of a machine mean for running servers on it: findings, each with a verdict, a cause and a remedy.

Pure: `examination` looks, this judges. The numbers of vulnerabilities and the versions that mend them are those of
their advisories; distributions mend older versions too, so an old number alone is a warning, never a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from supervisord_mcp.examination import Machine, Room

#: ``problem``: something that is promised by default does not work here. ``warning``: less is possible, or look at it.
Verdict = Literal["ok", "warning", "problem"]

_SAFE_BWRAP = (0, 12)
_SAFE_RUNC = (1, 2, 8)
_NODE = (18,)
#: Less room than this, in bytes, is none, or little.
_NO_ROOM, _LITTLE_ROOM = 1 << 20, 100 << 20
_CONTROLLERS = ("memory", "pids", "cpu")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what it is, how it stands, and what to do where that is not well."""

    subject: str
    verdict: Verdict
    text: str
    remedy: str = ""


def judge(machine: Machine) -> tuple[Finding, ...]:
    """Given the facts of a machine, return what they mean, in the order in which they matter."""
    return (
        *_isolation(machine),
        *_bubblewrap(machine),
        *_namespaces(machine),
        *_reduced(machine),
        *_limits(machine),
        *_root(machine),
        *_engines(machine),
        *_packages(machine),
    )


def judge_room(room: Room) -> Finding:
    """Given what is left on a disk that logs and state are kept on, return what it means."""
    if room.free < _NO_ROOM or room.files == 0:
        what = "room" if room.free < _NO_ROOM else "files"
        text = f"no {what} left for {room.directory}: logs and what is kept over a restart are lost"
        return Finding("disk", "problem", text, "Make room on it; nothing has to be started again.")
    left = f"{room.free >> 20} MiB left for {room.directory}"
    if room.free < _LITTLE_ROOM:
        return Finding("disk", "warning", left, "Make room on it, before logs are lost.")
    return Finding("disk", "ok", left)


def can_isolate(machine: Machine) -> bool:
    """Whether servers can be run in the sandbox that they get by default."""
    return not machine.sandbox


def _isolation(machine: Machine) -> Iterator[Finding]:
    for lack in machine.sandbox:
        cause = f": {lack.cause}" if lack.cause else ""
        yield Finding("sandbox", "problem", f"servers cannot be isolated, {lack.what}{cause}", lack.remedy)
    if not machine.sandbox:
        yield Finding("sandbox", "ok", f"a trial run of bubblewrap was isolated (Linux {machine.kernel})")
    if machine.container:
        verdict: Verdict = "warning" if machine.sandbox else "ok"
        remedy = (
            "Let the container make user namespaces, or use a runtime of the machine outside."
            if machine.sandbox
            else ""
        )
        yield Finding("container", verdict, f"this machine is itself a container ({machine.container})", remedy)


def _bubblewrap(machine: Machine) -> Iterator[Finding]:
    if machine.bwrap is None:
        return
    version = numbers(machine.bwrap)
    if version and version < _SAFE_BWRAP:
        text = (
            f"version {machine.bwrap}, older than 0.12: it follows links at mount points inside writable directories"
            " (CVE-2026-87766); smcp makes none there"
        )
        yield Finding("bubblewrap", "ok", text)
    else:
        yield Finding("bubblewrap", "ok", f"version {machine.bwrap or 'unknown'}")


def _namespaces(machine: Machine) -> Iterator[Finding]:
    values = {path.rpartition("/")[2]: value for path, value in machine.namespaces.items()}
    if values.get("max_user_namespaces") == "0":
        yield _closed("no user namespace may be made at all", "sudo sysctl -w user.max_user_namespaces=15000", machine)
    if values.get("unprivileged_userns_clone") == "0":
        remedy = "sudo sysctl -w kernel.unprivileged_userns_clone=1"
        yield _closed("only root may make user namespaces", remedy, machine)
    if values.get("apparmor_restrict_unprivileged_userns") == "1":
        remedy = "see the remedy of the sandbox: a profile of AppArmor for bwrap"
        yield _closed("AppArmor lets only programs with a profile make user namespaces", remedy, machine)


def _closed(text: str, remedy: str, machine: Machine) -> Finding:
    # Root, and a program with a profile, are let through all the same; the trial run knows.
    return Finding("user namespaces", "problem" if machine.sandbox else "ok", text, remedy if machine.sandbox else "")


def _reduced(machine: Machine) -> Iterator[Finding]:
    if machine.reduced:
        for lack in machine.reduced:
            text = f'runtime "landlock" cannot be used, no {lack.what}: {lack.cause}'
            yield Finding("landlock", "warning", text, lack.remedy)
        return
    weak = "" if machine.landlock >= 6 else ", older than 6: it does not keep servers from signalling others"
    yield Finding("landlock", "warning" if weak else "ok", f"version {machine.landlock} of its interface{weak}")


def _limits(machine: Machine) -> Iterator[Finding]:
    if machine.groups is None and machine.scopes:
        text = "version 2: the daemon asks systemd for one of its own when it starts"
        yield Finding("control groups", "ok", text)
        return
    if machine.groups is None:
        remedy = "Run the daemon under systemd (contrib/systemd/smcp.service), which hands out control groups."
        text = "none can be made here: memory and processes are watched instead, and processors are not limited"
        yield Finding("control groups", "warning", text, remedy)
        return
    version, controllers = machine.groups
    missing = [name for name in _CONTROLLERS if name not in controllers]
    text = f"version {version}, with {', '.join(name for name in _CONTROLLERS if name in controllers) or 'nothing'}"
    if missing:
        remedy = "Let systemd delegate them to users: Delegate=cpu memory pids in a drop-in of user@.service."
        yield Finding("control groups", "warning", f"{text}, without {', '.join(missing)}", remedy)
    else:
        yield Finding("control groups", "ok", text)


def _root(machine: Machine) -> Iterator[Finding]:
    if machine.root:
        text = "smcp is run by root: servers get users of their own (daemon.uids)"
        yield Finding("user", "ok", text)


def _engines(machine: Machine) -> Iterator[Finding]:
    for engine in machine.engines:
        if engine.trouble:
            remedy = f"Start it, or let your account use it; nothing else needs {engine.name}."
            yield Finding(engine.name, "warning", f"version {engine.version}, not usable: {engine.trouble}", remedy)
        else:
            yield Finding(engine.name, "ok", f"version {engine.version}")
    if machine.runc is not None:
        version = numbers(machine.runc)
        if version and version < _SAFE_RUNC:
            text = f"version {machine.runc}, older than 1.2.8 (CVE-2025-31133, CVE-2025-52565, CVE-2025-52881)"
            remedy = "Update it; the changelog of the package says whether these are mended in it."
            yield Finding("runc", "warning", text, remedy)
        else:
            yield Finding("runc", "ok", f"version {machine.runc}")


def _packages(machine: Machine) -> Iterator[Finding]:
    if machine.node is None:
        yield Finding(
            "node", "warning", "not found, so no server runs with npx", "Install Node.js 18 or newer, with npm."
        )
    elif numbers(machine.node) and numbers(machine.node) < _NODE:
        text = f"version {machine.node}: most servers need 18 or newer"
        yield Finding("node", "warning", text, "Update it.")
    else:
        yield Finding("node", "ok", f"version {machine.node}")
    if machine.uv is None:
        yield Finding("uv", "ok", "not found: what servers run with uvx is installed with pip, which takes longer")
    else:
        yield Finding("uv", "ok", f"version {machine.uv}")


def numbers(version: str) -> tuple[int, ...]:
    """Given a version, return its leading numbers, to be compared: "1.1.5+ds1" gives (1, 1, 5)."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def worst(findings: Sequence[Finding]) -> Verdict:
    """Return the worst verdict of some findings."""
    order: tuple[Verdict, ...] = ("problem", "warning")
    verdicts = {finding.verdict for finding in findings}
    return next((verdict for verdict in order if verdict in verdicts), "ok")
