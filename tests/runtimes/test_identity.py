"""Users of their own: who gets which number, and that a sandbox of root is nobody to the kernel."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.base import ExitStatus
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.identity import (
    COUNT,
    FIRST,
    Identities,
    Identity,
    acting_as,
    assign,
    may,
    own_directory,
    starting_as,
)
from supervisord_mcp.runtimes.identity import unreachable as closed
from supervisord_mcp.runtimes.limits import Limits
from tests.kit.bounded import bounded
from tests.kit.required import as_root
from tests.runtimes.conformance import ended, read, running, shell
from tests.runtimes.hogs import FORKS, hog

NAMES = st.lists(st.text("abc-_1", min_size=1, max_size=8), unique=True, max_size=40)


@given(NAMES, st.integers(1, 1 << 31), st.integers(1, 60))
def test_everybody_has_another_one(names: list[str], first: int, count: int) -> None:
    taken: dict[str, int] = {}
    for name in names:
        if len(taken) == count:
            with pytest.raises(IsolationError, match="are taken"):
                assign(name, taken, first, count)
            break
        uid = assign(name, taken, first, count)
        assert first <= uid < first + count
        assert uid not in taken.values()
        taken[name] = uid
    assert all(assign(name, taken, first, count) == uid for name, uid in taken.items())


def test_numbers_stay_and_are_never_root() -> None:
    assert Identities().of("time") == Identities().of("time") == Identity(assign("time", {}), assign("time", {}))
    assert FIRST > 60000
    assert FIRST + COUNT <= 61184
    with pytest.raises(IsolationError, match="root must not"):
        assign("x", {}, 0, 5)


def test_what_is_closed_on_the_way(tmp_path: Path) -> None:
    somebody, other = Identity(60706, 60706), Identity(os.stat(tmp_path).st_uid, os.stat(tmp_path).st_gid)
    assert closed("/usr/bin/env", somebody) is None
    assert closed("/nowhere/at/all", somebody) == "/nowhere"
    place = tmp_path / "a"
    place.mkdir(mode=0o700)
    assert closed(str(place / "b"), somebody) is not None
    if other.uid != 0:
        assert closed(str(place / "b"), other) is None


@as_root
def test_a_directory_of_its_own(tmp_path: Path) -> None:
    own_directory(str(tmp_path / "state/time"), Identity(60706, 60707))
    own_directory(str(tmp_path / "state/time"), Identity(60706, 60707))
    status = (tmp_path / "state/time").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (60706, 60707, 0o700)
    (tmp_path / "state/link").symlink_to(tmp_path)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        own_directory(str(tmp_path / "state/link"), Identity(60706, 60707))


@as_root
def test_a_thread_acts_for_somebody_and_nothing_else_changes() -> None:
    seen: list[tuple[int, ...]] = []

    def limit() -> None:
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (30, 30))
        seen.append((os.getuid(), os.geteuid()))

    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, user=60706, group=60706, extra_groups=()) as process:
        acting_as(Identity(60706, 60706), limit)
        lines = Path(f"/proc/{process.pid}/limits").read_text().splitlines()
        assert [line.split()[3:5] for line in lines if line.startswith("Max open files")] == [["30", "30"]]
    assert seen == [(60706, 0)]
    assert (os.getuid(), os.getgid()) == (0, 0)
    with pytest.raises(ZeroDivisionError):
        acting_as(Identity(60706, 60706), lambda: print(1 // 0))


@as_root
def test_what_a_thread_starts_as_somebody_has_nothing_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _status("thread-self")
    program = ["/bin/cat", "/proc/self/status"]
    with starting_as(Identity(60706, 60707)):
        assert _fields(_status("thread-self"))["Uid"].split() == ["60706", "60706", "0", "60706"]
        told = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    fields = _fields(told)
    assert fields["Uid"].split() == ["60706"] * 4
    assert fields["Gid"].split() == ["60707"] * 4
    assert fields["Groups"].strip() == ""
    assert {int(fields[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
    with pytest.raises(FileNotFoundError), starting_as(Identity(60706, 60707)):
        subprocess.run(["/nowhere"], check=True)
    with monkeypatch.context() as patch:
        patch.setattr("platform.machine", lambda: "riscv64")
        refused = pytest.raises(IsolationError, match=r"cannot act as user 60706: .* riscv64")
        with refused, starting_as(Identity(60706, 60707)):
            raise AssertionError("it has begun")
    kept = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff")
    now = _status("thread-self")
    assert [_fields(now)[name] for name in kept] == [_fields(before)[name] for name in kept]
    with starting_as(None):
        assert os.geteuid() == 0


@as_root
@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@bounded(60)
async def test_a_sandbox_of_root_is_nobody() -> None:
    runtime = BwrapRuntime(identities=Identities())
    script = "echo x > /proc/sys/kernel/core_pattern || echo closed; cat > /tmp/x"
    async with running(runtime, shell(script)) as child:
        assert await read(child.stdout, b"\n") == b"closed\n"
        fields = _fields(_status(child.pid))
        uid = str(assign("test", {}))
        assert fields["Uid"].split() == fields["Gid"].split() == [uid] * 4
        assert fields["Groups"].strip() == ""
        assert "nofile 1024 by rlimit" in child.limits
        child.close_stdin()
        assert await ended(child) == ExitStatus(code=0)


@as_root
@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@bounded(60)
async def test_the_kernel_counts_its_processes() -> None:
    async with running(BwrapRuntime(identities=Identities()), hog(FORKS, Limits(pids=40))) as child:
        assert "pids 40 by rlimit" in child.limits
        word, count = (await read(child.stdout, b"\n")).split()
        assert word == b"refused"
        assert 30 <= int(count) < 40


@as_root
def test_what_an_identity_may_do_with_a_file(tmp_path: Path) -> None:
    identity = Identities().of("test")
    opened = os.open(tmp_path, os.O_PATH)
    assert not may(opened, identity, os.W_OK)
    os.chown(tmp_path, identity.uid, 0)
    assert may(opened, identity, os.R_OK | os.W_OK | os.X_OK)
    os.close(opened)


def _status(pid: int | str) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def _fields(status: str) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
