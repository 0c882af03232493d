"""The benchmark measures what it says, and leaves nothing behind; how fast anything is, no test says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from contrib.bench import __main__ as bench
from contrib.bench import revisions, usage
from contrib.bench.figures import Bar, Figure, Sample, machine, table
from contrib.bench.hosts import Host, crowd, flood
from contrib.bench.place import BARE, ROOT, TINY, BenchError, Place
from contrib.bench.plan import Plan
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.usage import UsageResult

SHORT = Plan(rounds=2, calls=5, floods=1, seconds=0.05, crowds=(1, 10), starts=1, connections=2, idle=0.05)


def test_a_sample_is_compared_repetition_by_repetition() -> None:
    one, other = Sample.of([2.0, 6.0, 4.0]), Sample.of([1.0, 2.0, 4.0])
    assert one.median == 4.0
    assert one.less(other).values == (1.0, 4.0, 0.0)
    assert one.over(other).values == (2.0, 3.0, 1.0)
    assert one.plain() == {"median": 4.0, "low": 2.0, "high": 6.0, "values": [2.0, 6.0, 4.0]}


def test_a_bar_is_a_limit_in_one_direction() -> None:
    assert Bar(0.1).met(0.1)
    assert not Bar(0.1).met(0.2)
    assert Bar(0.8, at_least=True).met(0.8)
    assert not Bar(0.8, at_least=True).met(0.7)


def test_the_table_shows_every_figure_with_its_bar_and_its_spread() -> None:
    direct, shared = Sample.of([10.0, 20.0, 12.0]), Sample.of([1234.0, 1300.0, 1200.0])
    rows = table(
        [
            Figure("large", "×", shared.over(direct), Bar(1.5), direct, shared, "ms"),
            Figure("fast", "×", Sample.of([0.9]), Bar(0.8, at_least=True)),
            Figure("only told", "MiB", Sample.of([0.1])),
        ]
    ).splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert len({len(row) for row in rows}) == 1
    assert cells[2] == ["large", "12.0 ms", "1,234 ms", "**100 ×**", "65.0 … 123", "≤ 1.50 ×", "missed"]
    assert cells[3] == ["fast", "", "", "**0.900 ×**", "", "≥ 0.800 ×", "met"]
    assert cells[4] == ["only told", "", "", "**0.100 MiB**", "", "", ""]


def test_the_machine_is_described() -> None:
    assert all(machine().values())


def test_a_crowd_talks_to_a_server_each() -> None:
    with crowd(TINY, os.environ, 3) as hosts:
        assert len({host.command_pid for host in hosts}) == 3
        assert flood(hosts, 0.05) > 0
        assert len(hosts[0].do("calls", count=7)["nanoseconds"]) == 7
        assert hosts[0].do("blob", size=100_000)["seconds"] > 0
        assert hosts[1].do("close") == {"status": 0}


def test_a_host_whose_command_ends_is_an_error_of_the_benchmark() -> None:
    with Host(["/bin/false"], os.environ) as host, pytest.raises(BenchError, match="hung up"):
        host.do("open")


#: Says where its daemon lives and which processes there are, and measures until it is ended.
MEASURING = """
from contrib.bench.hosts import Host
from contrib.bench.place import BARE, Place
with Place(copies=0) as place, Host(place.shim(BARE), place.environ) as host:
    host.order("open")
    host.connected()
    print(place.home, place.daemon.pid, place.child(BARE).pid, host.pid, host.command_pid, flush=True)
    try:
        while True:
            host.do("calls", count=10)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_a_benchmark_however_it_ends(how: signal.Signals) -> None:
    # As on a terminal, the whole group is told; who is killed has nobody who could tell others.
    with subprocess.Popen(
        [sys.executable, "-c", MEASURING],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as measuring:
        assert measuring.stdout is not None
        home, *pids = measuring.stdout.readline().split()
        there = [psutil.Process(int(pid)) for pid in pids]
        keepers = [child for child in psutil.Process(measuring.pid).children() if home in child.cmdline()]
        assert len(there) == 4
        os.killpg(measuring.pid, how)
        # Until all of them are gone: they have the same stderr.
        out, err = measuring.communicate(timeout=60)
    assert psutil.wait_procs([*there, *keepers], timeout=30)[1] == []
    assert not Path(home).exists()
    if how == signal.SIGINT:
        assert (measuring.returncode, out, err) == (0, "interrupted\n", "")


@pytest.mark.slow
def test_a_whole_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bench, "QUICK", SHORT)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with subprocess.Popen(["sleep", "600"]) as other:
        assert bench.main(["--quick", "--json", str(tmp_path / "figures.json")]) == 0
        assert other.poll() is None, "who measures may have other children"
        other.kill()
    written = json.loads((tmp_path / "figures.json").read_text())
    barred = [figure["what"] for figure in written["figures"] if figure["bar"] is not None]
    assert written["machine"]["python"]
    assert len(barred) >= 11
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]
    out, _ = capsys.readouterr()
    assert all(figure["what"] in out for figure in written["figures"])


def test_a_measure_that_there_is_not_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["memory"])
    assert "unknown measure: memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (BenchError("no figure today"), (1, "the benchmark ends here: no figure today")),
        (OSError(28, "No space left on device"), (1, "No space left on device")),
        (KeyboardInterrupt(), (130, "ended early")),
    ],
)
def test_what_was_measured_is_shown_however_it_ends(
    error: BaseException,
    ended: tuple[int, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def measure(*_: object) -> Iterator[Figure]:
        yield Figure("fast", "×", Sample.of([1.25]))
        raise error

    monkeypatch.setattr(bench, "measure", measure)
    status, said = ended
    assert bench.main(["--json", str(tmp_path / "figures.json")]) == status
    told = capsys.readouterr()
    assert "1.25" in told.out
    assert said in told.err
    assert len(json.loads((tmp_path / "figures.json").read_text())["figures"]) == 1


def test_a_file_that_cannot_be_written_costs_no_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "measure", lambda *_: iter([Figure("fast", "×", Sample.of([1.25]))]))
    assert bench.main(["--json", str(tmp_path / "nowhere" / "figures.json")]) == 1
    told = capsys.readouterr()
    assert "1.25" in told.out
    assert "the values are not written: " in told.err


@pytest.mark.slow
def test_a_run_that_cannot_go_on_says_why_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> object:
        raise BenchError("no figure today")

    monkeypatch.setattr(bench, "MEASURES", {"broken": broken})
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert bench.main(["--quick"]) == 1
    assert "no figure today" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_two_revisions_are_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(revisions, "QUICK", SHORT)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert revisions.main(["HEAD", "--quick"]) == 0
    out = capsys.readouterr().out
    assert "time of a call" in out
    assert "calls per second" in out
    assert list(tmp_path.iterdir()) == []


def test_a_revision_that_git_does_not_have_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert revisions.main(["no-such-revision"]) == 1
    assert "no-such-revision" in capsys.readouterr().err


def test_a_running_daemon_takes_the_settings_that_are_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Place(settings=usage.OFF) as place, Host(place.shim(BARE), place.environ) as host, place.client() as client:
        host.do("open")
        counted = []
        for settings in (usage.OFF, "", usage.OFF):
            place.configure(settings)
            host.do("calls", count=3)
            told = client.ask_for(control.Usage(name=BARE), UsageResult)
            counted.append(told.servers[0].total.calls)
    assert counted == [0, 3, 3]


@pytest.mark.slow
def test_what_it_costs_to_measure_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(usage, "QUICK", SHORT)
    monkeypatch.setattr(usage, "_SERVERS", 2)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert usage.main(["--quick"]) == 0
    out = capsys.readouterr().out
    for what in ("time of a call", "calls per second", "processor time for a call", "2 idle servers", "looked at"):
        assert what in out
    assert list(tmp_path.iterdir()) == []
