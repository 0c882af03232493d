"""The image for a start, against a real engine and a real registry: fetched, held, and changed behind our back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import docker
import pytest

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.images.pins import Pins
from supervisord_mcp.images.provider import Change, Images, Pull, Telling, Wish
from supervisord_mcp.runtimes.container.engine import Engines
from supervisord_mcp.runtimes.container.images import Image
from tests.kit.engine import Dockerd
from tests.kit.images import tiny
from tests.kit.registry import Registry

pytestmark = pytest.mark.anyio


@dataclass
class World:
    """An engine with a registry, and what a server was told while it started."""

    engine: Dockerd
    client: docker.APIClient
    registry: Registry
    pins: Pins
    images: Images
    name: str
    told: list[str] = field(default_factory=list)
    phases: int = 0
    changes: list[Change] = field(default_factory=list)

    def publish(self, content: bytes) -> str:
        """Let the tag stand for an image with a content, in the registry; return its id."""
        made = tiny(self.client, "smcp-test/work:1", content)
        self.registry.push(self.client, "smcp-test/work:1", self.name.rpartition("/")[2])
        self.client.remove_image("smcp-test/work:1")
        return made

    async def start(self, pull: Pull = "missing", reference: str = "") -> Image:
        def installing() -> None:
            self.phases += 1

        wish = Wish("srv", reference or self.name, self.engine.url, pull)
        return await self.images.provide(wish, Telling(installing, self.told.append, self.changes.append))

    async def refused(self, pull: Pull = "missing", reference: str = "") -> LaunchError:
        with pytest.raises(LaunchError) as raised:
            await self.start(pull, reference)
        return raised.value


@pytest.fixture
def world(engine: Dockerd, tmp_path: Path) -> Iterator[World]:
    (tmp_path / "registry").mkdir()
    registry = Registry(tmp_path / "registry")
    pins = Pins(tmp_path / "images.json", tmp_path / "lock")
    name = registry.name(f"srv{tmp_path.name.replace('_', '').lower()}:1")
    engines = Engines()
    yield World(engine, engine.client, registry, pins, Images(pins, engines), name)
    for one in engines:
        one.close()
    registry.stop()


async def test_a_missing_image_is_fetched_once_in_a_phase_of_its_own(world: World) -> None:
    made = world.publish(b"one")
    found = await world.start()
    assert found.id == made
    assert world.phases == 1
    assert world.told[0] == f"pulling {world.name}"
    assert world.told[-1] == f"image {world.name} is {found.digest} from now on"
    world.told.clear()
    world.registry.stop()
    assert await world.start() == found
    assert (world.phases, world.told) == (1, [])


async def test_never_fetches_nothing(world: World) -> None:
    world.publish(b"one")
    error = await world.refused("never")
    assert error.message == f'the engine has no image {world.name}, and pull = "never"'
    assert not error.retryable
    assert world.phases == 0
    await world.start("missing")
    assert (await world.start("never")).id


async def test_a_tag_that_was_moved_is_told_once_and_what_was_there_runs(world: World) -> None:
    one = world.publish(b"one")
    first = await world.start("always")
    other = world.publish(b"other")
    assert (await world.start("missing")).id == one
    assert world.changes == []  # nobody asked the registry
    assert (await world.start("always")).id == one
    assert (await world.start("always")).id == one
    [change] = world.changes
    assert (change.server, change.reference, change.held) == ("srv", world.name, first.digest)
    assert change.found not in ("", first.digest)
    assert f"{change.held} runs; to run the new one: smcp image accept srv" in world.told[-1]
    # Nobody may move it unseen where nothing is to be fetched either.
    error = await world.refused("never")
    assert "is not what its name stands for any more" in error.message
    assert "smcp image accept srv" in error.remedy
    wish = Wish("srv", world.name, world.engine.url)
    world.pins.accept(wish.name)
    assert (await world.start("never")).id == other
    assert (await world.start("always")).id == other
    assert len(world.changes) == 1


async def test_what_was_held_is_fetched_again_by_its_digest(world: World) -> None:
    one = world.publish(b"one")
    first = await world.start()
    world.publish(b"other")
    world.client.remove_image(first.id, force=True)
    found = await world.start()
    assert (found.id, found.digest) == (one, first.digest)
    assert world.told[-1].startswith(f"pulling {world.name.rpartition(':')[0]}@{first.digest}")


async def test_what_is_not_to_be_had_any_more_is_not_replaced_by_something_else(world: World) -> None:
    tiny(world.client, world.name, b"made here")
    await world.start("never")
    world.client.remove_image(world.name)
    tiny(world.client, world.name, b"made otherwise")
    error = await world.refused()
    assert "is not to be had any more" in error.message
    assert len(world.changes) == 1
    world.client.remove_image(world.name)
    world.publish(b"of the registry")
    assert "is not to be had any more" in (await world.refused()).message
    assert len(world.changes) == 2
    assert (await world.refused("never")).message.startswith("the image")


async def test_a_registry_that_is_away_stops_nobody_who_has_the_image(world: World) -> None:
    world.publish(b"one")
    found = await world.start()
    world.registry.stop()
    assert await world.start("always") == found
    assert any("was not refreshed" in line for line in world.told)
    world.client.remove_image(found.id, force=True)
    error = await world.refused("always")
    assert error.unreachable
    assert (await world.refused("missing")).retryable


async def test_a_name_with_a_digest_needs_no_record(world: World) -> None:
    world.publish(b"one")
    found = await world.start()
    exact = f"{world.name.rpartition(':')[0]}@{found.digest}"
    world.client.remove_image(found.id, force=True)
    assert (await world.refused("never", exact)).message.startswith("the engine has no image")
    assert (await world.start("missing", exact)).id == found.id
    assert list(world.pins.all()) == [Wish("srv", world.name, world.engine.url).name]


async def test_two_servers_with_one_image_wait_for_one_pull(world: World) -> None:
    world.publish(b"one")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.start)
        tasks.start_soon(world.start)
    assert sum(line == f"pulling {world.name}" for line in world.told) == 1
    assert f"waits for another start that fetches {world.name}" in world.told
