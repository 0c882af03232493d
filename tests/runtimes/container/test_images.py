"""Images of a real engine: what they are, and how they come from a real registry."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import docker
import pytest

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.container import images
from supervisord_mcp.runtimes.container.engine import Engine
from tests.kit.engine import Dockerd
from tests.kit.images import tiny
from tests.kit.registry import Registry
from tests.kit.stalling import StallingRegistry

pytestmark = pytest.mark.anyio


@pytest.fixture
def client(engine: Dockerd) -> docker.APIClient:
    return engine.client


@pytest.fixture
def reached(engine: Dockerd) -> Iterator[Engine]:
    made = Engine(engine.url)
    yield made
    made.close()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    made = Registry(tmp_path)
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("alpine", "alpine"),
        ("alpine:3", "alpine"),
        ("example.com:5000/a/b", "example.com:5000/a/b"),
        ("example.com:5000/a/b:1", "example.com:5000/a/b"),
        (f"a/b:1@sha256:{'0a' * 32}", "a/b"),
    ],
)
def test_the_repository_of_a_name(reference: str, expected: str) -> None:
    assert images.repository(reference) == expected
    digest = f"sha256:{'1b' * 32}"
    assert images.by_digest(reference, digest) == f"{expected}@{digest}"
    assert images.is_pinned(images.by_digest(reference, digest))


def test_a_tag_is_not_pinned() -> None:
    assert not images.is_pinned("sha256sum:2")
    assert images.is_pinned(f"sha256:{'0a' * 32}")


async def test_what_is_not_there_is_none(reached: Engine) -> None:
    assert await images.look(reached, "nobody/has:this") is None


async def test_what_was_made_here_is_known_by_its_id_alone(reached: Engine, client: docker.APIClient) -> None:
    made = tiny(client, "smcp-test/made:1", b"made")
    found = await images.look(reached, "smcp-test/made:1")
    assert found == images.Image("smcp-test/made:1", made)
    assert found.is_same(made, "")
    assert not found.is_same("sha256:other", "")


async def test_a_pull_tells_how_far_it_is_and_brings_the_digest(
    reached: Engine, client: docker.APIClient, registry: Registry
) -> None:
    made = tiny(client, "smcp-test/big:1", os.urandom(3 << 20))
    name = registry.push(client, "smcp-test/big:1", "big:1")
    client.remove_image("smcp-test/big:1")
    told: list[str] = []
    await images.pull(reached, name, told.append)
    assert told[0] == f"pulling {name}: 0 of 1 layers"
    assert told[-1].startswith(f"pulling {name}: 1 of 1 layers, 100 % of 3 MB")
    assert len(told) <= 14
    found = await images.look(reached, name)
    assert found is not None
    assert found.id == made
    # Under that digest every engine finds the same one.
    exact = await images.look(reached, images.by_digest(name, found.digest))
    assert exact is not None
    assert (exact.id, exact.digest) == (found.id, found.digest)


async def test_what_its_registry_does_not_have_is_not_tried_again(reached: Engine, registry: Registry) -> None:
    name = registry.name("nothing:1")
    with pytest.raises(LaunchError, match=f"cannot pull {name}: .*not found") as raised:
        await images.pull(reached, name, lambda _: None)
    assert not raised.value.retryable
    assert "docker login" in raised.value.remedy


async def test_a_registry_that_is_not_there_may_be_there_later(reached: Engine, registry: Registry) -> None:
    registry.stop()
    with pytest.raises(LaunchError, match="connection refused") as raised:
        await images.pull(reached, registry.name("x:1"), lambda _: None)
    assert raised.value.retryable
    assert raised.value.unreachable


@pytest.mark.parametrize("trickle", [False, True])
async def test_a_pull_that_is_not_wanted_any_more_ends_whatever_the_registry_does(
    reached: Engine, trickle: bool
) -> None:
    threads = threading.active_count()
    with StallingRegistry(trickle=trickle) as registry:
        pulling = anyio.CancelScope()
        async with anyio.create_task_group() as tasks:

            async def pull() -> None:
                with pulling:
                    await images.pull(reached, registry.name("slow:1"), lambda _: None)

            tasks.start_soon(pull)
            assert await anyio.to_thread.run_sync(registry.asked.wait, 20)
            pulling.cancel()
        assert pulling.cancelled_caught
        if trickle:
            # The engine was told, and goes on with nothing. While it asks for the first time it hears nobody, for 25 s.
            assert await anyio.to_thread.run_sync(registry.left.wait, 20)
    assert threading.active_count() <= threads + 2, "threads that wait for work, and none that waits for the registry"


async def test_a_registry_that_says_nothing_is_told(reached: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_SILENCE_SECONDS", 0.05)
    told: list[str] = []
    pulling = anyio.CancelScope()

    def tell(text: str) -> None:
        told.append(text)
        if len(told) > 1:
            pulling.cancel()

    with StallingRegistry() as registry, pulling:
        name = registry.name("slow:1")
        await images.pull(reached, name, tell)
    assert told == [f"pulling {name} (nothing in the last 0 s)"] * 2
