"""The install phase: once, one at a time, atomic, refreshed, honest when it fails; partly with real packages."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.packages import installer, steps
from supervisord_mcp.packages.installer import Installed, Packages
from supervisord_mcp.packages.phase import Grants, Surroundings
from supervisord_mcp.packages.requests import Request
from supervisord_mcp.runtimes import tree
from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.identity import Identities
from tests.kit.bounded import bounded
from tests.packages.estate import find, sandboxed, shipped, without_uv
from tests.packages.registry import SPY, Place, place
from tests.runtimes.conformance import exists

pytestmark = pytest.mark.usefixtures("subreaper")

DAY = 86400.0
SERVER = Request("npm", ("server",), None, ("x",), pinned=False)
#: Plays npm: notes that it ran, does what the files beside it say, and installs the version that they say.
NPM = """#!/bin/sh
here=$(dirname "$0"); prefix=$PWD
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
            confinement=shipped(folder),
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


@pytest.fixture(scope="module")
def local() -> Iterator[Place]:
    with place() as made:
        made.npm_package("plain")
        made.npm_package("@scope/spy", scripts={"postinstall": SPY})
        made.npm_package("elsewhere", files="http://files.test:8080")
        made.wheel("wheeled")
        made.source("sourced")
        yield made


def _npm(name: str) -> Request:
    return Request("npm", (name,), None, (), pinned=False)


def _python(name: str) -> Request:
    return Request("python", (name,), name, (), pinned=False)


def _settings(local: Place, **more: str) -> dict[str, str]:
    index = f"{local.url}/simple"
    return {"npm_config_registry": local.url, "UV_DEFAULT_INDEX": index, "PIP_INDEX_URL": index, **more}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home that is closed to everybody else, with a token for a registry in it."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / ".npmrc").write_text("//127.0.0.1/:_authToken=t0ken\n")
    (folder / ".npmrc").chmod(0o600)
    return folder


def _named(folder: str, name: str) -> list[Path]:
    return list(Path(folder).rglob(name))


def _everything(folder: Path) -> list[os.stat_result]:
    return [path.lstat() for path in folder.rglob("*")]


@pytest.mark.bwrap
@pytest.mark.npm
@bounded(120)
async def test_from_a_registry_on_this_machine(tmp_path: Path, home: Path, local: Place) -> None:
    packages = Packages(tmp_path / "packages")
    for request, finds in ((_npm("plain"), find), (_python("wheeled"), find), (_python("wheeled"), without_uv)):
        async with sandboxed(home, _settings(local)) as around:
            installed = await packages.provide(request, replace(around, find=finds))
        assert exists(Path(installed.argv[-1]))
        # Its files are the daemon's, and everybody may read them.
        for status in _everything(Path(installed.read_only)):
            assert status.st_uid == os.geteuid()
            assert stat.S_ISLNK(status.st_mode) or os.geteuid() or status.st_mode & stat.S_IROTH
    if os.geteuid() == 0:
        used = {status.st_uid for status in _everything(tmp_path / "packages/npm-cache")}
        assert used == {Identities().of("@install").uid}
    left = {path.name for path in (tmp_path / "packages").glob("*/settings-*")}
    assert left == set(), "copies of settings are for the time of the installation"


@pytest.mark.bwrap
@pytest.mark.npm
@bounded(120)
async def test_scripts_run_only_where_they_are_named_and_see_nothing(tmp_path: Path, home: Path, local: Place) -> None:
    said: list[str] = []
    packages, environ = Packages(tmp_path / "packages"), _settings(local, API_KEY="s3cret", HTTPS_PROXY="")
    async with sandboxed(home, environ, said) as around:
        installed = await packages.provide(_npm("@scope/spy"), around)
    assert not _named(installed.read_only, "seen")
    assert any("scripts of @scope/spy were not run" in line for line in said)
    async with sandboxed(home, environ, said, grants=Grants(scripts=("@scope/spy",))) as around:
        named = await packages.provide(_npm("@scope/spy"), around)
    assert named.read_only != installed.read_only
    (seen,) = _named(named.read_only, "seen")
    text = seen.read_text()
    assert "npm_lifecycle_event=postinstall" in text
    assert "s3cret" not in text
    for closed in ("/root", "/srv", "/var/tmp"):
        assert f"cannot access '{closed}'" in text
    # What a foreign program may have written is not what the next installation begins with.
    assert not exists(Path(named.read_only).parent / "cache")


@pytest.mark.bwrap
@pytest.mark.parametrize("finds", [find, without_uv], ids=["uv", "pip"])
@bounded(120)
async def test_a_package_is_built_only_where_it_is_named(
    tmp_path: Path, home: Path, local: Place, finds: steps.Find
) -> None:
    packages = Packages(tmp_path / "packages")
    async with sandboxed(home, _settings(local)) as around:
        with pytest.raises(LaunchError) as caught:
            await packages.provide(_python("sourced"), replace(around, find=finds))
        assert not caught.value.retryable
        assert "scripts" in caught.value.remedy or finds is without_uv
        named = replace(around, find=finds, grants=Grants(scripts=("sourced",)))
        installed = await packages.provide(_python("sourced"), named)
    assert exists(Path(installed.argv[0]))


@pytest.mark.bwrap
@pytest.mark.npm
@bounded(120)
async def test_other_hosts_are_refused_and_named(tmp_path: Path, home: Path, local: Place) -> None:
    environ = _settings(local, npm_config_fetch_retries="0")
    async with sandboxed(home, environ) as around:
        with pytest.raises(LaunchError, match=r"not let to files\.test:8080") as caught:
            await Packages(tmp_path / "packages").provide(_npm("elsewhere"), around)
    assert caught.value.remedy.endswith('install = { allow = ["files.test:8080"] }')
    assert not caught.value.retryable


@pytest.mark.bwrap
@pytest.mark.npm
@bounded(120)
async def test_through_the_proxy_of_the_person(tmp_path: Path, home: Path, local: Place) -> None:
    proxy = local.url.replace("//", "//me:pass@")
    environ = {
        "npm_config_registry": "http://registry.test/",
        "npm_config_replace_registry_host": "always",
        "http_proxy": proxy,
        "UV_DEFAULT_INDEX": "http://index.test/simple",
    }
    packages = Packages(tmp_path / "packages")
    local.asked.clear()
    async with sandboxed(home, environ) as around:
        assert (await packages.provide(_npm("plain"), around)).argv
        with pytest.raises(LaunchError):
            # The files are said to be on this machine, which no index is believed.
            await packages.provide(_python("wheeled"), around)
    assert {"registry.test:80", "index.test:80"} <= set(local.asked)
    assert not [path for path in local.asked if path.startswith("/files/")]
    assert f"Basic {base64.b64encode(b'me:pass').decode()}" in local.authorizations


@pytest.mark.bwrap
@pytest.mark.npm
@bounded(120)
async def test_an_installation_that_cannot_be_isolated_does_not_run(tmp_path: Path, home: Path, local: Place) -> None:
    bwrap = tmp_path / "bin/bwrap"
    bwrap.parent.mkdir()
    bwrap.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2; exit 1\n")
    bwrap.chmod(0o755)
    local.asked.clear()
    async with sandboxed(home, _settings(local), bwrap=str(bwrap.parent)) as around:
        with pytest.raises(IsolationError, match="bwrap") as caught:
            await Packages(tmp_path / "packages").provide(_npm("plain"), around)
    assert caught.value.remedy
    assert local.asked == []


@pytest.mark.bwrap
@pytest.mark.npm
@pytest.mark.parametrize("request_", [_npm("no-such-package-x1"), _python("no-such-package-x1")], ids=["npm", "uv"])
@bounded(120)
async def test_a_package_that_does_not_exist_is_not_tried_again(tmp_path: Path, request_: Request) -> None:
    async with sandboxed(Path.home(), dict(os.environ)) as around:
        with pytest.raises(LaunchError) as caught:
            await Packages(tmp_path).provide(request_, around)
    assert not caught.value.retryable, caught.value.message


@pytest.mark.bwrap
@bounded(180)
async def test_without_uv_pip_installs(tmp_path: Path) -> None:
    async with sandboxed(Path.home(), dict(os.environ)) as around:
        installed = await Packages(tmp_path).provide(_python("idna"), replace(around, find=without_uv))
    assert installed.argv == (f"{installed.read_only}/venv/bin/idna",)
