"""``smcp top``: what servers use and do, live, with keys to restart, stop and read the log of one."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from supervisord_mcp.cli.client import SLOW, Client, connected
from supervisord_mcp.errors import SmcpError, UnknownServerError, UsageError
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.news import LogLine
from supervisord_mcp.protocol.usage import UsageResult

if TYPE_CHECKING:
    from supervisord_mcp.cli.topview import View, Wish

#: How far back the curves go, in seconds, and how many lines of a log are shown.
_CURVES: Final = 600.0
_LOG_LINES: Final = 200


def top(
    once: Annotated[bool, typer.Option("--once", help="Print it once, as a table, and end.")] = False,
    sort: Annotated[str, typer.Option("--sort", help="By cpu, memory, calls or name.")] = "cpu",
    interval: Annotated[
        float, typer.Option("--interval", "-d", min=1.0, max=60.0, metavar="SECONDS", help="How often to look.")
    ] = 2.0,
) -> None:
    """Show what servers use and do, live.

    Keys: arrows select a server, Enter shows its processes, s sorts (C, M, A, N: by CPU, memory, calls, name), r
    restarts it, x stops it, l shows its log, q ends. Restarting and stopping ask first. Memory is PSS.
    """
    from supervisord_mcp.cli.topview import SORTS, View

    chosen = next((known for known in SORTS if known == sort), None)
    if chosen is None:
        raise UsageError(f"--sort {sort}: sort by {', '.join(SORTS)}")
    if not once and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("smcp top needs a terminal", remedy="print it once with: smcp top --once")
    view = View(sort=chosen)
    with connected() as client:
        result = _look(client)
        if once:
            from supervisord_mcp.cli.usage import print_servers, saved_text

            print_servers(_sorted(view, result))
            sys.stdout.write(f"saved by sharing: {saved_text(result.saved)}\n")
            return
        _live(client, view, result, interval)


def _sorted(view: View, result: UsageResult) -> UsageResult:
    import msgspec

    return msgspec.structs.replace(result, servers=tuple(view.order(result)))


def _live(client: Client, view: View, result: UsageResult, interval: float) -> None:
    from rich.console import Group
    from rich.live import Live

    from supervisord_mcp.cli.keys import keyboard
    from supervisord_mcp.cli.output import console

    screen = console()
    view.took(result)
    due = time.monotonic() + interval
    with keyboard() as keys, Live(console=screen, screen=True, auto_refresh=False) as live:
        while True:
            width, height = screen.size
            live.update(Group(*view.lines(result, width, height)), refresh=True)
            # A short wait: what is done in the background has something to say, and the window may change its size.
            try:
                key = keys.wait(min(due - time.monotonic(), 0.5))
            except EOFError:
                return
            wish = None if key is None else view.press(key, result)
            if wish is not None and wish.verb == "quit":
                return
            if wish is not None:
                _fulfil(client, view, wish)
            if time.monotonic() >= due:
                result = _look(client)
                view.took(result)
                due = time.monotonic() + interval


def _look(client: Client) -> UsageResult:
    return client.ask_for(control.Usage(fresh=True, since=time.time() - _CURVES), UsageResult)


def _fulfil(client: Client, view: View, wish: Wish) -> None:
    if wish.verb == "logs":
        lines = client.stream(control.Logs(name=wish.server, lines=_LOG_LINES))
        try:
            view.log = [control.parse_result(line, LogLine).line for line in lines]
        except SmcpError as error:
            if error.code != UnknownServerError.code:
                raise
            view.message = f"{wish.server} is not there any more"  # it was removed since the last look
        return
    view.message = f"{wish.verb} {wish.server} …"
    # It may take as long as the server does; meanwhile the figures go on.
    threading.Thread(target=_do, args=(view, wish), daemon=True).start()


def _do(view: View, wish: Wish) -> None:
    operation = control.Restart if wish.verb == "restart" else control.Stop
    try:
        with connected(as_host=True) as client:
            client.ask(operation(names=(wish.server,)), SLOW)
    except SmcpError as error:
        view.message = f"{wish.verb} {wish.server}: {error.message.splitlines()[0]}"
    else:
        view.message = f"{wish.verb} {wish.server}: done"
