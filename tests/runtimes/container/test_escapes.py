"""What a server tries to get out of its container: every attempt that the native sandbox is tried with."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.probes.expected import Situation, wanted
from supervisord_mcp.runtimes.base import Runtime
from supervisord_mcp.runtimes.container.engine import Engines
from tests.kit.engine import Dockerd
from tests.kit.images import load
from tests.probes import columns
from tests.runtimes.imaged import ImagedRuntime

pytestmark = pytest.mark.slow


#: An engine lays an empty directory over what it hides, which can be looked at (`test_runtime` does).
EMPTY = {"look at devices"}


def test_nothing_that_is_to_be_denied_succeeds(engine: Dockerd) -> None:
    image = load(engine.client, "fake")

    def make(base: Path) -> Runtime:
        return ImagedRuntime(base / "containers", Engines({"DOCKER_HOST": engine.url}), image)

    results = columns.sandboxed(make)
    fits = {"deny": {"denied", "absent"}, "allow": {"open"}, "free": {"open", "denied", "absent"}}
    wrong = {n: r for n, r in results.items() if n not in EMPTY and r.outcome not in fits[wanted(n, Situation())]}
    assert wrong == {}
    assert engine.containers() == []
