"""Every check of the conformance kit against every runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.base import Runtime
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.container.engine import Engines
from supervisord_mcp.runtimes.identity import Identities
from supervisord_mcp.runtimes.landlock.runtime import LandlockRuntime
from tests.kit.bounded import bounded
from tests.kit.engine import SHELL, Dockerd
from tests.runtimes.conformance import CHECKS
from tests.runtimes.imaged import ImagedRuntime


@pytest.fixture(params=["bare", pytest.param("bwrap", marks=pytest.mark.bwrap), "landlock"])
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Runtime:
    made: dict[str, Runtime] = {
        "bare": BareRuntime(),
        "bwrap": BwrapRuntime(),
        "landlock": LandlockRuntime(str(tmp_path), None, Identities()),
    }
    return made[request.param]


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.usefixtures("subreaper")
def test_runtime(runtime: Runtime, name: str) -> None:
    assert runtime.check() == ()
    bounded(120)(CHECKS[name])(runtime)


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.usefixtures("subreaper")
def test_container(engine: Dockerd, tmp_path: Path, name: str) -> None:
    runtime = ImagedRuntime(tmp_path, Engines({"DOCKER_HOST": engine.url}), SHELL)
    assert runtime.check() == ()

    async def check() -> None:
        try:
            await CHECKS[name](runtime)
        finally:
            await runtime.aclose()

    bounded(120)(check)()
    assert engine.containers() == []
