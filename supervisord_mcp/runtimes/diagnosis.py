"""Why bubblewrap failed: its known texts, each with the cause and what a person can do about it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from supervisord_mcp.errors import IsolationError, LaunchError, SmcpError
from supervisord_mcp.runtimes.base import Lack

INSTALL = (
    "Install it: sudo apt-get install bubblewrap (or the package of that name of your system; without rights to install"
    " one: smcp with the extra `bubblewrap`)."
)
#: The one way around isolation, named in every remedy: nothing falls back to it by itself.
_WITHOUT = 'Or run this server without isolation, if you trust it: runtime = "bare".'

_APPARMOR = (
    "Allow it for bubblewrap: sudo apt-get install apparmor-profiles && sudo ln -s"
    " /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ &&"
    " sudo apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict"
)
_SYSCTLS = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
)


@dataclass(frozen=True, slots=True)
class _Known:
    """A text of bubblewrap, and what it means."""

    pattern: re.Pattern[str]
    cause: str
    remedy: str


def _known(pattern: str, cause: str, remedy: str) -> _Known:
    return _Known(re.compile(pattern), cause, remedy)


_USERNS = "this system does not let an unprivileged program create user namespaces"
_KNOWN = (
    _known(
        r"setting up uid map: Permission denied|loopback: Failed RTM_NEWADDR",
        "AppArmor keeps programs without a profile from using user namespaces (Ubuntu 23.10 and newer)",
        _APPARMOR,
    ),
    _known(r"proc on /newroot/proc|mount proc|proc: Operation not permitted", "", ""),
    _known(
        r"max_.*_namespaces exceeded|namespace.*No space left",
        "the limit for namespaces is reached",
        "Raise it: sudo sysctl -w user.max_user_namespaces=15000",
    ),
    _known(
        r"No permissions to creat|[Nn]amespace.*(Operation not permitted|Permission denied|Invalid argument)|/ slave",
        _USERNS,
        "Allow user namespaces: sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    _known(r"[Uu]nexpected capabilities|file caps", "bubblewrap carries file capabilities", f"Reinstall it. {INSTALL}"),
    _known(
        r"Unknown option|Unknown argument",
        "the installed bubblewrap is too old",
        f"Update it to 0.5 or newer. {INSTALL}",
    ),
    _known(
        r"SECCOMP|seccomp",
        "this kernel does not let bubblewrap filter system calls",
        "Run a kernel with CONFIG_SECCOMP_FILTER; in a container, allow the calls seccomp and prctl.",
    ),
    _known(r"pivot_root|Failed to mount tmpfs", "the root file system does not allow new mounts", _WITHOUT),
)
_CONTAINER_PROC = (
    "a container hides parts of /proc, so no new one can be mounted in it",
    "Start the container with --security-opt systempaths=unconfined --security-opt seccomp=unconfined.",
)
_CONTAINER_USERNS = (
    "the container that the daemon runs in forbids user namespaces",
    "Start the container with --security-opt seccomp=unconfined (and --security-opt apparmor=unconfined).",
)


def explain_failure(text: str) -> tuple[str, str]:
    """Given what bubblewrap wrote when it failed, return the cause (empty where it is not known) and the remedy."""
    for known in _KNOWN:
        if not known.pattern.search(text):
            continue
        if not known.cause:
            return _CONTAINER_PROC[0], f"{_CONTAINER_PROC[1]} {_WITHOUT}"
        if known.cause == _USERNS:
            cause, remedy = _forbidden_namespaces(known.remedy)
            return cause, f"{remedy} {_WITHOUT}"
        return known.cause, known.remedy if _WITHOUT in known.remedy else f"{known.remedy} {_WITHOUT}"
    return "", _WITHOUT


def failure(name: str, text: str) -> SmcpError:
    """Given what bubblewrap wrote when the sandbox of a server failed, return the error that says so."""
    said = text.strip() or "bubblewrap ended without a word"
    own = re.search(r"Can't chdir to (.+?): (.+)|Can't find source path (.+?): (.+)", said)
    if own:
        where = f"working directory {own[1]}" if own[1] else f"mount of {own[3]}"
        return LaunchError(
            f"server {name}: {where}: {own[2] or own[4]}", remedy="Check `cwd` and `mounts`.", retryable=False
        )
    cause, remedy = explain_failure(said)
    because = f" ({cause})" if cause else ""
    return IsolationError(
        f"server {name} was not started, its sandbox cannot be set up{because}: {said}", remedy=remedy
    )


def lack(text: str) -> Lack:
    """Given what bubblewrap wrote when a trial failed, return what this machine lacks."""
    cause, remedy = explain_failure(text)
    return Lack("bubblewrap cannot set up a sandbox", cause or text.strip() or "it ended without a word", remedy)


def _forbidden_namespaces(remedy: str) -> tuple[str, str]:
    for path, closed, command in _SYSCTLS:
        if _read(path) == closed:
            return _USERNS, f"Allow user namespaces: {command}"
    if _in_container():
        # The signs of a container are also left in machines that were made from one, so both ways are shown.
        return _CONTAINER_USERNS[0], f"{_CONTAINER_USERNS[1]} If it is no container: {remedy}"
    return _USERNS, remedy


def _in_container() -> bool:
    return any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")))


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
