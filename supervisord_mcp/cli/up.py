"""``smcp up`` and ``smcp down``: start the daemon in the background, and end it with everything it runs."""

from __future__ import annotations

import os
import select

from supervisord_mcp.cli.client import SLOW, Client, connected
from supervisord_mcp.cli.output import busy, console
from supervisord_mcp.errors import NoDaemonError, SmcpError, UsageError
from supervisord_mcp.protocol import control


def up() -> None:
    """Start the daemon in the background.

    Waits until it answers; says so if one runs already. It runs until smcp down: daemon.idle_exit is for a daemon that
    a host or another command started, and no longer for that one either.
    """
    try:
        with connected() as client:
            pid, already = _kept(client), True
    except NoDaemonError:
        with busy("starting the daemon"), connected(start=True) as client:
            pid, already = _kept(client), False
    console().print(f"the daemon {'already runs' if already else 'runs'}, pid {pid}")


def _kept(client: Client) -> int:
    """Tell the daemon to stay, and return its pid."""
    pid = client.ask_for(control.Version(), control.VersionResult).pid
    try:
        client.ask(control.Stay())
    except SmcpError as error:
        if error.code != UsageError.code:  # one of an older version cannot be told
            raise
    return pid


def down() -> None:
    """Stop the daemon and all servers.

    Ends all sessions orderly, so connected hosts lose their servers until they connect again, and waits until nothing
    is left; hosts that are connected do not bring this daemon back.
    """
    with connected() as client:
        pid = client.ask_for(control.Version(), control.VersionResult).pid
        process = _opened(pid)
        try:
            with busy("stopping the daemon"):
                client.ask(control.Down())
                gone = client.wait_closed(SLOW) if process is None else _wait_gone(process, SLOW)
        finally:
            if process is not None:
                os.close(process)
    if not gone:
        raise SmcpError(
            f"daemon pid {pid} has not ended within {SLOW:g} s", remedy=f"see its log, or end it with: kill -9 {pid}"
        )


def _opened(pid: int) -> int | None:
    """Given a pid, return a file descriptor of the process, or nothing where the kernel or a pid namespace hides it."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _wait_gone(process: int, timeout: float) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(timeout * 1000))
