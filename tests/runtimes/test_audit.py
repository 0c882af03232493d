"""Calls that are refused are told of, and refused all the same."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes import audit, seccomp, syscalls
from supervisord_mcp.runtimes.audit import Denial, Missed, error_of, worth_telling
from supervisord_mcp.runtimes.base import ExitStatus, Runtime
from supervisord_mcp.runtimes.bpf import Answer
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.identity import Identities
from supervisord_mcp.runtimes.landlock.runtime import LandlockRuntime
from supervisord_mcp.runtimes.seccomp import Policy
from tests.kit.bounded import bounded
from tests.runtimes.conformance import ended, python, read, running

_TRY = """
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def code(result):
    return 0 if result >= 0 else ctypes.get_errno()
print(code(libc.unshare(0x10000000)), [code(libc.syscall(4000)) for _ in range(25)][0])
for family in (1, 17):
    try:
        socket.socket(family)
    except OSError as error:
        print(error.errno)
print(os.getpid() > 0)
"""
Make = Callable[[Path, audit.Report], Runtime]


def _bwrap(base: Path, report: audit.Report) -> Runtime:
    return BwrapRuntime(None, None, Identities(), denied=report)


def _landlock(base: Path, report: audit.Report) -> Runtime:
    return LandlockRuntime(str(base), None, Identities(), report)


@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@pytest.mark.parametrize("make", [_bwrap, _landlock])
@bounded(60)
async def test_what_a_server_is_refused_is_told_with_its_name(tmp_path: Path, make: Make) -> None:
    noticed: list[audit.Notice] = []
    spec = replace(python(_TRY), seccomp=Policy(audit=True))
    before = len(os.listdir("/proc/self/fd"))
    async with running(make(tmp_path, noticed.append), spec) as child:
        said = (await read(child.stdout)).decode().split()
        assert said == [*map(str, (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT, errno.EAFNOSUPPORT)), "True"]
        assert await ended(child) == ExitStatus(code=0)
    await asyncio.sleep(0)
    told = [notice for notice in noticed if isinstance(notice, Denial)]
    assert {(denial.server, denial.call, denial.answer, denial.count) for denial in told} >= {
        ("test", "unshare", "EPERM", 1),
        ("test", "system call 4000", "ENOSYS", 1),
        ("test", "system call 4000", "ENOSYS", 10),
        ("test", "socket (argument 1: 0x1)", "EAFNOSUPPORT", 1),
        ("test", "socket (argument 1: 0x11)", "EAFNOSUPPORT", 1),
    }
    assert {denial.count for denial in told} <= {1, 10}
    # What built the sandbox is nobody's news.
    assert not {denial.call for denial in told} & {"mount", "pivot_root", "umount2"}
    with anyio.fail_after(10):
        while len(os.listdir("/proc/self/fd")) > before:
            await anyio.sleep(0.01)


@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@bounded(60)
async def test_without_audit_nothing_is_told(tmp_path: Path) -> None:
    told: list[audit.Notice] = []
    async with running(_bwrap(tmp_path, told.append), python(_TRY)) as child:
        assert (await read(child.stdout)).decode().split()[0] == str(errno.EPERM)
    assert told == []


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (seccomp.ALLOW, 0),
        (Answer(0x00050000 | errno.ENOSYS), errno.ENOSYS),
        (Answer(0x00050000 | errno.EPERM), errno.EPERM),
        (seccomp.KILL, errno.EPERM),
    ],
)
def test_an_answer_of_a_filter_is_an_error(answer: Answer, code: int) -> None:
    assert error_of(answer) == code


def test_more_of_the_same_is_told_ever_more_rarely() -> None:
    assert [count for count in range(1, 5000) if worth_telling(count)] == [1, 10, 100, 1000]


def test_what_is_no_filter_is_refused() -> None:
    failures: list[OSError] = []

    def run() -> None:
        try:
            audit.install(b"\0" * 8)
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert failures
    assert failures[0].errno == errno.EINVAL


@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@bounded(60)
async def test_a_sandbox_that_fails_leaves_no_listener(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    spec = replace(python(_TRY), seccomp=Policy(audit=True), argv=("/nowhere",))
    for make in (_bwrap, _landlock):
        with pytest.raises(LaunchError):
            await make(tmp_path, audit.ignore).launch(spec)
    with anyio.fail_after(10):
        while len(os.listdir("/proc/self/fd")) > before:
            await anyio.sleep(0.01)


_LOOKING = """
import os
for path, flags in (({there!r}, os.O_RDONLY), ({other!r}, os.O_WRONLY), ("/etc/hosts", os.O_RDONLY), ("/nowhere", 0)):
    try:
        os.close(os.open(path, flags))
    except OSError:
        pass
"""


@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@pytest.mark.parametrize("make", [_bwrap, _landlock])
@bounded(60)
async def test_files_that_a_server_looked_for_in_vain_are_told(tmp_path: Path, make: Make) -> None:
    told: list[audit.Notice] = []
    # Every sandbox has a /tmp of its own, so nothing is missed there.
    with tempfile.TemporaryDirectory(prefix="smcp-test-", dir="/var/tmp") as place:
        for name in ("there", "other"):
            os.mknod(f"{place}/{name}")
        text = _LOOKING.format(there=f"{place}/there", other=f"{place}/other")
        spec = replace(python(text), seccomp=Policy(audit=True))
        async with running(make(tmp_path / "private", told.append), spec) as child:
            assert await ended(child) == ExitStatus(code=0)
        await asyncio.sleep(0)
    missed = {(notice.path, notice.writes) for notice in told if isinstance(notice, Missed)}
    assert {(f"{place}/there", False), (f"{place}/other", True)} <= missed
    assert not {path for path, _ in missed} & {"/nowhere", "/etc/hosts"}
    assert not [path for path, _ in missed if path.startswith(("/usr/", "/lib"))]


def test_a_call_that_is_watched_can_be_denied_all_the_same() -> None:
    async def judged() -> dict[str, int]:
        policy = Policy(audit=True, deny=frozenset({"openat"}))
        auditor = audit.Auditor("s", policy, audit.ignore)
        numbers = syscalls.native().numbers
        try:
            return {name: auditor._judge(numbers[name], [0] * 6) for name in ("openat", "read")}
        finally:
            await auditor.aclose()

    assert asyncio.run(judged()) == {"openat": errno.EPERM, "read": 0}
