"""The tree of a child: its group, its session, its descendants, and whatever carries its marker, wherever it went.

Every signal goes through a pidfd opened before the process is looked at again, so that a pid that changed hands in
between is never hit. This process, what is above it, and pid 1 are never part of a tree.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable

from supervisord_mcp.runtimes import markers, orphans, proctable
from supervisord_mcp.runtimes.proctable import Entry

#: How often one `Tree.kill` looks for processes that were forked while it was ending the others.
_PASSES = 8
#: How long `kill_marked` waits for what it has killed.
_KILL_MARKED_SECONDS = 5.0
_POLITE = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})


class Tree:
    """The processes that began with one leader, which is the head of its own session and group."""

    def __init__(self, leader: int, marker: str) -> None:
        #: Whether the last look met an orphan that could be read only a moment later.
        self.unsettled = False
        self._leader = leader
        self._marker = marker
        # Who was seen in the tree once stays in it, also after it cleared its environment and lost its parent.
        self._known: set[tuple[int, int]] = set()
        self._held = True
        self._confined = False
        self.include(leader)

    def include(self, pid: int) -> None:
        """Take a process and its descendants into the tree for good."""
        entry = proctable.read_entry(pid)
        if entry is not None:
            self._known.add(entry.identity)

    def confine(self) -> None:
        """Tell that from now on nothing leaves the descendants of those that are in it: a pid namespace holds them.

        What they carry in their environment is not looked at any more.
        """
        self._confined = True

    def release(self) -> None:
        """Tell that the leader is about to be reaped: from now on its number may mean another process or group."""
        self._held = False

    def members(self) -> list[Entry]:
        """Return the processes of the tree that can still run code, oldest first."""
        table = {entry.pid: entry for entry in proctable.entries()}
        protected, session = proctable.ancestors(), os.getsid(0)
        outside = [e for e in table.values() if e.pid not in protected and e.session != session and e.ppid != 2]
        found = {e.pid: e for e in outside if self._is_own(e)}
        self._close_over(outside, found)
        self.unsettled = False
        if not self._confined:
            self._judge_by_marker(outside, found)
            self._close_over(outside, found)
        self._known |= {entry.identity for entry in found.values()}
        return sorted((e for e in found.values() if e.alive), key=lambda e: (e.started, e.pid))

    def signal(self, number: int, *, skip: Iterable[int] = ()) -> frozenset[int]:
        """Send a signal to every process of the tree but those in ``skip``; wake stopped ones for a polite signal.

        Return the pids that it was sent to.
        """
        skipped = frozenset(skip)
        members = [entry for entry in self.members() if entry.pid not in skipped]
        for entry in members:
            send(entry, number)
        if number in _POLITE:
            for entry in members:
                send(entry, signal.SIGCONT)
        return frozenset(entry.pid for entry in members)

    def kill(self) -> bool:
        """Kill every process of the tree, those forked meanwhile too; return whether nothing was left to kill."""
        self._kill_group()
        killed: set[tuple[int, int]] = set()
        for _ in range(_PASSES):
            fresh = [entry for entry in self.members() if entry.identity not in killed]
            if not fresh:
                break
            for entry in fresh:
                send(entry, signal.SIGKILL)
                killed.add(entry.identity)
        orphans.reap_strangers()
        return not killed

    def _kill_group(self) -> None:
        # One call ends the whole group with no gap for a fork; the unreaped leader keeps its number from changing hands
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._held and os.getpgid(self._leader) == self._leader != os.getpgrp():
                os.killpg(self._leader, signal.SIGKILL)

    def _is_own(self, entry: Entry) -> bool:
        if entry.identity in self._known:
            return True
        return self._held and self._leader in (entry.pid, entry.pgrp, entry.session)

    def _judge_by_marker(self, outside: list[Entry], found: dict[int, Entry]) -> None:
        """Take in who carries the marker, and who is without one and can have come from nobody else."""
        held = {entry.pid: entry for entry in outside if orphans.is_confined(entry.pid)}
        self._close_over(outside, held)
        others = [entry for entry in outside if entry.alive and entry.pid not in found and entry.pid not in held]
        told = markers.markers(others)
        alone = orphans.is_only_one(self._leader)
        for entry in others:
            carried = told.get(entry.pid, ())
            if carried is not None and self._marker and self._marker in carried:
                found[entry.pid] = entry
            elif orphans.is_stranger(entry) and entry.pid in told:
                # It cleared its environment, or put something else in its place, or is in the middle of an execve.
                if alone:
                    found[entry.pid] = entry
                self.unsettled |= carried is None
        markers.forget(outside)

    def _close_over(self, outside: list[Entry], found: dict[int, Entry]) -> None:
        present = {entry.pid for entry in outside}
        known = {pid for pid, _ in self._known}
        grown = True
        while grown:
            grown = False
            for entry in outside:
                if entry.pid in found:
                    continue
                # A session outlives its leader, and keeps the leader's number from being used again.
                led = entry.session in found or (entry.session in known and entry.session not in present)
                if entry.ppid in found or led:
                    found[entry.pid] = entry
                    grown = True


def send(entry: Entry, number: int) -> bool:
    """Send a signal to exactly the process that was read; return whether it was still there and ours to signal."""
    descriptor = -1
    try:
        with contextlib.suppress(OSError):  # without a free descriptor the start time alone must do
            descriptor = os.pidfd_open(entry.pid)
        now = proctable.read_entry(entry.pid)
        if now is None or now.identity != entry.identity or entry.pid in (1, os.getpid()):
            return False
        if descriptor < 0:
            os.kill(entry.pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
        return True
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def marked(prefix: str) -> list[Entry]:
    """Return every living process of ours whose marker starts with the prefix, but for us and what is above us.

    Servers of root have users of their own, so there it is every process.
    """
    protected = proctable.ancestors()
    mine = [e for e in proctable.entries() if e.pid not in protected and e.alive and _is_mine(e.pid)]
    told = markers.markers(mine)
    found = [entry for entry in mine if any(marker.startswith(prefix) for marker in told.get(entry.pid) or ())]
    return sorted(found, key=lambda e: (e.started, e.pid))


def kill_marked(prefix: str, *, seconds: float = _KILL_MARKED_SECONDS) -> int:
    """Given the prefix of all markers of a daemon that is dead, end everything it left; return how many processes.

    Raise `ValueError` for an empty prefix, which would mean the children of every daemon.
    """
    if not prefix:
        raise ValueError("an empty prefix means the children of every daemon")
    deadline = time.monotonic() + seconds
    ended: set[tuple[int, int]] = set()
    while leftovers := marked(prefix):
        waiting = select.poll()
        descriptors = []
        for entry in leftovers:
            with contextlib.suppress(OSError):
                descriptors.append(os.pidfd_open(entry.pid))
                waiting.register(descriptors[-1], select.POLLIN)
            if send(entry, signal.SIGKILL):
                ended.add(entry.identity)
        # Whatever ends first wakes us: what it forked in its last moments is found in the next round.
        left = deadline - time.monotonic()
        if left > 0:
            waiting.poll(min(left, 0.2) * 1000)
        for descriptor in descriptors:
            os.close(descriptor)
        orphans.reap_strangers()
        if left <= 0:
            break
    return len(ended)


def _is_mine(pid: int) -> bool:
    try:
        return os.geteuid() in (0, os.stat(f"/proc/{pid}").st_uid)
    except OSError:
        return False
