"""Rootless Podman: the same runtime, and some checks of the kit that every runtime passes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from supervisord_mcp.runtimes.container.engine import Engine, Engines
from tests.kit.bounded import bounded
from tests.kit.engine import SHELL, Podman, fill
from tests.runtimes.conformance import CHECKS
from tests.runtimes.imaged import ImagedRuntime

#: Those where an engine can be different; each start takes a second here.
CHOSEN = (
    "answers_and_ends_at_end_of_file",
    "polite_signals_reach_the_server",
    "secrets_are_in_files_that_only_it_can_read",
)


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    made = Podman()
    fill(made)
    yield made
    made.close()


@bounded(30)
async def test_it_is_known_for_what_it_is(podman: Podman) -> None:
    engine = Engine("", {"DOCKER_HOST": podman.url})
    facts = await engine.facts()
    assert facts.podman
    assert facts.rootless
    assert facts.local
    await engine.aclose()


@pytest.mark.parametrize("name", CHOSEN)
@pytest.mark.usefixtures("subreaper")
def test_a_server_in_it_is_like_any_other(podman: Podman, name: str) -> None:
    runtime = ImagedRuntime(podman.directory, Engines({"DOCKER_HOST": podman.url}), f"localhost/{SHELL}")

    async def check() -> None:
        try:
            await CHECKS[name](runtime)
        finally:
            await runtime.aclose()

    bounded(120)(check)()
    assert asyncio.run(_left(podman)) == []


async def _left(podman: Podman) -> list[str]:
    """Return the containers that are left once it has had a moment to remove them."""
    for _ in range(100):
        if not (found := podman.containers()):
            break
        await asyncio.sleep(0.05)
    return found
