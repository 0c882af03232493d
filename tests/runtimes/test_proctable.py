"""What is read from /proc."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from supervisord_mcp.runtimes import proctable
from supervisord_mcp.runtimes.proctable import Entry


def test_reads_this_process() -> None:
    entry = proctable.read_entry(os.getpid())
    assert entry is not None
    assert (entry.pid, entry.ppid, entry.pgrp, entry.session) == (
        os.getpid(),
        os.getppid(),
        os.getpgrp(),
        os.getsid(0),
    )
    assert entry.alive
    assert entry.identity == (os.getpid(), entry.started)
    assert entry.identity in {other.identity for other in proctable.entries()}


def test_a_name_with_parentheses_is_no_trouble() -> None:
    rename = "import ctypes; ctypes.CDLL(None).prctl(15, b'a) Z 1 (', 0, 0, 0); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", rename], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        entry = proctable.read_entry(process.pid)
        assert entry is not None
        assert (entry.ppid, entry.alive) == (os.getpid(), True)
        assert process.pid in proctable.children()
        process.stdin.write(b"\n")


def test_nothing_is_known_of_nobody() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert proctable.read_entry(process.pid) is None
    assert proctable.environment(process.pid) is None
    assert proctable.markers_in(b"") == ()


def test_a_zombie_is_not_alive() -> None:
    assert [Entry(9, 1, 9, 9, state, 5).alive for state in "RSDTtZX"] == [True] * 5 + [False] * 2


def test_finds_the_marker() -> None:
    with subprocess.Popen(
        ["sleep", "100"], env={"A": "SMCP_INSTANCE=no", "SMCP_INSTANCE": "d-1=2", "SMCP_INSTANCE_B": "no"}
    ) as process:
        # For a moment after its execve a process has no environment yet.
        for _ in range(100):
            if found := proctable.markers_in(proctable.environment(process.pid) or b""):
                break
            time.sleep(0.01)
        assert found == ("d-1=2",)
        process.kill()


def test_ancestors_end_at_the_first_process() -> None:
    above = proctable.ancestors()
    assert {1, os.getpid(), os.getppid()} - {0} <= above


def test_what_is_below_those_that_are_known_is_left_out() -> None:
    program = "import subprocess, sys; subprocess.Popen(['sleep', '100']); print(flush=True); sys.stdin.read()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        me, parent = os.getpid(), process.pid
        [child] = proctable.children_of(parent)
        assert {parent, child} <= set(proctable.descendants(me))
        assert proctable.descendants(parent) == [parent, child]
        assert proctable.descendants(parent, {parent}) == [parent]
        assert parent in proctable.descendants(me, {parent})
        assert child not in proctable.descendants(me, {parent})
        os.kill(child, 9)
        process.communicate()
