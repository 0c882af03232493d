"""What is told of servers: sums, rows, and what sharing saves."""

from __future__ import annotations

from supervisord_mcp.metrics.counts import Cell, Tally
from supervisord_mcp.metrics.report import Known, figures, saved, server_usage, total
from supervisord_mcp.metrics.ring import Point
from supervisord_mcp.metrics.sampler import Sample, Target
from supervisord_mcp.protocol.calls import Call, Caller
from supervisord_mcp.protocol.control import InstanceStatus, ServerStatus
from supervisord_mcp.protocol.usage import Figures, InstanceUsage
from supervisord_mcp.runtimes.reading import Process, Reading

MIB = 1 << 20
PROCESSES = (Process(7, 1, "node", 1.0, 9 * MIB, 20 * MIB, 11, 30), Process(8, 7, "sh", 0.0, MIB, 2 * MIB, 1, 3))
READING = Reading(cpu=1.5, memory=10 * MIB, private=8 * MIB, threads=12, processes=PROCESSES, most_files=30)


class Nothing:
    """A meter that nobody asks."""

    def read(self, now: float, *, thorough: bool = False) -> Reading | None:
        raise AssertionError("nothing is looked at for a report")

    def final(self) -> Reading | None:
        raise AssertionError("nothing is looked at for a report")


def sample(name: str = "s/1", generation: int = 1) -> Sample:
    return Sample(Target("s", name, generation, Nothing()), READING, 1.0, load=0.25)


def status(*instances: InstanceStatus) -> ServerStatus:
    sessions = sum(instance.sessions for instance in instances)
    return ServerStatus(name="s", state="RUNNING", sessions=sessions, instances=instances)


def test_a_reading_passes_as_it_is() -> None:
    told = figures(READING, 0.25)
    assert (told.cpu, told.load, told.memory, told.private) == (1.5, 0.25, 10 * MIB, 8 * MIB)
    assert [(process.pid, process.name) for process in told.processes] == [(7, "node"), (8, "sh")]
    assert told.sent is None


def test_the_sum_leaves_unknown_what_nobody_knows() -> None:
    one = Figures(cpu=1.0, memory=3, sent=5, cpu_pressure=10.0, most_files=4)
    other = Figures(cpu=2.0, memory=4, cpu_pressure=30.0, most_files=2)
    both = total([one, other])
    assert (both.cpu, both.memory, both.sent, both.received) == (3.0, 7, 5, None)
    assert (both.cpu_pressure, both.most_files) == (30.0, 4)
    assert total([one]) is one
    assert total([]) == Figures()


def test_a_server_is_told_with_its_calls() -> None:
    cells = [
        Cell("editor", "tools/call", "log", 10, 2, 1, 1, 100, 200, 0.8, 90.0, {56: 8}),
        Cell("agent", "tools/call", "log", 3, asked=3, told=4, seconds=0.3, last=95.0, latency={60: 3}),
        Cell("agent", "prompts/get", "", 20, last=50.0),
    ]
    pending = [
        Call(1, b"1", "tools/call", b'"log"', began=1.0, asked=5, caller=Caller("s", "s/1", "new")),
        Call(1, b"2", "tools/call", b'"slow"', began=1.0, asked=5, caller=Caller("s", "s/1", "agent")),
    ]
    tally = Tally(cells, starts=2, on_demand=1, waited=3.0, waited_last=1.0, restarts=1, cpu=9.0, since=10.0)
    known = Known(tally, pending, 5.0, [Point(5.0, seconds=5.0, cpu=1.0)])
    instance = InstanceStatus(key="s/1", state="RUNNING", pid=7, generation=1, sessions=3)
    told = server_usage(status(instance), {"s/1": sample()}, known, 100.0)
    assert (told.total.calls, told.total.errors, told.total.pending, told.total.last) == (33, 2, 2, 5.0)
    assert told.total.mean == (0.8 + 0.3) / 11
    assert [(row.name, row.calls, row.pending) for row in told.tools] == [
        ("prompts/get", 20, 0),
        ("log", 13, 1),
        ("slow", 0, 1),
    ]
    assert [(row.name, row.calls, row.pending) for row in told.hosts] == [
        ("agent", 23, 1),
        ("editor", 10, 0),
        ("new", 0, 1),
    ]
    assert told.tools[2].p95 is None
    assert told.tools[2].last is None
    assert (told.starts.count, told.starts.on_demand, told.starts.restarts) == (2, 1, 1)
    assert (told.cpu, told.since) == (9.0, 10.0)
    assert [(point.at, point.load) for point in told.history] == [(5.0, 0.2)]
    assert told.figures.memory == 10 * MIB
    assert (told.saved.processes, told.saved.memory) == (4, 16 * MIB)


def test_a_sample_of_another_run_is_none() -> None:
    known = Known(Tally(), ())
    for instance in (
        InstanceStatus(key="s/1", state="RUNNING", pid=7, generation=2),
        InstanceStatus(key="s/1", state="STOPPED", pid=None, generation=1),
        InstanceStatus(key="s/2", state="RUNNING", pid=7, generation=1),
    ):
        told = server_usage(status(instance), {"s/1": sample()}, known, 100.0)
        assert told.instances[0].figures is None
        assert told.figures == Figures()


def test_what_sharing_saves() -> None:
    running = InstanceUsage(key="a", pid=7, sessions=3, figures=figures(READING, 0.0))
    alone = InstanceUsage(key="b", pid=8, sessions=1, figures=figures(READING, 0.0))
    unused = InstanceUsage(key="c", pid=9, sessions=0, figures=figures(READING, 0.0))
    stopped = InstanceUsage(key="d", sessions=2)
    unmeasured = InstanceUsage(key="e", pid=10, sessions=5)
    tally = Tally(processes=2, private=5 * MIB)
    assert saved([running, alone, unused], tally, "global").memory == 16 * MIB
    assert "shares with nobody" in saved([running], tally, "global").basis
    asleep = saved([stopped], tally, "global")
    assert (asleep.processes, asleep.memory) == (4, 10 * MIB)
    assert "when it last did" in asleep.basis
    assert saved([stopped], tally, "session").memory == 0
    assert saved([alone, unused, unmeasured], tally, "global").basis == ""
    assert saved([stopped], Tally(), "global").basis == ""
