"""Who follows is told until they leave, and told so when they are taken out."""

from __future__ import annotations

import asyncio

import pytest

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.errors import SmcpError, UnknownServerError
from supervisord_mcp.following import Follower, follow
from supervisord_mcp.observer import Event, Observers
from tests.kit.bounded import bounded

LIMIT = 20


@bounded(LIMIT)
async def test_everything_is_told_until_whoever_follows_leaves() -> None:
    observers, heard = Observers(), list[str]()
    following = asyncio.ensure_future(
        follow(observers, observers.events, lambda event: heard.append(event.kind), Follower("one", ""))
    )
    await asyncio.sleep(0)
    observers.publish(Event("a"))
    observers.let_go("somebody else", "it failed")
    assert heard == ["a", "observer-dropped"]
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    assert not observers.events.watched


@bounded(LIMIT)
async def test_only_who_is_taken_out_is_told_so() -> None:
    observers, heard = Observers(), list[str]()

    def fail(event: Event) -> None:
        raise ValueError(f"no room for {event.kind}")

    failing = asyncio.ensure_future(follow(observers, observers.events, fail, Follower("one", "Try again.")))
    going_on = asyncio.ensure_future(
        follow(observers, observers.events, lambda event: heard.append(event.kind), Follower("one", ""))
    )
    await asyncio.sleep(0)
    observers.publish(Event("a"))
    with pytest.raises(SmcpError, match="one was taken out, so that no host feels it: no room for a") as caught:
        await failing
    assert caught.value.remedy == "Try again."
    observers.publish(Event("b"))
    assert (heard, going_on.done()) == (["a", "observer-dropped", "b"], False)
    going_on.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going_on


@bounded(LIMIT)
async def test_who_follows_a_server_is_told_when_it_is_removed() -> None:
    observers = Observers()
    channel = observers.messages["s"]
    following = asyncio.ensure_future(follow(observers, channel, print, Follower("the tap of s", "", "s")))
    everything = asyncio.ensure_future(follow(observers, observers.events, lambda event: None, Follower("one", "")))
    await asyncio.sleep(0)
    observers.publish(Event("config-reloaded", data={"added": ["s"], "changed": ["s"], "removed": ["other"]}))
    await asyncio.sleep(0)
    assert not following.done()
    observers.publish(Event("config-reloaded", data={"added": [], "changed": [], "removed": ["s"]}))
    with pytest.raises(UnknownServerError, match="'s' was removed from the configuration, and the tap of s ends"):
        await following
    assert not channel.watched
    assert not everything.done()
    everything.cancel()
    with pytest.raises(asyncio.CancelledError):
        await everything


@bounded(LIMIT)
async def test_a_server_with_a_name_that_is_a_secret_is_known_when_it_is_removed() -> None:
    masker.learn("tok-4f9a2c77b1", "vault:x")
    try:
        observers = Observers()
        follower = Follower("the tap", "", "wiki-tok-4f9a2c77b1")
        following = asyncio.ensure_future(follow(observers, observers.messages["s"], print, follower))
        await asyncio.sleep(0)
        observers.publish(Event("config-reloaded", data={"removed": ["wiki-tok-4f9a2c77b1"]}))
        with pytest.raises(UnknownServerError):
            await following
    finally:
        masker.clear()
