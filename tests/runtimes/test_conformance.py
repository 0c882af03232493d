"""Every check of the conformance kit against every runtime."""

from __future__ import annotations

import pytest

from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.base import Runtime
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from tests.kit.bounded import bounded
from tests.runtimes.conformance import CHECKS

RUNTIMES = [pytest.param(BareRuntime(), id="bare"), pytest.param(BwrapRuntime(), id="bwrap", marks=pytest.mark.bwrap)]


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.usefixtures("subreaper")
def test_runtime(runtime: Runtime, name: str) -> None:
    assert runtime.check() == ()
    bounded(120)(CHECKS[name])(runtime)
