"""What was counted survives the daemon, and a file that is none costs only itself."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from supervisord_mcp.metrics import ledger
from supervisord_mcp.metrics.counts import Counts
from supervisord_mcp.metrics.ledger import Ledger
from supervisord_mcp.observer import Bundle
from supervisord_mcp.protocol.calls import Caller
from tests.kit.bounded import bounded


def counts() -> Counts:
    made = Counts(time.time)
    made.calls([Bundle(Caller("s", "s/1", "h"), "tools/call", b'"echo"', [0.5], asked=2, told=3)])
    made.tally("s").breaches["memory"] = 2
    return made


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "state" / "counts.json"
    one = counts()
    Ledger(file, one).write()
    other = Counts(time.time)
    Ledger(file, other).read()
    assert other.tallies == one.tallies
    assert other.tallies["s"].cells[0].latency
    before = file.stat().st_ino
    Ledger(file, other).write()
    assert file.stat().st_ino == before, "nothing changed, so nothing is written"


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"servers": {"s": 3}}', b"\xff", b"x" * (33 << 20), b'{"x":' + b"[" * 200_000]
)
def test_a_file_that_is_none_begins_anew(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "counts.json"
    file.write_bytes(content)
    empty = Counts(time.time)
    with caplog.at_level(logging.WARNING):
        Ledger(file, empty).read()
    assert empty.tallies == {}
    assert str(file) in caplog.text


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_waited_for(
    tmp_path: Path, make: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "counts.json"
    make(file)
    with caplog.at_level(logging.WARNING):
        Ledger(file, Counts(time.time)).read()
    assert str(file) in caplog.text


def test_no_file_is_no_fault(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Ledger(tmp_path / "none", Counts(time.time)).read()
    assert caplog.records == []


def test_what_cannot_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "place").write_text("a file where a directory should be")
    one = counts()
    kept = Ledger(tmp_path / "place" / "counts.json", one)
    with caplog.at_level(logging.WARNING):
        kept.write()
        one.changed = True
        kept.write()
    assert len(caplog.records) == 1
    (tmp_path / "place").unlink()
    one.changed = True
    kept.write()
    assert (tmp_path / "place" / "counts.json").exists()


@bounded(10)
async def test_it_is_written_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "EVERY", 0.01)
    file = anyio.Path(tmp_path / "counts.json")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Ledger(Path(file), counts()).run)
        while not await file.exists():
            await anyio.sleep(0.005)
        tasks.cancel_scope.cancel()
