"""What Prometheus is told: its own tool finds the names right, counters count, and there are only so many series."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.metrics import latency
from supervisord_mcp.metrics.counts import OTHER, Cell, Tally
from supervisord_mcp.metrics.exposition import BUCKETS, MOST_HOSTS, MOST_TOOLS, Snapshot, families
from supervisord_mcp.protocol.usage import CallUsage, Figures, ProcessUsage, Saved, ServerUsage, UsageResult
from tests.kit.required import need

FIGURES = Figures(
    memory=1000,
    private=700,
    resident=2000,
    swap=5,
    threads=3,
    files=9,
    sockets=2,
    sent=11,
    received=12,
    oom_kills=0,
    throttled=0.0,
    cpu_pressure=25.0,
    processes=(ProcessUsage(pid=1), ProcessUsage(pid=2)),
)
GIT = ServerUsage(
    name="git",
    state="RUNNING",
    sessions=4,
    figures=FIGURES,
    total=CallUsage(pending=2),
    saved=Saved(processes=3, memory=8),
)
IDLE = ServerUsage(name="idle", state="STOPPED")
TALLY = Tally(
    cells=[
        Cell("editor", "tools/call", "log", 10, 2, 1, 1, 100, 900, 3.5, 1700.0, {latency.bucket(0.001): 6, 140: 2}),
        Cell("agent", "tools/call", "log", 1, 0, 0, 0, 10, 20, 0.5, 1800.0, {latency.bucket(0.5): 1}),
        Cell("agent", "resources/read", "", 1, 1, 0, 0, 1, 1, 0.5, 1600.0, {latency.bucket(0.5): 1}),
    ],
    starts=5,
    on_demand=4,
    waited=2.5,
    restarts=1,
    breaches={"memory": 3},
    cpu=12.5,
    read=77,
    written=78,
    sent=21,
    received=22,
)


LABELS = ("server", "method", "tool", "host", "resource", "state", "limit", "outcome", "le", "version")


class Once(Collector):
    """Tells one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterable[Metric]:
        return families(self._snapshot)


def text_of(snapshot: Snapshot) -> str:
    registry = CollectorRegistry()
    registry.register(Once(snapshot))
    return generate_latest(registry).decode()


def snapshot(*servers: ServerUsage, **tallies: Tally) -> Snapshot:
    usage = UsageResult(at=0.0, daemon=Figures(cpu=1.5, memory=30, files=7), servers=servers, problems=("one",))
    return Snapshot(usage, "1.2.3", 1000.0, tallies)


def samples(one: Snapshot) -> dict[tuple[str, ...], float]:
    """Return the value of each series, by its name and the values of its labels in the order of `LABELS`."""
    return {
        (sample.name, *(sample.labels[label] for label in LABELS if label in sample.labels)): sample.value
        for family in text_string_to_metric_families(text_of(one))
        for sample in family.samples
    }


@pytest.fixture
def _masked() -> Iterator[None]:
    masker.learn("hunter2-hunter2", "vault:x")
    yield
    masker.clear()


def test_everything_is_told() -> None:
    found = samples(snapshot(GIT, IDLE, git=TALLY))
    for name, value in {
        "up": 1,
        "sessions": 4,
        "memory_bytes": 1000,
        "private_memory_bytes": 700,
        "resident_memory_bytes": 2000,
        "swap_bytes": 5,
        "processes": 2,
        "threads": 3,
        "open_files": 9,
        "sockets": 2,
        "calls_pending": 2,
        "saved_memory_bytes": 8,
        "saved_processes": 3,
        "cpu_seconds_total": 12.5,
        "disk_read_bytes_total": 77,
        "disk_written_bytes_total": 78,
        "network_sent_bytes_total": 21,
        "network_received_bytes_total": 22,
        "oom_kills_total": 0,
        "throttled_seconds_total": 0,
        "starts_total": 5,
        "on_demand_starts_total": 4,
        "start_seconds_total": 2.5,
        "restarts_total": 1,
        "last_call_timestamp_seconds": 1800,
    }.items():
        assert found["smcp_server_" + name, "git"] == value, name
    assert found["smcp_call_request_bytes_total", "git"] == 111
    assert found["smcp_call_response_bytes_total", "git"] == 921
    assert found["smcp_server_limit_breaches_total", "git", "memory"] == 3
    assert found["smcp_server_pressure_ratio", "git", "cpu"] == 0.25
    assert (found["smcp_server_state", "git", "RUNNING"], found["smcp_server_state", "git", "FATAL"]) == (1, 0)
    assert found["smcp_build_info", "1.2.3"] == 1
    assert found[("smcp_daemon_start_time_seconds",)] == 1000
    assert found[("smcp_daemon_cpu_seconds_total",)] == 1.5
    assert found[("smcp_daemon_observers_dropped",)] == 1


def test_what_nobody_can_tell_is_not_told() -> None:
    found = samples(snapshot(GIT, IDLE, git=TALLY))
    idle = {name for name, *labels in found if labels and labels[0] == "idle"}
    assert "smcp_server_memory_bytes" in idle
    assert not {name for name in idle if "network" in name or "oom" in name or "throttled" in name}
    assert "smcp_server_last_call_timestamp_seconds" not in idle
    assert not {name for name in idle if "duration" in name}
    assert ("smcp_server_pressure_ratio", "git", "memory") not in found


def test_calls_are_told_by_outcome() -> None:
    found = samples(snapshot(GIT, git=TALLY))
    of_log = {outcome: found["smcp_calls_total", "git", "tools/call", "log", outcome] for outcome in ("ok", "error")}
    assert of_log == {"ok": 7, "error": 2}
    assert found["smcp_calls_total", "git", "tools/call", "log", "cancelled"] == 1
    assert found["smcp_calls_total", "git", "resources/read", "", "timeout"] == 0, "there is something to count from"
    assert found["smcp_host_calls_total", "git", "agent", "ok"] == 1
    assert found["smcp_host_calls_total", "git", "agent", "error"] == 1
    everything = sum(value for key, value in found.items() if key[0] == "smcp_calls_total")
    assert everything == sum(value for key, value in found.items() if key[0] == "smcp_host_calls_total") == 12


def test_durations_are_in_buckets_that_were_counted() -> None:
    found = samples(snapshot(GIT, git=TALLY))
    rows = {key[-1]: value for key, value in found.items() if key[:4] == ("smcp_call_duration_seconds_bucket", *LOG)}
    assert len(rows) == len(BUCKETS) + 1
    values = list(rows.values())
    assert values == sorted(values)
    assert rows["+Inf"] == 9 == found[("smcp_call_duration_seconds_count", *LOG)]
    assert found[("smcp_call_duration_seconds_sum", *LOG)] == 4.0
    for bound, value in rows.items():
        longer = 2 if bound == "+Inf" else 0
        assert value == 6 * (float(bound) >= 0.001) + (float(bound) >= 0.5) + longer, bound
    assert {latency.upper(latency.bucket(bound)) for bound in BUCKETS} == set(BUCKETS)


LOG = ("git", "tools/call", "log")


def test_there_are_only_so_many_series() -> None:
    cells = [Cell(f"host {n % 40}", "tools/call", f"tool {n}", calls=1, latency={50: 1}) for n in range(400)]
    found = samples(snapshot(GIT, git=Tally(cells=cells)))
    tools = {key[3] for key in found if key[0] == "smcp_calls_total"}
    hosts = {key[2] for key in found if key[0] == "smcp_host_calls_total"}
    assert len(tools) == MOST_TOOLS + 1
    assert len(hosts) == MOST_HOSTS + 1
    assert {"tool 0", OTHER} <= tools
    assert found["smcp_calls_total", "git", OTHER, OTHER, "ok"] == 400 - MOST_TOOLS
    assert found["smcp_host_calls_total", "git", OTHER, "ok"] == 10 * (40 - MOST_HOSTS)
    assert sum(value for key, value in found.items() if key[0] == "smcp_calls_total") == 400
    assert len(found) < (MOST_TOOLS + 1) * (len(BUCKETS) + 7) + (MOST_HOSTS + 1) * 4 + 100


@pytest.mark.usefixtures("_masked")
def test_labels_are_safe() -> None:
    cell = Cell('a"b\nc\\', "tools/call", "hunter2-hunter2 \ud800", calls=1)
    text = text_of(snapshot(GIT, git=Tally(cells=[cell])))
    assert "hunter2" not in text
    [host] = {key[2] for key in samples(snapshot(GIT, git=Tally(cells=[cell]))) if key[0] == "smcp_host_calls_total"}
    assert host == 'a"b\nc\\'


def test_prometheus_finds_the_names_right() -> None:
    need(promtool := shutil.which("promtool"), "promtool (apt-get install prometheus)")
    text = text_of(snapshot(GIT, IDLE, git=TALLY))
    ran = subprocess.run([str(promtool), "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (ran.stdout + ran.stderr, ran.returncode) == ("", 0)
    bad = subprocess.run(
        [str(promtool), "check", "metrics"], input="calls_milliseconds 1\n", capture_output=True, text=True, check=False
    )
    assert bad.returncode != 0, "it would have said so"
