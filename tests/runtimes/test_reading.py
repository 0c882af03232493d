"""What a runtime tells of a tree, and that one which cannot tell says so."""

from __future__ import annotations

from supervisord_mcp.runtimes.reading import Reading
from tests.kit.bounded import bounded
from tests.kit.fruntime import FakeRuntime


def test_nothing_is_known_of_what_nobody_counts() -> None:
    reading = Reading()
    assert reading.processes == ()
    assert (reading.sent, reading.received, reading.oom_kills, reading.throttled) == (None, None, None, None)


@bounded(10)
async def test_a_runtime_need_not_be_able_to_measure() -> None:
    from supervisord_mcp.runtimes.base import LaunchSpec

    child = await FakeRuntime().launch(LaunchSpec("x", ("/bin/true",)))
    assert child.meter() is None
    child.end("processor limit 1")
    assert not (await child.wait()).success
    await child.aclose()
