"""The figures of an engine, read."""

from __future__ import annotations

from supervisord_mcp.runtimes.container.stats import reading_of

TOLD = {
    "cpu_stats": {"cpu_usage": {"total_usage": 1_500_000_000}, "throttling_data": {"throttled_time": 2_000_000_000}},
    "memory_stats": {"usage": 5000, "stats": {"inactive_file": 1000, "total_inactive_file": 1}},
    "pids_stats": {"current": 3},
    "blkio_stats": {
        "io_service_bytes_recursive": [{"op": "Read", "value": 7}, {"op": "write", "value": 8}, {"op": "x"}]
    },
}


def test_what_is_only_kept_does_not_count() -> None:
    reading = reading_of(TOLD)
    assert reading is not None
    assert (reading.cpu, reading.memory, reading.threads) == (1.5, 4000, 3)
    assert (reading.read, reading.written, reading.throttled) == (7, 8, 2.0)


def test_a_container_that_has_ended_has_none() -> None:
    assert reading_of({"memory_stats": {}}) is None
    assert reading_of({}) is None
