"""An engine with users of its own (``dockerd --userns-remap``): a server runs there as anywhere, or is refused."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.base import Container, LaunchSpec, Mount
from supervisord_mcp.runtimes.container.engine import Engine, Engines
from supervisord_mcp.runtimes.container.runtime import ContainerRuntime
from tests.kit.bounded import bounded
from tests.kit.engine import PERSON, SHELL, Dockerd, fill
from tests.kit.required import need
from tests.runtimes.conformance import CHECKS, ended, read
from tests.runtimes.imaged import ImagedRuntime

#: Those for which it matters who is who: the pipes of the gate, signals from outside, files of secrets.
CHOSEN = (
    "answers_and_ends_at_end_of_file",
    "polite_signals_reach_the_server",
    "secrets_are_in_files_that_only_it_can_read",
)


def first_user() -> int:
    """Return the user of this machine that is root in containers."""
    entries = [line.split(":") for line in Path("/etc/subuid").read_text().splitlines()]
    return next((int(first) for name, first, _ in entries if name == PERSON), 0)


@pytest.fixture(scope="module")
def remapped() -> Iterator[Dockerd]:
    there = os.path.exists("/etc/subuid") and first_user()
    need(there, f"a person with users to spare: useradd --create-home {PERSON}, with uidmap installed")
    made = Dockerd(f"--userns-remap={PERSON}")
    fill(made)
    yield made
    made.close()


def shell(script: str, *mounts: Mount, **container: object) -> LaunchSpec:
    made = replace(Container(SHELL), **container)  # type: ignore[arg-type]
    env = (("PATH", "/usr/bin:/bin"),)
    return LaunchSpec("test", ("/bin/sh", "-c", script), env=env, marker="d:test:1", mounts=mounts, container=made)


async def said(remapped: Dockerd, place: Path, spec: LaunchSpec) -> str:
    """Return what a server writes to its end, which is a good one."""
    runtime = ContainerRuntime(place, Engines({"DOCKER_HOST": remapped.url}))
    try:
        child = await runtime.launch(spec)
        try:
            child.close_stdin()
            output = await read(child.stdout)
            assert (await ended(child)).code == 0, await read(child.stderr)
        finally:
            await child.aclose()
    finally:
        await runtime.aclose()
        async with asyncio.timeout(20):
            # One that was not to be is removed by two, and one of them does not wait for the other.
            while await asyncio.to_thread(remapped.containers):
                await asyncio.sleep(0.05)
    return output.decode()


@bounded(30)
async def test_it_is_known_for_what_it_is(remapped: Dockerd) -> None:
    engine = Engine("", {"DOCKER_HOST": remapped.url})
    assert (await engine.facts()).remapped
    await engine.aclose()


@pytest.mark.parametrize("name", CHOSEN)
@pytest.mark.usefixtures("subreaper")
def test_a_server_in_it_is_like_any_other(remapped: Dockerd, tmp_path: Path, name: str) -> None:
    runtime = ImagedRuntime(tmp_path, Engines({"DOCKER_HOST": remapped.url}), SHELL)

    async def check() -> None:
        try:
            await CHECKS[name](runtime)
        finally:
            await runtime.aclose()

    bounded(90)(check)()
    assert remapped.containers() == []


@bounded(60)
async def test_its_own_places_belong_to_the_server(remapped: Dockerd, tmp_path: Path) -> None:
    script = "id -u; for at in $HOME /tmp; do echo x > $at/own && stat -c '%u %a' $at; done"
    lines = (await said(remapped, tmp_path, shell(script))).splitlines()
    user = str(os.getuid() or 1000)
    assert lines == [user, f"{user} 700", "0 1777"]


@bounded(60)
async def test_what_everybody_may_read_is_shown_and_what_was_granted_is_written(
    remapped: Dockerd, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_text("text\n")
    (tmp_path / "out").mkdir()
    owner = first_user() + (os.getuid() or 1000)
    os.chown(tmp_path / "out", owner, -1)
    mounts = Mount(f"{tmp_path}/in", "ro", "/in"), Mount(f"{tmp_path}/out", "rw", "/out")
    assert await said(remapped, tmp_path / "place", shell("cat /in/file; echo x > /out/x", *mounts)) == "text\n"
    assert (tmp_path / "out" / "x").stat().st_uid == owner


@pytest.mark.parametrize(("access", "what", "mode"), [("rw", "write", 0o755), ("ro", "read", 0o700)])
@bounded(60)
async def test_files_of_a_person_are_refused_with_whom_they_are_closed_to(
    remapped: Dockerd, tmp_path: Path, access: str, what: str, mode: int
) -> None:
    (tmp_path / "own").mkdir(mode=mode)
    mount = Mount(f"{tmp_path}/own", access)  # type: ignore[arg-type]
    with pytest.raises(LaunchError, match=f"could not {what} {tmp_path}/own: .*userns-remap") as caught:
        await said(remapped, tmp_path / "place", shell("cat", mount))
    assert not caught.value.retryable
    assert f"setfacl -R -m u:{first_user() + (os.getuid() or 1000)}:" in caught.value.remedy


@bounded(60)
async def test_an_image_whose_user_is_root_by_another_name_is_refused(remapped: Dockerd, tmp_path: Path) -> None:
    recipe = f"FROM {SHELL}\nRUN echo 'toor:x:0:0::/:/bin/sh' > /etc/passwd\nUSER toor\n"
    told = remapped.client.build(fileobj=io.BytesIO(recipe.encode()), tag="smcp-test:toor", rm=True, decode=True)
    assert not [each for each in told if "error" in each]
    with pytest.raises(LaunchError, match="toor, which is root there"):
        await said(remapped, tmp_path, replace(shell("id -u"), container=Container("smcp-test:toor")))
    meant = replace(shell("id -u"), container=Container("smcp-test:toor", user="toor"))
    assert await said(remapped, tmp_path, meant) == "0\n"


@pytest.mark.parametrize("opening", ["privileged", "host-network"])
@bounded(60)
async def test_what_such_an_engine_gives_nobody_is_refused_with_the_reason(
    remapped: Dockerd, tmp_path: Path, opening: str
) -> None:
    spec = replace(shell("cat", allow=frozenset({opening})), network="host" if opening == "host-network" else "none")
    with pytest.raises(LaunchError, match="users of its own") as caught:
        await said(remapped, tmp_path, spec)
    assert "another engine" in caught.value.remedy
