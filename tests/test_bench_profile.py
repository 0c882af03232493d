"""The profile of a call counts what it says; how fast anything is, no test says."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from contrib.bench import curves, profile
from contrib.bench.curves import Curve, Point
from contrib.bench.figures import Figure, Sample
from contrib.bench.hosts import Host
from contrib.bench.place import BARE, TINY, BenchError
from contrib.bench.plan import Plan
from contrib.bench.steps import COUNT, LOOP, MOVE, PARSE, ROUTE, WAIT, Stats, hottest, profile_of
from tests.kit.required import need

SHORT = Plan(rounds=2, calls=10)

POLL = ("~", 0, "<method 'poll' of 'select.epoll' objects>")
READ = ("~", 0, "<built-in method posix.read>")
GET = ("~", 0, "<method 'get' of 'dict' objects>")
DECODE = ("~", 0, "<method 'decode' of 'msgspec.json.Decoder' objects>")
RUN = ("/lib/python3/asyncio/base_events.py", 1, "_run_once")
SEND = ("/a/supervisord_mcp/protocol/conversation.py", 2, "send")
ANSWERED = ("/a/supervisord_mcp/traffic.py", 3, "answered")
STATS: Stats = {
    POLL: (4, 4, 8.0, 8.0, {RUN: (4, 4, 8.0, 8.0)}),
    READ: (4, 4, 0.004, 0.004, {RUN: (4, 4, 0.004, 0.004)}),
    DECODE: (2, 2, 0.002, 0.002, {SEND: (2, 2, 0.002, 0.002)}),
    GET: (6, 6, 0.006, 0.006, {SEND: (4, 4, 0.004, 0.004), ANSWERED: (2, 2, 0.002, 0.002)}),
    RUN: (2, 2, 0.001, 9.0, {}),
    SEND: (2, 2, 0.010, 0.016, {RUN: (2, 2, 0.010, 0.016)}),
    ANSWERED: (2, 2, 0.002, 0.004, {SEND: (2, 2, 0.001, 0.003)}),
}


def test_a_function_in_c_is_the_work_of_its_caller_unless_it_is_a_step_itself() -> None:
    found = profile_of(STATS, 2)
    assert {step: number for step, number in found.calls.items() if number} == {
        WAIT: 2.0,
        MOVE: 2.0,
        LOOP: 1.0,
        PARSE: 1.0,
        ROUTE: 3.0,
        COUNT: 2.0,
    }
    assert found.functions == 11.0
    assert found.times[ROUTE] == pytest.approx(7000.0)
    assert found.times[COUNT] == pytest.approx(2000.0)
    assert found.system == {"epoll_wait": 2.0, "read": 2.0}


def test_the_hottest_functions_come_first_and_by_their_place_in_the_program() -> None:
    names = [name for name, _, _ in hottest(STATS, 2)]
    assert names == ["protocol/conversation.py send", "traffic.py answered", "base_events.py _run_once"]


def test_a_revision_stands_beside_this_checkout() -> None:
    text = profile.tables(STATS, {**STATS, SEND: (4, 4, 0.02, 0.03, {})}, 2)
    [line] = [line for line in text.splitlines() if line.startswith(f"| {ROUTE}")]
    assert [cell.strip() for cell in line.strip("|").split("|")][1:3] == ["4.00", "3.00"]


@pytest.mark.parametrize("language", ["Python", "C"])
def test_a_relay_does_nothing_but_move_bytes(language: str, tmp_path: Path) -> None:
    command = profile.relays(tmp_path).get(f"a relay in {language}")
    need(command, "a compiler for C")
    assert command is not None
    with Host([*command, *TINY], os.environ) as host:
        host.do("open")
        assert len(host.do("calls", count=3)["nanoseconds"]) == 3
        assert host.do("blob", size=300_000)["seconds"] > 0
        assert host.do("close") == {"status": 0}


def test_a_compiler_that_fails_leaves_the_floor_in_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cc").write_text("#!/bin/sh\necho no headers >&2\nexit 1\n")
    (tmp_path / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert list(profile.relays(tmp_path)) == ["a relay in Python"]
    assert "the floor is measured in Python only: no headers" in capsys.readouterr().err


def test_a_daemon_counts_the_same_functions_for_every_call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with profile.ProfiledPlace() as place, Host(place.shim(BARE), place.environ) as host:
        host.do("open")
        host.do("calls", count=5)
        first, second = (profile_of(place.profile(host, 40), 40) for _ in range(2))
    assert first.calls[PARSE] == pytest.approx(second.calls[PARSE], rel=0.1)
    assert first.system["write"] == pytest.approx(2.0, abs=0.3)
    assert list(tmp_path.iterdir()) == []


def test_the_slope_is_what_one_more_costs() -> None:
    one = Sample.of([1.0])
    curve = Curve("servers", tuple(Point(count, 30.0 + count / 1024, one, one) for count in (1, 2, 5)))
    assert curve.slope == pytest.approx(1.0)
    assert "one more: 1.0" in curve.table()


@pytest.mark.slow
def test_curves_from_a_daemon_to_the_drawing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(curves, "QUICK", SHORT)
    monkeypatch.setattr(curves, "SERVERS", (1, 2))
    monkeypatch.setattr(curves, "SESSIONS", (1, 2))
    file = tmp_path / "curves.svg"
    assert curves.main(["--quick", "--svg", str(file)]) == 0
    out = capsys.readouterr().out
    assert "| servers |" in out
    assert "| sessions |" in out
    assert ElementTree.parse(file).getroot().tag.endswith("svg")


def test_a_drawing_of_a_kind_that_there_is_not_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert curves.main(["--svg", str(tmp_path / "curves.gif")]) == 1
    assert "must end in .svg" in capsys.readouterr().err


def test_a_drawing_that_cannot_be_written_costs_no_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Sample.of([1.0])
    for over in ("over_servers", "over_sessions"):
        monkeypatch.setattr(curves, over, lambda *_: iter([Point(1, 30.0, one, one)]))
    assert curves.main(["--svg", str(tmp_path / "nowhere" / "curves.svg")]) == 1
    told = capsys.readouterr()
    assert "| servers |" in told.out
    assert "nothing is drawn: " in told.err


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), 130), (BenchError("no room"), 1)])
def test_curves_that_end_early_are_shown_as_far_as_they_go_and_not_drawn(
    error: BaseException,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def over_sessions(*_: object) -> Iterator[Point]:
        yield Point(25, 31.0, one, one)
        raise error

    one = Sample.of([1.0])
    monkeypatch.setattr(curves, "over_servers", lambda *_: iter([Point(1, 30.0, one, one)]))
    monkeypatch.setattr(curves, "over_sessions", over_sessions)
    file = tmp_path / "curves.svg"
    assert curves.main(["--svg", str(file)]) == status
    told = capsys.readouterr()
    assert "| servers |" in told.out
    assert "\n| 25 " in told.out
    assert told.err.count("\n") == 1
    assert not file.exists()


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), 130), (BenchError("no room"), 1)])
def test_a_profile_that_ends_early_is_shown_as_far_as_it_goes(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def floor(_: Plan) -> Iterator[Figure]:
        yield Figure("added to a call", "ms", Sample.of([1.25]))
        raise error

    monkeypatch.setattr(profile, "stats", lambda *_: STATS)
    monkeypatch.setattr(profile, "processor", lambda _: iter(()))
    monkeypatch.setattr(profile, "floor", floor)
    assert profile.main(["--quick"]) == status
    told = capsys.readouterr()
    assert f"| {ROUTE} " in told.out
    assert "| added to a call |" in told.out
    assert told.err.count("\n") == 1


def test_a_profile_that_ends_at_once_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stats(*_: object) -> Stats:
        raise KeyboardInterrupt

    monkeypatch.setattr(profile, "stats", stats)
    assert profile.main(["--quick"]) == 130
    assert "ended early" in capsys.readouterr().err
