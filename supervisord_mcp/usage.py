"""Puts the parts that measure together: the sampler over the instances, the counts over their calls, the report."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from supervisord_mcp import __version__
from supervisord_mcp.config.models import Config, ServerConfig
from supervisord_mcp.metrics import report
from supervisord_mcp.metrics.archive import Archive
from supervisord_mcp.metrics.counts import Counts, Tally, beyond
from supervisord_mcp.metrics.ledger import Ledger
from supervisord_mcp.metrics.pace import FRESH
from supervisord_mcp.metrics.sampler import Sampler, Target
from supervisord_mcp.observer import Event, Observers
from supervisord_mcp.policy.breach import Bounds
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.calls import Call
from supervisord_mcp.protocol.usage import Saved, ServerUsage, UsageResult
from supervisord_mcp.runtimes.accounting import TreeMeter
from supervisord_mcp.runtimes.limits import amount_text
from supervisord_mcp.runtimes.reading import Meter, Reading
from supervisord_mcp.server import ManagedServer
from supervisord_mcp.supervisor import Supervisor

if TYPE_CHECKING:
    from supervisord_mcp.metrics.exposition import Snapshot

_BASIS = "the sum over the servers; what the daemon itself takes is not taken off"


class UsageDesk:
    """All that is measured. Made in the event loop; `run` looks and keeps until it is cancelled."""

    def __init__(self, supervisor: Supervisor, observers: Observers, counts: Path, history: Path) -> None:
        """``counts`` keeps what is counted, ``history`` what was used over time."""
        self.counts = Counts(time.time)
        self.sampler = Sampler(self._targets, self.counts, time.time)
        self._supervisor = supervisor
        self._observers = observers
        self._ledger = Ledger(counts, self.counts)
        self._archive = Archive(history, self.sampler, time.time)
        self._meters: dict[str, tuple[int, Meter]] = {}
        self._own = TreeMeter(lambda held: [os.getpid()], lambda: None, lambda: None, reaped=False)
        self._before = (time.monotonic(), time.process_time(), 0.0)
        self._began = time.time()
        self._asking = anyio.Lock()
        self._uncount: Callable[[], None] | None = None
        self._ledger.read()
        # Metrics begin at 0 with the daemon: counters that go on would go back a little after a crash, and Prometheus
        # would take all that was ever counted for new.
        self._before_us = copy.deepcopy(self.counts.tallies)
        self._archive.read()
        observers.add(self._event, "usage")
        self.configure(supervisor.config)

    def configure(self, config: Config) -> None:
        """Take a new configuration."""
        self.sampler.enabled = config.metrics.usage
        self.counts.keep(config.servers)
        self.sampler.keep(tuple(config.servers))
        if config.metrics.calls and self._uncount is None:
            self._uncount = self._observers.bundles.add_counter(self.counts.calls, "calls")
        elif not config.metrics.calls and self._uncount is not None:
            self._uncount()
            self._uncount = None

    async def run(self) -> None:
        """Look at the servers, and keep what is counted."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.sampler.run)
            tasks.start_soon(self._ledger.run)
            tasks.start_soon(self._archive.run)

    def close(self) -> None:
        """Keep what was counted and measured, for the next daemon."""
        self.settle()
        self._ledger.write()
        self._archive.write()

    def _event(self, event: Event) -> None:
        self.counts.event(event)
        if event.kind == "state" and event.data.get("to") == "RUNNING":
            self.sampler.wake()

    # What is looked at

    def _targets(self) -> list[Target]:
        found = []
        meters: dict[str, tuple[int, Meter]] = {}
        for instance in self._supervisor.instances:
            key, child = str(instance.key), instance.child
            if child is None:
                continue
            known = self._meters.get(key)
            if known is not None and known[0] == instance.generation:
                meters[key] = known
            elif (made := child.meter()) is not None:
                meters[key] = (instance.generation, made)
            else:
                continue
            target = Target(instance.key.server, key, instance.generation, meters[key][1])
            if (config := self._supervisor.config.servers.get(instance.key.server)) is not None:
                bounds = _bounds(config, child.limits)
                target = replace(target, bounds=bounds, exceeded=self._judge(instance, config))
            found.append(target)
        self._meters = meters
        return found

    def _judge(self, instance: ManagedServer, config: ServerConfig) -> Callable[[str, bool], None]:
        def exceeded(name: str, refused: bool) -> None:
            value = amount_text(name, getattr(config.limits, name))
            instance.breaches.exceeded(name, value, instance.child, refused=refused)

        return exceeded

    # The report

    @property
    def problems(self) -> tuple[str, ...]:
        """The observers that were taken out."""
        return tuple(
            f"observer {name} is not told any more: {cause}" for name, cause in self._observers.dropped.items()
        )

    async def report(self, operation: control.Usage) -> UsageResult:
        """Return what is known. Raise `UnknownServerError` for a name that no server has."""
        if operation.name is not None:
            self._supervisor.server(operation.name)
        if operation.fresh:
            await self.sampler.fresh()
        self.settle()
        now, load = time.time(), self._load
        async with self._asking:
            own = await anyio.to_thread.run_sync(lambda: self._own.read(time.monotonic(), thorough=operation.fresh))
        pending = self._pending()
        servers = tuple(
            self._server(status, operation, pending.get(status.name, []), now)
            for status in self._supervisor.status()
            if operation.name in (None, status.name)
        )
        return UsageResult(
            at=now,
            daemon=report.figures(own or Reading(), load(own)),
            servers=servers,
            saved=Saved(
                processes=sum(server.saved.processes for server in servers),
                memory=sum(server.saved.memory for server in servers),
                basis=_BASIS,
            ),
            problems=self.problems,
        )

    async def snapshot(self) -> Snapshot:
        """Return what is known, and all that was counted, for metrics."""
        # Loaded where somebody fetches them: a daemon without metrics does not pay for their library.
        from supervisord_mcp.metrics.exposition import Snapshot

        usage = await self.report(control.Usage(fresh=True))
        tallies = {name: beyond(tally, self._before_us.get(name)) for name, tally in self.counts.tallies.items()}
        return Snapshot(usage, __version__, self._began, tallies)

    def _load(self, own: Reading | None) -> float:
        """Return how much of a processor this process used since this was last asked, or the time before."""
        now, cpu = time.monotonic(), 0.0 if own is None else own.cpu
        at, used, load = self._before
        if now - at >= FRESH:  # over less, ticks of 10 ms say nothing
            load = max(cpu - used, 0.0) / (now - at)
            self._before = (now, cpu, load)
        return load

    def settle(self) -> None:
        """Let everything be counted that is over."""
        for instance in self._supervisor.instances:
            instance.traffic.tell()

    def _pending(self) -> dict[str, list[Call]]:
        found: dict[str, list[Call]] = {}
        for instance in self._supervisor.instances:
            found.setdefault(instance.key.server, []).extend(instance.traffic.open)
        return found

    def _server(
        self, status: control.ServerStatus, operation: control.Usage, pending: list[Call], now: float
    ) -> ServerUsage:
        tally = self.counts.tallies.get(status.name) or Tally()
        history = self.sampler.histories.get(status.name)
        known = report.Known(tally, pending)
        if history is not None and operation.since is not None:
            known = report.Known(tally, pending, *history.since(operation.since, now))
        return report.server_usage(status, self.sampler.samples, known, now)


def _bounds(config: ServerConfig, enforced: Iterable[str]) -> Bounds:
    """Return what of the limits of a server only its figures tell of."""
    limits, warn = config.limits, config.breach == "warn"
    cpu = warn or any(line.startswith("cpu ") and line.endswith("by watcher") for line in enforced)
    return Bounds(
        memory=limits.memory if warn else None,
        pids=limits.pids if warn else None,
        cpu=limits.cpu if cpu else None,
        nofile=limits.nofile,
    )
