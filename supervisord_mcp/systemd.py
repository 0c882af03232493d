"""The part of systemd's protocol that needs no library: telling a service manager that the daemon is ready."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


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
