"""Packages are installed in containers of a real engine, from a registry on this machine, and run from a volume."""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.packages.phase import Confinement, Grants, Surroundings, run_to_end
from supervisord_mcp.packages.requests import Request, recognise
from supervisord_mcp.packages.volumes import OWNER, PLACE, Base, Kept, Volumes
from supervisord_mcp.runtimes.base import Container, LaunchSpec
from supervisord_mcp.runtimes.container.engine import Engine
from supervisord_mcp.runtimes.container.runtime import ContainerRuntime
from tests.kit import images
from tests.kit.engine import Dockerd
from tests.packages.estate import PATH, find, shipped
from tests.packages.registry import SPY, Place, place

DAY = 86400.0


@dataclass
class World:
    """An engine with the base images, a home with settings, and a clock that a test may turn."""

    dockerd: Dockerd
    runtime: ContainerRuntime
    engine: Engine
    bases: dict[str, Base]
    volumes: Volumes
    around: Surroundings
    said: list[str] = field(default_factory=list)
    phases: int = 0
    now: float = field(default_factory=time.time)

    async def provide(self, *command: str, **changes: Any) -> Kept:
        request = asked(*command)
        around = replace(self.around, installing=self._installing, progress=self.said.append, **changes)
        return await self.volumes.provide(request, self.bases[request.kind], around)

    async def run(self, kind: str, kept: Kept, *words: str) -> tuple[str, ...]:
        """Run an installation as a server of nobody in particular would be, and return what it wrote."""
        base = self.bases[kind]
        container = Container(base.image, base.shown, base.word, volumes=((kept.volume, PLACE, "ro"),))
        spec = LaunchSpec("srv", (*kept.run, *words), marker="t:srv:1", container=container)
        return (await run_to_end(spec, b"", self.runtime, lambda _: None)).lines

    def there(self) -> set[str]:
        found = self.dockerd.client.volumes({"label": f"{OWNER}={self.volumes.owner}"})["Volumes"] or []
        return {one["Name"] for one in found}

    def _installing(self) -> None:
        self.phases += 1


def asked(*command: str) -> Request:
    request = recognise(command)
    assert request is not None
    return request


@pytest.fixture(scope="module")
def local() -> Iterator[Place]:
    with place() as made:
        made.npm_package("plain", code="console.log('plain', process.argv.slice(2).join())\n")
        made.npm_package("@scope/spy", scripts={"postinstall": SPY})
        made.wheel("wheeled")
        made.source("sourced")
        yield made


@pytest.fixture
async def world(engine: Dockerd, tmp_path: Path, local: Place) -> AsyncIterator[World]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    # With a directory of the machine that an image has as well, and a secret for another registry.
    (home / ".npmrc").write_text("nodedir=/usr\n//127.0.0.1/:_authToken=t0ken\n")
    (home / ".npmrc").chmod(0o600)
    runtime = ContainerRuntime(tmp_path / "c")
    reached = runtime.engines.of(engine.url)
    bases = {}
    for kind, name in (("npm", "node"), ("python", "python")):
        reference = images.load(engine.client, name)
        found = engine.client.inspect_image(reference)  # type: ignore[no-untyped-call]
        bases[kind] = Base(str(found["Id"]), reference, reached, engine.url)
    index = f"{local.url}/simple"
    around = Surroundings(
        runtime=runtime,
        confinement=shipped(tmp_path / "shipped"),
        find=find,
        path=PATH,
        home=str(home),
        environ={"npm_config_registry": local.url, "PIP_INDEX_URL": index, "API_KEY": "s3cret"},
        marker="t:@install:1",
        installing=lambda: None,
        progress=lambda _: None,
    )
    made = World(engine, runtime, reached, bases, Volumes(tmp_path / "state/volumes.json"), around)
    made.volumes = Volumes(tmp_path / "state/volumes.json", lambda: made.now)
    yield made
    await runtime.aclose()


@pytest.mark.anyio
async def test_a_package_of_npm_is_installed_once_and_runs_without_network(world: World) -> None:
    kept = await world.provide("npx", "-y", "plain")
    assert world.phases == 1
    assert world.said[0] == f"installing plain in {world.bases['npm'].shown}"
    assert await world.run("npm", kept, "a", "b") == ("plain a,b",)
    again = await world.provide("npx", "-y", "plain", "other", "words")
    assert (again.volume, again.run, world.phases) == (kept.volume, kept.run, 1)
    assert world.there() == {kept.volume}
    # What is installed cannot be changed by what runs.
    writing = structs.replace(kept, run=("node", "-e", f"require('fs').writeFileSync('{PLACE}/x', '')"))
    assert any("read-only file system" in line for line in await world.run("npm", writing))


@pytest.mark.anyio
async def test_a_package_of_python_is_installed_by_the_pip_of_the_image(world: World) -> None:
    kept = await world.provide("uvx", "wheeled==1.0")
    assert kept.run == (f"{PLACE}/venv/bin/wheeled",)
    assert await world.run("python", kept) == ("ok",)


@pytest.mark.anyio
async def test_nothing_of_a_package_runs_unless_it_is_named_and_then_it_sees_nothing(world: World) -> None:
    kept = await world.provide("npx", "-y", "@scope/spy")
    assert any("scripts of @scope/spy were not run" in line for line in world.said)
    reading = structs.replace(
        kept, run=("node", "-p", f"require('fs').readFileSync('{PLACE}/package/node_modules/@scope/spy/seen', 'utf8')")
    )
    assert any("ENOENT" in line for line in await world.run("npm", reading))
    named = await world.provide("npx", "-y", "@scope/spy", grants=Grants(scripts=("@scope/spy",)))
    assert named.volume != kept.volume
    seen = " ".join(await world.run("npm", structs.replace(reading, volume=named.volume)))
    assert "npm_lifecycle_event=postinstall" in seen
    assert "s3cret" not in seen
    with pytest.raises(LaunchError) as raised:
        await world.provide("uvx", "sourced")
    assert "scripts" in raised.value.remedy or "No matching distribution" in raised.value.message
    assert world.there() == {kept.volume, named.volume}, "nothing is left of what failed"


@pytest.mark.anyio
async def test_a_package_is_looked_up_again_after_a_day_and_the_old_one_serves_where_that_fails(
    world: World, local: Place
) -> None:
    first = await world.provide("npx", "-y", "plain")
    world.now += 2 * DAY
    pages, local.pages["/plain"] = local.pages["/plain"], ("text/plain", b"broken")
    try:
        assert (await world.provide("npx", "-y", "plain")).volume == first.volume
        assert any("plain was not refreshed, the installed version is used" in line for line in world.said)
        assert (await world.provide("npx", "-y", "plain")).volume == first.volume
        assert world.phases == 2
    finally:
        local.pages["/plain"] = pages
    world.now += 2 * DAY
    renewed = await world.provide("npx", "-y", "plain")
    assert renewed.volume != first.volume
    assert world.there() == {renewed.volume}
    # What nobody used for very long is removed when something else is.
    world.now += 100 * DAY
    other = await world.provide("npx", "-y", "@scope/spy")
    assert world.there() == {other.volume}


@pytest.mark.anyio
async def test_nobody_waits_for_the_installation_of_something_else(world: World) -> None:
    first = await world.provide("npx", "-y", "plain@1.0.0")
    installing = anyio.Event()

    async def install() -> None:
        with anyio.CancelScope() as scope:
            around = replace(world.around, installing=installing.set, progress=lambda _: None)
            scopes.append(scope)
            await world.volumes.provide(asked("npx", "-y", "@scope/spy"), world.bases["npm"], around)

    scopes: list[anyio.CancelScope] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(install)
        await installing.wait()
        assert (await world.provide("npx", "-y", "plain@1.0.0")).volume == first.volume
        assert not any("waits" in line for line in world.said)
        # Who gives up meanwhile leaves nothing.
        scopes[0].cancel()
    assert world.there() == {first.volume}


@pytest.mark.anyio
async def test_a_volume_that_somebody_removed_is_made_again(world: World) -> None:
    first = await world.provide("npx", "-y", "plain@1.0.0")
    world.dockerd.client.remove_volume(first.volume)
    second = await world.provide("npx", "-y", "plain@1.0.0")
    assert second.volume != first.volume
    assert await world.run("npm", second, "a") == ("plain a",)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("npx", "-y", "--package=plain", "other"), "package plain has no command other: it offers plain"),
        (("uvx", "--from", "wheeled", "other"), "package wheeled has no command other: it offers wheeled"),
        (("npx", "-y", "nowhere-at-all"), "cannot install nowhere-at-all"),
        (("uvx", "nowhere-at-all"), "cannot install nowhere-at-all"),
        (("uvx", "--python", "3.9", "wheeled"), "Python 3.9 is asked for, and a container has that of its image"),
    ],
)
@pytest.mark.anyio
async def test_what_cannot_be_installed_is_told_and_leaves_nothing(
    world: World, command: tuple[str, ...], told: str
) -> None:
    with pytest.raises(LaunchError, match=told):
        await world.provide(*command)
    assert world.there() == set()


@pytest.mark.anyio
async def test_an_installation_reaches_registries_only_where_its_profile_lets_it(world: World) -> None:
    usual = world.around.confinement()
    closed = replace(usual, sets=("@pypi",))

    def confinement() -> Confinement:
        return closed

    with pytest.raises(LaunchError, match="the network of the profile 'install' has no @npm"):
        await world.provide("npx", "-y", "plain", confinement=confinement)


@pytest.mark.anyio
async def test_an_image_without_the_installer_says_so(world: World) -> None:
    world.bases["npm"] = world.bases["python"]
    with pytest.raises(LaunchError, match="node: No such file or directory in the image"):
        await world.provide("npx", "-y", "plain")


def test_a_record_that_cannot_be_read_is_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "volumes.json").write_text("[")
    volumes = Volumes(tmp_path / "volumes.json")
    around = Surroundings(
        runtime=ContainerRuntime(tmp_path),
        confinement=shipped(tmp_path),
        find=shutil.which,
        path="",
        home="",
        environ={},
        marker="",
        installing=lambda: None,
        progress=lambda _: None,
    )
    assert volumes.installed(asked("uvx", "x"), Base("sha256:1", "x", Engine(""), ""), around) is None
