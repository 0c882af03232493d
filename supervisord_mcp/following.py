"""Follows what observers are told, for a person or a program: who is taken out is told so, and not left in silence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, NoReturn

import anyio

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.errors import SmcpError, UnknownServerError
from supervisord_mcp.observer import Channel, Event, Observers

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Follower:
    """Who follows, by what it is called, and what helps it when it is taken out.

    It ends when ``server`` is removed from the configuration, where one is named.
    """

    name: str
    remedy: str
    server: str = ""


async def follow(
    observers: Observers, channel: Channel[Any], tell: Callable[[Any], object], follower: Follower
) -> NoReturn:
    """Tell everything of a channel until this is cancelled.

    Raise `SmcpError` once the follower is taken out because it failed or was too slow, and `UnknownServerError` once
    its server was removed, so that nothing more is to come.
    """
    watcher = f"{follower.name} ({next(_numbers)})"  # the name of nobody else
    # No value of a secret is in what events say, and so not in a name either.
    server = masker.mask(follower.server)
    gone, removed = anyio.Event(), False

    def ended(event: Event) -> None:
        nonlocal removed
        if event.kind == "config-reloaded" and server in event.data["removed"]:
            removed = True
            gone.set()
        elif event.kind == "observer-dropped" and event.data.get("observer") == watcher:
            gone.set()

    remove = channel.add(tell, watcher)
    forget = observers.add(ended, f"end of {watcher}")
    try:
        await gone.wait()
    finally:
        forget()
        remove()
    if removed:
        text = f"server '{follower.server}' was removed from the configuration, and {follower.name} ends with it"
        raise UnknownServerError(text)
    cause = observers.dropped.get(watcher, "")
    text = f"{follower.name} was taken out, so that no host feels it: {cause}"
    raise SmcpError(text, remedy=follower.remedy)
