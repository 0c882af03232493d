"""What is told of a start: installations once, secrets by their names, and why there is no child."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from supervisord_mcp.blueprint import Spawning, Surroundings
from supervisord_mcp.errors import LaunchError, NotTrustedError, SecretError, SmcpError
from supervisord_mcp.launch import Launch
from supervisord_mcp.observer import Observers
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.starting import Starting
from tests.kit.bounded import bounded

KEY = InstanceKey("s", "0" * 16)
CHILD = object()
LIMIT = 10


class World:
    """A start of which a test says how it ends, and what came of it."""

    def __init__(self, failure: SmcpError | None = None, grants: tuple[str, ...] = ()) -> None:
        self.steps: list[str] = []
        self._failure = failure
        self.observers = Observers()
        launch = SimpleNamespace(start=self._start, giving=SimpleNamespace(grants=grants))
        around = SimpleNamespace(observers=self.observers, may_start=lambda: self.steps.append("may start"))
        self.starting = Starting(KEY, cast("Launch", launch), cast("Surroundings", around), self._room)

    async def spawn(self) -> Any:
        told = Spawning(lambda: self.steps.append("installing"), self.steps.append)
        return await self.starting.spawn(told)

    async def _room(self) -> None:
        self.steps.append("room")

    async def _start(self, installing: Callable[[], None], progress: Callable[[str], None]) -> Any:
        installing()
        progress("half of it")
        installing()
        if self._failure is not None:
            raise self._failure
        return CHILD

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        assert all(event.server == "s" for event in self.observers.recent)
        return [(event.kind, event.data) for event in self.observers.recent]


INSTALLING = ("installing", {"instance": str(KEY)})


@bounded(LIMIT)
async def test_a_start_waits_for_room_and_tells_of_an_installation_once() -> None:
    world = World()
    assert await world.spawn() is CHILD
    assert world.steps == ["room", "may start", "installing", "half of it", "installing"]
    assert world.events == [INSTALLING]


@bounded(LIMIT)
async def test_secrets_that_are_given_are_told_by_their_names() -> None:
    world = World(grants=("TOKEN from vault:github",))
    assert await world.spawn() is CHILD
    given = {"instance": str(KEY), "secrets": ["TOKEN from vault:github"]}
    assert world.events == [INSTALLING, ("credentials-given", given)]


@pytest.mark.parametrize(
    ("failure", "events"),
    [
        (SecretError("no value", remedy="Store it."), ["credentials-refused"]),
        (NotTrustedError("changed"), ["not-trusted"]),
        (LaunchError("not found"), []),
    ],
)
@bounded(LIMIT)
async def test_why_there_is_no_child_is_told(failure: SmcpError, events: list[str]) -> None:
    world = World(failure, grants=("TOKEN from vault:github",))
    with pytest.raises(type(failure)):
        await world.spawn()
    told = world.events[1:]
    assert [kind for kind, _ in told] == events
    assert all(data["cause"] == str(failure) for _, data in told)
