"""What keeps one child within its limits: its rlimits, its cgroup and its watcher, and the name of what it exceeded."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterable
from typing import Literal

import anyio.to_thread

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.base import ExitStatus, LaunchSpec
from supervisord_mcp.runtimes.cgroup import Group, Groups
from supervisord_mcp.runtimes.identity import Identity, acting_as
from supervisord_mcp.runtimes.limits import Available, Plan, plan, size_text
from supervisord_mcp.runtimes.rlimits import raise_oom_score, set_rlimits
from supervisord_mcp.runtimes.watcher import Bounds, Watcher

#: A child that failed when one of its processes held this many times the limit was refused more of it: the rlimit that
#: stands behind the watcher came first.
_REFUSED = 1.5


def means(groups: Groups | None, *, own_users: bool = False, places: bool = False, sized: bool = False) -> Available:
    """Given the cgroups of the daemon and what a runtime gives its children, return the means that there are."""
    version: Literal[1, 2] | None = None if groups is None else groups.version
    controllers = frozenset[str]() if groups is None else groups.controllers
    return Available(version, controllers, own_users, places, sized)


class Restraint:
    """The limits of one child, from before it runs until it has ended."""

    def __init__(
        self, spec: LaunchSpec, available: Available, groups: Groups | None, identity: Identity | None = None
    ) -> None:
        """Given the means of a runtime, decide how they are used. Raise `IsolationError` where they do not suffice.

        ``identity`` is whose processes they are, where they are not the daemon's own user's.
        """
        self._identity = identity
        self._server = spec.name
        self._limits = spec.limits
        try:
            self._plan: Plan = plan(spec.limits, available)
        except IsolationError as error:
            raise self._named(error) from error
        self._groups = groups
        self._group: Group | None = None
        self._watcher: Watcher | None = None
        self._event = -1

    @property
    def report(self) -> tuple[str, ...]:
        """What enforces each limit, as a person reads it."""
        return self._plan.report

    @property
    def group(self) -> Group | None:
        """The control group of the child, where it has one."""
        return self._group

    @property
    def idle(self) -> bool:
        """Whether there is nothing to be applied to a process."""
        return not (self._plan.rlimits or self._plan.grouped or self._plan.watched)

    async def apply(self, pid: int) -> None:
        """Apply all limits to a process that waits, and read them back. Raise `IsolationError` that names what fails.

        With `UNLIMITED` nothing is changed at all.
        """
        if self.idle:
            return
        try:
            if self._identity is None:
                set_rlimits(pid, self._plan.rlimits)
            else:
                acting_as(self._identity, lambda: set_rlimits(pid, self._plan.rlimits))
            raise_oom_score(pid)
            if self._groups is not None and self._plan.grouped:
                self._group = self._groups.make(self._server, self._limits, self._plan.grouped)
                # The kernel waits for all processors before it moves a process, 10 ms at times.
                await anyio.to_thread.run_sync(self._group.attach, pid)
        except IsolationError as error:
            raise self._named(error) from error

    def watch(self, pids: Callable[[], Iterable[int]], exceeded: Callable[[str], None]) -> None:
        """Call ``exceeded`` with the name of a limit as soon as the processes are seen beyond it.

        Raise `IsolationError` where the kernel does not tell of an excess.
        """
        if self._group is not None and "memory" in self._plan.grouped:
            self._listen(exceeded)
        noted = "pids" not in self._plan.grouped
        bounds = Bounds(
            self._limits.memory if "memory" in self._plan.watched else None,
            self._limits.pids if noted and not self.idle else None,
            kept="pids" not in self._plan.watched,
        )
        if bounds.memory is not None or bounds.pids is not None:
            self._watcher = Watcher(bounds, pids, exceeded)
            self._watcher.start()

    def kill(self) -> bool:
        """Kill all that is in the child's cgroup; return whether there was nothing."""
        return self._group is None or self._group.kill()

    def cause(self, status: ExitStatus, peak: int) -> str:
        """Given how the child ended and the most memory one of its processes held, return the limit it died of."""
        limits = self._limits
        if status.success:
            return ""
        if status.signal == signal.SIGXFSZ and limits.fsize is not None:
            return f"file size limit {size_text(limits.fsize)}"
        if limits.memory is not None and self._ran_out_of_memory(limits.memory, peak):
            return f"memory limit {size_text(limits.memory)}"
        crowded = self._watcher is not None and self._watcher.crowded
        if limits.pids is not None and (crowded or (self._group is not None and self._group.refused_processes())):
            return f"process limit {limits.pids}"
        return ""

    def close(self) -> None:
        """End watching, and remove the cgroup, once no process of the child is left. Idempotent."""
        if self._watcher is not None:
            self._watcher.stop()
        if self._event >= 0:
            asyncio.get_running_loop().remove_reader(self._event)
            os.close(self._event)
            self._event = -1
        if self._group is not None and self._groups is not None:
            self._groups.drop(self._group)
            self._group = None

    def _listen(self, exceeded: Callable[[str], None]) -> None:
        assert self._group is not None
        try:
            self._event = self._group.memory_event()
        except IsolationError as error:
            raise self._named(error) from error
        if self._event >= 0:
            reason = f"memory limit {size_text(self._limits.memory or 0)}"
            asyncio.get_running_loop().add_reader(self._event, self._told, exceeded, reason)

    def _told(self, exceeded: Callable[[str], None], reason: str) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._event)
            exceeded(reason)

    def _ran_out_of_memory(self, limit: int, peak: int) -> bool:
        if self._group is not None and "memory" in self._plan.grouped:
            return self._group.memory_kills() > 0
        return "memory" in self._plan.watched and peak >= _REFUSED * limit

    def _named(self, error: IsolationError) -> IsolationError:
        return IsolationError(f"server {self._server} was not started: {error.message}", remedy=error.remedy)
