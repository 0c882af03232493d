"""Who belongs to a tree, who is never hit, and how leftovers of a dead daemon are ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from supervisord_mcp.runtimes import proctable, tree
from supervisord_mcp.runtimes.tree import Tree


@pytest.fixture
def marker() -> Iterator[str]:
    """A marker of which nothing is left after the test."""
    name = f"t-{uuid.uuid4()}"
    yield name
    tree.kill_marked(name)


def _start(script: str, marker: str, *, own_session: bool = True) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        ["/bin/sh", "-c", script],
        env={"PATH": "/usr/bin:/bin", "SMCP_INSTANCE": marker},
        stdout=subprocess.PIPE,
        start_new_session=own_session,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def _end(process: subprocess.Popen[bytes], marker: str) -> None:
    tree.kill_marked(marker)
    process.communicate()


def test_finds_what_went_elsewhere(marker: str) -> None:
    process = _start("(setsid sleep 1000 &); setsid sh -c 'sleep 1000; :' & echo; sleep 1000", marker)
    found = Tree(process.pid, marker)
    deadline = time.monotonic() + 10
    while len(found.members()) < 5 and time.monotonic() < deadline:
        pass
    members = found.members()
    assert members[0].pid == process.pid
    assert len({entry.session for entry in members}) == 3
    assert len(members) == 5
    assert not found.kill()
    process.communicate()
    while not found.kill() and time.monotonic() < deadline:
        pass
    assert tree.marked(marker) == []


def test_a_process_seen_once_stays_in_the_tree(marker: str) -> None:
    hide = "trap 'exec env -i sleep 1000' USR1; echo; while :; do sleep 0.01; done"
    process = _start(f'setsid sh -c "{hide}" & read x; :', marker)
    found = Tree(process.pid, marker)
    (hidden,) = [entry for entry in found.members() if entry.pid == entry.session != process.pid]
    os.kill(hidden.pid, signal.SIGUSR1)
    deadline = time.monotonic() + 10
    while proctable.environment(hidden.pid) and time.monotonic() < deadline:
        pass
    process.kill()
    process.wait()
    assert hidden.pid in {entry.pid for entry in found.members()}
    while not found.kill() and time.monotonic() < deadline:
        pass
    now = proctable.read_entry(hidden.pid)
    assert now is None or not now.alive
    process.communicate()


def test_this_process_and_those_above_are_never_in_it() -> None:
    # A marker that the environment of everything above us might carry, and our own group as leader.
    found = Tree(os.getpgrp(), "x")
    pids = {entry.pid for entry in found.members()}
    assert not pids & proctable.ancestors()
    process = subprocess.Popen(["sleep", "1000"])
    assert process.pid not in {entry.pid for entry in found.members()}
    found.kill()
    assert process.poll() is None
    process.kill()
    process.wait()


def test_a_pid_that_changed_hands_is_not_hit(marker: str) -> None:
    process = _start("echo; sleep 1000", marker)
    entry = proctable.read_entry(process.pid)
    assert entry is not None
    assert not tree.send(replace(entry, started=entry.started - 1), signal.SIGKILL)
    assert process.poll() is None
    assert tree.send(entry, signal.SIGKILL)
    assert process.wait() == -9
    assert not tree.send(entry, signal.SIGKILL)
    _end(process, marker)


def test_skipped_processes_get_no_signal(marker: str) -> None:
    process = _start("trap 'exit 3' TERM; sh -c 'echo; exec sleep 1000'; :", marker)
    Tree(process.pid, marker).signal(signal.SIGTERM, skip={process.pid})
    assert process.wait(10) == 0
    _end(process, marker)


def test_leftovers_of_a_dead_daemon_are_ended(marker: str) -> None:
    leave = f"""
import os, subprocess
for n in range(3):
    subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; (setsid sleep 1000 &); sleep 1000; :"],
        env={{"PATH": "/usr/bin:/bin", "SMCP_INSTANCE": "{marker}/" + str(n)}}, start_new_session=True)
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", leave], check=False)
    other = _start("echo; sleep 1000", f"x{marker}/0")
    assert len(tree.marked(f"{marker}/")) >= 3
    assert tree.kill_marked(f"{marker}/") >= 3
    assert tree.marked(f"{marker}/") == []
    assert tree.kill_marked(f"{marker}/") == 0
    assert other.poll() is None
    _end(other, f"x{marker}/")


def test_an_empty_prefix_is_refused() -> None:
    with pytest.raises(ValueError, match="every daemon"):
        tree.kill_marked("")
