"""Starting processes."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.process import Program, Spawned, spawn

ENV = {"PATH": "/usr/bin:/bin"}


def _finish(spawned: Spawned) -> tuple[bytes, int]:
    output = b""
    os.set_blocking(spawned.stdout, True)
    while part := os.read(spawned.stdout, 65536):
        output += part
    result = os.waitid(os.P_PIDFD, spawned.pidfd, os.WEXITED)
    for descriptor in (spawned.pidfd, spawned.stdin, spawned.stdout, spawned.stderr):
        os.close(descriptor)
    assert result is not None
    return output, result.si_status


def test_our_ends_do_not_block_and_are_not_inherited() -> None:
    spawned = spawn(Program(("/bin/cat",), ENV))
    for descriptor in (spawned.stdin, spawned.stdout, spawned.stderr):
        assert not os.get_blocking(descriptor)
        assert not os.get_inheritable(descriptor)
    assert not os.get_inheritable(spawned.pidfd)
    os.kill(spawned.pid, signal.SIGKILL)
    assert _finish(spawned) == (b"", 9)


def test_umask_and_passed_descriptors() -> None:
    descriptor = os.memfd_create("x")
    os.write(descriptor, b"content")
    os.lseek(descriptor, 0, os.SEEK_SET)
    spawned = spawn(
        Program(("/bin/sh", "-c", f"umask; cat /proc/self/fd/{descriptor}"), ENV, umask=0o027, pass_fds=(descriptor,))
    )
    assert _finish(spawned) == (b"0027\ncontent", 0)
    os.close(descriptor)


@pytest.mark.parametrize("closed", [(0, 1, 2), (0,), (1, 2)])
def test_standard_descriptors_of_the_daemon_may_be_closed(tmp_path: Path, closed: tuple[int, ...]) -> None:
    report = tmp_path / "report"
    script = f"""
import os
for fd in {closed}: os.close(fd)
from supervisord_mcp.runtimes.process import Program, secure_standard_fds, spawn
first = spawn(Program(("/bin/cat",), {{}}))
assert min(first.stdin, first.stdout, first.stderr, first.pidfd) >= 0
os.write(first.stdin, b"early")
os.set_blocking(first.stdout, True)
early = os.read(first.stdout, 99)
os.close(first.stdin)
secure_standard_fds()
secure_standard_fds()
assert all(os.path.exists(f"/proc/self/fd/{{n}}") for n in range(3))
second = spawn(Program(("/bin/cat",), {{}}))
assert min(second.stdin, second.stdout, second.stderr, second.pidfd) > 2
os.write(second.stdin, b"late")
os.set_blocking(second.stdout, True)
open({str(report)!r}, "wb").write(early + b" " + os.read(second.stdout, 99))
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", script], env=env, timeout=60, check=False)
    assert report.read_bytes() == b"early late"


def test_what_cannot_start_says_why(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/nowhere/interpreter\n")
    with pytest.raises(LaunchError, match=r"Permission denied(.|\n)*chmod") as caught:
        spawn(Program((str(script),), ENV))
    assert not caught.value.retryable
    script.chmod(0o755)
    with pytest.raises(LaunchError, match="interpreter"):
        spawn(Program((str(script),), ENV))
    script.write_bytes(b"\x00\x01\x02")
    with pytest.raises(LaunchError, match="no program for this machine"):
        spawn(Program((str(script),), ENV))
    with pytest.raises(LaunchError, match="null byte"):
        spawn(Program(("/bin/true", "a\0b"), ENV))
    with pytest.raises(LaunchError, match="working directory /nowhere"):
        spawn(Program(("/bin/true",), ENV, cwd="/nowhere"))


@pytest.mark.parametrize("left", range(12))
def test_a_lack_of_descriptors_is_tried_again_and_leaks_none(left: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = sorted(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[-1] + 20, hard))
    taken = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(left):
            os.close(taken.pop())
        # Three pipes, one more for the report of a failed execve, and the pidfd when that is closed again.
        if left < 8:
            with pytest.raises(LaunchError) as caught:
                spawn(Program(("/bin/true",), ENV))
            assert caught.value.retryable
        else:
            _finish(spawn(Program(("/bin/true",), ENV)))
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert sorted(map(int, os.listdir("/proc/self/fd"))) == before
