"""What was measured and counted, as Prometheus is told it: names, units, labels, and how many of them there may be.

Nobody outside decides how many series there are: servers are those of the configuration, and hosts and tools beyond a
number count as `OTHER`. Counters begin at 0 with the daemon, and go on over restarts of servers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.metrics import latency
from supervisord_mcp.metrics.counts import OTHER, Cell, Tally
from supervisord_mcp.protocol.usage import Figures, ServerUsage, UsageResult

#: How many tools and hosts of a server have series of their own; the first ones that were called.
MOST_TOOLS, MOST_HOSTS = 32, 16
#: The bounds of the histogram, in seconds: from 0.32 ms on each twice the one before, up to a minute and a half. They
#: are bounds of the buckets that are counted, so no call is on the wrong side of one.
BUCKETS = latency.BOUNDS[20:96:4]
STATES = ("STOPPED", "STARTING", "RUNNING", "STOPPING", "BACKOFF", "EXITED", "FATAL")
OUTCOMES = ("ok", "error", "cancelled", "timeout")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is told at once: ``tallies`` since the daemon was ``started``, which is in seconds since the epoch."""

    usage: UsageResult
    version: str
    started: float
    tallies: Mapping[str, Tally] = field(default_factory=dict)


def families(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield every metric with its samples."""
    yield from _daemon(snapshot)
    servers = snapshot.usage.servers
    yield from _states(servers)
    for name, text, value in _GAUGES:
        yield _family(GaugeMetricFamily(name, text, labels=["server"]), servers, value)
    yield _pressure(servers)
    tallies = [(server, snapshot.tallies.get(server.name) or Tally()) for server in servers]
    for name, text, count in _COUNTERS:
        counter = CounterMetricFamily(name, text, labels=["server"])
        for server, tally in tallies:
            counter.add_metric([server.name], count(tally))
        yield counter
    yield from _where_known(tallies)
    breaches = CounterMetricFamily(
        "smcp_server_limit_breaches", "Limits that were exceeded.", labels=["server", "limit"]
    )
    for server, tally in tallies:
        for limit, times in sorted(tally.breaches.items()):
            breaches.add_metric([server.name, limit], times)
    yield breaches
    yield from _calls(tallies)


def _daemon(snapshot: Snapshot) -> Iterator[Metric]:
    figures = snapshot.usage.daemon
    yield InfoMetricFamily("smcp_build", "The version of smcp.", value={"version": snapshot.version})
    yield GaugeMetricFamily(
        "smcp_daemon_start_time_seconds", "When the daemon was started, since the epoch.", value=snapshot.started
    )
    yield CounterMetricFamily("smcp_daemon_cpu_seconds", "Processor time of the daemon itself.", value=figures.cpu)
    for name, text, value in (
        ("memory_bytes", "Memory of the daemon itself (PSS).", figures.memory),
        ("resident_memory_bytes", "Resident memory of the daemon itself (RSS).", figures.resident),
        ("threads", "Threads of the daemon.", figures.threads),
        ("open_files", "Open files of the daemon.", figures.files),
        (
            "observers_dropped",
            "Observers that failed or were too slow.",
            len(snapshot.usage.problems),
        ),
    ):
        yield GaugeMetricFamily(f"smcp_daemon_{name}", text, value=value)


def _states(servers: Iterable[ServerUsage]) -> Iterator[Metric]:
    up = GaugeMetricFamily("smcp_server_up", "Whether the server runs.", labels=["server"])
    states = GaugeMetricFamily(
        "smcp_server_state", "1 for the state that the server is in, 0 for the others.", labels=["server", "state"]
    )
    for server in servers:
        up.add_metric([server.name], server.state == "RUNNING")
        for state in STATES:
            states.add_metric([server.name, state], server.state == state)
    yield up
    yield states


def _pressure(servers: Iterable[ServerUsage]) -> Metric:
    family = GaugeMetricFamily(
        "smcp_server_pressure_ratio",
        "Part of the last ten seconds in which a process waited for the resource (PSI), where a control group tells.",
        labels=["server", "resource"],
    )
    for server in servers:
        figures = server.figures
        for resource, value in (
            ("cpu", figures.cpu_pressure),
            ("memory", figures.memory_pressure),
            ("io", figures.disk_pressure),
        ):
            if value is not None:
                family.add_metric([server.name, resource], value / 100)
    return family


def _where_known(tallies: Iterable[tuple[ServerUsage, Tally]]) -> Iterator[Metric]:
    """Yield what only some machines and networks tell."""
    for name, text, known, count in _COUNTERS_WHERE_KNOWN:
        counter = CounterMetricFamily(name, text, labels=["server"])
        for server, tally in tallies:
            if (value := count(tally)) or known(server.figures) is not None:
                counter.add_metric([server.name], value)
        yield counter


def _calls(tallies: Iterable[tuple[ServerUsage, Tally]]) -> Iterator[Metric]:
    calls = CounterMetricFamily(
        "smcp_calls",
        "Requests of hosts that were meant for the server.",
        labels=["server", "method", "tool", "outcome"],
    )
    hosts = CounterMetricFamily(
        "smcp_host_calls", "The same by the host that made them.", labels=["server", "host", "outcome"]
    )
    durations = HistogramMetricFamily(
        "smcp_call_duration_seconds", "How long answers took.", labels=["server", "method", "tool"]
    )
    last = GaugeMetricFamily(
        "smcp_server_last_call_timestamp_seconds", "When the last call was over, since the epoch.", labels=["server"]
    )
    for server, tally in tallies:
        for (method, tool), cells in _grouped(tally.cells, _what, (OTHER, OTHER), MOST_TOOLS):
            labels = [server.name, method, tool]
            for outcome, count in _outcomes(cells):
                calls.add_metric([*labels, outcome], count)
            buckets = _histogram(latency.total(cell.latency for cell in cells))
            durations.add_metric(labels, buckets, sum_value=sum(cell.seconds for cell in cells))
        for (host,), cells in _grouped(tally.cells, _who, (OTHER,), MOST_HOSTS):
            for outcome, count in _outcomes(cells):
                hosts.add_metric([server.name, host, outcome], count)
        if tally.cells:
            last.add_metric([server.name], max(cell.last for cell in tally.cells))
    yield from (calls, hosts, durations, last)


def _what(cell: Cell) -> tuple[str, ...]:
    return _label(cell.method), _label(cell.tool)


def _who(cell: Cell) -> tuple[str, ...]:
    return (_label(cell.host),)


def _grouped(
    cells: Iterable[Cell], key: Callable[[Cell], tuple[str, ...]], other: tuple[str, ...], most: int
) -> Iterator[tuple[tuple[str, ...], list[Cell]]]:
    """Yield cells by what they have in common: the first ones, and the rest together."""
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        name = key(cell)
        if name not in groups and len(groups) >= most:
            name = other
        groups.setdefault(name, []).append(cell)
    yield from groups.items()


def _outcomes(cells: Iterable[Cell]) -> Iterator[tuple[str, int]]:
    """Yield how many calls ended how: every outcome, so that there is a 0 to count from."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for cell in cells:
        counts["error"] += cell.errors
        counts["cancelled"] += cell.cancelled
        counts["timeout"] += cell.timeouts
        counts["ok"] += cell.calls - cell.errors - cell.cancelled - cell.timeouts
    yield from counts.items()


def _histogram(histogram: Mapping[int, int]) -> list[tuple[str, float]]:
    """Return the buckets as Prometheus has them, each with all that took no longer."""
    buckets: list[tuple[str, float]] = []
    for bound in BUCKETS:
        number = latency.bucket(bound)
        buckets.append((f"{bound:.6g}", sum(count for bucket, count in histogram.items() if bucket <= number)))
    return [*buckets, ("+Inf", sum(histogram.values()))]


def _family(
    family: GaugeMetricFamily, servers: Iterable[ServerUsage], value: Callable[[ServerUsage], float]
) -> GaugeMetricFamily:
    for server in servers:
        number = value(server)
        family.add_metric([server.name], number if math.isfinite(number) else 0.0)
    return family


def _label(text: str) -> str:
    """Return what a host or a server calls something: without values of secrets, and such that UTF-8 can say it."""
    return masker.mask(text).encode(errors="replace").decode()


_GAUGES: tuple[tuple[str, str, Callable[[ServerUsage], float]], ...] = (
    ("smcp_server_sessions", "Sessions of hosts.", lambda one: one.sessions),
    ("smcp_server_memory_bytes", "Memory of the whole tree of processes (PSS).", lambda one: one.figures.memory),
    ("smcp_server_private_memory_bytes", "The part of it that nobody shares.", lambda one: one.figures.private),
    ("smcp_server_resident_memory_bytes", "Resident memory of all processes (RSS).", lambda one: one.figures.resident),
    ("smcp_server_swap_bytes", "Memory that is swapped out.", lambda one: one.figures.swap),
    ("smcp_server_processes", "Processes of the tree.", lambda one: len(one.figures.processes)),
    ("smcp_server_threads", "Threads of the tree.", lambda one: one.figures.threads),
    ("smcp_server_open_files", "Open files of the tree.", lambda one: one.figures.files),
    ("smcp_server_sockets", "Open sockets of the tree.", lambda one: one.figures.sockets),
    ("smcp_server_calls_pending", "Calls that are not answered yet.", lambda one: one.total.pending),
    ("smcp_server_saved_memory_bytes", "Memory that sharing saves, estimated.", lambda one: one.saved.memory),
    ("smcp_server_saved_processes", "Processes that sharing saves, estimated.", lambda one: one.saved.processes),
)
_COUNTERS: tuple[tuple[str, str, Callable[[Tally], float]], ...] = (
    ("smcp_server_cpu_seconds", "Processor time of the whole tree, of runs that ended too.", lambda one: one.cpu),
    ("smcp_server_disk_read_bytes", "Bytes that came from disks.", lambda one: one.read),
    ("smcp_server_disk_written_bytes", "Bytes that went to disks.", lambda one: one.written),
    ("smcp_server_starts", "How often a child became ready.", lambda one: one.starts),
    ("smcp_server_on_demand_starts", "Starts that a call waited for.", lambda one: one.on_demand),
    ("smcp_server_start_seconds", "How long all starts took.", lambda one: one.waited),
    ("smcp_server_restarts", "Starts after an end that nobody wanted.", lambda one: one.restarts),
    ("smcp_call_request_bytes", "Bytes of requests.", lambda one: sum(cell.asked for cell in one.cells)),
    ("smcp_call_response_bytes", "Bytes of answers.", lambda one: sum(cell.told for cell in one.cells)),
)
_COUNTERS_WHERE_KNOWN: tuple[tuple[str, str, Callable[[Figures], float | None], Callable[[Tally], float]], ...] = (
    (
        "smcp_server_network_sent_bytes",
        "Bytes sent to the network, where rules of the network lead through the daemon.",
        lambda one: one.sent,
        lambda one: one.sent,
    ),
    (
        "smcp_server_network_received_bytes",
        "Bytes received from the network, where rules of the network lead through the daemon.",
        lambda one: one.received,
        lambda one: one.received,
    ),
    (
        "smcp_server_oom_kills",
        "Processes that the kernel ended for want of memory, where a control group tells.",
        lambda one: one.oom_kills,
        lambda one: one.oom_kills,
    ),
    (
        "smcp_server_refused_processes",
        "New processes that the limit refused, where a control group tells.",
        lambda one: one.refused,
        lambda one: one.refused,
    ),
    (
        "smcp_server_throttled_seconds",
        "How long the limit of processors held the tree back, where a control group tells.",
        lambda one: one.throttled,
        lambda one: one.throttled,
    ),
)
