"""A running process with its whole tree: watched through a pidfd in the event loop, reaped in one place.

asyncio's own processes are not used: their ``wait`` hangs on an open pipe, and their signals race with the reaping.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Protocol

import anyio

from supervisord_mcp.runtimes import orphans, proctable
from supervisord_mcp.runtimes.accounting import Gauge, TreeMeter
from supervisord_mcp.runtimes.base import Child, ExitStatus
from supervisord_mcp.runtimes.process import Spawned
from supervisord_mcp.runtimes.proctable import MARKER_VARIABLE
from supervisord_mcp.runtimes.restraint import Restraint
from supervisord_mcp.runtimes.tree import Tree

#: What leftovers of an ended leader get before they are taken for stuck in the kernel, where no signal arrives and
#: none of their own code runs any more.
_STUCK_SECONDS = 10.0
_SWEEP_SECONDS = (0.002, 0.1)
#: How long a process in a sandbox has with a polite signal before its parents get it, whose end can take it along: a
#: shell that waits for the server behind it ends at once.
_HEAD_START = 0.1
#: How often an orphan that cannot be told apart is looked at again: an execve takes no longer.
_UNSETTLED_SWEEPS = 4
#: Every how many looks at its size a tree is searched for in all of the process table, which is dear; otherwise what
#: left its parents is not counted.
_WHOLE_LOOK = 16


class Companion(Protocol):
    """Something outside of a child that serves it, and must not outlive it."""

    def close(self) -> None:
        """Begin to end at once. Idempotent."""

    async def aclose(self) -> None:
        """End, and wait until nothing is left. Idempotent."""


class Gatekeeper(Protocol):
    """Who lets a child reach only some places of the network."""

    @property
    def refused(self) -> tuple[str, ...]:
        """The first places that the child was refused."""

    def traffic(self) -> tuple[int, int]:
        """Return how many bytes the child sent and received."""


class ProcessChild(Child):
    """A spawned process with its whole tree. Made in the event loop that is to watch it."""

    def __init__(
        self, spawned: Spawned, marker: str, translate: Callable[[ExitStatus], ExitStatus] = lambda status: status
    ) -> None:
        self.pid = spawned.pid
        self.stdin, self.stdout, self.stderr = spawned.stdin, spawned.stdout, spawned.stderr
        self._pidfd = spawned.pidfd
        self._translate = translate
        self._wrappers: set[int] = set()
        self._companions: list[Companion] = []
        #: Who decides what it reaches, where that is not the machine.
        self.gatekeeper: Gatekeeper | None = None
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[ExitStatus] = self._loop.create_future()
        self._give_up = 0.0
        self._asked = False
        self._last_signal: int | None = None
        self._signalled: frozenset[int] = frozenset()
        self._unsettled = 0
        self._excess = ""
        self._looks = 0
        self._restraint: Restraint | None = None
        self._meters: list[TreeMeter] = []
        self.limits: tuple[str, ...] = ()
        orphans.own(self.pid)
        self._tree = Tree(self.pid, marker)
        self._loop.add_reader(self._pidfd, self._leader_exited)

    def confine(self, inner: int) -> None:
        """Note that the leader and ``inner`` only hold the others in a pid namespace.

        Both are killed with the tree but get no other signal: the leader would take the namespace with it.
        """
        self._wrappers |= {self.pid, inner}
        self._tree.include(inner)
        self._tree.confine()
        orphans.confine(self.pid)

    def attach(self, companion: Companion) -> None:
        """Close a companion when the child has ended, however that happens."""
        self._companions.append(companion)
        self._ended.add_done_callback(lambda _: companion.close())

    def refused(self) -> tuple[str, ...]:
        """Return the first places of the network that the child asked for and was refused."""
        return () if self.gatekeeper is None else self.gatekeeper.refused

    def meter(self) -> TreeMeter:
        """Return what reads how much the tree uses."""
        self._meters.append(made := TreeMeter(self._present, self._gauge, self._traffic))
        return made

    def _present(self, held: Collection[int]) -> list[int]:
        # Not `_members`, which belongs to the event loop. What left its parents is found by the group alone. Nothing in
        # a sandbox changes its group, so there what is below a process of it is in it.
        return proctable.descendants(self.pid, held if self._wrappers else ())

    def _gauge(self) -> Gauge | None:
        return None if self._restraint is None else self._restraint.group

    def _traffic(self) -> tuple[int, int] | None:
        return None if self.gatekeeper is None else self.gatekeeper.traffic()

    async def restrain(self, restraint: Restraint, pid: int) -> None:
        """Apply limits to a process of the tree that waits to be let go, and to all it will start.

        Raise `IsolationError` if one of them does not hold. What exceeds them from now on ends this child only.
        """
        self._restraint = restraint
        self.limits = restraint.report
        await restraint.apply(pid)
        if not self.exited:
            restraint.watch(self._members, self.end)

    def _members(self) -> list[int]:
        if self._wrappers:
            return [pid for wrapper in self._wrappers - {self.pid} for pid in proctable.descendants(wrapper)]
        self._looks += 1
        if self._looks % _WHOLE_LOOK:
            return proctable.descendants(self.pid)
        return [entry.pid for entry in self._tree.members()]

    def end(self, reason: str) -> None:
        """Kill the whole tree, and name a reason in how it ended; the first one counts."""
        self._excess = self._excess or reason
        self.kill()

    @property
    def exited(self) -> bool:
        """Whether the leader has ended and nothing of its tree is left."""
        return self._ended.done()

    async def wait(self) -> ExitStatus:
        """Return how the leader ended, once no process of the tree is left.

        What a leader leaves behind is killed at once, unless the child was asked to end (`close_stdin`, `signal`): a
        wrapper often goes first, and the server behind it has until `kill`.
        """
        return await asyncio.shield(self._ended)

    def close_stdin(self) -> None:
        """Close the daemon's end of the child's stdin; the child sees end of file. Idempotent."""
        self._asked = True
        if self.stdin >= 0:
            forget(self._loop, self.stdin)
            self.stdin = -1

    def signal(self, number: int) -> None:
        """Send a signal to every process of the tree but wrappers; a tree that is gone is no error."""
        self._asked = True
        if self.exited:
            return
        self._last_signal = number
        parents = self._parents()
        self._signalled = self._tree.signal(number, skip=self._wrappers | parents)
        if parents:
            self._loop.call_later(_HEAD_START, self._signal_rest, number)

    def _signal_rest(self, number: int) -> None:
        if self._asked and not self.exited:
            self._signalled |= self._tree.signal(number, skip=self._signalled | self._wrappers)

    def _parents(self) -> frozenset[int]:
        """Return the processes of a sandbox that have others: when the first one ends, the kernel kills the rest."""
        if not self._wrappers:
            return frozenset()
        inside = [entry for entry in self._tree.members() if entry.pid not in self._wrappers]
        return frozenset(entry.pid for entry in inside) & frozenset(entry.ppid for entry in inside)

    def kill(self) -> None:
        """End every process of the tree at once (SIGKILL); a tree that is gone is no error."""
        self._asked = False
        if not self.exited:
            self._kill()

    def _kill(self) -> bool:
        """Kill all there is and return whether there was nothing."""
        # The group first: of those that are in it none can fork any more while the rest is looked for.
        alone = self._restraint is None or self._restraint.kill()
        return self._tree.kill() and alone

    async def aclose(self) -> None:
        """Kill what still runs, wait for it, and close every file descriptor. Idempotent."""
        try:
            self.kill()
            with anyio.CancelScope(shield=True):
                await self.wait()
                for companion in self._companions:
                    await companion.aclose()
        finally:
            self.close_stdin()
            for name in ("stdout", "stderr"):
                if (descriptor := getattr(self, name)) >= 0:
                    forget(self._loop, descriptor)
                    setattr(self, name, -1)

    def _leader_exited(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self._give_up = self._loop.time() + _STUCK_SECONDS
        self._sweep(_SWEEP_SECONDS[0])

    def _sweep(self, pause: float) -> None:
        if self._asked and self._tree.members():
            if self._last_signal is not None:
                self._signal_rest(self._last_signal)  # what was started meanwhile has not heard of it
            self._give_up = self._loop.time() + _STUCK_SECONDS
            self._loop.call_later(pause, self._sweep, min(pause * 2, _SWEEP_SECONDS[1]))
            return
        gone = self._kill()
        self._unsettled = self._unsettled + 1 if gone and self._tree.unsettled else 0
        if (gone and self._unsettled in (0, _UNSETTLED_SWEEPS)) or self._loop.time() >= self._give_up:
            self._reap()
        else:
            self._loop.call_later(pause, self._sweep, min(pause * 2, _SWEEP_SECONDS[1]))

    def _reap(self) -> None:
        # The one place that reaps. It comes last: until then the zombie keeps the numbers of its group and session.
        self._tree.release()
        pid, code, usage = os.wait4(self.pid, os.WNOHANG)
        if pid == 0:
            raise RuntimeError("the pidfd said that the process ended, wait4 says that it did not")
        os.close(self._pidfd)
        orphans.disown(self.pid)
        status = self._translate(_status(os.waitstatus_to_exitcode(code)))
        for meter in self._meters:  # while there is a group that knows what the kernel ended
            meter.end(usage.ru_utime + usage.ru_stime)
        if self._restraint is not None:
            cause = self._excess or self._restraint.cause(status, usage.ru_maxrss << 10)
            status = replace(status, cause=cause)
            self._restraint.close()
        self._ended.set_result(status)


def forget(loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
    """Close a descriptor that a loop may watch."""
    # A number that is still registered would make the loop watch whatever gets it next.
    if not loop.is_closed():
        loop.remove_reader(descriptor)
        loop.remove_writer(descriptor)
    os.close(descriptor)


def with_marker(env: tuple[tuple[str, str], ...], marker: str) -> dict[str, str]:
    """Return the environment of a child: what its spec says, and the marker that its tree is found by."""
    return {**dict(env), MARKER_VARIABLE: marker} if marker else dict(env)


def _status(code: int) -> ExitStatus:
    return ExitStatus(code=code) if code >= 0 else ExitStatus(signal=-code)
