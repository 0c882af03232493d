"""The install phase: once, one at a time, atomic, refreshed, honest when it fails; partly with real packages."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.packages import installer
from supervisord_mcp.packages.installer import Installed, Packages, Surroundings
from supervisord_mcp.packages.requests import Request
from supervisord_mcp.runtimes import tree
from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from tests.kit.bounded import bounded
from tests.runtimes.conformance import exists

pytestmark = pytest.mark.usefixtures("subreaper")

DAY = 86400.0
SERVER = Request("npm", ("server",), None, ("x",), pinned=False)
#: Plays npm: notes that it ran, does what the files beside it say, and installs the version that they say.
NPM = """#!/bin/sh
here=$(dirname "$0"); prefix=$3
echo "$*" >> "$here/calls"; env > "$here/env"
[ -e "$here/beside" ] && echo overlap >> "$here/overlaps"
touch "$here/beside"
echo first; printf 'bar 1\\rbar 2\\n' >&2
mkdir -p "$prefix/node_modules/server"
[ -e "$here/slow" ] && { touch "$here/started"; while [ -e "$here/slow" ]; do sleep 0.01; done; }
rm "$here/beside"
[ -e "$here/fail" ] && { cat "$here/fail" >&2; exit 1; }
echo '{"name": "server", "bin": "cli.js"}' > "$prefix/node_modules/server/package.json"
echo '#!/usr/bin/env node' > "$prefix/node_modules/server/cli.js"
cat "$here/version" > "$prefix/package-lock.json"
"""


class World:
    """A made-up npm, a clock, and the packages that are installed with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 1000 * DAY
        self.said: list[str] = []
        self.phases: list[str] = []
        self.packages = Packages(folder / "packages", lambda: self.now)
        for name, text in (("npm", NPM), ("node", "#!/bin/sh\n"), ("version", "1")):
            self.write(name, text)
            (folder / name).chmod(0o755)
        self.around = Surroundings(
            runtime=BareRuntime(),
            find=lambda name: str(folder / name) if name in ("npm", "node") else None,
            path=f"{folder}:/usr/bin:/bin",
            home=str(folder),
            environ={"npm_config_registry": "http://example.test", "TOKEN": "s3cret"},
            marker=f"t-{folder}",
            installing=lambda: self.phases.append("installing"),
            progress=self.said.append,
        )

    def write(self, name: str, text: str) -> None:
        """Write a file beside npm."""
        (self.folder / name).write_text(text)

    def remove(self, name: str) -> None:
        """Remove a file beside npm."""
        (self.folder / name).unlink()

    @property
    def calls(self) -> int:
        """How often npm ran."""
        with contextlib.suppress(FileNotFoundError):
            return len((self.folder / "calls").read_text().splitlines())
        return 0

    @property
    def shelf(self) -> set[str]:
        """What there is in the folder of the one request."""
        (shelf,) = [place for place in (self.folder / "packages").iterdir() if len(place.name) == 16]
        return {name for name in os.listdir(shelf) if name not in ("current", ".checked")}

    async def provide(self, request: Request = SERVER) -> Installed:
        """Provide a package."""
        return await self.packages.provide(request, self.around)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something to become true."""
        with anyio.fail_after(10):
            while not condition():
                await asyncio.sleep(0.005)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@bounded(30)
async def test_installs_once(world: World) -> None:
    first = await world.provide()
    assert first.argv == (f"{world.folder}/node", f"{first.read_only}/node_modules/server/cli.js", "x")
    assert first.path == f"{first.read_only}/node_modules/.bin"
    assert world.phases == ["installing"]
    assert sorted(world.said) == ["bar 1", "bar 2", "first", "installing server"]
    assert await world.provide() == first
    assert await Packages(world.folder / "packages", lambda: world.now).provide(SERVER, world.around) == first
    assert (world.calls, world.phases) == (1, ["installing"])
    assert tree.marked(world.around.marker) == []


@bounded(30)
async def test_the_installer_gets_settings_and_no_secrets(world: World) -> None:
    await world.provide()
    found = _lines(world.folder / "env")
    assert "npm_config_registry=http://example.test" in found
    assert f"npm_config_cache={world.folder}/packages/npm-cache" in found
    assert not [line for line in found if "s3cret" in line]


@bounded(30)
async def test_at_the_same_time_it_is_installed_once_and_others_wait(world: World) -> None:
    world.write("slow", "")
    first = asyncio.ensure_future(world.provide())
    await world.until(lambda: exists(world.folder / "started"))
    others = [asyncio.ensure_future(world.provide()) for _ in range(3)]
    foreign = Packages(world.folder / "packages", lambda: world.now)
    others.append(asyncio.ensure_future(foreign.provide(SERVER, world.around)))
    other = replace(SERVER, requirements=("server@2",))
    others.append(asyncio.ensure_future(world.provide(other)))
    await world.until(lambda: world.said.count("server waits for another installation") == 4)
    world.remove("slow")
    results = await asyncio.gather(first, *others)
    assert world.calls == 2
    assert len({result.read_only for result in results[:-1]}) == 1
    assert results[-1].read_only != results[0].read_only
    assert not exists(world.folder / "overlaps")


@bounded(30)
async def test_a_cancelled_installation_leaves_nothing_half(world: World) -> None:
    world.write("slow", "")
    installing = asyncio.ensure_future(world.provide())
    await world.until(lambda: exists(world.folder / "started"))
    installing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await installing
    assert world.shelf == set()
    assert tree.marked(world.around.marker) == []
    world.remove("slow")
    world.remove("beside")
    assert (await world.provide()).argv


@bounded(30)
async def test_a_failure_shows_the_last_lines(world: World) -> None:
    world.write("fail", "npm error code E404\nnpm error 404 Not Found\n")
    with pytest.raises(LaunchError, match=r"cannot install server .exit 1.(.|\n)*E404\n(.|\n)*404 Not Found") as caught:
        await world.provide()
    assert not caught.value.retryable
    world.write("fail", "npm error code ENOTFOUND\n")
    with pytest.raises(LaunchError) as caught:
        await world.provide()
    assert caught.value.retryable
    assert world.shelf == set()
    world.remove("fail")
    assert (await world.provide()).argv


@bounded(30)
async def test_a_day_later_it_is_looked_up_again(world: World) -> None:
    first = await world.provide()
    world.now += DAY - 1
    await world.provide()
    assert world.calls == 1
    world.now += 1
    assert await world.provide() == first
    assert (world.calls, len(world.shelf)) == (2, 1)
    world.now += DAY
    world.write("version", "2")
    second = await world.provide()
    assert second.read_only != first.read_only
    # Servers that still run from the first one may load files late.
    assert exists(Path(first.read_only))
    world.now += 8 * DAY
    await world.provide()
    assert not exists(Path(first.read_only))


@bounded(30)
async def test_where_a_refresh_fails_the_installed_one_is_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await world.provide()
    world.now += DAY
    world.write("fail", "npm error code ENOTFOUND\n")
    assert await world.provide() == first
    assert "was not refreshed" in world.said[-1]
    assert await world.provide() == first
    assert world.calls == 2
    world.now += 3600
    world.remove("fail")
    monkeypatch.setattr(installer, "_REFRESH_LIMIT", 0.1)
    world.write("slow", "")
    assert await world.provide() == first
    assert world.calls == 3
    assert "no answer" in world.said[-1]
    assert len(world.shelf) == 1


@bounded(30)
async def test_an_exact_version_is_never_looked_up_again(world: World) -> None:
    pinned = replace(SERVER, requirements=("server@1.0.0",), pinned=True)
    first = await world.provide(pinned)
    world.now += 400 * DAY
    assert await world.provide(pinned) == first
    assert world.calls == 1


@bounded(30)
async def test_another_node_needs_another_installation(world: World) -> None:
    first = await world.provide()
    world.write("node", "#!/bin/sh\n# newer\n")
    assert (await world.provide()).read_only != first.read_only


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def _real(tmp_path: Path, home: Path) -> Surroundings:
    path = os.pathsep.join((os.path.dirname(sys.executable), "/usr/local/bin", "/usr/bin", "/bin"))
    return Surroundings(
        runtime=BwrapRuntime(),
        find=lambda name: shutil.which(name, path=path),
        path=path,
        home=str(home),
        environ=dict(os.environ),
        marker=f"t-{tmp_path}",
        installing=lambda: None,
        progress=lambda _: None,
    )


@pytest.mark.bwrap
@pytest.mark.npm
@pytest.mark.parametrize(
    "request_",
    [
        Request("npm", ("no-such-package-of-nobody-at-all-x1",), None, (), pinned=False),
        Request("python", ("no-such-package-of-nobody-at-all-x1",), "x", (), pinned=False),
    ],
    ids=["npm", "uv"],
)
@bounded(120)
async def test_a_package_that_does_not_exist_is_not_tried_again(tmp_path: Path, request_: Request) -> None:
    with pytest.raises(LaunchError) as caught:
        await Packages(tmp_path).provide(request_, _real(tmp_path, Path.home()))
    assert not caught.value.retryable, caught.value.message


@pytest.mark.bwrap
@bounded(180)
async def test_without_uv_pip_installs(tmp_path: Path) -> None:
    around = _real(tmp_path, Path.home())
    around = replace(around, find=lambda name: None if name == "uv" else _real(tmp_path, Path.home()).find(name))
    request = Request("python", ("idna",), "idna", (), pinned=False)
    installed = await Packages(tmp_path).provide(request, around)
    assert installed.argv == (f"{installed.read_only}/venv/bin/idna",)
