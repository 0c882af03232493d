"""Follows what observers are told, for a person or a program: who is taken out is told so, and not left in silence."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NoReturn

import anyio

from supervisord_mcp.errors import SmcpError
from supervisord_mcp.observer import Channel, Event, Observers

_numbers = count(1)


async def follow(
    observers: Observers, channel: Channel[Any], tell: Callable[[Any], object], what: str, remedy: str
) -> NoReturn:
    """Tell everything of a channel until this is cancelled; ``what`` says what is followed.

    Raise `SmcpError`, with the remedy, once the watcher is taken out because it failed or was too slow.
    """
    watcher = f"{what} ({next(_numbers)})"  # the name of nobody else
    gone = anyio.Event()

    def dropped(event: Event) -> None:
        if event.kind == "observer-dropped" and event.data.get("observer") == watcher:
            gone.set()

    remove = channel.add(tell, watcher)
    forget = observers.add(dropped, f"end of {watcher}")
    try:
        await gone.wait()
    finally:
        forget()
        remove()
    cause = observers.dropped.get(watcher, "")
    raise SmcpError(f"{what} was taken out, so that no host feels it: {cause}", remedy=remedy)
