"""Calls are counted by server, host and tool, and no host can make that many."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.metrics.counts import MOST_HOSTS, MOST_TOOLS, OTHER, Cell, Counts, Tally, beyond
from supervisord_mcp.metrics.latency import bucket
from supervisord_mcp.observer import Bundle, Event
from supervisord_mcp.protocol.calls import Caller


class Clock:
    """A clock of the wall."""

    def wall(self) -> float:
        return 1100.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def counts(clock: Clock) -> Counts:
    return Counts(clock.wall)


def bundle(host: str = "editor", tool: str = "echo", server: str = "s", **changes: Any) -> Bundle:
    """Return one call that was answered, or what else it is to be."""
    fields: dict[str, Any] = {"seconds": [0.5], "asked": 10, "told": 100}
    method, name = changes.pop("method", "tools/call"), changes.pop("name", f'"{tool}"'.encode())
    return Bundle(Caller(server, f"{server}/1", host), method, name, **{**fields, **changes})


def test_calls_are_counted_by_host_and_tool(counts: Counts) -> None:
    for one in (
        bundle(),
        bundle(errors=1),
        bundle(seconds=[], cancelled=1, told=0),
        bundle(seconds=[], timeouts=1, told=0),
        bundle(host="agent"),
        bundle(tool="other"),
        bundle(method="prompts/get", tool=""),
    ):
        counts.calls([one])
    cells = {(cell.host, cell.method, cell.tool): cell for cell in counts.tallies["s"].cells}
    assert set(cells) == {
        ("editor", "tools/call", "echo"),
        ("agent", "tools/call", "echo"),
        ("editor", "tools/call", "other"),
        ("editor", "prompts/get", ""),
    }
    cell = cells["editor", "tools/call", "echo"]
    assert (cell.calls, cell.errors, cell.cancelled, cell.timeouts) == (4, 1, 1, 1)
    assert (cell.asked, cell.told, cell.seconds) == (40, 200, 1.0)
    assert sum(cell.latency.values()) == 2
    assert cell.last == 1100.0
    assert counts.changed


def test_very_many_are_counted_at_once(counts: Counts) -> None:
    for _ in range(1000):
        counts.calls([bundle()])
    assert counts.tallies["s"].cells[0].calls == 1000


def test_hosts_and_tools_are_bounded(counts: Counts) -> None:
    for number in range(3 * MOST_TOOLS):
        counts.calls([bundle(host=f"host {number}", tool=f"tool {number}")])
        counts.calls([bundle(host=f"host {number}", tool="", method=f"method/{number}")])
    cells = counts.tallies["s"].cells
    assert sum(cell.calls for cell in cells) == 6 * MOST_TOOLS
    assert len({cell.host for cell in cells}) == MOST_HOSTS + 1
    assert len({(cell.method, cell.tool) for cell in cells}) <= MOST_TOOLS + 2
    assert {OTHER} < {cell.host for cell in cells}
    assert ("tools/call", OTHER) in {(cell.method, cell.tool) for cell in cells}


def test_sums_are_counted_as_the_calls_that_are_in_them(counts: Counts) -> None:
    together = bundle(seconds=[0.5, 5.0, 0.5], errors=2, cancelled=4, timeouts=3, asked=100, told=15)
    counts.calls([together, bundle(host="agent"), bundle(server="other")])
    editor, agent = counts.tallies["s"].cells
    assert (editor.calls, editor.errors, editor.cancelled, editor.timeouts) == (10, 2, 4, 3)
    assert (editor.asked, editor.told, editor.seconds) == (100, 15, 6.0)
    assert editor.latency == {bucket(0.5): 2, bucket(5.0): 1}
    assert (agent.host, agent.calls) == ("agent", 1)
    assert counts.tallies["other"].cells[0].calls == 1


def test_a_name_that_is_no_text_is_none(counts: Counts) -> None:
    counts.calls([bundle(tool="x")])
    counts.calls([bundle(name=b"17")])
    assert {cell.tool for cell in counts.tallies["s"].cells} == {"x", ""}


def test_what_is_not_configured_is_forgotten(counts: Counts) -> None:
    counts.calls([bundle()])
    counts.calls([bundle(server="t")])
    counts.keep(["t"])
    assert set(counts.tallies) == {"t"}
    counts.calls([bundle()])
    assert set(counts.tallies) == {"t"}, "nor are its last calls counted"
    counts.keep(["s", "t"])
    counts.calls([bundle()])
    assert counts.tallies["s"].cells[0].calls == 1


def state(before: str, after: str, at: float, why: str = "start", sessions: int = 1) -> Event:
    data = {"instance": "s/1", "from": before, "to": after, "why": why, "sessions": sessions}
    return Event("state", "s", data, datetime.fromtimestamp(at, UTC))


def test_starts_and_what_they_cost(counts: Counts) -> None:
    for event in (
        state("STOPPED", "STARTING", 10.0, "demand"),
        state("STARTING", "RUNNING", 10.5),
        state("RUNNING", "BACKOFF", 20.0, "exited"),
        state("BACKOFF", "STARTING", 21.0, "timerfired"),
        state("STARTING", "RUNNING", 22.0),
        state("STOPPED", "STARTING", 25.0, "demand", 0),
        state("STARTING", "RUNNING", 25.5),
        state("STOPPED", "STARTING", 30.0, "start"),
        state("STARTING", "STOPPING", 30.5),
        state("STOPPING", "STOPPED", 31.0),
        Event("session-opened", "s"),
    ):
        counts.event(event)
    tally = counts.tallies["s"]
    assert (tally.starts, tally.on_demand, tally.restarts) == (3, 1, 1)
    assert (tally.waited, tally.waited_last) == (2.0, 0.5)


def test_a_start_in_both_eras_is_one_that_is_waited_for(counts: Counts) -> None:
    for event in (
        state("STOPPED", "STARTING", 10.0, "demand"),
        state("STARTING", "STOPPING", 11.0, "replace"),
        state("STOPPING", "STARTING", 11.5, "exited"),
        state("STARTING", "RUNNING", 13.0, "ready"),
        state("RUNNING", "STOPPING", 20.0, "replace"),
        state("STOPPING", "STARTING", 20.5, "exited"),
        state("STARTING", "RUNNING", 21.0, "ready"),
        state("STOPPED", "STARTING", 30.0, "demand"),
        state("STARTING", "STOPPING", 31.0, "replace"),
        state("STOPPING", "STOPPED", 31.5, "exited"),
        state("STOPPED", "STARTING", 40.0, "start"),
        state("STARTING", "RUNNING", 40.5, "ready"),
    ):
        counts.event(event)
    tally = counts.tallies["s"]
    assert (tally.starts, tally.on_demand, tally.restarts) == (3, 1, 0)
    assert (tally.waited, tally.waited_last) == (4.0, 0.5)


def test_limits_that_are_exceeded(counts: Counts) -> None:
    for limit in ("memory", "memory", "cpu"):
        counts.event(Event("limit", "s", {"limit": limit}))
    assert counts.tallies["s"].breaches == {"memory": 2, "cpu": 1}


def test_what_was_counted_since_then(counts: Counts) -> None:
    counts.calls([bundle(), bundle(errors=1)])
    tally = counts.tallies["s"]
    tally.cpu, tally.starts, tally.memory, tally.breaches = 5.0, 2, 77, {"cpu": 1}
    before = copy.deepcopy(tally)
    assert beyond(tally, None) is tally
    nothing = beyond(tally, before)
    assert [(cell.calls, cell.errors, sum(cell.latency.values())) for cell in nothing.cells] == [(0, 0, 0)]
    assert (nothing.cpu, nothing.starts, nothing.memory, nothing.breaches) == (0.0, 0, 77, {"cpu": 0})
    counts.calls([bundle(), bundle(tool="new")])
    tally.cpu, tally.starts, tally.memory = 6.5, 3, 78
    tally.breaches["memory"] = 4
    more = beyond(tally, before)
    assert [(cell.tool, cell.calls, cell.errors, cell.asked, cell.seconds) for cell in more.cells] == [
        ("echo", 1, 0, 10, 0.5),
        ("new", 1, 0, 10, 0.5),
    ]
    assert [sum(cell.latency.values()) for cell in more.cells] == [1, 1]
    assert (more.cpu, more.starts, more.memory, more.breaches) == (1.5, 1, 78, {"cpu": 0, "memory": 4})
    assert tally.cells[0].calls == 3, "what is counted stays"
    assert beyond(Tally([Cell("h", "m", "t", 1)], since=9.0), before).cells[0].calls == 1, "it began anew"


def test_a_name_of_any_length_is_held_nowhere(counts: Counts) -> None:
    for number in range(3):
        counts.calls([bundle(tool=f"{number}" + "n" * 100_000)])
    assert counts.tallies["s"].cells[0].tool == "0" + "n" * 127
    assert sum(len(part) for key in counts._cells for part in key) == 0


def test_a_secret_that_is_taken_for_a_name_is_not_counted_by_it(counts: Counts) -> None:
    masker.learn("s3cret-name-of-it", "vault:x")
    try:
        counts.calls([bundle(host="s3cret-name-of-it", tool="get s3cret-name-of-it")] * 2)
    finally:
        masker.clear()
    [cell] = counts.tallies["s"].cells
    assert (cell.host, cell.tool, cell.calls) == ("***", "get ***", 2)
