"""A running child in the event loop, beyond what every runtime must do."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid

import pytest

from supervisord_mcp.runtimes import tree
from supervisord_mcp.runtimes.base import ExitStatus
from supervisord_mcp.runtimes.child import ProcessChild, with_marker
from supervisord_mcp.runtimes.process import Program, spawn
from tests.kit.bounded import bounded
from tests.runtimes.conformance import ended, read


def test_the_marker_is_added_and_cannot_be_set() -> None:
    assert with_marker((("A", "1"), ("SMCP_INSTANCE", "mine")), "m") == {"A": "1", "SMCP_INSTANCE": "m"}
    assert with_marker((("A", "1"),), "") == {"A": "1"}


@pytest.mark.usefixtures("subreaper")
@bounded(30)
async def test_the_status_may_be_translated() -> None:
    spawned = spawn(Program(("/bin/sh", "-c", "exit 5"), {}))
    child = ProcessChild(spawned, "", lambda status: ExitStatus(code=(status.code or 0) + 1))
    assert await ended(child) == ExitStatus(code=6)
    assert child.exited
    await child.aclose()


@pytest.mark.usefixtures("subreaper")
@bounded(30)
async def test_closing_forgets_registered_descriptors() -> None:
    child = ProcessChild(spawn(Program(("/bin/cat",), {})), f"t-{uuid.uuid4()}")
    loop = asyncio.get_running_loop()
    loop.add_reader(child.stdout, lambda: None)
    old = child.stdout
    await child.aclose()
    other, writer = os.pipe()
    assert not loop.remove_reader(old)
    os.close(other)
    os.close(writer)


@pytest.mark.usefixtures("subreaper")
@bounded(30)
async def test_a_cancelled_close_still_closes() -> None:
    marker = f"t-{uuid.uuid4()}"
    child = ProcessChild(spawn(Program(("/bin/sh", "-c", "echo; sleep 1000"), with_marker((), marker))), marker)
    await read(child.stdout, b"\n")
    closing = asyncio.ensure_future(child.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    assert (child.stdin, child.stdout, child.stderr) == (-1, -1, -1)
    assert await ended(child) == ExitStatus(signal=9)
    assert tree.marked(marker) == []


def test_what_a_killed_daemon_leaves_is_found_by_the_next() -> None:
    marker = f"t-{uuid.uuid4()}"
    script = f"""
import asyncio, os, signal
from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.base import LaunchSpec
async def main():
    script = "(setsid sh -c 'trap : TERM; while :; do sleep 1; done' &); while :; do sleep 1; done"
    for n in range(3):
        await BareRuntime().launch(
            LaunchSpec("x", ("/bin/sh", "-c", script), env=(("PATH", "/usr/bin:/bin"),), marker="{marker}/" + str(n)))
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", script], env=env, timeout=60, check=False).returncode == -9
    assert tree.kill_marked(f"{marker}/") >= 3
    assert tree.marked(marker) == []


class _Companion:
    """Notes how it is closed."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def close(self) -> None:
        self.calls.append("close")

    async def aclose(self) -> None:
        self.calls.append("aclose")


@pytest.mark.usefixtures("subreaper")
@bounded(30)
async def test_a_companion_ends_with_the_child() -> None:
    child = ProcessChild(spawn(Program(("/bin/cat",), {})), "")
    companion = _Companion()
    child.attach(companion)
    assert companion.calls == []
    child.close_stdin()
    await ended(child)
    await asyncio.sleep(0)
    assert companion.calls == ["close"]
    await child.aclose()
    assert companion.calls == ["close", "aclose"]
    assert child.refused() == ()
