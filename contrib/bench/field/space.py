"""A network of its own for one trial, since some gateways listen on every interface, and a family of its own.

The table of processes stays the one of the machine: daemons tell each other's leftovers by the pids in it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Sequence

from supervisord_mcp.runtimes import orphans

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1


def apart(command: Sequence[str]) -> list[str]:
    """Return the command that runs another one apart: root needs no sandbox for that, and keeps its rights so."""
    if os.geteuid() == 0:
        return ["unshare", "--net", *command]
    return ["bwrap", "--unshare-net", "--dev-bind", "/", "/", "--", *command]


def lacking() -> str:
    """Return why nothing can be run apart on this machine; empty if it can be, which is tried."""
    command = apart(["true"])
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False
        )
    except FileNotFoundError:
        return f"{command[0]} is not installed"
    except subprocess.TimeoutExpired:
        return f"{command[0]} does not answer"
    return (done.stderr.strip().splitlines() or [f"{command[0]} fails"])[-1] if done.returncode else ""


def settle() -> None:
    """Make this process fit to run a trial: the loopback interface is up, and whatever is started stays a descendant.

    Raise `OSError` where the kernel refuses.
    """
    orphans.become_subreaper()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, name))
        if not flags & _IFF_UP:
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
