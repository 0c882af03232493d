"""Case 33: bubblewrap passes no signals on, and a sandbox dies with the thread that started it.

That nothing is left of a daemon that was killed is shown at every moment of a start in `tests/runtimes/test_bwrap.py`.
"""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace

import pytest

from supervisord_mcp.runtimes import tree
from supervisord_mcp.runtimes.base import ExitStatus, Runtime
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.process import Program, spawn
from supervisord_mcp.runtimes.seccomp import Policy
from tests.kit.bounded import bounded
from tests.runtimes.conformance import ended, python, read, running, shell

pytestmark = [pytest.mark.bwrap, pytest.mark.usefixtures("subreaper")]

_HANDLER = """
import signal, sys
def handle(number, frame):
    print("handled", number, flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, handle)
print("up", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def runtime() -> Runtime:
    return BwrapRuntime()


@bounded(60)
async def test_a_polite_signal_reaches_the_server_itself(runtime: Runtime) -> None:
    async with running(runtime, python(_HANDLER)) as child:
        await read(child.stdout, b"up\n")
        child.signal(signal.SIGTERM)
        assert await read(child.stdout) == b"handled 15\n"
        assert await ended(child) == ExitStatus(code=3)


@bounded(60)
async def test_a_server_that_ignores_it_is_ended_with_what_it_started(runtime: Runtime) -> None:
    spec = shell("trap '' TERM; (trap '' TERM; sleep 300) & echo up; while :; do sleep 1; done")
    async with running(runtime, spec) as child:
        await read(child.stdout, b"up\n")
        child.signal(signal.SIGTERM)
        assert tree.marked(spec.marker)
        child.kill()
        assert (await ended(child)).signal == signal.SIGKILL
    assert tree.marked(spec.marker) == []


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGUSR1])
@bounded(60)
async def test_the_signal_that_ended_a_server_is_told(runtime: Runtime, number: signal.Signals) -> None:
    async with running(runtime, shell(f"kill -{int(number)} $$")) as child:
        assert await ended(child) == ExitStatus(signal=number)


@bounded(60)
async def test_no_end_of_a_thread_ends_a_server(runtime: Runtime) -> None:
    # One that is audited is started by a thread of its own, which stays for as long as it is needed.
    spec = python("import sys\nfor line in sys.stdin: print(line, end='', flush=True)")
    for policy in (Policy(), Policy(audit=True)):
        async with running(runtime, replace(spec, seccomp=policy)) as child:
            for _ in range(5):
                thread = threading.Thread(target=int)
                thread.start()
                thread.join(10)
                os.write(child.stdin, b"still there\n")
                assert await read(child.stdout, b"\n") == b"still there\n"


def test_nothing_is_started_from_another_thread() -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            spawn(Program(("/bin/true",), {}))
        except RuntimeError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert "main thread" in str(failures[0])
