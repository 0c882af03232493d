"""systemd: telling it that the daemon is ready, asking it for a control group, and its journal, which needs a library.

A daemon that a shim started is in the group of a login or of an editor, where it may limit nothing. The service manager
moves it to a scope, a group of its own that it may share out. The daemon asks for that itself instead of being started
by `systemd-run --scope`: whatever goes wrong with it, the daemon runs already.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

#: How long the service manager may take for a group, in seconds: a busy machine needs two of them now and then, and a
#: shim waits for the daemon four times as long.
PATIENCE = 5.0
_STEP = 0.005
#: Where its journal takes entries.
JOURNAL = "/run/systemd/journal/socket"
_MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")


def notify(state: str) -> None:
    """Send a state such as ``READY=1`` to the socket that systemd named, if it named one (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        # A service manager that does not read must not hold the daemon up.
        sock.sendto(state.encode(), socket.MSG_DONTWAIT, address)


def journal() -> Callable[..., object] | None:
    """Return what sends an entry to the journal, given as fields ``NAME=value``; it may have to wait.

    None where there is no journal, or systemd-python (the extra ``systemd``) is not installed.
    """
    if not os.path.exists(JOURNAL):
        return None
    try:
        from systemd import journal as library
    except ImportError:
        return None
    send: Callable[..., object] = library.sendv
    return send


@dataclass(frozen=True, slots=True)
class Bus:
    """Where a service manager can be asked: that of the machine, or with ``runtime`` that of a person."""

    program: str
    runtime: str | None = None

    def scope_command(self, name: str, pid: int) -> list[str]:
        """Return the command that moves a process to a scope of its own (org.freedesktop.systemd1(5))."""
        properties = [
            *("4", "Description", "s", "smcp, the daemon that owns stdio MCP servers"),
            *("PIDs", "au", "1", str(pid), "Delegate", "b", "true", "CollectMode", "s", "inactive-or-failed"),
        ]
        call = ["call", *_MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))", name, "fail", *properties, "0"]
        whose = "--system" if self.runtime is None else "--user"
        return [self.program, whose, "--quiet", f"--timeout={PATIENCE:g}", *call]

    @property
    def environ(self) -> dict[str, str]:
        """What the command must know."""
        return {} if self.runtime is None else {"XDG_RUNTIME_DIR": self.runtime}


def find_bus(environ: Mapping[str, str], root: str = "/") -> Bus | None:
    """Return where to ask for a scope; None where nobody could give one, or a unit is the place of this process.

    ``root`` is where the machine's files are. The superuser without a login asks the manager of the machine.
    """
    program = shutil.which("busctl", path=f"{environ.get('PATH', '')}:/usr/bin:/bin".lstrip(":"))
    # What a unit started is followed by that unit's group, and must stay there.
    if program is None or environ.get("NOTIFY_SOCKET") or environ.get("SYSTEMD_EXEC_PID") == str(os.getpid()):
        return None
    if not os.path.exists(os.path.join(root, "sys/fs/cgroup/cgroup.controllers")):
        return None  # with version 1 a scope limits nothing
    uid = os.geteuid()
    for runtime in (environ.get("XDG_RUNTIME_DIR", ""), os.path.join(root, f"run/user/{uid}")):
        if runtime and _is_owned(f"{runtime}/bus", uid) and os.path.isdir(f"{runtime}/systemd"):
            return Bus(program, runtime)
    needed = ("run/dbus/system_bus_socket", "run/systemd/system")
    if uid == 0 and all(os.path.exists(os.path.join(root, path)) for path in needed):
        return Bus(program)
    return None


def enter_scope(bus: Bus) -> str:
    """Let a service manager move this process to a scope of its own; return why it is not there, nothing if it is.

    Takes no longer than `PATIENCE`, whatever the manager does.
    """
    deadline = time.monotonic() + PATIENCE
    name = f"smcp-{os.getpid()}-{os.urandom(4).hex()}.scope"
    command = bus.scope_command(name, os.getpid())
    try:
        done = subprocess.run(
            command, env=bus.environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode:
        return done.stderr.decode(errors="replace").strip() or f"{bus.program} ended with status {done.returncode}"
    # The answer says that it will be done.
    while not _is_in(name):
        if time.monotonic() > deadline:
            return f"the service manager did not move the daemon to {name} within {PATIENCE:g} s"
        time.sleep(_STEP)
    return ""


def _is_in(scope: str) -> bool:
    with suppress(OSError), open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        return any(line.rstrip("\n").endswith(f"/{scope}") for line in file if line.startswith("0::"))
    return False


def _is_owned(path: str, uid: int) -> bool:
    try:
        return os.stat(path).st_uid == uid
    except OSError:
        return False
