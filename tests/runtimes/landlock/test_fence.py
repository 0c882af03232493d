"""With the network of the machine a sandbox still reaches no abstract socket of it."""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.base import LaunchSpec, Runtime
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.landlock import fence, ruleset
from supervisord_mcp.runtimes.landlock.fence import Fence, fence_of
from supervisord_mcp.runtimes.seccomp import BASE, Policy
from tests.kit.bounded import bounded
from tests.kit.required import need
from tests.runtimes.conformance import ended, read, running

pytestmark = [pytest.mark.bwrap, pytest.mark.usefixtures("subreaper")]

UNIX = replace(BASE, families=BASE.families | {"unix"})
#: Asks a socket of the machine, makes one of its own and asks that, and says what came of each.
ASK = """
import socket, sys
own = socket.socket(socket.AF_UNIX)
own.bind("\\0own-" + sys.argv[1])
own.listen()
for name in (sys.argv[1], "own-" + sys.argv[1]):
    try:
        socket.socket(socket.AF_UNIX).connect("\\0" + name)
        print("reached")
    except OSError as error:
        print(error.strerror)
print(socket.create_connection(("127.0.0.1", int(sys.argv[2])), 5).getpeername()[0])
input()
"""


@pytest.fixture
def abstract() -> Iterator[str]:
    """The name of an abstract socket of the machine that answers."""
    with socket.socket(socket.AF_UNIX) as listener:
        name = f"smcp-test-{uuid.uuid4()}"
        listener.bind(f"\0{name}")
        listener.listen()
        yield name


async def _asked(runtime: Runtime, name: str, policy: Policy) -> list[bytes]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        argv = ("/usr/bin/python3", "-I", "-c", ASK, name, str(server.getsockname()[1]))
        spec = LaunchSpec("test", argv, env=(("PATH", "/usr/bin:/bin"),), marker=f"t-{uuid.uuid4()}", network="host")
        async with running(runtime, replace(spec, seccomp=policy)) as child:
            lines = (await read(child.stdout, b"127.0.0.1\n")).splitlines()
            # It has outlived the thread's last step before the server: a sandbox dies with the thread that started it.
            os.write(child.stdin, b"\n")
            assert (await ended(child)).success
            return lines


@pytest.mark.parametrize("audit", [False, True])
@bounded(60)
async def test_abstract_sockets_of_the_machine_are_out_of_reach(abstract: str, audit: bool) -> None:
    need(fence.can_fence(), "Linux 6.12 with Landlock")
    assert await _asked(BareRuntime(), abstract, UNIX) == [b"reached", b"reached", b"127.0.0.1"]
    found = await _asked(BwrapRuntime(), abstract, replace(UNIX, audit=audit))
    assert found == [b"Operation not permitted", b"reached", b"127.0.0.1"]


@bounded(60)
async def test_an_older_kernel_is_told_of(abstract: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruleset, "version", lambda: 5)
    runtime, spec = BwrapRuntime(), LaunchSpec("test", ("/bin/cat",), seccomp=UNIX, network="host", marker="t-fence")
    assert fence_of("test", needed=True) is None
    async with running(runtime, spec) as child:
        assert child.uncovered == ("abstract sockets of this machine (Linux 6.12 could keep it from them)",)
    assert runtime.uncovered(replace(spec, seccomp=BASE)) == ()
    assert runtime.uncovered(replace(spec, network="none")) == ()
    assert abstract


def test_the_thread_ends_with_its_child() -> None:
    made = Fence("test")
    thread = threading.Thread(target=made.stay)
    thread.start()
    made.close()
    thread.join(5)
    assert not thread.is_alive()
