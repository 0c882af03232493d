"""Each way that was tried makes a daemon that serves, so what is measured of it is a figure of something."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contrib.bench import otherwise, tried
from contrib.bench.figures import Figure, Sample
from contrib.bench.hosts import Host
from contrib.bench.place import BARE, BenchError
from contrib.bench.plan import Plan
from supervisord_mcp.pipes import ChunkReader

DAEMON = "import sys\nfrom supervisord_mcp.cli import main\nsys.exit(main())\n"
SHORT = Plan(rounds=1, calls=5, floods=1, seconds=0.05, crowds=(1,), starts=1, connections=1, idle=0.05)


@pytest.fixture(autouse=True)
def _place(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Not that of the test: with its name the path of a socket is too long.
    with tempfile.TemporaryDirectory(prefix="smcp-", dir="/tmp") as place:
        monkeypatch.setattr(tempfile, "tempdir", None)
        monkeypatch.setenv("TMPDIR", place)
        yield


# The event loop of another package is measured where that is installed, which nobody needs for anything else.
@pytest.mark.parametrize("way", [way for way in otherwise.WAYS if way != "uvloop"])
def test_calls_are_answered_in_every_way(way: str) -> None:
    with tried.OtherPlace(way) as place, Host(place.shim(BARE), place.environ) as host:
        host.do("open")
        assert len(host.do("calls", count=5)["nanoseconds"]) == 5
        assert host.do("blob", size=300_000)["seconds"] > 0
        assert host.do("close") == {"status": 0}


@pytest.mark.slow
def test_what_a_way_needs_is_counted() -> None:
    plan = replace(SHORT, calls=40)
    _, reads = tried.counted("read-until-empty", plan)
    functions, queued = tried.counted("always-queue", plan)
    assert reads.value.median == pytest.approx(2.0, abs=0.5), "one more read for each way, which finds nothing"
    assert queued.value.median == pytest.approx(6.0, abs=0.5), "being told, and asking for it and against it again"
    assert functions.value.median > 50
    functions, _ = tried.counted("a-turn-for-each", plan)
    assert functions.value.median > 15, "what asyncio does in a turn, twice"
    _, looks = tried.counted("look-again", plan)
    assert looks.value.median > 1.0, "it looks more often than it sleeps"


def test_a_way_that_replaces_nothing_is_an_error() -> None:
    with pytest.raises(AssertionError, match="the program has no _rewrite any more"):
        otherwise._replace(ChunkReader, "_rewrite", None)


@pytest.mark.slow
def test_a_way_stands_beside_the_program_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tried, "QUICK", SHORT)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert tried.main(["--quick", "one-piece", "uvloop"]) == 0
    told = capsys.readouterr()
    assert "| one-piece: system calls for a call" in told.out
    assert "| one-piece: time of a call, p50" in told.out
    assert "| uvloop" not in told.out
    assert "uvloop is not installed" in told.err


def test_the_page_gets_the_table_between_its_markers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tried.PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(tried.BEGIN)
    copy = tmp_path / "SPEED.md"
    copy.write_text(page, encoding="utf-8")
    monkeypatch.setattr(tried, "PAGE", copy)
    monkeypatch.setattr(tried, "measure", lambda way, plan, times: [Figure(f"{way}: a call", "×", Sample.of([1.25]))])
    for _ in range(2):
        assert tried.main(["--page", "unfrozen"]) == 0
    text = copy.read_text(encoding="utf-8")
    assert text.startswith(before + tried.BEGIN)
    assert text.endswith(tried.END + rest.partition(tried.END)[2])
    assert text.count("| unfrozen: a call |") == 1
    with pytest.raises(ValueError, match="no markers"):
        tried.filled("nothing", "")


def test_an_unknown_way_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tried.main(["sideways"])
    assert "unknown way: sideways" in capsys.readouterr().err


def test_a_daemon_that_fails_after_it_listens_has_not_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import anyio\ndef run(*_, **__):\n    raise SystemExit('no room')\nanyio.run = run\n" + DAEMON)
    monkeypatch.setattr(tried.OtherPlace, "program", ("-P", str(broken)))
    # Else the host's command would start another daemon, which is nobody's child.
    with pytest.raises(BenchError, match="the daemon did not start:\nno room"), tried.OtherPlace(""):
        pass


def test_what_was_measured_is_kept_where_one_way_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(way: str, plan: Plan, *, times: bool) -> Iterator[Figure]:
        assert not times
        yield Figure(f"{way}: a count", "", Sample.of([1.25]))
        if way == "one-piece":
            raise BenchError("the daemon did not start:\nno room")
        yield Figure(f"{way}: another", "", Sample.of([7.5]))

    page = tmp_path / "SPEED.md"
    page.write_text(f"{tried.BEGIN}\n{tried.END}", encoding="utf-8")
    monkeypatch.setattr(tried, "PAGE", page)
    monkeypatch.setattr(tried, "measure", measure)
    assert tried.main(["--counts", "--page", "long-reads", "one-piece", "unfrozen"]) == 1
    text = page.read_text(encoding="utf-8")
    shown = ("long-reads: a count", "long-reads: another", "one-piece: a count", "unfrozen: another")
    assert all(f"| {what} " in text for what in shown)
    assert "Not measured: one-piece: the daemon did not start: no room." in text
    assert "one-piece: the daemon did not start" in capsys.readouterr().err


def test_who_interrupts_sees_what_was_measured_and_the_page_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(way: str, plan: Plan, *, times: bool) -> Iterator[Figure]:
        yield Figure(f"{way}: a call", "×", Sample.of([1.25]))
        raise KeyboardInterrupt

    page = tmp_path / "SPEED.md"
    page.write_text("as it was", encoding="utf-8")
    monkeypatch.setattr(tried, "PAGE", page)
    monkeypatch.setattr(tried, "measure", measure)
    assert tried.main(["--page"]) == 130
    assert "| read-until-empty: a call |" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8") == "as it was"
