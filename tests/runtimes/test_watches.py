"""No sandbox takes from its user what the kernel counts for the user as a whole."""

from __future__ import annotations

import ctypes
import os
import shutil
import uuid

import pytest

from supervisord_mcp.runtimes import watches
from supervisord_mcp.runtimes.base import LaunchSpec
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.limits import DEFAULTS
from supervisord_mcp.runtimes.seccomp import BASE, Policy
from tests.kit.bounded import bounded
from tests.kit.required import as_root
from tests.runtimes.conformance import read, running
from tests.runtimes.test_bwrap import as_person

pytestmark = [pytest.mark.bwrap, pytest.mark.usefixtures("subreaper")]

TAKE = """
import ctypes, resource
libc, taken = ctypes.CDLL(None), 0
while libc.inotify_init1(0) >= 0: taken += 1
try: open("/proc/sys/user/max_inotify_instances", "w").write("9999"); print("raised")
except OSError: pass
print(taken, *resource.getrlimit(resource.RLIMIT_SIGPENDING), *resource.getrlimit(resource.RLIMIT_MSGQUEUE), flush=True)
input()
"""


def _python(script: str, policy: Policy = BASE) -> LaunchSpec:
    """Return a spec for the Python of the system, which a person can read."""
    argv = ("/usr/bin/python3", "-I", "-S", "-c", script)
    return LaunchSpec("test", argv, marker=f"t-{uuid.uuid4()}", seccomp=policy, limits=DEFAULTS)


async def _others_may_watch(policy: Policy) -> None:
    async with running(BwrapRuntime(), _python(TAKE, policy)) as child:
        taken, *rest = map(int, (await read(child.stdout, b"\n")).split())
        assert 16 <= taken < int((watches._KERNEL / "max_user_instances").read_text())
        assert rest == [4096, 4096, 1 << 16, 1 << 16]
        ours = ctypes.CDLL(None, use_errno=True).inotify_init1(os.O_CLOEXEC)
        assert ours >= 0
        os.close(ours)
        assert child.uncovered == ()


@pytest.mark.parametrize("policy", [Policy(), Policy(userns=True)], ids=["usual", "namespaces of its own"])
def test_a_server_leaves_to_others_what_they_watch(policy: Policy) -> None:
    as_person(_others_may_watch, policy)


async def _says_so() -> None:
    async with running(BwrapRuntime(), _python("input()")) as child:
        assert "how many files it watches" in child.uncovered[0]


@pytest.mark.parametrize("tool", [None, "/bin/false", "/nowhere"])
def test_where_nothing_keeps_it_from_that_it_is_said(tool: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which

    def found(name: str, path: str | None = None) -> str | None:
        return tool if name == "nsenter" else which(name, path=path)

    monkeypatch.setattr(shutil, "which", found)
    as_person(_says_so)


@as_root
@bounded(60)
async def test_a_server_of_root_has_its_own_counts() -> None:
    async with running(BwrapRuntime(), _python("input()")) as child:
        assert child.uncovered == ()


def test_what_a_part_is() -> None:
    assert watches.part(1 << 20, 4096) == 1 << 17
    assert watches.part(128, 16) == watches.part(0, 16) == 16
    assert watches.share(os.getpid() + (1 << 23), "nsenter") != ""
