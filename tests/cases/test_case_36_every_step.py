"""Case 36: whichever step of the set-up fails, no server runs, nothing is left, and the cause and a remedy are told."""

from __future__ import annotations

import os
import tempfile
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import anyio
import pytest

from supervisord_mcp.egress.rules import Egress, parse_rules
from supervisord_mcp.errors import LaunchError, SmcpError
from supervisord_mcp.runtimes import cgroup, orphans, seccomp, tree
from supervisord_mcp.runtimes.base import Mount, Runtime
from supervisord_mcp.runtimes.cgroup import Groups
from supervisord_mcp.runtimes.landlock.fence import can_fence
from supervisord_mcp.runtimes.seccomp import Policy
from tests.cases.steps_36 import BWRAP, EGRESS, HOST, LANDLOCK, LIMITS, Stage, Step, at_the_last_moment
from tests.kit.bounded import bounded
from tests.kit.required import need, not_here
from tests.runtimes.conformance import read, running, shell

pytestmark = [pytest.mark.bwrap, pytest.mark.usefixtures("subreaper")]

RULES = Egress(parse_rules(["a.test:443"]))


@pytest.fixture
def groups() -> Iterator[Groups | None]:
    """The cgroups of this machine, where there are any; nothing may be left in them."""
    found = cgroup.prepare()
    yield found
    if found is not None:
        found.close()
        names = [name for place in found.hierarchy.places for name in os.listdir(place)]
        assert not [name for name in names if name.startswith(f"smcp-{os.getpid()}-")]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that anybody may enter."""
    with tempfile.TemporaryDirectory(prefix="smcp-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        (Path(name) / "ran").mkdir()
        (Path(name) / "ran").chmod(0o777)
        yield Path(name)


def _stage(folder: Path, patch: pytest.MonkeyPatch, groups: Groups | None, kind: Literal["bwrap", "landlock"]) -> Stage:
    spec = shell(f"touch {folder}/ran/it && echo ran; cat", marker=f"t-{uuid.uuid4()}")
    spec = replace(spec, mounts=(Mount(str(folder / "ran"), "rw"),), limits=LIMITS)
    return Stage(folder, patch, groups, kind, spec)


async def _fails(stage: Stage, step: Step) -> None:
    if step.only == "root" and os.geteuid() != 0:
        not_here("a server of a person has that person's user, and needs nothing of this")
    need(stage.groups is not None or not step.grouped, "cgroups that may be made")
    step.breaking(stage)
    try:
        runtime = stage.runtime()
        try:
            with pytest.raises(SmcpError, match=step.told) as caught:
                await (await runtime.launch(stage.spec)).aclose()
        finally:
            await runtime.aclose()
    finally:
        stage.patch.undo()
        seccomp.program.cache_clear()
    error = caught.value
    assert error.code == step.code
    assert error.remedy or step.passing
    if step.passing:
        assert isinstance(error, LaunchError)
        assert error.retryable
    await _nothing_left(stage)


async def _nothing_left(stage: Stage) -> None:
    """Return once nothing is left of a start; what was killed may still be ending."""
    orphans.reap_strangers()
    with anyio.fail_after(5):
        while left := _left(stage):
            assert "it" not in left
            await anyio.sleep(0.01)
            orphans.reap_strangers()


def _left(stage: Stage) -> list[str]:
    """Return what a failed start left behind: what the server wrote, what was made for it, its processes."""
    private = stage.folder / "private"
    places = [*os.listdir(private)] if private.exists() else []
    written = [name for name in os.listdir(stage.folder / "ran") if name in ("it", ".vscode", ".idea")]
    links = [name for name in written if (stage.folder / "ran" / name).is_symlink()]
    return [*places, *(set(written) - set(links)), *map(str, tree.marked(stage.spec.marker))]


@pytest.mark.parametrize("step", BWRAP, ids=lambda step: step.name)
@bounded(60)
async def test_no_server_runs_where_a_step_to_its_sandbox_fails(
    folder: Path, groups: Groups | None, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    await _fails(_stage(folder, monkeypatch, groups, "bwrap"), step)


@pytest.mark.parametrize("step", EGRESS, ids=lambda step: step.name)
@bounded(60)
async def test_no_server_runs_where_a_step_to_its_network_fails(
    folder: Path, groups: Groups | None, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    stage = _stage(folder, monkeypatch, groups, "bwrap")
    stage.spec = replace(stage.spec, network=RULES)
    await _fails(stage, step)


@pytest.mark.parametrize("step", HOST, ids=lambda step: step.name)
@bounded(60)
async def test_no_server_runs_where_a_step_to_the_machines_network_fails(
    folder: Path, groups: Groups | None, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    need(can_fence(), "Linux 6.12 with Landlock")
    stage = _stage(folder, monkeypatch, groups, "bwrap")
    stage.spec = replace(stage.spec, network="host")
    before = threading.active_count()
    await _fails(stage, step)
    assert threading.active_count() <= before + 1  # anyio keeps a worker for a while


@pytest.mark.parametrize("step", LANDLOCK, ids=lambda step: step.name)
@bounded(60)
async def test_no_server_runs_where_a_step_without_namespaces_fails(
    folder: Path, groups: Groups | None, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    await _fails(_stage(folder, monkeypatch, groups, "landlock"), step)


async def _runs(stage: Stage) -> None:
    runtime: Runtime = stage.runtime()
    try:
        async with running(runtime, stage.spec) as child:
            assert await read(child.stdout, b"\n") == b"ran\n"
    finally:
        await runtime.aclose()
    assert _left(stage) == ["it"]


@pytest.mark.parametrize("kind", ["bwrap", "landlock"])
@pytest.mark.parametrize("more", ["", "rules", "audit"])
@bounded(60)
async def test_with_every_step_it_runs(
    folder: Path,
    groups: Groups | None,
    monkeypatch: pytest.MonkeyPatch,
    *,
    kind: Literal["bwrap", "landlock"],
    more: str,
) -> None:
    stage = _stage(folder, monkeypatch, groups, kind)
    if more == "audit":
        stage.spec = replace(stage.spec, seccomp=Policy(audit=True))
    if more == "rules":
        stage.spec = replace(stage.spec, network=RULES if kind == "bwrap" else "host")
    await _runs(stage)


@pytest.mark.parametrize("kind", ["bwrap", "landlock"])
@bounded(60)
async def test_a_start_that_is_given_up_at_the_last_moment_lets_nothing_run(
    folder: Path, groups: Groups | None, monkeypatch: pytest.MonkeyPatch, kind: Literal["bwrap", "landlock"]
) -> None:
    stage = _stage(folder, monkeypatch, groups, kind)
    with anyio.CancelScope() as scope:
        at_the_last_moment(stage, scope.cancel)
        await stage.runtime().launch(stage.spec)
    assert scope.cancelled_caught
    await _nothing_left(stage)
