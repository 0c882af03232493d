"""Sources that are opened once: whatever happens to a path meanwhile, a server sees that or does not run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes import bwrap, lending
from supervisord_mcp.runtimes.base import LaunchSpec, Mount
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.descriptors import Descriptors
from supervisord_mcp.runtimes.sandbox import Bound
from supervisord_mcp.runtimes.sources import Opened, open_sources
from tests.kit.bounded import bounded
from tests.kit.required import as_root
from tests.runtimes.conformance import ended, exists, read, running, shell
from tests.runtimes.test_bwrap import as_person, machine

__all__ = ["machine"]
BWRAP = shutil.which("bwrap") or ""


def _spec(script: str, *mounts: Mount) -> LaunchSpec:
    spec = shell(script)
    return LaunchSpec(spec.name, spec.argv, env=spec.env, marker=spec.marker, mounts=mounts)


def _wrapper(folder: Path, meanwhile: str, *, descriptors: bool) -> str:
    """Make a bubblewrap before which something happens, and which takes descriptors or not; return its folder."""
    left_out = "" if descriptors else " | grep -v bind-fd"
    program = folder / "bin/bwrap"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nif [ $1 = --help ]; then {BWRAP} --help{left_out}; exit; fi\n{meanwhile}\nexec {BWRAP} "$@"\n'
    )
    program.chmod(0o755)
    return str(program.parent)


def test_steps_with_descriptors_and_without(tmp_path: Path) -> None:
    bound = [Bound(str(tmp_path), "/a", "rw", granted=True), Bound(str(tmp_path), "/b", "ro")]
    for by_descriptor in (True, False):
        with Descriptors() as descriptors:
            built, opened = open_sources([("--x",), *bound], descriptors, by_descriptor=by_descriptor)
            assert [each.bound for each in opened] == bound
            assert {(each.device, each.inode) for each in opened} == {(tmp_path.stat().st_dev, tmp_path.stat().st_ino)}
            if by_descriptor:
                one, two = map(str, descriptors.inherited)
                assert built == [("--x",), ("--bind-fd", one, "/a"), ("--ro-bind-fd", two, "/b")]
            else:
                assert descriptors.inherited == ()
                assert built == [("--x",), ("--bind", str(tmp_path), "/a"), ("--ro-bind", str(tmp_path), "/b")]


def test_no_link_is_followed_to_what_was_granted(tmp_path: Path) -> None:
    (tmp_path / "real/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    with Descriptors() as descriptors:
        for path in ("link", "link/inner"):
            with pytest.raises(LaunchError, match="symbolic link"):
                open_sources([Bound(f"{tmp_path}/{path}", "/a", "ro", granted=True)], descriptors, by_descriptor=True)
        with pytest.raises(LaunchError, match="No such file"):
            open_sources([Bound(f"{tmp_path}/none", "/a", "ro", granted=True)], descriptors, by_descriptor=True)
        # What a command needs is found through links, all of which lead somewhere that was looked at.
        open_sources([Bound(f"{tmp_path}/link/inner", "/a", "ro")], descriptors, by_descriptor=True)


@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@pytest.mark.parametrize("descriptors", [True, False])
def test_a_directory_that_is_exchanged_meanwhile(machine: Path, descriptors: bool) -> None:
    as_person(_exchanged, machine, descriptors)


async def _exchanged(folder: Path, descriptors: bool) -> None:
    project = folder / "project"
    _fill(project, "good")
    swap = f"mv {project} {project}.old; mkdir {project}; touch {project}/evil"
    runtime = BwrapRuntime(path=_wrapper(folder, swap, descriptors=descriptors))
    spec = _spec(f"ls {project}; touch {project}/ran", Mount(str(project), "rw"))
    if descriptors:
        # It was opened before: that one is shown.
        async with running(runtime, spec) as child:
            assert (await read(child.stdout)).split() == [b"good"]
            await ended(child)
        return
    with pytest.raises(IsolationError, match=f"something else at {project}"):
        await runtime.launch(spec)
    assert not exists(project / "ran")


@as_root
@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@pytest.mark.parametrize("before", [True, False], ids=["before it is lent", "after that"])
@bounded(60)
async def test_a_directory_that_is_exchanged_while_it_is_lent(
    machine: Path, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = machine / "project"
    _fill(project, "good")

    def lend(*arguments: Any) -> Any:
        if before:
            _exchange(project)
        found = lending.lend(*arguments)
        if not before:
            _exchange(project)
        return found

    monkeypatch.setattr(bwrap, "lend", lend)
    spec = _spec(f"ls {project}; touch {project}/ran", Mount(str(project), "rw"))
    runtime = BwrapRuntime(path=_wrapper(machine, "", descriptors=False))
    if before:
        with pytest.raises(IsolationError, match=f"something else at {project}"):
            await runtime.launch(spec)
    else:
        # What is lent is that which was opened, and it is put in the place of the other one.
        async with running(runtime, spec) as child:
            assert await read(child.stdout) == b"good\n"
            await ended(child)
    assert not exists(project / "ran")


def _fill(folder: Path, name: str) -> None:
    folder.mkdir()
    (folder / name).touch()


def _exchange(project: Path) -> None:
    project.rename(project.with_name("old"))
    _fill(project, "evil")


@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@pytest.mark.parametrize("descriptors", [True, False])
@bounded(60)
async def test_a_server_inherits_no_descriptor_of_a_source(tmp_path: Path, descriptors: bool) -> None:
    runtime = BwrapRuntime(path=_wrapper(tmp_path, "", descriptors=descriptors))
    (tmp_path / "project").mkdir()
    mounts = Mount(str(tmp_path / "project"), "rw"), Mount(str(tmp_path / "bin"), "ro")
    async with running(runtime, _spec("ls -l /proc/self/fd /proc/1/fd", *mounts)) as child:
        seen = (await read(child.stdout)).decode()
        await ended(child)
    assert "pipe:" in seen
    assert str(tmp_path) not in seen


@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@pytest.mark.parametrize("wrong", ["another", "writable", "missing"])
@bounded(60)
async def test_what_is_not_as_promised_is_seen_before_the_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    def opened(*arguments: object, **options: object) -> object:
        steps, found = open_sources(*arguments, **options)  # type: ignore[arg-type]
        (one,) = [each for each in found if each.bound.target == str(tmp_path)]
        match wrong:
            case "another":
                return steps, [Opened(one.bound, one.device, one.inode + 1)]
            case "writable":
                return steps, [Opened(Bound(one.bound.source, one.bound.target, "ro"), one.device, one.inode)]
            case _:
                return steps, [Opened(Bound("/x", "/not/there", "ro"), one.device, one.inode)]

    monkeypatch.setattr(bwrap, "open_sources", opened)
    said = {"another": "something else", "writable": "lets the server write", "missing": "does not show"}[wrong]
    with pytest.raises(IsolationError, match=said):
        await BwrapRuntime().launch(_spec(f"touch {tmp_path}/ran", Mount(str(tmp_path), "rw")))
    assert os.listdir(tmp_path) == []
